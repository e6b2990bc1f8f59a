package reproduce

import (
	"fmt"
	"strings"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/verbs/sim"
)

// Figure 8 of Xenic: throughput and median latency of Xenic and of the four systems that it is compared with, under four
// workloads, each an item. Xenic runs on one preset and the others on another, with the same workloads and the same costs of
// the host.

const (
	fiveTwo    = "§5.2"
	fiveThree  = "§5.3"
	xenicBound = 0.15 // of each number that §5 states
)

// figure8 begins a part of the figure.
func figure8(r *Run, title string) (*figure, *xenicSizes, *study) {
	z := sizesOf(r)
	return &figure{r: r, span: z.span}, &z, z.study(title)
}

// conditions of a study's runs, with some pressures of each system: Xenic, and others.
func (x *figure) conditions(z *xenicSizes, s *study, of func([]pressure) []pressure, others []competitor) string {
	t, itself := &s.threads, xenicItself("")
	loads := of(s.pressures(x.r, &itself))
	host := several(loads[len(loads)-1].workers, "thread") + " of the host that run transactions and apply logs"
	if t.applications > 0 {
		host = fmt.Sprintf("%s and %d Robinhood workers of the host", several(loads[len(loads)-1].workers, "application thread"),
			t.host-t.applications)
	}
	if t.applications == 0 && loads[0].workers < t.host && loads[len(loads)-1].workers > loads[0].workers {
		host += fmt.Sprintf(" (where one transaction runs at a time, %s and %d Robinhood workers)",
			several(loads[0].workers, "application thread"), t.appliers(loads[0].workers))
	}
	text := fmt.Sprintf("%d servers, %d replicas; Xenic with preset %s, %d NIC cores, %s, %s", servers, copies, liquidio3, t.nic,
		host, underWay(loads))
	last := ""
	for i := range others {
		list := of(s.pressures(x.r, &others[i]))
		with := fmt.Sprintf(" with preset %s, %s, %s", cx5, several(list[len(list)-1].workers, "thread"), underWay(list))
		if with == last { // as the one before
			text = strings.TrimSuffix(text, last) + ", " + others[i].name + with
			continue
		}
		text, last = text+"; "+others[i].name+with, with
	}
	return fmt.Sprintf("%s; threads by Table 3; per server %s; %s with warm caches, %s", text, s.sizes(z, loads), z.span,
		x.r.seedsText())
}

// sizes of a server's records at some pressures.
func (s *study) sizes(z *xenicSizes, loads []pressure) string {
	size := func(keys, warehouses int) string {
		if s.title == ordersTitle || s.kind > 0 {
			return fmt.Sprintf("%s of %d items", several(warehouses, "warehouse"), z.items)
		}
		return fmt.Sprintf("%d keys or customers", keys)
	}
	paper := "1 M and 2.4 M"
	if s.title == ordersTitle || s.kind > 0 {
		paper = "72 of 100,000"
	}
	few, many := size(z.alone, 1), size(z.keys, z.warehouses)
	least, most := loads[0].all(), loads[len(loads)-1].all()
	switch {
	case most == 1:
		return fmt.Sprintf("%s (the paper: %s), anywhere", few, paper)
	case least > 1:
		return fmt.Sprintf("%s (the paper: %s), anywhere", many, paper)
	}
	return fmt.Sprintf("%s (the paper: %s), anywhere, and %s where one transaction runs at a time", many, paper, few)
}

// underWay says how many transactions of a server are, from the least to the most.
func underWay(loads []pressure) string {
	least, most := loads[0].all(), loads[len(loads)-1].all()
	if least == most {
		return several(most, "transaction") + " of a server under way"
	}
	return fmt.Sprintf("%d to %d transactions of a server under way", least, most)
}

// several things, or one.
func several(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Pressures that parts of the figures have.
func everyPressure(all []pressure) []pressure { return all }
func onePressure(all []pressure) []pressure   { return all[:1] }
func highPressures(all []pressure) []pressure { return all[1:] }

// compare runs the four and Xenic.
func (x *figure) compare(s *study, chart *report.Chart) (all []*measuredAt, itself *measuredAt, err error) {
	list := append(baselines(), xenicItself("Xenic"))
	for i := range list {
		x.total += len(s.pressures(x.r, &list[i])) * x.r.Seeds
	}
	for i := range list {
		m, err := x.measure(s, &list[i], s.pressures(x.r, &list[i]))
		if err != nil {
			return nil, nil, err
		}
		all, chart.Curves = append(all, m), append(chart.Curves, m.curve(list[i].name))
	}
	n := len(all) - 1
	return all[:n], all[n], nil
}

func chartOf(part, title string) report.Chart {
	return report.Chart{Title: fmt.Sprintf("(%s) %s", part, title), X: "throughput per server [M/s]", Y: "median latency [us]"}
}

// figure8Orders is (a).
func figure8Orders(r *Run) (*Outcome, error) {
	x, z, s := figure8(r, ordersTitle)
	o, c := &Outcome{Conditions: x.conditions(z, s, everyPressure, baselines())}, chartOf("a", s.title)
	all, m, err := x.compare(s, &c)
	if err != nil {
		return nil, err
	}
	o.Rows, o.Charts = s.xenicRows(r, all, m), []report.Chart{c}
	return o, nil
}

// figure8Mix is (b), which has Xenic alone: also on one link, and beside new orders alone.
func figure8Mix(r *Run) (*Outcome, error) {
	x, z, s := figure8(r, "TPC-C")
	orders, itself := z.study(ordersTitle), xenicItself("Xenic")
	half := xenicItself("Xenic, 50 Gbps")
	half.tune = func(c *sim.CostModel) { c.Link.Rate /= 2 }
	loads := s.pressures(r, &itself)
	x.total = (2*len(loads) + len(loads) - 1) * r.Seeds
	o, c := &Outcome{Conditions: x.conditions(z, s, everyPressure, nil)}, chartOf("b", s.title)
	m, err := x.measure(s, &itself, loads)
	if err != nil {
		return nil, err
	}
	narrow, err := x.measure(s, &half, loads)
	if err != nil {
		return nil, err
	}
	alone, err := x.measure(orders, &itself, loads[1:])
	if err != nil {
		return nil, err
	}
	c.Curves = append(c.Curves, m.curve(itself.name), narrow.curve(half.name))
	o.Rows, o.Charts = mixRows(r, alone, m, narrow), []report.Chart{c}
	return o, nil
}

// figure8Of is (c) or (d).
func figure8Of(title string) func(r *Run) (*Outcome, error) {
	return func(r *Run) (*Outcome, error) {
		x, z, s := figure8(r, title)
		part := map[string]string{retwisTitle: "c", smallbankTitle: "d"}[title]
		o, c := &Outcome{Conditions: x.conditions(z, s, everyPressure, baselines())}, chartOf(part, title)
		all, m, err := x.compare(s, &c)
		if err != nil {
			return nil, err
		}
		o.Rows, o.Charts = append(s.xenicRows(r, all, m), s.baselineRows(r, all)...), []report.Chart{c}
		return o, nil
	}
}

// all is how many transactions of a server are under way.
func (p pressure) all() int { return p.workers * p.fibers }

// stated are the paper's numbers of a study: Xenic's peak in M/s per server, how many times DrTM+H's that is, and its least
// median latency beside DrTM+H's in percent; as printed, and as numbers.
var stated = map[string]struct {
	section                      string
	peak, gain, less             string
	peakIs, gainIs, lessIs       float64
	missedPeak, missedGain, late string
}{
	ordersTitle:    {fiveTwo, "1.19", "2.42", "-59", 1.19, 2.42, -59, missedScale, missedOrders, missedOrderLate},
	retwisTitle:    {fiveFour, "", "2.07", "-42", 0, 2.07, -42, "", missedGain, missedRetwisLate},
	smallbankTitle: {fiveFive, "12.0", "2.21", "-21.5", 12.0, 2.21, -21.5, missedBankPeak, missedGain, missedBankLate},
}

// xenicRows are Xenic's peak and latency beside those of the four, of which DrTM+H is the first and FaSST the third.
func (s *study) xenicRows(r *Run, all []*measuredAt, m *measuredAt) (rows []report.ComparedRow) {
	p := stated[s.title]
	peak := number{what: s.title + ": peak of Xenic", unit: "M/s per server", digits: 2, section: p.section, printed: p.peak,
		paper: p.peakIs, missed: p.missedPeak}
	if p.peak != "" {
		peak = r.judged(peak)
	}
	h, nc, fasst := all[0], all[1], all[2]
	rows = append(rows, peak.seen(m.peak()...), number{what: s.title + ": least median of Xenic", unit: "us", digits: 1}.
		seen(m.low()...),
		r.judged(number{what: s.title + ": peak of Xenic over DrTM+H's", digits: 2, section: p.section, printed: p.gain, paper: p.gainIs,
			missed: p.missedGain}).seen(ratios(m.peak(), h.peak())...),
		r.judged(number{what: s.title + ": least median of Xenic beside DrTM+H's", unit: "%", digits: 1, section: p.section,
			printed: p.less, paper: p.lessIs, missed: p.late}).seen(percents(ratios(m.low(), h.low()))...))
	switch s.title {
	case ordersTitle:
		for i, b := range baselines() {
			rows = append(rows, number{what: s.title + ": peak of " + b.name, unit: "M/s per server", digits: 3}.seen(all[i].peak()...),
				number{what: s.title + ": least median of " + b.name, unit: "us", digits: 1}.seen(all[i].low()...))
		}
		rows = append(rows, r.judged(number{what: s.title + ": peak of Xenic over DrTM+H NC's", digits: 2, section: fiveTwo, printed: "3.81",
			paper: 3.81, missed: missedOrders}).seen(ratios(m.peak(), nc.peak())...),
			r.judged(number{what: s.title + ": peak of FaSST over Xenic's", digits: 3, section: fiveTwo, printed: "0.195",
				paper: 0.232 / 1.19, missed: missedOrders, reading: "232 k against 1.19 M"}).seen(ratios(fasst.peak(), m.peak())...))
	case retwisTitle:
		rows = append(rows, r.judged(number{what: s.title + ": least median of FaSST over Xenic's", digits: 2, section: fiveFour,
			printed: "2.12", paper: 2.12, missed: missesLate}).seen(ratios(fasst.low(), m.low())...))
	}
	return rows
}

// mixRows are of all of TPC-C: new orders per second beside those of the part with new orders alone.
func mixRows(r *Run, alone, m, narrow *measuredAt) []report.ComparedRow {
	return []report.ComparedRow{
		number{what: "TPC-C: peak of Xenic, new orders", unit: "M/s per server", digits: 2, section: fiveThree, printed: "0.541",
			paper: 0.541}.seen(m.peak()...),
		r.judged(number{what: "TPC-C: peak of Xenic over that with new orders alone", digits: 3, section: fiveThree, printed: "0.455",
			paper: 0.541 / 1.19, missed: missedMix, reading: "541 k of 1.19 M"}).seen(ratios(m.peak(), alone.peak())...),
		r.judged(number{what: "TPC-C: least median of Xenic's new orders", unit: "us", digits: 1, section: fiveThree, printed: "25",
			paper: 25, missed: missedMixLate}).seen(m.low()...),
		r.judged(number{what: "TPC-C: peak of Xenic on 50 Gbps over DrTM+R's 150 k", digits: 2, section: fiveThree, printed: "2.15",
			paper: 322.0 / 150, missed: missedScale, reading: "DrTM+R's number is that of its own paper, on 56 Gbps"}).
			seen(scaled(narrow.peak(), 1/0.150)...)}
}

// percents are how much ratios differ from 1.
func percents(ratios []float64) (all []float64) {
	for _, x := range ratios {
		all = append(all, 100*(x-1))
	}
	return all
}

func scaled(values []float64, by float64) (all []float64) {
	for _, x := range values {
		all = append(all, x*by)
	}
	return all
}
