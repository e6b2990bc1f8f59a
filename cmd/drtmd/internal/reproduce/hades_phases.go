package reproduce

import (
	"fmt"
	"math"

	"drtmd/cmd/drtmd/internal/report"
)

// configuration is the baseline or a contender, with the mean time of its transactions in each phase by application, in
// percent of the baseline's mean latency there.
type configuration struct {
	name, protocol string
	parts          [phaseEnd]gained
}

// byPhase adds the parts of Figure 10: what Execution, Validation and Commit take of the mean latency. Its runs are those
// of the sums.
func (o *Outcome) byPhase(r *Run) error {
	apps, t := hadesApplications(r), paperCluster()
	all := []*configuration{{name: "baseline", protocol: farmName}}
	for _, c := range hadesContenders() {
		all = append(all, &configuration{name: c.name, protocol: c.protocol})
	}
	for _, app := range apps {
		units := make([]float64, r.Seeds) // the baseline's mean latency
		for _, c := range all {
			var parts [phaseEnd][]float64
			for seed := range r.Seeds {
				got, err := r.runTrial(&t, app, c.protocol, seed)
				if err != nil {
					return err
				}
				if c == all[0] {
					for p := range phaseEnd {
						units[seed] += got.phases.mean(p)
					}
				}
				for p := range phaseEnd {
					parts[p] = append(parts[p], 100*got.phases.mean(p)/units[seed])
				}
			}
			for p := range phaseEnd {
				c.parts[p] = append(c.parts[p], parts[p])
			}
		}
	}
	if err := r.checkPhases(&t, apps, all); err != nil {
		return err
	}
	o.phaseRows(all)
	for _, c := range all {
		o.Charts = append(o.Charts, c.chart(apps))
	}
	return nil
}

// partsApart is how far the mean of the transactions that are split may be from the mean latency that clients measure, as a
// share: each is split without a remainder, so that it differs only where they are not the same transactions.
const partsApart = 0.01

// checkPhases checks the parts of each application.
func (r *Run) checkPhases(t *speedTrial, apps []application, all []*configuration) error {
	for _, app := range apps {
		for _, c := range all {
			got, err := r.runTrial(t, app, c.protocol, 0)
			if err == nil {
				err = got.phases.check(c.protocol == farmName, got.latency.MeanNs)
			}
			if err != nil {
				return fmt.Errorf("%s under %s: %w", app.name, c.name, err)
			}
		}
	}
	return nil
}

// check says what is wrong with the parts of a run: Execution and Validation take time under all protocols, and Commit where
// the program waits for it, which it does under the baseline.
func (t *phaseTimes) check(waits bool, latencyNs float64) error {
	if t.negative > 0 {
		return fmt.Errorf("%d parts of %d transactions end before they begin: the engine's marked steps have another order",
			t.negative, t.count)
	}
	sum := 0.0
	for p := range phaseEnd {
		v := t.mean(p)
		if takes := p != commitment || waits; !(v > 0) && takes || v != 0 && !takes {
			return fmt.Errorf("%v takes %.1f ns: the engine's marked steps are not the expected ones", p, v)
		}
		sum += v
	}
	if !(math.Abs(sum/latencyNs-1) <= partsApart) {
		return fmt.Errorf("the %d transactions that were split take %.0f ns, and clients have measured %.0f ns: these are others",
			t.count, sum, latencyNs)
	}
	return nil
}

// phaseRows are the means of the applications, and what the paper says of them.
func (o *Outcome) phaseRows(all []*configuration) {
	for _, c := range all {
		for p := range phaseEnd {
			o.Rows = append(o.Rows, number{what: fmt.Sprintf("%s, %v, mean of the applications", c.name, p), unit: "%",
				digits: 1, reading: "of the baseline's mean latency; attempts that were aborted, and the pauses after them, are " +
					"Execution"}.seen(c.parts[p].means()...))
		}
	}
	at := func(c *configuration, p phase) float64 { return mean(c.parts[p].means()) }
	base := all[0]
	o.Rows = append(o.Rows,
		order("most of the baseline's latency is Execution", eightB,
			at(base, execution) > at(base, validation)+at(base, commitment), "mean of the applications"),
		order("the next is Validation", eightB, at(base, validation) > at(base, commitment), "mean of the applications"))
	for _, c := range all[1:] {
		o.Rows = append(o.Rows,
			order(c.name+" has no Commit part", eightB, at(c, commitment) == 0,
				"by construction: its NIC commits after the Acks, and no program waits"),
			order(c.name+" takes less for Execution than the baseline", eightB, at(c, execution) < at(base, execution),
				"mean"))
	}
}

// chart is the phases of a configuration by application.
func (c *configuration) chart(apps []application) report.Chart {
	chart := report.Chart{Title: c.name + ": mean latency by phase, beside the baseline's", Y: "%"}
	chart.X = applicationsAxis(apps)
	for p := range phaseEnd {
		curve := report.ChartCurve{Name: p.String() + ", modelled"}
		for i := range apps {
			curve.Points = append(curve.Points, [2]float64{float64(i + 1), mean(c.parts[p][i])})
		}
		chart.Curves = append(chart.Curves, curve)
	}
	return chart
}
