package reproduce

import (
	"fmt"
	"strings"
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto"
	"drtmd/proto/workload"
	"drtmd/proto/workload/mix"
)

// Figures 14 and 15 of HADES: several applications share a cluster, each with cores of its own in every node.

// mixed is a cluster with its mixes of applications.
type mixed struct {
	nodes, cores int
	mixes        [][]string // names of applications
	means        [2]float64 // of HADES-H and HADES over all mixes
	printed      [2]string
	missed       string
	reading      string
}

// tableV are the mixes of Figure 15.
func tableV() [][]string {
	return [][]string{
		{"HT-wA", "BTree-wA", "Map-wA", "TATP"},
		{"Map-wA", "TATP", "B+Tree-wB", "Map-wB"},
		{"B+Tree-wA", "Map-wB", "Smallbank", "BTree-wB"},
		{"Smallbank", "BTree-wB", "TPC-C", "TATP"},
		{"TPC-C", "HT-wB", "Smallbank", "BTree-wA"},
		{"B+Tree-wB", "Smallbank", "TPC-C", "TATP"},
		{"TPC-C", "TATP", "BTree-wB", "Map-wA"},
		{"BTree-wB", "Map-wA", "HT-wA", "BTree-wA"},
	}
}

// pairs are those of Figure 14. Its bars are lost: these are the first two of each mix of Table V (assumed).
func pairs() (list [][]string) {
	for _, m := range tableV() {
		list = append(list, m[:2])
	}
	return list
}

// hadesFigure14 is the throughput of two applications on five nodes of ten cores.
func hadesFigure14(r *Run) (*Outcome, error) {
	return r.mixes(&mixed{nodes: hadesNodes, cores: 2 * hadesCores, mixes: pairs(), means: [2]float64{2.3, 2.7},
		printed: [2]string{"as Figure 9: 2.3", "as Figure 9: 2.7"}, missed: missedSpeed, reading: "the paper says that a mix has about the mean of its two " +
			"applications; which it mixes is lost: here they are the first two of each mix of Table V"})
}

// hadesFigure15 is the throughput of four applications on eight nodes of 25 cores.
func hadesFigure15(r *Run) (*Outcome, error) {
	return r.mixes(&mixed{nodes: 8, cores: 25, mixes: tableV(), means: [2]float64{2.1, 2.9}, printed: [2]string{"2.1", "2.9"},
		missed: missedWide, reading: "mean of the mixes of Table V"})
}

const missedWide = "of eight or ten nodes each has fewer of the records than of five, so that HADES-H's software, which is for local " +
	"records, works less; the paper's HADES-H does not gain by that, and it does not say why"

// mixes runs all mixes under all protocols.
func (r *Run) mixes(c *mixed) (*Outcome, error) {
	all, nodes, cores, scale := c.mixes, c.nodes, c.cores, 1000
	measured := 300 * time.Microsecond
	if r.Quick {
		all, nodes, cores, scale, measured = [][]string{{"HT-wA", "Smallbank"}, {"Map-wB", "HT-wB"}}, 2, 4, 100, 100*time.Microsecond
	}
	cluster := speedTrial{nodes: nodes, cores: cores / len(all[0])}
	o := &Outcome{Conditions: fmt.Sprintf("%d nodes of %d cores, of which each application has as many; sizes as those of a cluster "+
		"of %s; %s measured", nodes, cores, hadesConditions(r, &cluster), measured)}
	chart := report.Chart{Title: fmt.Sprintf("throughput of mixes over the baseline's, %d nodes of %d cores", nodes, cores),
		X: "mix", Y: "times"}
	protocols := []string{farmName}
	for _, k := range hadesContenders() {
		protocols = append(protocols, k.protocol)
	}
	gains := make([]gained, len(protocols)) // over the baseline, by mix and seed
	for i, names := range all {
		lists := make([][]float64, len(protocols))
		for seed := range r.Seeds {
			var base []float64
			for j, protocol := range protocols {
				if err := r.step((i*r.Seeds+seed)*len(protocols)+j, len(all)*r.Seeds*len(protocols)); err != nil {
					return nil, err
				}
				rates, err := r.mixRates(names, nodes, cores, scale, protocol, seed, measured)
				if err != nil {
					return nil, err
				}
				if j == 0 {
					base = rates
				}
				sum := 0.0
				for part := range rates {
					sum += rates[part] / base[part]
				}
				lists[j] = append(lists[j], sum/float64(len(rates)))
			}
		}
		for j := range protocols {
			gains[j] = append(gains[j], lists[j])
		}
	}
	for j, k := range hadesContenders() {
		g := gains[j+1]
		o.Rows = append(o.Rows, number{what: k.name + ", mean", unit: "x", section: eightE, printed: c.printed[j], paper: c.means[j],
			digits: 2, limit: share(speedBound), missed: c.missed, reading: "of each application the throughput over that under " +
				"the baseline in the same mix, mean of the mix's applications; " + c.reading}.seen(g.means()...))
		curve := report.ChartCurve{Name: k.name + ", modelled"}
		for i, names := range all {
			o.Rows = append(o.Rows, number{what: fmt.Sprintf("%s, mix %d: %s", k.name, i+1, strings.Join(names, ", ")), unit: "x",
				digits: 2}.seen(g[i]...))
			curve.Points = append(curve.Points, [2]float64{float64(i + 1), mean(g[i])})
		}
		chart.Curves = append(chart.Curves, curve)
	}
	o.Rows = append(o.Rows, order("HADES gains more than HADES-H", eightE, mean(gains[2].means()) > mean(gains[1].means()), "mean"))
	o.Charts = []report.Chart{chart}
	return o, nil
}

// newMix makes the workload of a mix of applications.
func (r *Run) newMix(names []string, nodes, cores, scale int) (*mix.Mix, error) {
	full := *r
	full.Quick = false // all applications
	t := speedTrial{nodes: nodes, cores: max(1, cores/len(names))}
	o := mix.Options{Nodes: nodes, Cores: cores, Fibers: hadesPerCore}
	for _, name := range names {
		var w workload.Workload
		for _, app := range hadesApplications(&full) {
			if app.name != name {
				continue
			}
			var err error
			if w, err = app.make(&t, scale); err != nil {
				return nil, err
			}
		}
		o.Parts = append(o.Parts, w)
	}
	return mix.New(o)
}

// mixRates are the throughputs of a mix's applications under a protocol.
func (r *Run) mixRates(names []string, nodes, cores, scale int, protocol string, seed int,
	measured time.Duration) (rates []float64, err error) {
	w, err := r.newMix(names, nodes, cores, scale)
	if err != nil {
		return nil, err
	}
	x := model{protocol: protocol, workload: w, preset: speedPreset, nodes: nodes, workers: cores, fibers: hadesPerCore,
		seed: uint64(seed + 1), warmup: 50 * time.Microsecond, measured: measured}
	if protocol == farmName {
		x.settings = baselineSettings()
	}
	got, err := x.run(r.ctx)
	if err != nil {
		return nil, err
	}
	for part := range names {
		rates = append(rates, finishedOf(got, uint8(part+1)))
	}
	return rates, nil
}

// finishedOf is finished for the transactions of one type.
func finishedOf(r *load.Result, kind uint8) float64 {
	o := &r.Sum.Counts.Kinds[kind].Outcomes
	return float64(o[proto.Committed]+o[proto.RolledBack]) / r.Elapsed.Seconds()
}
