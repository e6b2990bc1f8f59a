package reproduce

import (
	"fmt"
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/proto/workload"
	"drtmd/proto/workload/retwis"
	"drtmd/proto/workload/smallbank"
	"drtmd/proto/workload/tpcc"
	"drtmd/verbs/sim"
)

// Figure 8 of Xenic: throughput and median latency of Xenic and of the four systems that it is compared with, under four
// workloads. Xenic runs on one preset and the others on another, with the same workloads and the same costs of the host.

const (
	fiveTwo    = "§5.2"
	fiveThree  = "§5.3"
	xenicBound = 0.15 // of each number that §5 states
	// nicCores run Xenic's programs: all that the NIC has.
	nicCores = 24
)

// competitor is a system of the figure, by the paper's name.
type competitor struct {
	name, protocol, preset string
	settings               option.Settings
	tune                   func(*sim.CostModel)
}

// baselines are those that Xenic is compared with.
func baselines() []competitor {
	return []competitor{{name: "DrTM+H", protocol: drtmhName, preset: cx5}, {name: "DrTM+H NC", protocol: drtmhNC, preset: cx5},
		{name: "FaSST", protocol: fasstName, preset: cx5}, {name: "DrTM+R", protocol: drtmrVerbs, preset: cx5}}
}

// xenicItself is Xenic with some settings, as name and value.
func xenicItself(name string, settings ...string) competitor {
	c := competitor{name: name, protocol: xenicName, preset: liquidio3, settings: option.Settings{"nic-cores": fmt.Sprint(nicCores)}}
	for i := 0; i < len(settings); i += 2 {
		c.settings[settings[i]] = settings[i+1]
	}
	return c
}

// study is a part of the figure: a workload.
type study struct {
	title     string
	keys      int // records of a server that transactions meet at
	functions []workload.Function
	make      func() (workload.Workload, error)
	// kind of the transactions that count; 0: all.
	kind int
	// alone is the same with fewer records, for one transaction of a server at a time, which meets no other: caches are warm
	// sooner. nil: with as many.
	alone *study
}

// quiet has a study run on fewer records where nobody meets.
func quiet(s study, alone study) study {
	s.alone = &alone
	return s
}

// baselineStudies are the two with small records, and so many keys or customers per server.
func baselineStudies(keys int) []study {
	return []study{
		{title: "Retwis", keys: keys, functions: retwis.Spec().Functions, make: func() (workload.Workload, error) {
			o := retwis.Default(servers)
			o.Keys = keys
			return retwis.New(o)
		}},
		{title: "SmallBank", keys: keys, functions: smallbank.Spec().Functions, make: func() (workload.Workload, error) {
			o := smallbank.Default(servers)
			o.Accounts, o.ValueBytes = keys, 4
			o.PlaceAnywhere()
			return smallbank.New(o)
		}}}
}

// orderStudies are new orders with items of any warehouse (§5.2), and all of TPC-C (§5.3).
func orderStudies(warehouses, items int) []study {
	make := func(change func(*tpcc.Options)) func() (workload.Workload, error) {
		return func() (workload.Workload, error) {
			o := tpcc.Default(servers)
			o.Warehouses, o.Items, o.Customers, o.Orders = warehouses, items, 10, 1000
			change(&o)
			return tpcc.New(o)
		}
	}
	f := tpcc.Spec().Functions
	return []study{
		{title: "TPC-C, new orders", keys: warehouses * items, functions: f, make: make(func(o *tpcc.Options) {
			all := float64(servers * warehouses)
			o.Mix, o.RemoteItems = [5]int{100, 0, 0, 0, 0}, 100*(all-1)/all // of a warehouse drawn among all
		})},
		{title: "TPC-C", keys: warehouses * items, functions: f, kind: int(tpcc.NewOrder), make: make(func(*tpcc.Options) {})}}
}

// rate of the transactions that count, in M/s per server, and their median latency in microseconds.
func (s *study) of(got *load.Result) (rate, median float64) {
	if s.kind == 0 {
		return finished(got) / aMillion / servers, float64(got.Latency[0].P50Ns) / 1e3
	}
	k := &got.Sum.Counts.Kinds[s.kind]
	n := k.Outcomes[proto.Committed] + k.Outcomes[proto.RolledBack]
	return float64(n) / got.Elapsed.Seconds() / aMillion / servers, float64(got.Latency[s.kind].P50Ns) / 1e3
}

// figure is one of §5 under way.
type figure struct {
	r           *Run
	span        time.Duration // of a measurement
	done, total int
}

// measure runs a system under a workload at each pressure.
func (x *figure) measure(s *study, c *competitor, loads []pressure) (*measuredAt, error) {
	m := &measuredAt{}
	whole := s
	for _, l := range loads {
		var rates, medians, cached []float64
		if s = whole; l.all() == 1 && s.alone != nil {
			s = s.alone
		}
		for seed := range x.r.Seeds {
			if err := x.r.step(x.done, x.total); err != nil {
				return nil, err
			}
			w, err := s.make()
			if err != nil {
				return nil, err
			}
			run := model{protocol: c.protocol, settings: c.settings, workload: w, functions: s.functions, preset: c.preset,
				tune: c.tune, nodes: servers, workers: l.workers, fibers: l.fibers, replicas: copies, seed: uint64(seed + 1),
				warmup: l.warmup(s.keys), measured: l.span(x.span), every: 1}
			got, err := run.run(x.r.ctx)
			if err != nil {
				return nil, err
			}
			rate, median := s.of(got)
			rates, medians = append(rates, rate), append(medians, median)
			cached = append(cached, 100*float64(got.Sum.Engine.CacheHits)/float64(max(got.Sum.Engine.Lookups, 1)))
			x.done++
		}
		m.rates, m.medians = append(m.rates, rates), append(m.medians, medians)
		if m.cached == nil {
			m.cached = cached
		}
	}
	return m, nil
}

// sizes of the runs. Xenic has few threads of the host, as its Table 3 says.
type xenicSizes struct {
	keys, alone       int // records of a server, and where one transaction runs at a time
	warehouses, items int
	others, itself    []pressure // of the baselines, and of Xenic
	span              time.Duration
}

func sizesOf(r *Run) xenicSizes {
	return pick(r, xenicSizes{keys: 20_000, alone: 1000, warehouses: 24, items: 400, others: []pressure{{1, 1}, {20, 1}, {20, 4}},
		itself: []pressure{{1, 1}, {5, 8}, {5, 64}}, span: 200 * time.Microsecond},
		xenicSizes{keys: 500, alone: 500, warehouses: 1, items: 200, others: []pressure{{1, 1}, {2, 4}}, itself: []pressure{{1, 1}, {2, 4}},
			span: 50 * time.Microsecond})
}

// studies are the four workloads.
func (z *xenicSizes) studies() []study {
	all, alone := baselineStudies(z.keys), baselineStudies(z.alone)
	for i := range all {
		all[i] = quiet(all[i], alone[i])
	}
	few := orderStudies(1, z.items)
	orders := orderStudies(z.warehouses, z.items)
	for i := range orders {
		orders[i] = quiet(orders[i], few[i])
	}
	return append(orders, all...)
}

// figure8 runs all five.
func figure8(r *Run) (*Outcome, error) {
	z := sizesOf(r)
	studies := z.studies()
	o := &Outcome{Conditions: fmt.Sprintf("presets %s for Xenic with %d cores, %s for the others, %d servers, %d replicas; per "+
		"server 1 to %d transactions of Xenic and 1 to %d of the others under way, %d warehouses of %d items (the paper: 72 of "+
		"100,000), %d keys or customers (1 M and 2.4 M), one warehouse and %d keys where one transaction runs at a time, anywhere, %s with warm "+
		"caches, %s", liquidio3, nicCores, cx5, servers, copies,
		z.itself[len(z.itself)-1].all(), z.others[len(z.others)-1].all(), z.warehouses, z.items, z.keys, z.alone, z.span, r.seedsText())}
	x := &figure{r: r, span: z.span}
	x.total = (3*len(baselines())*len(z.others) + (len(studies)+1)*len(z.itself)) * r.Seeds
	var orders *measuredAt
	for n := range studies {
		s := &studies[n]
		var all []*measuredAt
		c := report.Chart{Title: fmt.Sprintf("(%c) %s", 'a'+n, s.title), X: "throughput per server [M/s]", Y: "median latency [us]"}
		for _, b := range baselines() {
			if s.kind > 0 {
				break // §5.3 has Xenic alone
			}
			m, err := x.measure(s, &b, z.others)
			if err != nil {
				return nil, err
			}
			all = append(all, m)
			c.Curves = append(c.Curves, m.curve(b.name))
		}
		itself := xenicItself("Xenic")
		m, err := x.measure(s, &itself, z.itself)
		if err != nil {
			return nil, err
		}
		c.Curves = append(c.Curves, m.curve(itself.name))
		switch {
		case s.kind > 0:
			half := xenicItself("Xenic, 50 Gbps")
			half.tune = func(c *sim.CostModel) { c.Link.Rate /= 2 }
			narrow, err := x.measure(s, &half, z.itself)
			if err != nil {
				return nil, err
			}
			c.Curves = append(c.Curves, narrow.curve(half.name))
			o.Rows = append(o.Rows, mixRows(r, orders, m, narrow)...)
		case n == 0:
			orders = m
			o.Rows = append(o.Rows, s.xenicRows(r, all, m)...)
		default:
			o.Rows = append(append(o.Rows, s.xenicRows(r, all, m)...), s.baselineRows(r, all)...)
		}
		o.Charts = append(o.Charts, c)
	}
	return o, nil
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
	"TPC-C, new orders": {fiveTwo, "1.19", "2.42", "-59", 1.19, 2.42, -59, missedScale, missedOrders, missedOrderLate},
	"Retwis":            {fiveFour, "", "2.07", "-42", 0, 2.07, -42, "", missedGain, missedRetwisLate},
	"SmallBank":         {fiveFive, "12.0", "2.21", "-21.5", 12.0, 2.21, -21.5, missedScale, missedGain, missedBankLate},
}

// xenicRows are Xenic's peak and latency beside those of the four, of which DrTM+H is the first and FaSST the third.
func (s *study) xenicRows(r *Run, all []*measuredAt, m *measuredAt) (rows []report.ComparedRow) {
	p := stated[s.title]
	bound := func(n number) number {
		if !r.Quick { // few transactions saturate nothing
			n.limit = share(xenicBound)
		}
		return n
	}
	peak := number{what: s.title + ": peak of Xenic", unit: "M/s per server", digits: 2, section: p.section, printed: p.peak,
		paper: p.peakIs, missed: p.missedPeak}
	if p.peak != "" {
		peak = bound(peak)
	}
	h, nc, fasst := all[0], all[1], all[2]
	rows = append(rows, peak.seen(m.peak()...), number{what: s.title + ": least median of Xenic", unit: "us", digits: 1}.
		seen(m.low()...),
		bound(number{what: s.title + ": peak of Xenic over DrTM+H's", digits: 2, section: p.section, printed: p.gain, paper: p.gainIs,
			missed: p.missedGain}).seen(ratios(m.peak(), h.peak())...),
		bound(number{what: s.title + ": least median of Xenic beside DrTM+H's", unit: "%", digits: 1, section: p.section,
			printed: p.less, paper: p.lessIs, missed: p.late}).seen(percents(ratios(m.low(), h.low()))...))
	switch s.title {
	case "TPC-C, new orders":
		for i, b := range baselines() {
			rows = append(rows, number{what: s.title + ": peak of " + b.name, unit: "M/s per server", digits: 3}.seen(all[i].peak()...),
				number{what: s.title + ": least median of " + b.name, unit: "us", digits: 1}.seen(all[i].low()...))
		}
		rows = append(rows, bound(number{what: s.title + ": peak of Xenic over DrTM+H NC's", digits: 2, section: fiveTwo, printed: "3.81",
			paper: 3.81, missed: missedOrders}).seen(ratios(m.peak(), nc.peak())...),
			bound(number{what: s.title + ": peak of FaSST over Xenic's", digits: 3, section: fiveTwo, printed: "0.195",
				paper: 0.232 / 1.19, missed: missedOrders, reading: "232 k against 1.19 M"}).seen(ratios(fasst.peak(), m.peak())...))
	case "Retwis":
		rows = append(rows, bound(number{what: s.title + ": least median of FaSST over Xenic's", digits: 2, section: fiveFour,
			printed: "2.12", paper: 2.12, missed: missesLate}).seen(ratios(fasst.low(), m.low())...))
	}
	return rows
}

// mixRows are of all of TPC-C: new orders per second beside those of the part with new orders alone.
func mixRows(r *Run, alone, m, narrow *measuredAt) []report.ComparedRow {
	bound := func(n number) number {
		if !r.Quick {
			n.limit = share(xenicBound)
		}
		return n
	}
	return []report.ComparedRow{
		number{what: "TPC-C: peak of Xenic, new orders", unit: "M/s per server", digits: 2, section: fiveThree, printed: "0.541",
			paper: 0.541}.seen(m.peak()...),
		bound(number{what: "TPC-C: peak of Xenic over that with new orders alone", digits: 3, section: fiveThree, printed: "0.455",
			paper: 0.541 / 1.19, missed: missedMix, reading: "541 k of 1.19 M"}).seen(ratios(m.peak(), alone.peak())...),
		bound(number{what: "TPC-C: least median of Xenic's new orders", unit: "us", digits: 1, section: fiveThree, printed: "25",
			paper: 25, missed: missedMixLate}).seen(m.low()...),
		bound(number{what: "TPC-C: peak of Xenic on 50 Gbps over DrTM+R's 150 k", digits: 2, section: fiveThree, printed: "2.15",
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
