package reproduce

import (
	"slices"
	"strconv"
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/proto/workload"
	"drtmd/proto/workload/retwis"
	"drtmd/proto/workload/smallbank"
	"drtmd/proto/workload/tpcc"
	"drtmd/verbs/sim"
)

// What Figures 8 and 9 of Xenic run: systems, workloads, threads and sizes.

// Titles of the studies.
const (
	ordersTitle    = "TPC-C, new orders"
	retwisTitle    = "Retwis"
	smallbankTitle = "SmallBank"
	// applications are the threads of Xenic that run transactions of the last two (§5.6): the other three apply logs.
	applications = 2
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
	c := competitor{name: name, protocol: xenicName, preset: liquidio3, settings: option.Settings{}}
	for i := 0; i < len(settings); i += 2 {
		c.settings[settings[i]] = settings[i+1]
	}
	return c
}

// serverThreads are those of a server, by Table 3, which reach 95 % of the peak: Figures 8 and 9 do not say what they ran with.
type serverThreads struct {
	threadsRow
	applications int // of Xenic's threads; the others are Robinhood workers. 0: each is both
}

// threadsOf are those of a benchmark of Table 3.
func threadsOf(name string, applications int) serverThreads {
	all := table3()
	return serverThreads{all[slices.IndexFunc(all, func(r threadsRow) bool { return r.name == name })], applications}
}

// of a system, that run transactions.
func (t *serverThreads) of(c *competitor) int {
	switch {
	case c.protocol == xenicName && t.applications > 0:
		return t.applications
	case c.protocol == xenicName:
		return t.host
	case c.protocol == fasstName:
		return t.fasst
	}
	return t.baseline
}

// settings of a system with so many threads that run transactions, and how many its servers have in all.
func (t *serverThreads) settings(c *competitor, threads int) (option.Settings, int) {
	if c.protocol != xenicName {
		return c.settings, threads
	}
	all := c.settings.Clone()
	all["nic-cores"] = strconv.Itoa(t.nic)
	apply := t.host - t.applications
	if t.applications == 0 {
		if threads >= t.host {
			return all, threads
		}
		apply = t.appliers(threads)
	}
	all["application-threads"], all["robinhood-workers"] = strconv.Itoa(threads), strconv.Itoa(apply)
	return all, threads + apply
}

// appliers are the threads of Xenic's host that only apply logs where fewer than all run transactions: one for each log at most.
func (t *serverThreads) appliers(running int) int { return min(t.host-running, t.nic) }

// pressures of a system: one transaction of a server at a time, some, and many.
func (s *study) pressures(r *Run, c *competitor) []pressure {
	if r.Quick {
		return []pressure{{1, 1}, {2, 4}}
	}
	threads := s.threads.of(c)
	if c.protocol == xenicName {
		return []pressure{{1, 1}, {threads, 40 / threads}, {threads, 320 / threads}}
	}
	return []pressure{{1, 1}, {threads, 1}, {threads, 4}}
}

// study is a part of the figure: a workload.
type study struct {
	title     string
	threads   serverThreads
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
		{title: retwisTitle, threads: threadsOf(retwisTitle, applications), keys: keys, functions: retwis.Spec().Functions, make: func() (workload.Workload, error) {
			o := retwis.Default(servers)
			o.Keys = keys
			return retwis.New(o)
		}},
		{title: smallbankTitle, threads: threadsOf(smallbankTitle, applications), keys: keys, functions: smallbank.Spec().Functions, make: func() (workload.Workload, error) {
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
		{title: ordersTitle, threads: threadsOf("TPC-C", 0), keys: warehouses * items, functions: f, make: make(func(o *tpcc.Options) {
			all := float64(servers * warehouses)
			o.Mix, o.RemoteItems = [5]int{100, 0, 0, 0, 0}, 100*(all-1)/all // of a warehouse drawn among all
		})},
		{title: "TPC-C", threads: threadsOf("TPC-C", 0), keys: warehouses * items, functions: f, kind: int(tpcc.NewOrder), make: make(func(*tpcc.Options) {})}}
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
			settings, workers := s.threads.settings(c, l.workers)
			run := model{protocol: c.protocol, settings: settings, workload: w, functions: s.functions, preset: c.preset,
				tune: c.tune, nodes: servers, workers: workers, fibers: l.fibers, replicas: copies, seed: uint64(seed + 1),
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

// sizes of the runs.
type xenicSizes struct {
	keys, alone       int // records of a server, and where one transaction runs at a time
	warehouses, items int
	span              time.Duration
}

func sizesOf(r *Run) xenicSizes {
	return pick(r, xenicSizes{keys: 20_000, alone: 1000, warehouses: 24, items: 400, span: 200 * time.Microsecond},
		xenicSizes{keys: 500, alone: 500, warehouses: 1, items: 200, span: 50 * time.Microsecond})
}

// study of a title.
func (z *xenicSizes) study(title string) *study {
	all := append(orderStudies(z.warehouses, z.items), baselineStudies(z.keys)...)
	alone := append(orderStudies(1, z.items), baselineStudies(z.alone)...)
	n := slices.IndexFunc(all, func(s study) bool { return s.title == title })
	s := quiet(all[n], alone[n])
	return &s
}
