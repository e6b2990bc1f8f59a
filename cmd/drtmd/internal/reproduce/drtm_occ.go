package reproduce

import (
	"fmt"

	"drtmd/cmd/drtmd/internal/report"
)

// What the paper prints of Figure 20 (§8.6), all of TPC-C.
const (
	eightSix     = "§8.6"
	overOCC      = 1.5 // DrTM over DrTM-OCC
	overOCCMost  = 1.7 // with 16 threads
	scaleOfDrTM  = 5.3 // six machines over one
	scaleOfOCC   = 5.2
	occMillions  = 0.49 // of one machine
	overOCCBound = 0.15
)

// figure20 runs DrTM, in pieces, and DrTM-OCC, whole, under TPC-C on growing clusters.
func figure20(r *Run) (*Outcome, error) {
	size, base := tpccScaleOf(r), tpccCluster(r)
	at, threads := pick(r, []int{1, 2, 4, 6}, []int{1, 6}), pick(r, []int{16}, nil)
	machines, many := [2]*scaling{{at: at}, {at: at}}, [2]*scaling{{at: threads}, {at: threads}}
	w := &sweeper{r: r, total: 2 * (len(at) + len(threads)) * r.Seeds}
	names := [2]string{drtmName, occName}
	for i, name := range names {
		c := base
		if c.protocol = name; name == occName {
			c.settings, c.mutation = nil, ""
		}
		if err := w.sweep(machines[i], c, func(c *cluster, n int) {
			c.machines, c.load = n, size.load(c.workers, nil)
		}); err != nil {
			return nil, err
		}
		if err := w.sweep(many[i], c, func(c *cluster, n int) {
			c.machines, c.workers, c.load = mostMachines, n, size.load(n, nil)
		}); err != nil {
			return nil, err
		}
	}
	o := &Outcome{Conditions: size.conditions(r, &base, fmt.Sprintf("DrTM-OCC's whole, %d workers per machine where machines "+
		"vary, ", base.workers))}
	row := func(what, printed string, paper float64, a, b []float64) {
		o.Rows = append(o.Rows, number{what: "DrTM over DrTM-OCC, " + what, section: eightSix, printed: printed, paper: paper,
			digits: 2, limit: share(overOCCBound), missed: missedOCC, reading: finishedReading}.seen(ratios(a, b)...))
	}
	for i, n := range at {
		row(machinesText(n), "around 1.5", overOCC, machines[0].rates[i], machines[1].rates[i])
	}
	for i, n := range threads {
		row(threadsText(n), "up to 1.7", overOCCMost, many[0].rates[i], many[1].rates[i])
	}
	last := len(at) - 1
	for i, x := range []grown{
		{missed: missedScaling, speed: printedAt{at[last]: {"5.3", scaleOfDrTM}}},
		{missed: missedScaling, speed: printedAt{at[last]: {"5.2", scaleOfOCC}}, rates: printedAt{1: {"0.49", occMillions}}},
	} {
		x.section, x.name = eightSix, func(n int) string { return machinesText(n) + ", " + names[i] }
		o.Rows = append(o.Rows, x.rows(machines[i])...)
	}
	o.Charts = []report.Chart{{Title: "(a) by machines", X: "machines", Y: "transactions [M/s]",
		Curves: []report.ChartCurve{machines[0].curve("DrTM, modelled"), machines[1].curve("DrTM-OCC, modelled")}}}
	return o, nil
}

// ratios of two lists, seed by seed.
func ratios(a, b []float64) (all []float64) {
	for i := range a {
		all = append(all, a[i]/b[i])
	}
	return all
}
