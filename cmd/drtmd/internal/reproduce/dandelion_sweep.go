package reproduce

import (
	"fmt"

	"drtmd/cmd/drtmd/internal/report"
)

const (
	dandelionBound = 0.15 // of rates and factors
	shapeBound     = 0.20 // of batches, packets and knees
	dnl8One        = "§8.1"
	dnl8Two        = "§8.2"
	dnl8Three      = "§8.3"
	dnl8Four       = "§8.4"
)

// sweep is a chart: deployments that differ in one number, and in the system of the curve.
type sweep struct {
	title, x, y string
	xs          []float64
	curves      []dandelionSystem
	at          func(s dandelionSystem, x float64) deployment
	value       func(*observed) float64
	// over is what the horizontal axis shows, if that is not the number; nil: it is.
	over func(*observed) float64
}

// swept has what each deployment of a sweep did, by system, number and seed.
type swept map[string]map[float64][]*observed

// of are values of a deployment, by seed.
func (s swept) of(system string, x float64, value func(*observed) float64) (all []float64) {
	for _, o := range s[system][x] {
		all = append(all, value(o))
	}
	return all
}

// per is a ratio of values of two deployments, by seed.
func (s swept) per(system string, x float64, other string, y float64, value func(*observed) float64) []float64 {
	all, by := s.of(system, x, value), s.of(other, y, value)
	for i := range all {
		all[i] /= by[i]
	}
	return all
}

// most is the highest of a system's values, by seed.
func (s swept) most(system string, xs []float64, value func(*observed) float64) (all []float64) {
	var points [][]float64
	for _, x := range xs {
		points = append(points, s.of(system, x, value))
	}
	return best(points, func(a, b float64) bool { return a > b })
}

func mtps(o *observed) float64 { return o.mtps }

// sweep makes the deployments and draws the chart.
func (r *Run) sweep(f *sweep) (swept, report.Chart, error) {
	c := report.Chart{Title: f.title, X: f.x, Y: f.y}
	got := swept{}
	done, total := 0, len(f.curves)*len(f.xs)*r.Seeds
	for _, s := range f.curves {
		curve := report.ChartCurve{Name: s.name + ", modelled"}
		got[s.name] = map[float64][]*observed{}
		for _, x := range f.xs {
			for seed := range r.Seeds {
				if err := r.step(done, total); err != nil {
					return nil, c, err
				}
				d := f.at(s, x)
				d.system, d.seed = s, uint64(seed)
				o, err := r.deploy(d)
				if err != nil {
					return nil, c, err
				}
				got[s.name][x] = append(got[s.name][x], o)
				done++
			}
			at := x
			if f.over != nil {
				at = mean(got.of(s.name, x, f.over))
			}
			curve.Points = append(curve.Points, [2]float64{at, mean(got.of(s.name, x, f.value))})
		}
		c.Curves = append(c.Curves, curve)
	}
	return got, c, nil
}

// dandelionConditions are what all deployments have in common.
func dandelionConditions(r *Run, more string) string {
	return fmt.Sprintf("preset %s with %v for a line of memory, %d of them together, and threads that share a core %g times "+
		"slower; %d replicas; %d threads of each machine are simulated, with their share of its NIC; Dandelion's answers in packets "+
		"of their own (§5.3); %s; %s", cx5, memoryLatency,
		memoryOverlap, float64(twoThreads)/1000, copies, dandelionSlice(r), more, r.seedsText())
}

// Causes of deviations that several items share.
const (
	packetsLimit = "the preset's NIC sends 21.3 M packets a second, the highest of Tables 5 and 6, which may not be its limit: " +
		"where each message has a packet, that bounds the rate"
	// nicLimits was tested on 5 machines, seed 1, at full size: with 20 times the rates of the NIC SmallBank does 158.7 M/s
	// instead of 112.4, TATP 324.5 instead of 215.8, and packets have 13.2 and 8.2 messages instead of 10.8 and 7.2.
	nicLimits = "the NIC limits before the CPU does: 21.3 M packets a second, of which 15.6 M may exceed 188 B; threads that wait " +
		"for it have fewer messages for a packet"
	fewerKeys = "tables are smaller than the paper's, so more attempts abort"
	// onlyTheCode is counted by dandelion/messages.
	onlyTheCode = "Dnl-4 asks the primary about a record that is read alone, logs at primaries, and has unlocking answered: with " +
		"TATP on 3 machines 0.93, 0.29 and 0.15 messages of a transaction more than Table 4 has (dandelion/messages)"
)

// rate is a row of a rate.
func rate(what, section string, paper float64, digits int, missed string) number {
	return number{what: what, unit: "M/s", section: section, printed: fixed(paper, 0), paper: paper, digits: digits,
		limit: share(dandelionBound), missed: missed}
}

// timesOf is a row of a ratio that the paper prints.
func timesOf(what, section, printed string, paper float64, missed string) number {
	return number{what: what, unit: "times", section: section, printed: printed, paper: paper, digits: 2,
		limit: share(dandelionBound), missed: missed}
}

// textSays is a row of something that the text says, and why it is not so if it is not.
func textSays(what, section, missed string, holds bool) report.ComparedRow {
	ours := "yes"
	if !holds {
		ours = "no"
	}
	row := word(what, section, "yes", ours, "")
	if row.Exceeds {
		row.Missed = missed
	}
	return row
}
