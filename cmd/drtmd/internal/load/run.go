package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/workload"
	"drtmd/verbs/fiber"
)

// endTimeout bounds the wait for the transactions under way when a run was interrupted.
const endTimeout = 10 * time.Second

// run is a run under way.
type run struct {
	o       *Options
	cluster *node.Cluster
	workers []*worker
	over    atomic.Bool
	tasks   *node.Tasks
	last    Snapshot // of the last progress
	lastAt  time.Duration
}

// worker is what a run knows of one worker. Its thread writes it.
type worker struct {
	w       *node.Worker
	counts  workload.Counts
	latency histograms
	clients []workload.Client
}

// Run runs a workload. Without an error there is a result; with one there may be: an interrupted
// run reports what it has.
func Run(ctx context.Context, o Options) (*Result, error) {
	c, err := o.Open(ctx)
	if err != nil {
		return nil, err
	}
	r := &run{o: &o, cluster: c}
	res, err := r.run(ctx)
	return res, errors.Join(err, c.Close())
}

func (r *run) run(ctx context.Context) (*Result, error) {
	r.start()
	res := &Result{Workload: r.cluster.Config.Workload, Config: r.cluster.Config,
		Device: r.cluster.Members[0].Workers[0].Worker.PD().Context().Attr()}
	err := r.measure(ctx, res)
	interrupted := ctx.Err() != nil
	if err != nil && !interrupted {
		return nil, errors.Join(err, r.cluster.Stop())
	}
	res.Interrupted = interrupted
	if err := r.end(res); err != nil {
		return nil, err
	}
	return res, ctx.Err()
}

// start lets the clients run.
func (r *run) start() {
	cfg := &r.cluster.Config
	kinds := len(cfg.Workload.Kinds())
	byWorker := map[*node.Worker]*worker{}
	for n, w := range r.cluster.Workers() {
		x := &worker{w: w, latency: newHistograms(kinds)}
		for i := range cfg.Fibers {
			stream := uint64(n)<<32 | uint64(i)
			x.clients = append(x.clients,
				cfg.Workload.NewClient(w.Node, rand.New(rand.NewPCG(r.o.Seed, stream))))
		}
		r.workers = append(r.workers, x)
		byWorker[w] = x
	}
	r.tasks = r.cluster.Start("load", cfg.Fibers,
		func(f *fiber.Fiber, w *node.Worker, i int) error {
			x := byWorker[w]
			d := workload.Driver{Client: x.clients[i], Counts: &x.counts, Over: r.over.Load,
				Runner:     proto.Runner{Engine: w.Engine, Rand: w.Rand, GiveUp: r.over.Load},
				YieldEvery: r.o.YieldEvery, SampleEvery: r.o.SampleEvery, Latency: x.sample,
				ChargePs: r.o.ChargePs}
			return d.Run(f)
		})
}

// sample takes the latency of a committed transaction.
func (x *worker) sample(kind uint8, d time.Duration) {
	_ = x.latency[kind].RecordValue(min(max(d.Nanoseconds(), 1), longestNs)) // always in range
}

// measure warms up and measures.
func (r *run) measure(ctx context.Context, res *Result) error {
	if err := r.pass(ctx, Warming, r.o.Warmup); err != nil {
		return err
	}
	var before Snapshot
	if err := r.look(ctx, &before, func(x *worker) { x.latency.reset() }); err != nil {
		return err
	}
	begin, wall := r.cluster.Now(), time.Now()
	err := r.pass(ctx, Measuring, r.o.Duration)
	if err != nil && ctx.Err() == nil {
		return err
	}
	// An interrupted measurement counts up to here, and must not wait for ctx any more.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	all := newHistograms(len(res.Workload.Kinds()))
	var after Snapshot
	if err := r.look(late, &after, func(x *worker) { all.merge(x.latency) }); err != nil {
		return err
	}
	res.Elapsed, res.Wall = r.cluster.Now()-begin, time.Since(wall)
	res.Sum = *after.minus(&before)
	for _, h := range all[1:] {
		all[0].Merge(h)
	}
	for _, h := range all {
		res.Latency = append(res.Latency, quantiles(h))
	}
	return err
}

func quantiles(h *hdrhistogram.Histogram) Latency {
	return Latency{Samples: h.TotalCount(), MeanNs: h.Mean(), P50Ns: h.ValueAtQuantile(50),
		P90Ns: h.ValueAtQuantile(90), P99Ns: h.ValueAtQuantile(99),
		P999Ns: h.ValueAtQuantile(99.9), MaxNs: h.Max()}
}

// look adds the counts of all workers up, each on its own thread, where also is called too.
func (r *run) look(ctx context.Context, sum *Snapshot, also func(*worker)) error {
	i := 0
	return r.cluster.Inspect(ctx, func(w *node.Worker) {
		x := r.workers[i]
		i++
		sum.add(&Snapshot{Counts: x.counts, Engine: *w.Engine.Stats(), Fiber: w.Worker.Stats})
		also(x)
	})
}

// virtualSlices is how often a pass in virtual time looks whether progress is due.
const virtualSlices = 1000

// pass lets the cluster run for a time and reports progress.
func (r *run) pass(ctx context.Context, p Phase, d time.Duration) error {
	begin := r.cluster.Now()
	slice := d
	switch {
	case r.o.Progress == nil || r.o.Interval <= 0:
	case r.o.Virtual: // nobody knows how long it takes
		slice = max(d/virtualSlices, time.Microsecond)
	default:
		slice = r.o.Interval
	}
	shown := time.Now()
	for {
		left := d - (r.cluster.Now() - begin)
		if left <= 0 {
			return nil
		}
		if err := r.cluster.Sleep(ctx, min(slice, left)); err != nil {
			return err
		}
		if r.tasks.Failed() {
			return r.failure(ctx)
		}
		if r.o.Progress != nil && time.Since(shown) >= r.o.Interval {
			shown = time.Now()
			if err := r.progress(ctx, p, r.cluster.Now()-begin, d); err != nil {
				return err
			}
		}
	}
}

// failure is why a client has ended before its time.
func (r *run) failure(ctx context.Context) error {
	r.over.Store(true)
	return r.tasks.Wait(ctx)
}

func (r *run) progress(ctx context.Context, p Phase, elapsed, of time.Duration) error {
	var now Snapshot
	if err := r.look(ctx, &now, func(*worker) {}); err != nil {
		return err
	}
	at := r.cluster.Now()
	d := now.minus(&r.last)
	v := Progress{Phase: p, Elapsed: elapsed, Of: of}
	if span := at - r.lastAt; span > 0 {
		v.PerSecond = float64(d.Outcomes(proto.Committed)) / span.Seconds()
	}
	if d.Engine.Begun > 0 {
		v.AbortRate = float64(d.Aborted()) / float64(d.Engine.Begun)
	}
	r.last, r.lastAt = now, at
	r.o.Progress(v)
	return nil
}

// end ends the transactions under way, stops the cluster, and looks at what is left.
func (r *run) end(res *Result) error {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	r.over.Store(true)
	if err := r.tasks.Wait(ctx); err != nil {
		return errors.Join(fmt.Errorf("ending the transactions under way: %w", err),
			r.cluster.Stop())
	}
	if err := r.cluster.Stop(); err != nil {
		return err
	}
	for _, x := range r.workers {
		for _, c := range x.clients {
			c.AddTo(&res.Did)
		}
	}
	initial, final, err := r.cluster.Count()
	if err != nil {
		return err
	}
	res.Conserved = res.Did.Explains(initial, final, res.Workload.Sums()...)
	res.History, err = r.cluster.History()
	return err
}
