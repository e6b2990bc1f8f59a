package load

import (
	"context"
	"errors"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"drtmd/proto"
)

// run is a run under way.
type run struct {
	o      *Options
	site   site
	last   Snapshot // of the last progress
	lastAt time.Duration
	// point and pointAt are of the last point of the series; the measurement begins at origin.
	point   Snapshot
	pointAt time.Duration
	origin  time.Duration
	series  []Point
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
	return res, errors.Join(res.Lost, res.Unsettled, ctx.Err())
}

// measure warms up and measures.
func (r *run) measure(ctx context.Context, res *Result) error {
	if err := r.pass(ctx, Warming, r.o.Warmup); err != nil {
		return err
	}
	var before Snapshot
	begin, err := r.site.look(ctx, &before, nil, true)
	if err != nil {
		return err
	}
	wall := time.Now()
	r.begun(&before, begin)
	err = r.passFrom(ctx, begin, Measuring, r.o.Duration)
	if err != nil && ctx.Err() == nil {
		return err
	}
	// An interrupted measurement counts up to here, and must not wait for ctx any more.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.o.bound(endTimeout))
	defer cancel()
	all := newHistograms(len(r.o.Workload.Kinds()))
	var after Snapshot
	end, lookErr := r.site.look(late, &after, all, false)
	if lookErr != nil {
		return lookErr
	}
	res.Elapsed, res.Wall = end-begin, time.Since(wall)
	r.mark(&after, begin+res.Elapsed)
	res.Series = r.series
	res.Sum = *after.minus(&before)
	for _, h := range all[1:] {
		all[0].Merge(h)
	}
	for _, h := range all {
		res.Latency = append(res.Latency, quantiles(h))
	}
	if all[0].TotalCount() > 0 {
		for _, b := range all[0].CumulativeDistribution() {
			res.Quantiles = append(res.Quantiles, Quantile{P: b.Quantile / 100, Ns: b.ValueAt})
		}
	}
	return err
}

func quantiles(h *hdrhistogram.Histogram) Latency {
	return Latency{Samples: h.TotalCount(), MeanNs: h.Mean(), P50Ns: h.ValueAtQuantile(50), P95Ns: h.ValueAtQuantile(95),
		P90Ns: h.ValueAtQuantile(90), P99Ns: h.ValueAtQuantile(99),
		P999Ns: h.ValueAtQuantile(99.9), MaxNs: h.Max()}
}

const (
	// virtualSlices is how often a pass in virtual time looks whether progress is due.
	virtualSlices = 1000
	// seriesPoints is how many points a measurement has, and leastSpan their least distance in
	// real time: a look at every worker costs.
	seriesPoints = 100
	leastSpan    = 100 * time.Millisecond
)

// pass lets the cluster run for a time, notes points of the series, and reports progress.
func (r *run) pass(ctx context.Context, p Phase, d time.Duration) error {
	return r.passFrom(ctx, r.site.now(), p, d)
}

// passFrom is pass of a phase that began at a time.
func (r *run) passFrom(ctx context.Context, begin time.Duration, p Phase, d time.Duration) error {
	if p == Warming {
		r.pointAt, r.origin = begin, begin+d
	}
	span := max(r.o.Duration/seriesPoints, leastSpan)
	slice := d
	switch {
	case r.o.Virtual: // nobody knows how long it takes
		span = max(r.o.Duration/seriesPoints, time.Microsecond)
		slice = max(d/virtualSlices, time.Microsecond)
	case r.o.Progress != nil && r.o.Interval > 0:
		slice = r.o.Interval
	}
	shown := time.Now()
	for {
		now := r.site.now()
		left := d - (now - begin)
		if left <= 0 {
			return nil
		}
		wait := min(slice, left)
		if next := r.pointAt + span - now; left-next > span/2 {
			wait = min(wait, max(next, 1))
		}
		if err := r.site.sleep(ctx, wait); err != nil {
			return err
		}
		if err := r.site.failure(ctx); err != nil {
			return err
		}
		due := r.o.Progress != nil && time.Since(shown) >= r.o.Interval
		// The last point of a pass is that of the look at its end.
		point := r.site.now() >= r.pointAt+span && d-(r.site.now()-begin) > span/2
		if !due && !point {
			continue
		}
		var all Snapshot
		at, err := r.site.glance(ctx, &all)
		if err != nil {
			return err
		}
		if at == 0 {
			continue // nothing is known
		}
		if point {
			r.mark(&all, at)
		}
		if due {
			shown = time.Now()
			r.progress(&all, p, at, at-begin, d)
		}
	}
}

// mark adds a point to the series: what happened since the one before.
func (r *run) mark(all *Snapshot, at time.Duration) {
	if at <= r.pointAt {
		return
	}
	d := all.minus(&r.point)
	r.series = append(r.series, Point{At: at - r.origin, Span: at - r.pointAt,
		Committed: d.Outcomes(proto.Committed), Attempts: d.Ended(), Aborted: d.Aborted()})
	r.point, r.pointAt = *all, at
}

// begun ends the warm-up, whose points were counted from when it was to end.
func (r *run) begun(before *Snapshot, at time.Duration) {
	r.mark(before, at)
	for i := range r.series {
		r.series[i].At -= at - r.origin
	}
	r.origin = at
}

func (r *run) progress(now *Snapshot, p Phase, at, elapsed, of time.Duration) {
	d := now.minus(&r.last)
	v := Progress{Phase: p, Elapsed: elapsed, Of: of, AbortRate: d.AbortRate()}
	if span := at - r.lastAt; span > 0 {
		v.PerSecond = float64(d.Outcomes(proto.Committed)) / span.Seconds()
	}
	r.last, r.lastAt = *now, at
	r.o.Progress(v)
}

// end ends the transactions under way, stops the cluster, and looks at what is left.
func (r *run) end(ctx context.Context, res *Result) error {
	unsettled, err := r.site.end(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	t, err := r.site.finish(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	res.Did, res.History, res.Orphans, res.Recovered = t.did, t.history, t.orphans, t.recovered
	if res.Lost = t.lost; t.lost == nil { // what is owed to a lost node says nothing new
		res.Unsettled = unsettled.err()
	}
	if res.Lost == nil && res.Unsettled == nil {
		res.Audit, res.Verified = t.audit, t.tally.Records
		if res.Recovered == nil { // else what the clients of the dead did is not known
			res.Conserved = t.did.Explains(t.tally.Initial, t.tally.Final, r.o.Workload.Sums()...)
		}
		if t.tally.Wrong != "" {
			res.Conserved = errors.New(t.tally.Wrong)
		}
	}
	return nil
}
