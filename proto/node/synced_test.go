package node_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"drtmd/proto/node"
)

// handClock is moved by hand.
type handClock struct{ now time.Duration }

func (c *handClock) Now() time.Duration { return c.now }

// TestSyncedClockIsNeverWrongByMoreThanItSays whatever the offset, the drift and the delays are, and
// never goes back.
func TestSyncedClockIsNeverWrongByMoreThanItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		own := &handClock{}
		start := time.Duration(rapid.Int64Range(-1e12, 1e12).Draw(t, "offset"))
		ppm := rapid.Int64Range(-200, 200).Draw(t, "drift")
		epoch := time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "epoch"))
		// The remote clock as a function of the own one.
		remote := func() time.Duration {
			return start + own.now + time.Duration(int64(own.now)*ppm/1_000_000)
		}
		delay := rapid.Int64Range(1, 2_000_000)
		sample := func() node.ClockSample {
			s := node.ClockSample{Sent: own.now}
			own.now += time.Duration(delay.Draw(t, "there"))
			s.Remote = remote()
			own.now += time.Duration(delay.Draw(t, "back"))
			s.Received = own.now
			return s
		}
		c, err := node.NewSyncedClock(own, epoch, []node.ClockSample{sample(), sample()},
			time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		last, worst := c.Now(), c.Error()
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			own.now += time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "pause"))
			if rapid.Bool().Draw(t, "ask") {
				c.AddSince(epoch, sample())
			}
			got, truth := c.Now(), remote()-epoch
			// A reading may be held at an earlier one.
			worst = max(worst, c.Error())
			if off := (got - truth).Abs(); off > worst {
				t.Fatalf("reads %v, it is %v: wrong by %v, says %v", got, truth, off, worst)
			}
			if got < last {
				t.Fatalf("went back from %v to %v", last, got)
			}
			last = got
		}
	})
}

// TestSyncedClockNeedsASample and counts with eight times the error of the best one, and the slack.
func TestSyncedClockNeedsASample(t *testing.T) {
	own := &handClock{}
	if _, err := node.NewSyncedClock(own, 0, nil, 0); err == nil {
		t.Error("a clock from nothing")
	}
	backwards := []node.ClockSample{{Sent: 2, Received: 1}}
	if _, err := node.NewSyncedClock(own, 0, backwards, 0); err == nil {
		t.Error("a clock from an answer before its question")
	}
	c, err := node.NewSyncedClock(own, 0, []node.ClockSample{{Sent: 0, Received: 200, Remote: 1000},
		{Sent: 300, Received: 340, Remote: 1400}}, 7)
	if err != nil {
		t.Fatal(err)
	}
	if c.Bound() != 8*(20+1+1)+7 {
		t.Errorf("counts with %v", c.Bound())
	}
}
