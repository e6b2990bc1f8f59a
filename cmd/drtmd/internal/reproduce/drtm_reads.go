package reproduce

import (
	"fmt"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/verbs"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// cx3 is the preset of DrTM's cluster.
const cx3 = "cx3-56g"

// figure3 has READs of growing payload, as drtmd sim --scenario saturation has.
func figure3(r *Run) (*Outcome, error) {
	cost, err := sim.Preset(cx3)
	if err != nil {
		return nil, err
	}
	sizes := pick(r, []int{8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192},
		[]int{8, 128, 2048})
	rate := report.ChartCurve{Name: "READ, modelled"}
	latency := report.ChartCurve{Name: "READ, modelled"}
	gbps := map[int]float64{}
	mops := map[int]float64{}
	for i, size := range sizes {
		if err := r.step(i, len(sizes)); err != nil {
			return nil, err
		}
		rates, err := scenario.Reads(cost, []int{size})
		if err != nil {
			return nil, err
		}
		alone, err := readLatency(cost, size)
		if err != nil {
			return nil, err
		}
		mops[size], gbps[size] = rates[0].Mops, rates[0].Gbps
		rate.Points = append(rate.Points, [2]float64{float64(size), rates[0].Mops})
		latency.Points = append(latency.Points, [2]float64{float64(size), alone})
	}
	o := &Outcome{Conditions: fmt.Sprintf("preset %s; READs from %d nodes to one, without CPU time; "+
		"nothing is drawn, so there are no seeds", cx3, scenario.ReadClients)}
	for _, size := range []int{8, 128} {
		o.Rows = append(o.Rows, number{what: fmt.Sprintf("READs of %d B", size), unit: "M/s",
			section: sixFour, printed: "26.3", paper: 26.3, digits: 2, limit: share(0.01),
			reading: "the preset's NIC serves that many; that nothing else limits is the result"}.
			seen(mops[size]))
	}
	o.Rows = append(o.Rows, number{what: "READs of 2048 B, payload", unit: "Gb/s", section: "§2.2",
		printed: "34", paper: 34, digits: 2, limit: share(0.01),
		reading: `the paper's "GB" are gigabits; the preset's link is derived from it, with headers`}.
		seen(gbps[2048]))
	o.Charts = []report.Chart{
		{Title: "(a) throughput", X: "payload [B]", Y: "READs [M/s]", LogX: true, LogY: true,
			Curves: []report.ChartCurve{rate, {Name: "paper, §2.2 and §6.4", Paper: true,
				Points: [][2]float64{{8, 26.3}, {128, 26.3}, {2048, 34e3 / 8 / 2048}}}}},
		{Title: "(b) latency", X: "payload [B]", Y: "latency [us]", LogX: true, LogY: true,
			Curves: []report.ChartCurve{latency}},
	}
	return o, nil
}

// readLatency is the time of a READ with nothing else under way, in microseconds.
func readLatency(cost *sim.CostModel, size int) (float64, error) {
	l, err := scenario.NewLoad(scenario.LoadConfig{Cost: cost, Op: verbs.OpRead, Bytes: size, Nodes: 1,
		QPs: 1, Depth: 1})
	if err != nil {
		return 0, err
	}
	rate, err := l.Rate(50*sim.Microsecond, 1000*sim.Microsecond)
	return 1e6 / rate, err
}
