package load

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/store"
	"drtmd/verbs/rpc"
)

// Metrics are everything that a part has counted since it was opened.
type Metrics struct {
	Plan     *Plan // nil: the process knows it
	Run      string
	Protocol string
	Workload string
	Kinds    []string // types of transactions; Snapshot counts them from 1
	Snapshot Snapshot
	At       time.Time // when the last worker has counted; a busy worker may do so long after it was asked
	// Span is what Snapshot counts of the run's present phase, and Elapsed the time that it has
	// lasted.
	Span    Snapshot
	Elapsed time.Duration
	RPC     rpc.Stats
	HTM     htm.Stats // of engines that keep them
	Workers int
	Fenced  bool
	Members []proto.NodeID
	QPs     node.QueuePairs
	// Opened counts the parts that this process has opened, this one included: another number is
	// another life of all counters.
	Opened     uint64
	Registered uint64
	// Latency of committed transactions by kind, since the last reset, at [kind].
	// [0] is all of them.
	Latency []Latency
	// Life are the latencies since the part was opened, in the same order: they only grow. The
	// caller owns them.
	Life   []*hdrhistogram.Histogram
	Tables []TableUse
	// Orphans are the records that stay locked, as far as the workers have met them.
	Orphans Orphans
	// Logs are those that workers keep of their own transactions, and Restored the longest recovery from them.
	Logs     proto.LogStats
	Restored time.Duration
	// Troubled are the workers whose engines have met what no correct node does.
	Troubled int
}

// TableUse is how full a table is.
type TableUse struct {
	Name       string
	ValueBytes int
	Capacity   int
	store.Occupancy
}

// Info is what a part holds.
type Info struct {
	Plan       *Plan
	Run        string
	Members    []proto.NodeID
	Open       bool // connected; else it is being opened
	Running    bool
	Phase      Phase // of the run; 0: none has begun
	Of         time.Duration
	QPs        node.QueuePairs
	Links      map[proto.NodeID]bool // to other members: whether all queue pairs are good
	Registered uint64                // bytes
	Fenced     error
	// Recovers: the part goes on when members go.
	Recovers bool
	// Lease and LeaseReadOnly are how long read leases last as a rule; 0: the protocol has none.
	Lease, LeaseReadOnly time.Duration
}

// Info may be called at any time; nil while the part holds nothing.
func (p *Part) Info() *Info {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.request == nil || p.opening == nil && p.site == nil {
		return nil
	}
	i := &Info{Plan: p.request.Plan, Run: p.request.Run, Members: p.request.Members,
		Open: p.site != nil, Running: p.ran, Phase: p.span.phase, Of: p.span.of, Fenced: p.fenced}
	if p.site == nil {
		return i
	}
	c := p.site.cluster
	i.QPs, i.Registered, i.Links = c.QueuePairs(), c.Registered(), map[proto.NodeID]bool{}
	i.Recovers = c.Recovers()
	i.Lease, i.LeaseReadOnly, _ = c.Leases()
	own := map[proto.NodeID]bool{}
	for _, m := range i.Members {
		own[m] = true
	}
	for n := range c.Config.Nodes {
		if !own[proto.NodeID(n)] {
			i.Links[proto.NodeID(n)] = c.Linked(proto.NodeID(n))
		}
	}
	return i
}

// Alive waits until every worker's thread has come by, at most until ctx ends. A part that is not in
// service is alive.
func (p *Part) Alive(ctx context.Context) error {
	s, release := p.inUse()
	defer release()
	if s == nil {
		return nil
	}
	return s.cluster.Inspect(ctx, func(*node.Worker) {})
}

// Counters are Metrics without latencies, which cost the workers less. nil while the part is not in
// service. It may be called at any time.
func (p *Part) Counters(ctx context.Context) (*Metrics, error) { return p.metrics(ctx, false) }

// Metrics looks at every worker on its own thread: once for its counters, and once for each type of
// transaction, so that none is held up by all histograms at a time. nil while the part is not in
// service. It may be called at any time.
func (p *Part) Metrics(ctx context.Context) (*Metrics, error) { return p.metrics(ctx, true) }

func (p *Part) metrics(ctx context.Context, latencies bool) (*Metrics, error) {
	p.mu.Lock()
	s, release := p.inUseLocked()
	r, ran, opened, fenced, phase := p.request, p.ran, p.opened, p.fenced != nil, p.span
	p.mu.Unlock()
	defer release()
	if s == nil {
		return nil, nil
	}
	c := &s.cluster.Config
	m := &Metrics{Plan: r.Plan, Run: r.Run, Protocol: c.Protocol.Name, Workload: c.Workload.Name(),
		Kinds: c.Workload.Kinds(), Opened: opened, Fenced: fenced, Members: r.Members,
		QPs: s.cluster.QueuePairs(), Registered: s.cluster.Registered()}
	if err := s.count(ctx, m, ran); err != nil {
		return m, err
	}
	if phase.phase != 0 {
		m.Elapsed, m.Span = phase.elapsed(m.At), *m.Snapshot.minus(&phase.base)
	}
	if !latencies {
		return m, nil
	}
	return m, s.latencies(ctx, m, ran)
}

// count adds up the counters of all workers, and looks at the tables.
func (s *local) count(ctx context.Context, m *Metrics, ran bool) error {
	specs, at := s.cluster.Config.Workload.Tables(), 0
	return s.cluster.Inspect(ctx, func(w *node.Worker) {
		x := Snapshot{Engine: *w.Engine.Stats(), Fiber: w.Worker.Stats,
			Memory: memoryStats(w.Engine)}
		if ran {
			x.Counts = s.workers[at].counts
			at++
		}
		m.Snapshot.add(&x)
		m.At = time.Now()
		m.Workers++
		m.Orphans = m.Orphans.Plus(orphansOf(w, specs))
		if troubleOf(w) != nil {
			m.Troubled++
		}
		if e, ok := w.Engine.(proto.Logger); ok {
			logs := e.LogStats()
			m.Logs.Add(&logs)
			m.Restored = max(m.Restored, w.Restored)
		}
		if e, ok := w.Engine.(proto.RegionCounter); ok {
			regions := e.Regions()
			m.HTM.Add(&regions)
		}
		if w.Port != nil {
			addRPC(&m.RPC, &w.Port.Stats)
		}
		if w.Index == 0 {
			m.Tables = append(m.Tables, tableUse(w, specs)...)
		}
	})
}

// tableUse is how full the tables of a member are, those of all shards that it holds together.
func tableUse(w *node.Worker, specs []proto.TableSpec) []TableUse {
	use := make([]TableUse, len(specs))
	for i := range specs {
		use[i].Name, use[i].ValueBytes = specs[i].Name, specs[i].ValueBytes
	}
	for _, s := range w.Shares {
		if s == nil {
			continue
		}
		for i, t := range s.Tables {
			use[i].Capacity += specs[i].Capacity
			if t, ok := t.(interface{ Occupancy() store.Occupancy }); ok {
				use[i].Occupancy = use[i].Plus(t.Occupancy())
			}
		}
	}
	return use
}

// latencies merges the histograms of all workers, one type of transaction after the other.
func (s *local) latencies(ctx context.Context, m *Metrics, ran bool) error {
	h, life := newHistograms(len(m.Kinds)), newHistograms(len(m.Kinds))
	for kind := 1; ran && kind < len(h); kind++ {
		at := 0
		err := s.cluster.Inspect(ctx, func(*node.Worker) {
			x := s.workers[at]
			at++
			h[kind].Merge(x.latency[kind])
			life[kind].Merge(x.earlier[kind])
		})
		if err != nil {
			return err
		}
	}
	life.merge(h)
	for kind := 1; kind < len(h); kind++ {
		h[0].Merge(h[kind])
		life[0].Merge(life[kind])
	}
	for _, x := range h {
		m.Latency = append(m.Latency, quantiles(x))
	}
	m.Life = life
	return nil
}

func addRPC(sum, o *rpc.Stats) {
	combineAll(sum, o, func(a, b uint64) uint64 { return a + b })
}
