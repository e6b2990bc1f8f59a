package reproduce

import (
	"fmt"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// Figures 4 to 6 of Dandelion: Gets of one server, by threads and by how many share a packet; and Table 1.

const (
	dnlNetwork = "§5.3"
	// mostThreads of Figure 4; kvThreads are those of Figures 5 and 6.
	mostThreads = 71
	kvThreads   = 64
)

// partOfServer is one thread of a machine that has so many.
func partOfServer(threads int) (*sim.CostModel, error) {
	cost, err := sim.Preset(cx5)
	if err == nil {
		shareMachine(cost, 1, threads, memoryLatency)
	}
	return cost, err
}

// dandelionFigure4 has Gets by threads.
func dandelionFigure4(r *Run) (*Outcome, error) {
	threads := pick(r, []int{1, 8, 16, 32, 48, 64, mostThreads}, []int{1, mostThreads})
	o := &Outcome{Conditions: fmt.Sprintf("preset %s; one thread of the server is simulated, with its share of the NIC; four "+
		"machines ask, so that they are not what limits; requests of 8 B, answers of 16 B; all for one key, so no cache misses", cx5),
		Charts: []report.Chart{{Title: "Gets of one server", X: "threads", Y: "Gets [M/s]",
			Curves: []report.ChartCurve{{Name: "DNL, modelled"}, {Name: "DNL-no-batch, modelled"}}}}}
	pays := map[int]float64{}
	for i, n := range threads {
		if err := r.step(i, len(threads)); err != nil {
			return nil, err
		}
		cost, err := partOfServer(n)
		if err != nil {
			return nil, err
		}
		rates, err := scenario.RPCs(cost)
		if err != nil {
			return nil, err
		}
		single, batched := rates[0].Mops*float64(n), rates[1].Mops*float64(n)
		pays[n] = batched / single
		for j, y := range []float64{batched, single} {
			c := &o.Charts[0].Curves[j]
			c.Points = append(c.Points, [2]float64{float64(n), y})
		}
		row := number{what: fmt.Sprintf("batching over no batching, %d threads", n), unit: "times", digits: 2}
		switch n {
		case 1:
			row.what = "batching over no batching, 1 thread"
			row.printed, row.paper, row.section = "from 2.8", 2.8, dnlNetwork
			row.limit, row.missed = share(batchingBound), emptyHandler
		case mostThreads:
			row.printed, row.paper, row.section = "more than 10", 10, dnlNetwork
		}
		o.Rows = append(o.Rows, row.seen(pays[n]), number{what: fmt.Sprintf("DNL, threads: %d", n), unit: "M/s", digits: 1}.
			seen(batched))
	}
	const least, most = 2.8, 10
	inside := textSays("with one thread batching gives 2.8 to 10 times", dnlNetwork, "CPU times of the RPC layer are assumed",
		pays[1] >= least && pays[1] <= most)
	inside.Reading = "the range of the whole figure, from one thread to 71"
	o.Rows = append(o.Rows, inside,
		textSays("with 71 threads batching gives more than 10 times", dnlNetwork, batchIsFibers, pays[mostThreads] > most),
		textSays("batching gives more with more threads", dnlNetwork, batchIsFibers, pays[mostThreads] > pays[1]))
	return o, nil
}

// batchingBound is that of other ratios of this paper.
const batchingBound = 0.15

const emptyHandler = "the handler of a Get is empty here, and the paper's looks a key up, which takes as long in a batch as alone; the " +
	"CPU times of the RPC layer are assumed"

const batchIsFibers = "a client thread has 32 Gets under way, so that up to 32 share a packet where the paper has up to 100"

// dandelionFigure5 has throughput, bandwidth and packets by Gets of a packet, and with parts Figure 6: what the bandwidth
// is made of.
func dandelionFigure5(parts bool) func(r *Run) (*Outcome, error) {
	return func(r *Run) (*Outcome, error) {
		batches := []int{1, 2, 4, 8, 16, 32, 64}
		cost, err := sim.Preset(cx5)
		if err != nil {
			return nil, err
		}
		if err := r.step(0, 1); err != nil {
			return nil, err
		}
		rates, err := scenario.Batches(cost, batches)
		if err != nil {
			return nil, err
		}
		o := &Outcome{Conditions: fmt.Sprintf("preset %s without CPU time: what the NIC of one server with %d threads has to give; "+
			"%d B of each Get in an answer, %v of headers of a packet", cx5, kvThreads, rates[0].Payload, cost.Link.Header)}
		gets, packets, goodput, headers := map[int]float64{}, map[int]float64{}, map[int]float64{}, map[int]float64{}
		for _, x := range rates {
			gets[x.Batch], packets[x.Batch] = x.Mops, x.Mops/float64(x.Batch)
			goodput[x.Batch] = packets[x.Batch] * float64(x.Payload) * 8 / 1e3
			headers[x.Batch] = packets[x.Batch]*x.Wire*8/1e3 - goodput[x.Batch]
		}
		curve := func(name string, y func(batch int) float64) report.ChartCurve {
			c := report.ChartCurve{Name: name + ", modelled"}
			for _, b := range batches {
				c.Points = append(c.Points, [2]float64{float64(b), y(b)})
			}
			return c
		}
		const batch = "Gets of a packet"
		if parts {
			o.Charts = []report.Chart{{Title: "send bandwidth", X: batch, Y: "Gbps", LogX: true, Curves: []report.ChartCurve{
				curve("goodput", func(b int) float64 { return goodput[b] }),
				curve("headers", func(b int) float64 { return headers[b] })}}}
			o.Rows = append(o.Rows, goodputRows(rates)...)
			for _, b := range batches {
				o.Rows = append(o.Rows, number{what: fmt.Sprintf("goodput, batch %d", b), unit: "Gbps", digits: 1}.seen(goodput[b]),
					number{what: fmt.Sprintf("headers, batch %d", b), unit: "Gbps", digits: 1}.seen(headers[b]))
			}
			return o, nil
		}
		o.Charts = []report.Chart{{Title: "by batch", X: batch, Y: "M/s, Gbps", LogX: true, Curves: []report.ChartCurve{
			curve("Gets [M/s]", func(b int) float64 { return gets[b] }),
			curve("send bandwidth [Gbps]", func(b int) float64 { return goodput[b] + headers[b] }),
			curve("packets [M/s]", func(b int) float64 { return packets[b] })}}}
		o.Rows = append(o.Rows, number{what: "batch of 2 over 1", unit: "times", section: "§5.4", printed: "almost 2", paper: 2,
			digits: 2, limit: share(0.10)}.seen(gets[2]/gets[1]))
		step := func(b int) float64 { return gets[b] / gets[b/2] }
		o.Rows = append(o.Rows, textSays("from 4 to 8 gains less than the steps before and behind", dnlNetwork, "",
			step(8) < step(4) && step(8) < step(16)),
			textSays("fewer packets with larger batches, and more bandwidth", dnlNetwork, "",
				packets[64] < packets[1] && goodput[64]+headers[64] > goodput[1]+headers[1]))
		for _, b := range batches[1:] {
			o.Rows = append(o.Rows, number{what: fmt.Sprintf("Gets, batch of %d over %d", b, b/2), unit: "times", digits: 2}.
				seen(step(b)))
		}
		return o, nil
	}
}

// goodputRows have the share of the send bandwidth that is goodput. The text has no numbers of Figure 6, but Table 5 has the
// bandwidth, the goodput and the messages of a packet of the same layer: with 7 machines, 7.9 of them.
func goodputRows(rates []scenario.BatchRate) (rows []report.ComparedRow) {
	const (
		messages = 8
		column   = 4 // of Table 5: 7 machines
	)
	useful := func(r *scenario.BatchRate) float64 { return 100 * float64(r.Payload) / r.Wire }
	for i := range rates {
		if r := &rates[i]; r.Batch == messages {
			bandwidth, goodput := tatpBatching[2][column], tatpBatching[3][column]
			rows = append(rows, number{what: fmt.Sprintf("goodput of the send bandwidth, batch %d", messages), unit: "%",
				section: "Table 5", printed: fmt.Sprintf("%.1f of %.1f Gbps", goodput, bandwidth), paper: 100 * goodput / bandwidth,
				digits: 1, limit: share(goodputBound), missed: missedGoodput, reading: fmt.Sprintf("with 7 machines %.1f messages share "+
					"a packet there: 21.7 B each, and 114 B of headers", tatpBatching[1][column])}.seen(useful(r)))
		}
	}
	first, last := useful(&rates[0]), useful(&rates[len(rates)-1])
	more := textSays("with larger batches more of the bandwidth is goodput", dnlNetwork, "", last > first)
	more.Bound, more.Reading = "", "by construction: each packet has the same headers"
	return append(rows, more)
}

const (
	goodputBound  = 0.15
	missedGoodput = "the headers of a packet are the preset's frame alone; the paper counts those of its layer as well"
)

// dandelionTable1 has the performance of the systems that the paper has run itself; the other two rows are numbers of
// their papers, of other clusters.
func dandelionTable1(r *Run) (*Outcome, error) {
	o := &Outcome{Conditions: dandelionConditions(r, fmt.Sprintf("%d machines; FaRM's 9.5 and DrTM's 35 M/s are reported "+
		"numbers there, and are not run", dandelionNodes))}
	checked, err := modelChecked(r.ctx, checkedWorlds())
	if err != nil {
		return nil, err
	}
	o.Rows = append(o.Rows, checked)
	systems := []dandelionSystem{dnl4System, fasstSystem}
	papers := map[string][2]float64{tatpBench.name: {268, 51}, bankBench.name: {102, 23}}
	for _, b := range []benchmark{tatpBench, bankBench} {
		got, _, err := r.sweep(&sweep{title: b.name, x: "machines", y: "transactions [M/s]", xs: []float64{dandelionNodes},
			curves: systems, at: func(dandelionSystem, float64) deployment { return deployment{bench: b} }, value: mtps})
		if err != nil {
			return nil, err
		}
		p := papers[b.name]
		o.Rows = append(o.Rows, rate("Dandelion, "+b.name, "Table 1", p[0], 1, nicLimits+"; "+fewerKeys).
			seen(got.of("Dnl-4", dandelionNodes, mtps)...),
			rate("FaSST, "+b.name, "Table 1", p[1], 1, packetsLimit).seen(got.of("FaSST", dandelionNodes, mtps)...))
	}
	return o, nil
}
