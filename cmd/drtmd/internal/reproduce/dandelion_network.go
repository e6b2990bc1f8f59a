package reproduce

import (
	"fmt"
	"strings"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto/node"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// Figures 4 to 6 of Dandelion: Gets of one server, by threads and by how many share a packet; and Table 1.

const (
	dnlNetwork = "§5.3"
	// mostThreads of Figure 4; kvThreads are those of Figures 5 and 6.
	mostThreads = 71
	kvThreads   = 64
	// getPayload is the bytes of a Get's answer in a packet, and packetHeaders those of a packet on the link: preset
	// cx5-100g's.
	getPayload    = 24
	packetHeaders = 90
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
		case mostThreads:
			row.printed, row.paper, row.section = "more than 10", 10, dnlNetwork
		}
		o.Rows = append(o.Rows, row.seen(pays[n]), number{what: fmt.Sprintf("DNL, threads: %d", n), unit: "M/s", digits: 1}.
			seen(batched))
	}
	const least, most = 2.8, 10
	o.Rows = append(o.Rows, textSays("with one thread batching gives 2.8 to 10 times", dnlNetwork, "CPU times of the RPC layer are assumed",
		pays[1] >= least && pays[1] <= most),
		textSays("with 71 threads batching gives more than 10 times", dnlNetwork, batchIsFibers, pays[mostThreads] > most),
		textSays("batching gives more with more threads", dnlNetwork, batchIsFibers, pays[mostThreads] > pays[1]))
	return o, nil
}

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
			"%d B of each Get in an answer, %d B of headers of a packet", cx5, kvThreads, getPayload, packetHeaders)}
		gets, packets, goodput, headers := map[int]float64{}, map[int]float64{}, map[int]float64{}, map[int]float64{}
		for _, x := range rates {
			gets[x.Batch], packets[x.Batch] = x.Mops, x.Mops/float64(x.Batch)
			goodput[x.Batch] = x.Mops * getPayload * 8 / 1e3
			headers[x.Batch] = packets[x.Batch] * packetHeaders * 8 / 1e3
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
			o.Rows = append(o.Rows, textSays("with larger batches more of the bandwidth is goodput", dnlNetwork, "",
				goodput[64]/headers[64] > goodput[1]/headers[1]))
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

// dandelionTable1 has the performance of the systems that the paper has run itself; the other two rows are numbers of
// their papers, of other clusters.
func dandelionTable1(r *Run) (*Outcome, error) {
	o := &Outcome{Conditions: dandelionConditions(r, fmt.Sprintf("%d machines; FaRM's 9.5 and DrTM's 35 M/s are reported "+
		"numbers there, and are not run", dandelionNodes))}
	protocols := 0
	for _, p := range node.Protocols() {
		if strings.HasPrefix(p.Name, "dnl") && len(p.Mutations) > 0 {
			protocols++
		}
	}
	o.Rows = append(o.Rows, word("protocols of Dandelion that are model checked", "Table 1", "3", fmt.Sprint(protocols),
		"drtmd sim --scenario small-dnl4, small-dnl2 and small-dnl1 --every-order"))
	systems := []dandelionSystem{dnl4System, fasstSystem}
	papers := map[string][2]float64{tatpBench.name: {268, 51}, bankBench.name: {102, 23}}
	for _, b := range []benchmark{tatpBench, bankBench} {
		got, _, err := r.sweep(&sweep{title: b.name, x: "machines", y: "transactions [M/s]", xs: []float64{dandelionNodes},
			curves: systems, at: func(dandelionSystem, float64) deployment { return deployment{bench: b} }, value: mtps})
		if err != nil {
			return nil, err
		}
		p := papers[b.name]
		o.Rows = append(o.Rows, rate("Dandelion, "+b.name, "Table 1", p[0], 1, cheaperCPU+"; "+fewerKeys).
			seen(got.of("Dnl-4", dandelionNodes, mtps)...),
			rate("FaSST, "+b.name, "Table 1", p[1], 1, packetsLimit).seen(got.of("FaSST", dandelionNodes, mtps)...))
	}
	return o, nil
}
