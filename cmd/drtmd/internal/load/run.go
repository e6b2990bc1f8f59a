package load

import (
	"context"
	"errors"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"drtmd/proto"
)

// endTimeout bounds the wait for the transactions under way.
const endTimeout = 10 * time.Second

// run is a run under way.
type run struct {
	o      *Options
	site   site
	last   Snapshot // of the last progress
	lastAt time.Duration
}

// Run runs a workload on a cluster in this process. Without an error there is a result; with one
// there may be: an interrupted run reports what it has.
func Run(ctx context.Context, o Options) (*Result, error) {
	c, err := o.Open(ctx)
	if err != nil {
		return nil, err
	}
	return runOn(ctx, &o, &local{o: &o, cluster: c})
}

func runOn(ctx context.Context, o *Options, s site) (*Result, error) {
	r := &run{o: o, site: s}
	res, err := r.run(ctx)
	return res, errors.Join(err, s.close())
}

func (r *run) run(ctx context.Context) (*Result, error) {
	if err := r.site.start(); err != nil {
		return nil, err
	}
	res := &Result{Device: r.site.device()}
	err := r.measure(ctx, res)
	interrupted := ctx.Err() != nil
	if err != nil && !interrupted {
		return nil, err
	}
	res.Interrupted = interrupted
	if err := r.end(ctx, res); err != nil {
		return nil, err
	}
	return res, errors.Join(res.Lost, ctx.Err())
}

// measure warms up and measures.
func (r *run) measure(ctx context.Context, res *Result) error {
	if err := r.pass(ctx, Warming, r.o.Warmup); err != nil {
		return err
	}
	var before Snapshot
	if err := r.site.look(ctx, &before, nil, true); err != nil {
		return err
	}
	begin, wall := r.site.now(), time.Now()
	err := r.pass(ctx, Measuring, r.o.Duration)
	if err != nil && ctx.Err() == nil {
		return err
	}
	// An interrupted measurement counts up to here, and must not wait for ctx any more.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	all := newHistograms(len(r.o.Workload.Kinds()))
	var after Snapshot
	if err := r.site.look(late, &after, all, false); err != nil {
		return err
	}
	res.Elapsed, res.Wall = r.site.now()-begin, time.Since(wall)
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

// virtualSlices is how often a pass in virtual time looks whether progress is due.
const virtualSlices = 1000

// pass lets the cluster run for a time and reports progress.
func (r *run) pass(ctx context.Context, p Phase, d time.Duration) error {
	begin := r.site.now()
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
		left := d - (r.site.now() - begin)
		if left <= 0 {
			return nil
		}
		if err := r.site.sleep(ctx, min(slice, left)); err != nil {
			return err
		}
		if err := r.site.failure(ctx); err != nil {
			return err
		}
		if r.o.Progress != nil && time.Since(shown) >= r.o.Interval {
			shown = time.Now()
			if err := r.progress(ctx, p, r.site.now()-begin, d); err != nil {
				return err
			}
		}
	}
}

func (r *run) progress(ctx context.Context, p Phase, elapsed, of time.Duration) error {
	var now Snapshot
	if err := r.site.look(ctx, &now, nil, false); err != nil {
		return err
	}
	at := r.site.now()
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
func (r *run) end(ctx context.Context, res *Result) error {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if err := r.site.end(late); err != nil {
		return err
	}
	t, err := r.site.finish(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	res.Did, res.History = t.did, t.history
	if res.Lost = t.lost; t.lost == nil {
		res.Conserved = t.did.Explains(t.initial, t.final, r.o.Workload.Sums()...)
	}
	return nil
}
