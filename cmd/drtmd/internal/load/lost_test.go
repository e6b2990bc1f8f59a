package load

import (
	"context"
	"errors"
	"testing"
	"time"

	"drtmd/proto"
)

// silentPeer does not answer any more from some moment on, and is known to be gone later.
type silentPeer struct {
	*localPeer
	silent chan struct{}
}

func (p *silentPeer) Do(ctx context.Context, r *Request) (*Answer, error) {
	select {
	case <-p.silent:
		<-ctx.Done()
		return nil, ctx.Err()
	default:
		return p.localPeer.Do(ctx, r)
	}
}

// TestSilentPeerHidesNothingOfTheOthers: while it is not known whether a peer is gone, the others'
// points go on, so that the dip is seen; and the run measures what it was asked to, also if that
// ends before.
func TestSilentPeerHidesNothingOfTheOthers(t *testing.T) {
	for name, c := range map[string]struct{ duration, silence time.Duration }{
		"within the run": {7 * time.Second, 5 * time.Second}, // the bounds leave room for a busy machine
		"beyond its end": {4 * time.Second, 9 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			duration, silence := c.duration, c.silence
			plan, list := testPlan(2), testPeers(t, 2, time.Minute)
			plan.Record, plan.Duration, plan.Settings.Distributed = false, duration, 0
			o := peerOptions(t, plan, list)
			victim := &silentPeer{list[1], make(chan struct{})}
			o.Peers[1], o.GoneTimeout = victim, time.Minute
			began := make(chan struct{}, 1)
			o.Interval, o.Progress = 50*time.Millisecond, func(p Progress) {
				if p.Phase == Measuring && p.Elapsed > time.Second {
					select {
					case began <- struct{}{}:
					default:
					}
				}
			}
			go func() {
				<-began
				close(victim.silent)
				time.Sleep(silence)
				victim.die()
			}()
			res, err := RunPeers(testContext(t), o)
			var lost *LostError
			if !errors.As(err, &lost) || res == nil {
				t.Fatalf("the run ended with %v", err)
			}
			if res.Elapsed < duration || res.Elapsed > duration+silence/3 {
				t.Errorf("measured %v, was asked for %v", res.Elapsed, duration)
			}
			sum, points := time.Duration(0), 0
			for _, p := range res.Series {
				if p.At <= 0 {
					continue
				}
				sum += p.Span
				if points++; p.Span > silence/2 {
					t.Errorf("a point of %v until %v", p.Span, p.At)
				}
				if p.Committed == 0 {
					t.Errorf("nothing committed until %v", p.At)
				}
			}
			if sum != res.Elapsed || points < 5 {
				t.Errorf("%d points of %v, measured were %v", points, sum, res.Elapsed)
			}
		})
	}
}

// TestPhaseOfAPartDoesNotCountTheWarmup: what a part says of a run's throughput is of one phase.
func TestPhaseOfAPartDoesNotCountTheWarmup(t *testing.T) {
	t.Parallel()
	ctx, plan, list := testContext(t), testPlan(1), testPeers(t, 1, 0)
	part := list[0].part
	plan.Warmup = time.Hour
	if err := BuildPeers(ctx, peerOptions(t, plan, list)); err != nil {
		t.Fatal(err)
	}
	do := func(r *Request) {
		t.Helper()
		if _, err := part.Do(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	counters := func() *Metrics {
		t.Helper()
		m, err := part.Counters(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	do(&Request{Step: StepStart})
	warm := counters()
	for warm.Span.Ended() < 20_000 {
		warm = counters()
	}
	if i := part.Info(); i.Phase != Warming || i.Of != time.Hour || warm.Elapsed <= 0 {
		t.Errorf("phase %v of %v, for %v", i.Phase, i.Of, warm.Elapsed)
	}
	do(&Request{Step: StepLook, Reset: true})
	m := counters()
	if i := part.Info(); i.Phase != Measuring || i.Of != plan.Duration {
		t.Errorf("phase %v of %v", i.Phase, i.Of)
	}
	if m.Span.Ended()+warm.Snapshot.Ended() > m.Snapshot.Ended() || m.Elapsed >= warm.Elapsed+time.Minute {
		t.Errorf("%d attempts of the phase, %d of all, %d of the warm-up", m.Span.Ended(),
			m.Snapshot.Ended(), warm.Snapshot.Ended())
	}
	do(&Request{Step: StepEnd})
	first, then := counters(), counters()
	if first.Elapsed != then.Elapsed || first.Span.Outcomes(proto.Committed) != then.Span.Outcomes(proto.Committed) {
		t.Errorf("an ended run goes on: %v, %v", first.Elapsed, then.Elapsed)
	}
}
