package node

import (
	"fmt"
	"math"
	"sync"
	"time"

	"drtmd/verbs"
)

// driftPPM bounds how much faster or slower one machine's monotonic clock runs than another's, in
// millionths: assumed. Quartz is good for 100, and what disciplines a clock slews it by some.
const driftPPM = 200

// ClockSample is one question to a clock elsewhere: when it was sent and its answer received, on the
// own clock, and what the other clock read in between.
type ClockSample struct{ Sent, Received, Remote time.Duration }

// SyncedClock follows a clock of another machine, by samples. An answer was read somewhere between
// its question and its arrival: half of that time is its error, and what the clocks can drift apart
// since then is added (Cristian's algorithm). The sample with the least error counts. Safe for
// concurrent use.
//
// Readings never go back: one that would is held at the latest, which is as far from the true time
// as is allowed at most, since both were within their errors.
type SyncedClock struct {
	own   verbs.Clock
	bound time.Duration

	mu     sync.Mutex // guards what follows
	offset time.Duration
	err    time.Duration // when the sample was taken
	at     time.Duration // on the own clock
	last   time.Duration // reading
}

// boundFactor is how many times the error of the first samples a clock's users count with: later
// samples are taken while the cluster works, and are worse.
const boundFactor = 8

// NewSyncedClock makes a clock from some samples, at least one. epoch is subtracted from its
// readings. slack is how much its error may grow beyond boundFactor times that of the best sample
// until another one is found.
func NewSyncedClock(own verbs.Clock, epoch time.Duration, samples []ClockSample,
	slack time.Duration) (*SyncedClock, error) {
	c := &SyncedClock{own: own, err: -1, last: math.MinInt64}
	for i := range samples {
		samples[i].Remote -= epoch
		c.Add(samples[i])
	}
	if c.err < 0 {
		return nil, fmt.Errorf("no sample of the leader's clock is usable, of %d", len(samples))
	}
	c.bound = boundFactor*c.errorAt(own.Now()) + slack
	return c, nil
}

// Add takes a sample, if it is better than what is known.
func (c *SyncedClock) Add(s ClockSample) {
	if s.Received < s.Sent {
		return
	}
	trip := s.Received - s.Sent
	half := (trip + 1) / 2
	wrong := half + drift(trip) + 1 // they drift apart on the way, too, and divisions round
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err >= 0 && wrong >= c.errorAt(s.Received) {
		return
	}
	c.offset, c.err, c.at = s.Remote-(s.Sent+half), wrong, s.Received
}

// AddSince is Add for a sample whose remote reading is not counted from the epoch yet.
func (c *SyncedClock) AddSince(epoch time.Duration, s ClockSample) {
	s.Remote -= epoch
	c.Add(s)
}

// errorAt is the error at a time of the own clock. Locked, or not shared yet.
func (c *SyncedClock) errorAt(now time.Duration) time.Duration {
	return c.err + drift(max(now-c.at, 0))
}

// drift is how far the clocks can drift apart in a time.
func drift(d time.Duration) time.Duration { return (d*driftPPM + 999_999) / 1_000_000 }

// Now is the time since the epoch, wrong by at most Error.
func (c *SyncedClock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, c.own.Now()+c.offset)
	return c.last
}

// Error is the error of what the clock knows now. A reading that is held at an earlier one may be
// wrong by as much as that was.
func (c *SyncedClock) Error() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.errorAt(c.own.Now())
}

// Bound is what users of the clock count with: as long as Error is at most that, they are right.
func (c *SyncedClock) Bound() time.Duration { return c.bound }
