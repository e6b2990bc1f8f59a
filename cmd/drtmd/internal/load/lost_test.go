package load

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drtmd/proto"
	"drtmd/proto/node"
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
			plan.Record, plan.Duration, plan.Settings["distributed"] = false, duration, "0"
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

// TestALossInTheWarmupDoesNotLengthenIt: the measurement begins while it is not known yet whether a
// silent peer is gone.
func TestALossInTheWarmupDoesNotLengthenIt(t *testing.T) {
	t.Parallel()
	plan, list := testPlan(2), testPeers(t, 2, time.Minute)
	plan.Record, plan.Settings["distributed"] = false, "0"
	plan.Warmup, plan.Duration = time.Second, time.Second
	o := peerOptions(t, plan, list)
	victim := &silentPeer{list[1], make(chan struct{})}
	// It is known to be gone once the measurement has begun: whoever waits for that waits in vain.
	o.Peers[1], o.GoneTimeout = victim, time.Minute
	var silence, death sync.Once
	o.Interval, o.Progress = time.Millisecond, func(p Progress) {
		silence.Do(func() { close(victim.silent) })
		if p.Phase == Measuring {
			death.Do(victim.die)
		}
	}
	res, err := RunPeers(testContext(t), o)
	var lost *LostError
	if !errors.As(err, &lost) || res == nil {
		t.Fatalf("the run ended with %v", err)
	}
	if res.Sum.Outcomes(proto.Committed) == 0 || res.Latency[0].Samples == 0 {
		t.Errorf("%d committed, %d latencies", res.Sum.Outcomes(proto.Committed), res.Latency[0].Samples)
	}
}

// scripted is a peer of which each look finds one more attempt begun, and that answers when the test
// wants.
type scripted struct {
	gone chan struct{}

	mu     sync.Mutex // guards what follows
	counts uint64
	resets int
	gate   chan struct{} // nil: it answers
}

func (p *scripted) Name() string          { return "a peer" }
func (p *scripted) Gone() <-chan struct{} { return p.gone }
func (p *scripted) Err() error            { return errors.New("killed by the test") }

func (p *scripted) Do(ctx context.Context, r *Request) (*Answer, error) {
	p.mu.Lock()
	gate := p.gate
	p.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts++
	if r.Reset {
		p.resets++
	}
	return &Answer{Sum: &Snapshot{Engine: proto.Stats{Begun: p.counts}}}, nil
}

// reset is how often its latencies began anew.
func (p *scripted) reset() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resets
}

// set has the peer have counted so much, and answer only when the gate is open.
func (p *scripted) set(counts uint64, gate chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts, p.gate = counts, gate
}

// TestAPeerThatIsLateTakesPartFromItsAnswerOn: what it counted while nobody heard of it is neither of
// the warm-up nor of the measurement, and its latencies begin anew once.
func TestAPeerThatIsLateTakesPartFromItsAnswerOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, latePeer) // patience ends when nothing else happens
}

func latePeer(t *testing.T) {
	quick, late := &scripted{gone: make(chan struct{})}, &scripted{gone: make(chan struct{})}
	o := PeerOptions{Nodes: 2, Peers: []Peer{quick, late}, GoneTimeout: time.Hour}
	s := newPeers(&o)
	defer s.forget()
	var err error
	if s.clock, _, err = node.NewMachineClock(0); err != nil {
		t.Fatal(err)
	}
	s.runs = true
	begun := func(look func(*Snapshot) error) uint64 {
		t.Helper()
		var sum Snapshot
		if err := look(&sum); err != nil {
			t.Fatal(err)
		}
		return sum.Engine.Begun
	}
	glance := func(sum *Snapshot) error { _, err := s.glance(t.Context(), sum); return err }
	reset := func(sum *Snapshot) error { _, err := s.look(t.Context(), sum, nil, true); return err }
	final := func(sum *Snapshot) error { _, err := s.look(t.Context(), sum, nil, false); return err }
	begun(glance) // one of each
	gate := make(chan struct{})
	late.set(1000, gate)
	before := begun(reset)
	if before != 3 || quick.reset() != 1 || late.reset() != 0 {
		t.Errorf("%d begun before the measurement, want 2 of the one and 1 of the other; %d and %d resets",
			before, quick.reset(), late.reset())
	}
	if now := begun(glance) - before; now != 1 {
		t.Errorf("%d begun since, want 1 of the one that is there", now)
	}
	late.set(5000, gate)
	close(gate)
	for s.list[1].warm { // until it is heard
		quick.set(100, nil)
		begun(glance)
	}
	quick.set(100, nil)
	late.set(6000, nil)
	if now := begun(final) - before; now < 1000 || now > 1200 || late.reset() != 1 {
		t.Errorf("%d begun in the measurement, want 1000 of the late one and 99 of the other; %d resets",
			now, late.reset())
	}
}
