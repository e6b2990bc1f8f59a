package reproduce

import (
	"fmt"

	"drtmd/cmd/drtmd/internal/report"
)

// Figures 8 to 25 and Tables 5 and 6 of Dandelion, as tables of deployments (dandelion_model.go).

// threadsFigure is one of figures 8 to 13: throughput by threads.
func threadsFigure(b func() benchmark, paperDnl, paperFaSST float64) func(r *Run) (*Outcome, error) {
	return func(r *Run) (*Outcome, error) {
		b := b()
		xs := pick(r, []float64{8, 16, 32, 48, 64}, []float64{32, 64})
		got, chart, err := r.sweep(&sweep{title: b.name, x: "threads of a machine", y: "transactions [M/s]", xs: xs,
			curves: pick(r, []dandelionSystem{dnl4System, dnl2System, dnl1System, fasstSystem}, []dandelionSystem{dnl4System,
				fasstSystem}),
			at:    func(_ dandelionSystem, x float64) deployment { return deployment{bench: b, threads: int(x)} },
			value: mtps})
		if err != nil {
			return nil, err
		}
		o := &Outcome{Conditions: dandelionConditions(r, fmt.Sprintf("%d machines, %s", dandelionNodes, b.name)),
			Charts: []report.Chart{chart}}
		last := xs[len(xs)-1]
		if paperDnl > 0 {
			o.Rows = append(o.Rows, rate("Dnl-4, 64 threads", dnl8One, paperDnl, 1, nicLimits+"; "+fewerKeys).
				seen(got.of("Dnl-4", last, mtps)...),
				rate("FaSST, at its best", dnl8One, paperFaSST, 1, packetsLimit).seen(got.most("FaSST", xs, mtps)...),
				timesOf("Dnl-4 over FaSST", dnl8One, fixed(paperDnl/paperFaSST, 2), paperDnl/paperFaSST, packetsLimit).
					seen(divided(got.of("Dnl-4", last, mtps), got.most("FaSST", xs, mtps))...))
		} else {
			o.Rows = append(o.Rows, textSays("Dnl-4 commits more than FaSST", dnl8One, packetsLimit,
				mean(got.of("Dnl-4", last, mtps)) > mean(got.most("FaSST", xs, mtps))),
				number{what: "Dnl-4, 64 threads", unit: "M/s", digits: 1}.seen(got.of("Dnl-4", last, mtps)...),
				number{what: "FaSST, at its best", unit: "M/s", digits: 1}.seen(got.most("FaSST", xs, mtps)...))
		}
		for _, s := range []string{"Dnl-2", "Dnl-1"} {
			if got[s] == nil {
				continue
			}
			row := number{what: s + " over Dnl-4, 64 threads", unit: "times", section: dnl8One, digits: 2}
			if b.name != microBenchmark(4, 2).name {
				row.printed, row.paper, row.limit = "very similar", 1, share(dandelionBound)
				row.missed = "a message has all records of a transaction on a node, and Dnl-1's locks come with its log records: " +
					"it sends fewer messages than Dnl-4, where the paper's are of one key each"
				if b.name == tatpBench.name {
					row.missed = "not tested: a record that is read alone at a backup takes them no request, and Dnl-4 one"
				}
			}
			o.Rows = append(o.Rows, row.seen(got.per(s, last, "Dnl-4", last, mtps)...))
		}
		return o, nil
	}
}

func divided(a, b []float64) (all []float64) {
	for i := range a {
		all = append(all, a[i]/b[i])
	}
	return all
}

// latencyFigure is figure 14 or 15, and with steps 16 or 17: latency against throughput.
func latencyFigure(b func() benchmark, steps bool) func(r *Run) (*Outcome, error) {
	return func(r *Run) (*Outcome, error) {
		b := b()
		systems := []dandelionSystem{dnl4System, dnl2System, dnl1System, fasstSystem}
		value, what := func(o *observed) float64 { return o.p50 }, "median latency [us]"
		if steps {
			systems = []dandelionSystem{noOpts, nwBatch, htBatch, localReads}
			value, what = func(o *observed) float64 { return o.p99 }, "99th percentile of latency [us]"
		} else if r.Quick {
			systems = []dandelionSystem{dnl4System, fasstSystem}
		}
		xs := pick(r, []float64{1, 4, 16, 40, dandelionFibers}, []float64{1, dandelionFibers})
		got, chart, err := r.sweep(&sweep{title: b.name, x: "transactions [M/s]", y: what, xs: xs, curves: systems,
			at: func(_ dandelionSystem, x float64) deployment {
				return deployment{bench: b, fibers: int(x), threads: dandelionThreads}
			},
			value: value, over: mtps})
		if err != nil {
			return nil, err
		}
		o := &Outcome{Conditions: dandelionConditions(r, fmt.Sprintf("%d machines, %s, 1 to %d transactions of a thread",
			dandelionNodes, b.name, dandelionFibers)), Charts: []report.Chart{chart}}
		if steps {
			o.Rows = append(o.Rows, stepRows(got, b, xs[len(xs)-1])...)
			return o, nil
		}
		o.Rows = append(o.Rows, number{what: "median of Dnl-4 over FaSST's, one transaction of a thread", unit: "times",
			section: dnl8One, printed: "similar", paper: 1, digits: 2, limit: share(shapeBound),
			missed: "not tested; FaSST has 64 threads here, as Dnl-4, and each of its packets has one message"}.
			seen(got.per("Dnl-4", 1, "FaSST", 1, value)...))
		for _, s := range systems {
			o.Rows = append(o.Rows, number{what: s.name + ": highest rate", unit: "M/s", digits: 1}.
				seen(got.most(s.name, xs, mtps)...))
		}
		return o, nil
	}
}

// stepRows are what each optimisation adds to the rate.
func stepRows(got swept, b benchmark, x float64) (rows []report.ComparedRow) {
	papers := map[string][3]float64{"SmallBank": {4, 1.25, 1.07}, "TATP": {3, 1.20, 1.07}}[b.name]
	missed := [3]string{packetsLimit, nicLimits + ", so that saving time adds little",
		nicLimits + ", so that fewer messages count for more than in the paper"}
	for i, s := range [][2]string{{"no-opts", "nw-batch"}, {"nw-batch", "ht-batch"}, {"ht-batch", "local-reads"}} {
		rows = append(rows, timesOf(s[1]+" over "+s[0], dnl8One, fixed(papers[i], 2), papers[i], missed[i]).
			seen(got.per(s[1], x, s[0], x, mtps)...))
	}
	return rows
}

// machines of the figures that scale.
func machines(r *Run) []float64 { return pick(r, []float64{3, 5, 7, 10}, []float64{3, 5}) }

// scalingFigure is figure 18 or 19: throughput by machines against FaSST's.
func scalingFigure(b func() benchmark, paper float64, printed string) func(r *Run) (*Outcome, error) {
	return func(r *Run) (*Outcome, error) {
		b := b()
		xs := machines(r)
		fasst64 := fasstSystem
		fasst64.name = "FaSST, 64 threads"
		got, chart, err := r.sweep(&sweep{title: b.name, x: "machines", y: "transactions [M/s]", xs: xs,
			curves: []dandelionSystem{dnl4System, fasstSystem, fasst64},
			at: func(s dandelionSystem, x float64) deployment {
				d := deployment{bench: b, nodes: int(x)}
				if s.name == fasst64.name {
					d.threads = dandelionThreads
				}
				return d
			}, value: mtps})
		if err != nil {
			return nil, err
		}
		o := &Outcome{Conditions: dandelionConditions(r, b.name), Charts: []report.Chart{chart}}
		last := xs[len(xs)-1]
		o.Rows = append(o.Rows, textSays("Dnl-4 over FaSST falls with more machines", dnl8Two, packetsLimit,
			mean(got.per("Dnl-4", last, "FaSST", last, mtps)) < mean(got.per("Dnl-4", xs[0], "FaSST", xs[0], mtps))))
		for _, x := range xs {
			row := number{what: fmt.Sprintf("Dnl-4 over FaSST, %g machines", x), unit: "times", digits: 2, section: dnl8Two}
			if x == last && !r.Quick {
				row.printed, row.paper, row.limit, row.missed = printed, paper, share(dandelionBound), packetsLimit
			}
			o.Rows = append(o.Rows, row.seen(got.per("Dnl-4", x, "FaSST", x, mtps)...))
		}
		return o, nil
	}
}

// stepsFigure is figure 20 or 21: throughput by machines with each optimisation.
func stepsFigure(b func() benchmark, at3, at10 float64) func(r *Run) (*Outcome, error) {
	return func(r *Run) (*Outcome, error) {
		b := b()
		xs := machines(r)
		got, chart, err := r.sweep(&sweep{title: b.name, x: "machines", y: "transactions [M/s]", xs: xs,
			curves: []dandelionSystem{noOpts, nwBatch, htBatch, localReads, noHTBatch},
			at:     func(_ dandelionSystem, x float64) deployment { return deployment{bench: b, nodes: int(x)} }, value: mtps})
		if err != nil {
			return nil, err
		}
		o := &Outcome{Conditions: dandelionConditions(r, b.name), Charts: []report.Chart{chart}}
		o.Rows = append(o.Rows, stepRows(got, b, 5)...)
		for _, x := range []struct{ nodes, paper float64 }{{3, at3}, {10, at10}} {
			if got["nw-batch"][x.nodes] != nil {
				o.Rows = append(o.Rows, timesOf(fmt.Sprintf("local-reads over nw-batch, %g machines", x.nodes), dnl8Two,
					fixed(x.paper, 2), x.paper, nicLimits).seen(got.per("local-reads", x.nodes, "nw-batch", x.nodes, mtps)...))
			}
		}
		return o, nil
	}
}

// batchingRow is a row of Table 5 or 6, by machines from 3 to 9.
type batchingRow struct {
	what, unit string
	paper      [7]float64
	value      func(*observed) float64
	digits     int
}

// batchingTable is Table 5 or 6.
func batchingTable(b func() benchmark, rows [5][7]float64, totals [2]float64, messages [2]float64) func(r *Run) (*Outcome, error) {
	return func(r *Run) (*Outcome, error) {
		b := b()
		xs := pick(r, []float64{3, 5, 7, 9}, []float64{3, 4, 5})
		got, chart, err := r.sweep(&sweep{title: b.name, x: "machines", y: "messages of a packet", xs: xs,
			curves: []dandelionSystem{dnl4System},
			at:     func(_ dandelionSystem, x float64) deployment { return deployment{bench: b, nodes: int(x)} },
			value:  func(o *observed) float64 { return o.nwBatch }})
		if err != nil {
			return nil, err
		}
		o := &Outcome{Conditions: dandelionConditions(r, b.name), Charts: []report.Chart{chart}}
		for _, x := range []struct {
			nodes, total, messages float64
		}{{3, totals[0], messages[0]}, {5, totals[1], messages[1]}} {
			missed := nicLimits + "; " + onlyTheCode
			if x.nodes == xs[0] {
				missed = "with SmallBank the NIC does not limit, see packet-rate, and a transaction takes less CPU time here; with TATP " +
					"the NIC and the datagrams under way do (docs/PAPERS.md); " + onlyTheCode
			}
			o.Rows = append(o.Rows, rate(fmt.Sprintf("total, %g machines", x.nodes), "§10, §8.1", x.total, 1, missed).
				seen(got.of("Dnl-4", x.nodes, mtps)...),
				number{what: fmt.Sprintf("messages of a transaction, %g machines", x.nodes), section: "§8.2", digits: 2,
					printed: fixed(x.messages, 2), paper: x.messages, limit: share(shapeBound),
					reading: "packet rate times nw-batch over the rate; ours has those of aborted attempts and answers to unlocking",
					missed:  onlyTheCode}.seen(got.of("Dnl-4", x.nodes, func(o *observed) float64 { return o.messages })...))
		}
		list := []batchingRow{{"ht-batch", "", rows[0], func(o *observed) float64 { return o.htBatch }, 1},
			{"nw-batch", "", rows[1], func(o *observed) float64 { return o.nwBatch }, 1},
			{"nw-bw", "Gbps", rows[2], func(o *observed) float64 { return o.bandwith }, 1},
			{"goodput", "Gbps", rows[3], func(o *observed) float64 { return o.goodput }, 1},
			{"packet-rate", "M/s", rows[4], func(o *observed) float64 { return o.packets }, 1}}
		for _, row := range list {
			for _, x := range xs {
				paper := row.paper[int(x)-3]
				o.Rows = append(o.Rows, number{what: fmt.Sprintf("%s, %g machines", row.what, x), unit: row.unit, digits: row.digits,
					section: "§8.2", printed: fixed(paper, 1), paper: paper, limit: share(shapeBound), missed: nicLimits}.
					seen(got.of("Dnl-4", x, row.value)...))
			}
		}
		return o, nil
	}
}

// dandelionFigure22 has throughput and the size of packets by transactions of a thread.
func dandelionFigure22(r *Run) (*Outcome, error) {
	xs := pick(r, []float64{10, 25, 50, 75, 100, 150}, []float64{10, 40, 80})
	f := &sweep{title: "throughput", x: "transactions of a thread", y: "transactions [M/s]", xs: xs,
		curves: []dandelionSystem{dnl4System, mixedSystem}, value: mtps,
		at: func(_ dandelionSystem, x float64) deployment { return deployment{bench: bankBench, fibers: int(x)} }}
	got, chart, err := r.sweep(f)
	if err != nil {
		return nil, err
	}
	payload := func(o *observed) float64 { return o.payload }
	sizes := report.Chart{Title: "size of a packet", X: f.x, Y: "payload [B]", Curves: []report.ChartCurve{{Name: "Dnl-4, modelled"}}}
	for _, x := range xs {
		sizes.Curves[0].Points = append(sizes.Curves[0].Points, [2]float64{x, mean(got.of("Dnl-4", x, payload))})
	}
	o := &Outcome{Conditions: dandelionConditions(r, fmt.Sprintf("%d machines, SmallBank", dandelionNodes)),
		Charts: []report.Chart{chart, sizes}}
	// The knee is where the payload crosses the inline limit, between two points by a line.
	const limit = 188
	kneeOf := func(system string) []float64 {
		knee := make([]float64, r.Seeds)
		for seed := range knee {
			for i := 1; i < len(xs) && knee[seed] == 0; i++ {
				a, b := got.of(system, xs[i-1], payload)[seed], got.of(system, xs[i], payload)[seed]
				if a <= limit && b > limit {
					knee[seed] = xs[i-1] + (xs[i]-xs[i-1])*(limit-a)/(b-a)
				}
			}
		}
		return knee
	}
	o.Rows = append(o.Rows, number{what: "transactions of a thread where packets exceed 188 B", section: dnl8Three, printed: "75",
		paper: 75, digits: 0, limit: share(shapeBound), reading: "0: they do not in this range",
		missed: nicLimits}.
		seen(kneeOf(dnl4System.name)...),
		number{what: "the same, where requests and answers share packets", digits: 0, reading: "as datagrams of verbs/rpc do unless " +
			"asked not to; 0: they do not in this range"}.seen(kneeOf(mixedSystem.name)...))
	for _, x := range xs {
		o.Rows = append(o.Rows, number{what: fmt.Sprintf("%g transactions of a thread", x), unit: "M/s", digits: 1}.
			seen(got.of("Dnl-4", x, mtps)...))
	}
	return o, nil
}

// dandelionFigure23 has committed and aborted transactions by keys.
func dandelionFigure23(r *Run) (*Outcome, error) {
	xs := pick(r, []float64{1 << 10, 1 << 13, 1 << 16, 1 << 18}, []float64{1 << 8, 1 << 12})
	f := &sweep{title: "committed", x: "keys of a machine", y: "transactions [M/s]", xs: xs,
		curves: []dandelionSystem{dnl4System}, value: mtps,
		at: func(_ dandelionSystem, x float64) deployment { return deployment{bench: bankBench, keys: int(x)} }}
	got, chart, err := r.sweep(f)
	if err != nil {
		return nil, err
	}
	chart.LogX = true
	aborted := func(o *observed) float64 { return o.aborted }
	curve := report.ChartCurve{Name: "aborted attempts, modelled"}
	for _, x := range xs {
		curve.Points = append(curve.Points, [2]float64{x, mean(got.of("Dnl-4", x, aborted))})
	}
	chart.Curves = append(chart.Curves, curve)
	o := &Outcome{Conditions: dandelionConditions(r, fmt.Sprintf("%d machines, SmallBank, primary keys of each; the paper's "+
		"range of 1,024 to 333 M is that of whole machines, and we have a part of one", dandelionNodes)), Charts: []report.Chart{chart}}
	first, last := xs[0], xs[len(xs)-1]
	o.Rows = append(o.Rows, textSays("with the fewest keys five times as many attempts abort as with the most", dnl8Four,
		"a transaction that meets a lock waits before it tries again, so that fewer are under way",
		mean(got.of("Dnl-4", first, aborted)) > 5*mean(got.of("Dnl-4", last, aborted))))
	for _, x := range xs {
		o.Rows = append(o.Rows, number{what: fmt.Sprintf("committed, %g keys", x), unit: "M/s", digits: 1}.
			seen(got.of("Dnl-4", x, mtps)...), number{what: fmt.Sprintf("aborted attempts, %g keys", x), unit: "M/s", digits: 1}.
			seen(got.of("Dnl-4", x, aborted)...))
	}
	return o, nil
}

// remoteMemory is the latency of the other socket's memory. Assumed: 140 ns of a two-socket Cascade Lake.
const remoteMemory = memoryLatency * 140 / 90

// dandelionFigure24 has the table in slower memory.
func dandelionFigure24(r *Run) (*Outcome, error) {
	far := dnl4System
	far.name = "Dnl-4-cxl-em"
	const threads = 18
	got, chart, err := r.sweep(&sweep{title: "18 threads", x: "threads", y: "transactions [M/s]", xs: []float64{threads / 3, threads},
		curves: []dandelionSystem{dnl4System, far}, value: mtps, at: func(s dandelionSystem, x float64) deployment {
			d := deployment{bench: bankBench, threads: int(x)}
			if s.name == far.name {
				d.memory = remoteMemory
			}
			return d
		}})
	if err != nil {
		return nil, err
	}
	o := &Outcome{Conditions: dandelionConditions(r, fmt.Sprintf("%d machines, SmallBank, %v for a line of remote memory",
		dandelionNodes, remoteMemory)), Charts: []report.Chart{chart}}
	o.Rows = append(o.Rows, number{what: "Dnl-4-cxl-em over Dnl-4", unit: "times", section: "§8.5", digits: 3,
		printed: "no substantial difference", paper: 1, limit: within(0.05), missed: "a miss is a larger part of a transaction here"}.
		seen(got.per(far.name, threads, "Dnl-4", threads, mtps)...))
	return o, nil
}

// dandelionFigure25 has the rate of a machine in large deployments. The paper gives the formula's result only.
func dandelionFigure25(*Run) (*Outcome, error) {
	o := &Outcome{Conditions: "arithmetic on Table 6: a transaction costs its messages times (a + b / nw-batch), fitted on 5 to 9 " +
		"machines (a 0.0044, b 0.0117 us), and the batch of a machine's packets is 71 / (N - 1) to 81 / N"}
	const a, b, fasst = 0.0044, 0.0117, 23.0 / 5
	chart := report.Chart{Title: "SmallBank", X: "machines", Y: "transactions of a machine [M/s]"}
	even := [2]float64{}
	for i, batch := range []func(n float64) float64{func(n float64) float64 { return 71 / (n - 1) },
		func(n float64) float64 { return 81 / n }} {
		curve := report.ChartCurve{Name: []string{"Dnl-4, batch 71 / (N - 1)", "Dnl-4, batch 81 / N"}[i]}
		for n := 5.0; n <= 100; n++ {
			rate := 1 / (bankMessages(n) * (a + b/max(batch(n), 1)))
			curve.Points = append(curve.Points, [2]float64{n, rate})
			if even[i] == 0 && batch(n) <= 1 {
				even[i] = n
			}
		}
		chart.Curves = append(chart.Curves, curve)
	}
	chart.Curves = append(chart.Curves, report.ChartCurve{Name: "FaSST", Points: [][2]float64{{5, fasst}, {100, fasst}}})
	o.Charts = []report.Chart{chart}
	for i, x := range even {
		o.Rows = append(o.Rows, number{what: []string{"machines where the batch is 1: 71 / (N - 1)", "the same: 81 / N"}[i],
			section: "§8.6", printed: "58", paper: 58, limit: share(0.41).because("the formula is not printed: 54 to 81"),
			reading: "the paper's 58 cannot be derived", fitted: true}.seen(x))
	}
	return o, nil
}

// bankMessages of a transaction of SmallBank with Dnl-4 on so many machines: 1.30 keys are written and read, 0.30 only
// read, by one transaction that validates and one that does not.
func bankMessages(n float64) float64 {
	q, e := 1-1/n, 1-copies/n
	const written, read, alone = 0.15*3 + 0.15 + 0.25*2 + 0.15 + 0.15, 0.15, 0.15
	return 2*e*(written+read+alone) + 2*q*written + 2*q*read + 2*q*(copies-1)*written + q*written
}
