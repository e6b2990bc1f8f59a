package planes

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/node"
)

// setClock is a clock that the test sets.
type setClock struct{ now time.Duration }

func (c *setClock) Now() time.Duration { return c.now }

// TestANodeRestsWhoseClockFailsAgainAndAgain: longer each time, and not at all after the first fault or
// a calm while.
func TestANodeRestsWhoseClockFailsAgainAndAgain(t *testing.T) {
	r := newRoom(t)
	clock := &setClock{time.Hour}
	r.p.o.Clock = clock
	fails := func(after time.Duration) time.Duration {
		clock.now += after
		r.p.clocks.failed(errors.New("jumped"))
		return r.p.clocks.pause()
	}
	var got []time.Duration
	for range 5 {
		got = append(got, fails(time.Second))
	}
	got = append(got, fails(calm+1))
	want := []time.Duration{0, 2 * time.Second, 4 * time.Second, 8 * time.Second, longestWait, 0}
	if !slices.Equal(got, want) {
		t.Errorf("rests for %v, want %v", got, want)
	}
	if asked := r.take(); !slices.Equal(asked[:2], []string{"fence", "start anew: jumped"}) {
		t.Errorf("asked for %q", asked)
	}
}

// TestAPlaneOfThisMachineNeedsNobodysClock, and one of another machine its leader's.
func TestAPlaneOfThisMachineNeedsNobodysClock(t *testing.T) {
	r := newRoom(t)
	c, bound, err := r.p.clocks.open(t.Context(), &load.Request{Machine: "here"})
	if err != nil || c == nil || bound < 0 {
		t.Fatalf("%v, %v, %v", c, bound, err)
	}
	if s := r.p.clocks.describe(&load.Info{}, 0); s == nil || s.Follows != nil {
		t.Errorf("%+v", s)
	}
	_, _, err = r.p.clocks.open(t.Context(), &load.Request{Machine: "there", Leader: "there:1"})
	if err == nil || !strings.Contains(err.Error(), "no client of there:1") {
		t.Errorf("%v", err)
	}
	if s := r.p.clocks.describe(&load.Info{}, 0); s != nil {
		t.Errorf("the clock of a plane that was not opened: %+v", s)
	}
}

// TestAClockWhosePlaneIsClosedTellsOfNothing: that ends its question, not the leader.
func TestAClockWhosePlaneIsClosedTellsOfNothing(t *testing.T) {
	for _, closed := range []bool{true, false} {
		r := newRoom(t)
		own := &setClock{time.Hour}
		r.p.o.Clock = own
		at := node.ClockSample{Sent: own.now, Received: own.now, Remote: own.now}
		clock, err := node.NewSyncedClock(own, 0, []node.ClockSample{at}, clockEvery)
		if err != nil {
			t.Fatal(err)
		}
		own.now += time.Hour // it is not well known any more
		life, cancel := context.WithCancel(t.Context())
		asked := 0
		r.p.o.BeforeAsk = func() error {
			if asked++; closed || asked > 1 {
				cancel()
				return life.Err()
			}
			return errors.New("cut off by the test")
		}
		s := &clockSync{bound: clock.Bound(), leader: "there:1", clock: clock, ended: make(chan struct{})}
		r.p.clocks.keep(life, s, nil)
		if got := r.events(status.Warn); closed && len(got) > 0 || !closed && len(got) != 1 {
			t.Errorf("closed while it asked: %t; warns of %q", closed, got)
		}
	}
}
