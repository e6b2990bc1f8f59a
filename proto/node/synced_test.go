package node_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"drtmd/proto/node"
)

// handClock is moved by hand.
type handClock struct{ now time.Duration }

func (c *handClock) Now() time.Duration { return c.now }

// twoClocks are the own clock of a machine and that of another, whose reading is what both are to
// tell. true time passes for both; what the own one makes of it is up to the test.
type twoClocks struct {
	own    handClock
	remote time.Duration
}

// pass lets time pass, with the own clock faster than the other by some millionths.
func (c *twoClocks) pass(d time.Duration, ppm int64) {
	c.remote += d
	c.own.now += d + time.Duration(int64(d)*ppm/1_000_000)
}

// sample asks the other clock, over a network with these delays.
func (c *twoClocks) sample(there, back time.Duration) node.ClockSample {
	s := node.ClockSample{Sent: c.own.now}
	c.pass(there, 0)
	s.Remote = c.remote
	c.pass(back, 0)
	s.Received = c.own.now
	return s
}

// follow makes a clock that has settled.
func (c *twoClocks) follow(t testing.TB) *node.SyncedClock {
	t.Helper()
	var samples []node.ClockSample
	for range 32 {
		samples = append(samples, c.sample(60*time.Microsecond, 70*time.Microsecond))
		c.pass(time.Millisecond, 0)
	}
	s, err := node.NewSyncedClock(&c.own, 0, samples, every)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// every is how often the clocks of these tests are asked.
const every = 100 * time.Millisecond

// TestSyncedClockIsNeverWrongByMoreThanItSays whatever the offset, the drift and the delays are,
// and never goes back.
func TestSyncedClockIsNeverWrongByMoreThanItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &twoClocks{}
		c.own.now = time.Duration(rapid.Int64Range(-1e12, 1e12).Draw(t, "offset"))
		epoch := time.Duration(rapid.Int64Range(-1e12, 1e12).Draw(t, "epoch"))
		// The rate of each step is within the bound, and changes.
		rate := rapid.Int64Range(-node.DriftPPM+2, node.DriftPPM-2)
		delay := rapid.Int64Range(1, 2_000_000)
		sample := func() node.ClockSample {
			s := node.ClockSample{Sent: c.own.now}
			c.pass(time.Duration(delay.Draw(t, "there")), rate.Draw(t, "rate there"))
			s.Remote = c.remote
			c.pass(time.Duration(delay.Draw(t, "back")), rate.Draw(t, "rate back"))
			s.Received = c.own.now
			return s
		}
		k, err := node.NewSyncedClock(&c.own, epoch, []node.ClockSample{sample(), sample()}, every)
		if err != nil {
			t.Fatal(err)
		}
		last := k.Now()
		var worst time.Duration
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			c.pass(time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "pause")), rate.Draw(t, "rate"))
			if rapid.Bool().Draw(t, "ask") {
				if err := k.Add(sample()); err != nil {
					t.Fatal(err)
				}
			}
			got, within := k.Reading()
			truth := c.remote - epoch
			if off := (got - truth).Abs(); off > within {
				t.Fatalf("reads %v, it is %v: wrong by %v, says %v", got, truth, off, within)
			}
			worst = max(worst, within)
			if got < last {
				t.Fatalf("went back from %v to %v", last, got)
			}
			last = got
		}
		if w := k.Worst(); w < worst {
			t.Fatalf("an error of %v, and the worst is %v", worst, w)
		}
	})
}

// TestSyncedClockNoticesAClockThatIsWrong: one that stands still for 50 ms as a paused virtual
// machine's does, that jumps, or that runs faster than clocks may. From the first sample on that
// shows it no lease is valid and none expired; before, the clock is as good as its samples.
func TestSyncedClockNoticesAClockThatIsWrong(t *testing.T) {
	const still = 50 * time.Millisecond
	tests := []struct {
		name string
		do   func(c *twoClocks)
	}{
		{"the own one stands still", func(c *twoClocks) { c.remote += still }},
		{"the other one stands still", func(c *twoClocks) { c.own.now += still }},
		{"the own one jumps ahead", func(c *twoClocks) { c.own.now += time.Second }},
		{"the own one jumps back", func(c *twoClocks) { c.own.now -= time.Second }},
		{"the own one stands still for half a millisecond", func(c *twoClocks) {
			c.remote += 500 * time.Microsecond
		}},
		{"the own one is slewed by 8 %", func(c *twoClocks) { c.pass(every, 83_333) }},
		{"a longer suspension", func(c *twoClocks) { c.remote += time.Hour }},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			c := &twoClocks{}
			k := c.follow(t)
			for range 10 {
				c.pass(every, 20)
				if err := k.Add(c.sample(80*time.Microsecond, 40*time.Microsecond)); err != nil {
					t.Fatal(err)
				}
			}
			if e := k.Error(); e > 300*time.Microsecond {
				t.Fatalf("an error of %v before", e)
			}
			x.do(c)
			err := k.Add(c.sample(2*time.Millisecond/20, 60*time.Microsecond))
			var wrong *node.ContradictionError
			if !errors.As(err, &wrong) {
				t.Fatalf("the sample is taken: %v; the error is %v", err, k.Error())
			}
			now, within := k.Reading()
			if within != node.ErrorUnknown || k.Worst() != node.ErrorUnknown {
				t.Errorf("an error of %v, at worst %v", within, k.Worst())
			}
			c.pass(every, 0)
			if err := k.Add(c.sample(1, 1)); !errors.As(err, &wrong) || k.Error() != node.ErrorUnknown {
				t.Errorf("got well again: %v, error %v", err, k.Error())
			}
			if later := k.Now(); later < now {
				t.Errorf("went back from %v to %v", now, later)
			}
		})
	}
}

// TestSyncedClockSurvivesWhatIsNoFault: a node that is stopped for seconds, a sample that travels
// for seconds, and a clock that is slewed as fast as one may be.
func TestSyncedClockSurvivesWhatIsNoFault(t *testing.T) {
	c := &twoClocks{}
	k := c.follow(t)
	add := func(there, back time.Duration) {
		t.Helper()
		if err := k.Add(c.sample(there, back)); err != nil {
			t.Fatal(err)
		}
		now, within := k.Reading()
		if off := (now - c.remote).Abs(); off > within {
			t.Fatalf("wrong by %v, says %v", off, within)
		}
	}
	c.pass(10*time.Second, 0)
	if e := k.Error(); e < 10*time.Millisecond || e > 11*time.Millisecond {
		t.Errorf("after ten seconds without a sample the error is %v", e)
	}
	add(3*time.Second, 40*time.Microsecond)
	add(40*time.Microsecond, 3*time.Second)
	add(60*time.Microsecond, 60*time.Microsecond)
	if e := k.Error(); e > 100*time.Microsecond {
		t.Errorf("after a good sample the error is %v", e)
	}
	k = c.follow(t)
	for range 100 {
		c.pass(every, node.DriftPPM-5)
		add(60*time.Microsecond, 70*time.Microsecond)
	}
	ppm, within := k.Drift()
	if ppm > -0.98*node.DriftPPM || ppm < -node.DriftPPM || within > 100 {
		t.Errorf("measured a drift of %.0f ± %.0f ppm", ppm, within)
	}
}

// TestSyncedClockIsBetterWithEachSample: a fresh sample counts although it is worse than the best
// one, if the two together say more; and the error ages by the drift.
func TestSyncedClockIsBetterWithEachSample(t *testing.T) {
	c := &twoClocks{}
	// All of the first one's time is on the way there, all of the second one's on the way back.
	s := []node.ClockSample{c.sample(200*time.Microsecond, 0), c.sample(0, 220*time.Microsecond)}
	k, err := node.NewSyncedClock(&c.own, 0, s, every)
	if err != nil {
		t.Fatal(err)
	}
	if e := k.Error(); e > time.Microsecond {
		t.Errorf("the error is %v", e)
	}
	if b := k.Bound(); b != k.Error()+200*time.Microsecond {
		t.Errorf("counts with %v, the error being %v", b, k.Error())
	}
	c.pass(time.Second, 0)
	if e := k.Error(); e < time.Millisecond || e > time.Millisecond+time.Microsecond {
		t.Errorf("the error is %v a second later", e)
	}
}

// TestSyncedClockNeedsASample.
func TestSyncedClockNeedsASample(t *testing.T) {
	own := &handClock{}
	if _, err := node.NewSyncedClock(own, 0, nil, every); err == nil {
		t.Error("a clock from nothing")
	}
	backwards := []node.ClockSample{{Sent: 2, Received: 1}}
	if _, err := node.NewSyncedClock(own, 0, backwards, every); err == nil {
		t.Error("a clock from an answer before its question")
	}
}
