package reproduce

import (
	"fmt"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto/workload/tpcc"
)

// What the paper prints of Figure 16 (§8.3): Calvin's numbers apart.
func figure16Machines() grown {
	return grown{name: machinesText, section: eightThree, missed: missedScaling,
		speed: printedAt{6: {"5.36", 5.36}}, rates: printedAt{1: {"0.7", 0.7}, 6: {"3.75", 3.75}}}
}

func figure16Threads() grown {
	return grown{name: threadsText, section: eightThree, missed: missedThreads,
		speed: printedAt{8: {"5.62", 5.62}, 16: {"7.82", 7.82}}, rates: printedAt{16: {"5.24", 5.24}}}
}

// figure16 runs TPC-C on growing clusters.
func figure16(r *Run) (*Outcome, error) {
	size, base := tpccScaleOf(r), tpccCluster(r)
	machines := &scaling{at: pick(r, []int{1, 2, 3, 4, 5, 6}, []int{1, 6})}
	threads := &scaling{at: pick(r, []int{1, 2, 4, 8, 16}, nil)}
	quick := &scaling{at: []int{1, 6}}
	w := &sweeper{r: r, total: (len(machines.at) + len(threads.at) + len(quick.at)) * r.Seeds}
	onMachines := func(c *cluster, n int) { c.machines, c.load = n, size.load(c.workers, nil) }
	if err := w.sweep(machines, base, onMachines); err != nil {
		return nil, err
	}
	err := w.sweep(threads, base, func(c *cluster, n int) {
		c.machines, c.workers, c.load = mostMachines, n, size.load(n, nil)
	})
	if err != nil {
		return nil, err
	}
	err = w.sweep(quick, base, func(c *cluster, n int) {
		onMachines(c, n)
		c.quick = true
	})
	if err != nil {
		return nil, err
	}
	o := &Outcome{Conditions: size.conditions(r, &base, fmt.Sprintf("%d workers per machine where machines vary, ",
		base.workers))}
	byMachines, byThreads := figure16Machines(), figure16Threads()
	o.Rows = append(byMachines.rows(machines), byThreads.rows(threads)...)
	o.Rows = append(o.Rows, number{what: "speed-up of 6 machines if atomics took no longer than READs", digits: 2,
		reading: "no number of the paper's: what the 14.5 us of an atomic (§7.3) cost"}.seen(quick.overFirst(1)...))
	o.Charts = []report.Chart{{Title: "(a) by machines", X: "machines", Y: "transactions [M/s]",
		Curves: []report.ChartCurve{machines.curve("DrTM, modelled"), {Name: "paper, §8.3", Paper: true,
			Points: [][2]float64{{1, 0.7}, {6, 3.75}}}}}}
	if len(threads.at) > 0 {
		first := threads.curve("").Points[0][1]
		o.Charts = append(o.Charts, report.Chart{Title: "(b) by threads, six machines", X: "threads", Y: "transactions [M/s]",
			Curves: []report.ChartCurve{threads.curve("DrTM, modelled"), {Name: "paper's speed-up from our first point, §8.3",
				Paper: true, Points: [][2]float64{{8, 5.62 * first}, {16, 7.82 * first}}}}})
	} else {
		o.Charts[0].Curves = append(o.Charts[0].Curves, quick.curve("DrTM, quick atomics"))
	}
	return o, nil
}

// figure15 runs SmallBank and TPC-C on one machine. Silo and DBX, its other curves, are not here.
func figure15(r *Run) (*Outcome, error) {
	size, base := tpccScaleOf(r), tpccCluster(r)
	at := pick(r, []int{1, 2, 4, 8}, []int{1, 2, 4})
	small, large := &scaling{at: at}, &scaling{at: at}
	w := &sweeper{r: r, total: (2*len(at) + 1) * r.Seeds}
	if err := w.sweep(small, base, func(c *cluster, n int) { c.workers, c.settings = n, nil }); err != nil {
		return nil, err
	}
	if err := w.sweep(large, base, func(c *cluster, n int) { c.workers, c.load = n, size.load(n, nil) }); err != nil {
		return nil, err
	}
	last := base
	last.workers, last.load = at[len(at)-1], size.load(at[len(at)-1], nil)
	runs, err := w.results(last)
	if err != nil {
		return nil, err
	}
	o := &Outcome{Conditions: size.conditions(r, &base, "one machine, SmallBank whole, ")}
	for _, x := range []struct {
		name string
		s    *scaling
	}{{"SmallBank", small}, {"TPC-C", large}} {
		name := func(n int) string {
			if n == 1 {
				return "one thread, " + x.name
			}
			return fmt.Sprintf("%d threads, %s", n, x.name)
		}
		rows := grown{name: name, section: eightTwo}
		o.Rows = append(o.Rows, claim(x.name+": each doubling of the threads gives more", eightTwo, rising(x.s),
			"the shape of the curve: the paper prints ratios to Silo and DBX only"))
		o.Rows = append(o.Rows, rows.rows(x.s)...)
	}
	for _, x := range []struct {
		kind    tpcc.Kind
		printed string
		paper   float64
	}{{tpcc.NewOrder, "0.6", 0.6}, {tpcc.Payment, "0.1", 0.1}, {tpcc.Delivery, "1.8", 1.8}} {
		o.Rows = append(o.Rows, number{what: fmt.Sprintf("%s on the fallback path, %d threads", x.kind, last.workers),
			unit: "%", section: eightTwo, printed: x.printed, paper: x.paper, digits: 2, limit: withinTimes(2),
			missed: missedFallback, reading: "attempts of any piece on the fallback path, of all that were committed"}.
			seen(each(runs, fallbackShare(x.kind))...))
	}
	o.Charts = []report.Chart{{Title: "(a) SmallBank", X: "threads", Y: "transactions [M/s]",
		Curves: []report.ChartCurve{small.curve("DrTM, modelled")}},
		{Title: "(b) TPC-C", X: "threads", Y: "transactions [M/s]", Curves: []report.ChartCurve{large.curve("DrTM, modelled")}}}
	return o, nil
}

const (
	eightTwo = "§8.2"
)

// rising reports whether the mean grows from place to place.
func rising(s *scaling) bool {
	for i := 1; i < len(s.at); i++ {
		if mean(s.rates[i]) <= mean(s.rates[i-1]) {
			return false
		}
	}
	return true
}
