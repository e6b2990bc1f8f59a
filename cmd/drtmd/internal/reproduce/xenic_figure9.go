package reproduce

import "drtmd/cmd/drtmd/internal/report"

// Figure 9 of Xenic: parts of the design, one after the other.

const fiveSeven = "§5.7"

// stage is a part that is added to those before.
type stage struct {
	xenic   competitor
	printed string
	paper   float64
	missed  string
}

// throughputStages are those of (a), over the baseline.
func throughputStages() []stage {
	const requests, batching, dma = "nic-requests", "nic-batching", "nic-dma"
	ship := []string{"function-shipping", "declared"}
	with := func(name string, settings ...string) competitor {
		return xenicItself(name, append(settings, ship...)...)
	}
	return []stage{
		{xenic: with("baseline", requests, "separate", batching, "false", dma, "blocking")},
		{xenic: with("+ optimised requests", batching, "false", dma, "blocking"), printed: "1.47", paper: 1.47, missed: missedStages},
		{xenic: with("+ aggregated packets", dma, "blocking"), printed: "1.98", paper: 1.98, missed: missedStages},
		{xenic: with("+ asynchronous NIC"), printed: "2.30", paper: 2.30, missed: missedStages},
	}
}

// latencyStages are those of (b), beside the baseline in percent.
func latencyStages() []stage {
	const requests, ship, hop = "nic-requests", "function-shipping", "multi-hop"
	return []stage{
		{xenic: xenicItself("baseline", requests, "separate", ship, "off")},
		{xenic: xenicItself("+ optimised requests", ship, "off"), printed: "-20", paper: -20, missed: missedLateStages},
		{xenic: xenicItself("+ execution on the NIC", hop, "false"), printed: "-32", paper: -32, missed: missedLateStages},
		{xenic: xenicItself("+ multi-hop"), printed: "-42", paper: -42, missed: missedLateStages},
	}
}

// figure9Throughput is (a).
func figure9Throughput(r *Run) (*Outcome, error) {
	x, z, s := figure8(r, retwisTitle)
	o, stages, base := &Outcome{Conditions: x.conditions(z, s, highPressures, baselines()[:1])}, throughputStages(), &baselines()[0]
	loads := highPressures(s.pressures(r, base))
	x.total = len(loads) * (len(stages) + 1) * r.Seeds
	h, err := x.measure(s, base, loads)
	if err != nil {
		return nil, err
	}
	peaks, err := x.stages(s, stages, highPressures(s.pressures(r, &stages[0].xenic)), (*measuredAt).peak)
	if err != nil {
		return nil, err
	}
	o.Rows = append(o.Rows, r.judged(number{what: "Retwis: baseline over DrTM+H", digits: 2, section: fiveSeven, printed: "0.90",
		paper: 0.90, missed: missedBase}).seen(ratios(peaks[0], h.peak())...))
	for i, g := range stages[1:] {
		o.Rows = append(o.Rows, r.judged(number{what: "Retwis: " + g.xenic.name + ", over the baseline", digits: 2,
			section: fiveSeven, printed: g.printed, paper: g.paper, missed: g.missed}).seen(ratios(peaks[i+1], peaks[0])...))
	}
	o.Charts = []report.Chart{stagesChart("(a) Retwis", "throughput per server over DrTM+H's", peaks, h.peak())}
	return o, nil
}

// figure9Latency is (b).
func figure9Latency(r *Run) (*Outcome, error) {
	x, z, s := figure8(r, smallbankTitle)
	o, stages, base := &Outcome{Conditions: x.conditions(z, s, onePressure, baselines()[:1])}, latencyStages(), &baselines()[0]
	x.total = (len(stages) + 1) * r.Seeds
	h, err := x.measure(s, base, onePressure(s.pressures(r, base)))
	if err != nil {
		return nil, err
	}
	lows, err := x.stages(s, stages, onePressure(s.pressures(r, &stages[0].xenic)), (*measuredAt).low)
	if err != nil {
		return nil, err
	}
	o.Rows = append(o.Rows, r.judged(number{what: "SmallBank: baseline over DrTM+H, median latency", digits: 2, section: fiveSeven,
		printed: "1.37", paper: 1.37, missed: missedLateBase}).seen(ratios(lows[0], h.low())...),
		number{what: "SmallBank: median latency of DrTM+H", unit: "us", digits: 1}.seen(h.low()...),
		number{what: "SmallBank: median latency of the baseline", unit: "us", digits: 1}.seen(lows[0]...))
	for i, g := range stages[1:] {
		o.Rows = append(o.Rows, r.judged(number{what: "SmallBank: " + g.xenic.name + ", beside the baseline", unit: "%", digits: 1,
			section: fiveSeven, printed: g.printed, paper: g.paper, missed: g.missed}).
			seen(percents(ratios(lows[i+1], lows[0]))...))
	}
	o.Charts = []report.Chart{stagesChart("(b) SmallBank", "median latency over DrTM+H's", lows, h.low())}
	return o, nil
}

// stages measures each, by seed.
func (x *figure) stages(s *study, list []stage, loads []pressure, of func(*measuredAt) []float64) (all [][]float64, err error) {
	for i := range list {
		m, err := x.measure(s, &list[i].xenic, loads)
		if err != nil {
			return nil, err
		}
		all = append(all, of(m))
	}
	return all, nil
}

// judged gives a number its bound, unless few transactions saturate nothing.
func (r *Run) judged(n number) number {
	if !r.Quick {
		n.limit = share(xenicBound)
	}
	return n
}

// stagesChart has each stage beside DrTM+H.
func stagesChart(title, y string, stages [][]float64, h []float64) report.Chart {
	c := report.ChartCurve{Name: "Xenic, modelled"}
	for i, values := range stages {
		c.Points = append(c.Points, [2]float64{float64(i + 1), mean(ratios(values, h))})
	}
	return report.Chart{Title: title, X: "parts of the design", Y: y, Curves: []report.ChartCurve{c}}
}
