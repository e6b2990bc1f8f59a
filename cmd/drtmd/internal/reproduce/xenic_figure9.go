package reproduce

import (
	"fmt"

	"drtmd/cmd/drtmd/internal/report"
)

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

// figure9 runs both halves.
func figure9(r *Run) (*Outcome, error) {
	z := sizesOf(r)
	o := &Outcome{Conditions: fmt.Sprintf("presets %s for Xenic with %d cores, %s for DrTM+H, %d servers, %d replicas, %d keys or "+
		"customers per server; (a) up to %d transactions of Xenic and %d of DrTM+H per server, (b) one per server, %s, %s",
		liquidio3, nicCores, cx5, servers, copies, z.keys, z.itself[len(z.itself)-1].all(), z.others[len(z.others)-1].all(), z.span,
		r.seedsText())}
	x := &figure{r: r, span: z.span}
	first, last := z.itself[:1], z.itself[1:]
	x.total = (len(throughputStages())*len(last) + len(z.others) - 1 + len(latencyStages()) + 1) * r.Seeds
	s := z.studies()[2:]
	bound := func(n number, limit limit) number {
		if !r.Quick {
			n.limit = limit
		}
		return n
	}
	h, err := x.measure(&s[0], &baselines()[0], z.others[1:])
	if err != nil {
		return nil, err
	}
	chart := report.Chart{Title: "(a) Retwis", X: "parts of the design", Y: "throughput per server over DrTM+H's"}
	curve := report.ChartCurve{Name: "Xenic, modelled"}
	var base []float64
	for i, g := range throughputStages() {
		m, err := x.measure(&s[0], &g.xenic, last)
		if err != nil {
			return nil, err
		}
		over := ratios(m.peak(), h.peak())
		curve.Points = append(curve.Points, [2]float64{float64(i + 1), mean(over)})
		if i == 0 {
			base = m.peak()
			o.Rows = append(o.Rows, bound(number{what: "Retwis: baseline over DrTM+H", digits: 2, section: fiveSeven, printed: "0.90",
				paper: 0.90, missed: missedBase}, share(xenicBound)).seen(over...))
			continue
		}
		o.Rows = append(o.Rows, bound(number{what: "Retwis: " + g.xenic.name + ", over the baseline", digits: 2, section: fiveSeven,
			printed: g.printed, paper: g.paper, missed: g.missed}, share(xenicBound)).seen(ratios(m.peak(), base)...))
	}
	chart.Curves = append(chart.Curves, curve)
	late := report.Chart{Title: "(b) SmallBank", X: "parts of the design", Y: "median latency over DrTM+H's"}
	curve = report.ChartCurve{Name: "Xenic, modelled"}
	if h, err = x.measure(&s[1], &baselines()[0], z.others[:1]); err != nil {
		return nil, err
	}
	for i, g := range latencyStages() {
		m, err := x.measure(&s[1], &g.xenic, first)
		if err != nil {
			return nil, err
		}
		over := ratios(m.low(), h.low())
		curve.Points = append(curve.Points, [2]float64{float64(i + 1), mean(over)})
		if i == 0 {
			base = m.low()
			o.Rows = append(o.Rows, bound(number{what: "SmallBank: baseline over DrTM+H, median latency", digits: 2,
				section: fiveSeven, printed: "1.37", paper: 1.37, missed: missedLateBase}, share(xenicBound)).seen(over...))
			continue
		}
		o.Rows = append(o.Rows, bound(number{what: "SmallBank: " + g.xenic.name + ", beside the baseline", unit: "%", digits: 1,
			section: fiveSeven, printed: g.printed, paper: g.paper, missed: g.missed}, share(xenicBound)).
			seen(percents(ratios(m.low(), base))...))
	}
	late.Curves = append(late.Curves, curve)
	o.Charts = []report.Chart{chart, late}
	return o, nil
}
