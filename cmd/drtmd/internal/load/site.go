package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/node"
	"drtmd/proto/protocol"
	"drtmd/proto/workload"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// site is where clients run: a cluster in this process, or processes with a share each. Its calls
// come in the order in which they stand here, look and sleep as often as wanted.
type site interface {
	// start lets the clients run.
	start() error
	now() time.Duration
	sleep(ctx context.Context, d time.Duration) error
	// failure is why a client has ended before its time; nil while none has.
	failure(ctx context.Context) error
	// look adds the counts so far to sum and the latencies to h, which may be nil; reset begins
	// the latencies anew. It gives the time at which they were counted.
	look(ctx context.Context, sum *Snapshot, h histograms, reset bool) (time.Duration, error)
	// glance is look at the counts, without waiting for who does not answer: that one counts as it
	// has last said. The time is 0 if nobody has answered.
	glance(ctx context.Context, sum *Snapshot) (time.Duration, error)
	// end ends the transactions under way, and waits until nothing is owed; for a bounded time.
	end(ctx context.Context) (Unsettled, error)
	// finish stops the cluster and adds up what is left.
	finish(ctx context.Context) (*totals, error)
	device() verbs.DeviceAttr
	close() error
}

// totals are what is left after a run.
type totals struct {
	tally   workload.Tally
	did     workload.Ledger
	audit   error            // of the replicas
	history *history.History // nil: none was recorded, or a part of it is lost
	lost    error            // nil, or a *LostError
	// recovered is what the survivors of lost processes have recovered; nil: none was lost, or lost is why not.
	recovered *Recovered
	orphans   Orphans // of the parts that are left
}

// local is a site in this process.
type local struct {
	o       *Options
	cluster *node.Cluster
	workers []*worker
	over    atomic.Bool
	tasks   *node.Tasks
	// owing: some process could not settle. Every record that is locked in the end may lack its last write then, and
	// no replica is judged.
	owing bool
	// underWay: transactions have not ended. To stop their fibers may fail then, which close tells
	// beside the result.
	underWay bool

	changes  sync.Mutex    // held while the members change; guards what follows
	changing *node.Tasks   // a step that has not ended in time; nil: none
	adopted  uint64        // epoch of the placement
	halted   bool          // no change begins any more
	fillTook time.Duration // the longest filling of a replica
	// recovered is as of the last end; nil: the records have no replicas.
	recovered *RecoveryTotals
}

// worker is what a site knows of one worker. Its thread writes it.
type worker struct {
	w       *node.Worker
	counts  workload.Counts
	latency histograms // since the last reset
	earlier histograms // before it
	clients []workload.Client
}

// reset begins the latencies anew, and keeps those so far for Metrics.
func (x *worker) reset() {
	x.earlier.merge(x.latency)
	x.latency.reset()
}

func (s *local) start() error {
	cfg := &s.cluster.Config
	byWorker := map[*node.Worker]*worker{}
	for _, w := range s.cluster.Workers() {
		kinds := len(cfg.Workload.Kinds())
		x := &worker{w: w, latency: newHistograms(kinds), earlier: newHistograms(kinds)}
		for i := range s.clients(w) {
			stream := uint64(int(w.Node)*cfg.Workers+w.Index)<<32 | uint64(i)
			c := cfg.Workload.NewClient(w.Node, rand.New(rand.NewPCG(s.o.Seed, stream)))
			if c == nil {
				return fmt.Errorf("workload %s, node %d: %w", cfg.Workload.Name(), w.Node,
					workload.ErrNoClient)
			}
			x.clients = append(x.clients, c)
		}
		s.workers = append(s.workers, x)
		byWorker[w] = x
	}
	s.tasks = s.cluster.Start("load", cfg.Fibers,
		func(f *fiber.Fiber, w *node.Worker, i int) error {
			x := byWorker[w]
			if i >= len(x.clients) {
				return nil // the worker has no clients
			}
			d := workload.Driver{Client: x.clients[i], Counts: &x.counts, Over: s.over.Load,
				Runner:     proto.Runner{Engine: w.Engine, Rand: w.Rand, GiveUp: s.over.Load},
				YieldEvery: s.o.YieldEvery, SampleEvery: s.o.SampleEvery, Latency: x.sample,
				ChargePs: s.o.ChargePs, Watch: s.o.Watch}
			return d.Run(f)
		})
	return nil
}

// clients is how many a worker has.
func (s *local) clients(w *node.Worker) int {
	if s.o.ClientNodes > 0 && int(w.Node) >= s.o.ClientNodes || w.Roles&protocol.Application == 0 {
		return 0
	}
	return s.cluster.Config.Fibers
}

// sample takes the latency of a committed transaction.
func (x *worker) sample(kind uint8, d time.Duration) {
	_ = x.latency[kind].RecordValue(min(max(d.Nanoseconds(), 1), longestNs)) // always in range
}

func (s *local) now() time.Duration { return s.cluster.Now() }

func (s *local) sleep(ctx context.Context, d time.Duration) error { return s.cluster.Sleep(ctx, d) }

func (s *local) failure(ctx context.Context) error {
	if !s.tasks.Failed() {
		return nil
	}
	s.over.Store(true)
	return s.tasks.Wait(ctx)
}

// look visits the workers one after the other, each on its own thread.
func (s *local) look(ctx context.Context, sum *Snapshot, h histograms, reset bool) (time.Duration,
	error) {
	i := 0
	err := s.cluster.Inspect(ctx, func(w *node.Worker) {
		x := s.workers[i]
		i++
		now := Snapshot{Counts: x.counts, Engine: *w.Engine.Stats(), Fiber: w.Worker.Stats,
			Memory: memoryStats(w.Engine)}
		now.noteRoles(w)
		sum.add(&now)
		if h != nil {
			h.merge(x.latency)
		}
		if reset {
			x.reset()
		}
	})
	return s.now(), err
}

func (s *local) glance(ctx context.Context, sum *Snapshot) (time.Duration, error) {
	return s.look(ctx, sum, nil, false)
}

func (s *local) finish(context.Context) (*totals, error) {
	s.halt()
	if err := s.cluster.Stop(); err != nil && !s.underWay {
		return nil, err
	}
	t := &totals{}
	specs := s.cluster.Config.Workload.Tables()
	for _, x := range s.workers {
		t.orphans = t.orphans.Plus(orphansOf(x.w, specs))
		for _, c := range x.clients {
			c.AddTo(&t.did)
		}
	}
	t.tally = s.cluster.Verify()
	var err error
	if s.owing {
		t.history, err = s.cluster.HistoryUnsettled()
		return t, err
	}
	t.audit = s.cluster.Audit()
	t.history, err = s.cluster.History()
	return t, err
}

func (s *local) device() verbs.DeviceAttr {
	return s.cluster.Members[0].Workers[0].Worker.PD().Context().Attr()
}

func (s *local) close() error {
	s.halt()
	return errors.Join(s.cluster.Close())
}
