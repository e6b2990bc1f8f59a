package node

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"drtmd/verbs"
)

// DriftPPM bounds how much faster or slower CLOCK_MONOTONIC of one machine runs than that of
// another, in millionths. Cited: Linux lets whoever disciplines a clock correct its rate by 500 ppm
// at most (adjtimex(2), ADJ_FREQUENCY), and adjtime(3) slews by 500 ppm; two machines may do so in
// opposite directions. Quartz without such corrections is good for 100. Measured:
// SyncedClock.Drift. A clock that is slewed faster, as chrony does after a jump (maxslewrate),
// contradicts its samples.
const DriftPPM = 1000

// ErrorUnknown is the error of a clock that contradicts its samples: no lease is valid, and none
// has expired, by a clock that may be wrong by so much.
const ErrorUnknown = time.Duration(1 << 60)

// ClockSample is one question to a clock elsewhere: when it was sent and its answer received, on
// the own clock, and what the other clock read in between.
type ClockSample struct{ Sent, Received, Remote time.Duration }

// SyncedClock follows a clock of another machine, by samples. The other clock was read somewhere
// between the question and the arrival of the answer, so each sample bounds how far the clocks are
// apart; the bounds widen with the time since then, by DriftPPM. What is known is where the bounds
// of all samples overlap: the reading is the middle, and the error half of the width.
//
// Samples whose bounds do not overlap contradict each other: one of the clocks stood still, jumped,
// or drifts more than it may. Such a clock never gets well again: its error is ErrorUnknown.
//
// Readings never go back: one that would is held at the latest, and its error says so. Safe for
// concurrent use.
type SyncedClock struct {
	own   verbs.Clock
	epoch time.Duration
	bound time.Duration

	known atomic.Pointer[overlap]
	last  atomic.Int64 // reading, in nanoseconds

	mu    sync.Mutex // guards what follows; held by Add
	first overlap    // of the samples that the clock was made from
	worst time.Duration
	wrong error
}

// overlap bounds the other clock's reading minus the own one's. Immutable.
type overlap struct {
	low, high time.Duration
	at        time.Duration // when that was true, on the own clock
	broken    bool          // nothing is known
}

// boundFactor is how many times the error of its first samples a clock's users count with: later
// samples are taken while the cluster works, and are worse.
const boundFactor = 2

// NewSyncedClock makes a clock from some samples, at least one. epoch is subtracted from its
// readings. every is how often it will be given another sample, which Bound takes into account.
func NewSyncedClock(own verbs.Clock, epoch time.Duration, samples []ClockSample,
	every time.Duration) (*SyncedClock, error) {
	c := &SyncedClock{own: own, epoch: epoch}
	c.last.Store(math.MinInt64)
	for _, s := range samples {
		if err := c.Add(s); err != nil {
			return nil, err
		}
	}
	k := c.known.Load()
	if k == nil {
		return nil, errors.New("a clock that follows another needs a sample of it")
	}
	c.first, c.worst = *k, 0
	now := k.half(own.Now())
	c.bound = max(boundFactor*now, now+drift(2*every))
	return c, nil
}

// bounds are what the sample says of the time at which its answer came.
func (s ClockSample) bounds(epoch time.Duration) overlap {
	low := s.Remote - epoch - s.Received
	trip := s.Received - s.Sent
	return overlap{low: low - 1, high: low + trip + drift(trip) + 1, at: s.Received}
}

// aged is what is known of another time of the own clock.
func (o overlap) aged(now time.Duration) overlap {
	d := drift((now - o.at).Abs())
	o.low, o.high, o.at = o.low-d, o.high+d, now
	return o
}

// half is the error of the middle at a time of the own clock.
func (o overlap) half(now time.Duration) time.Duration {
	return (o.high-o.low+1)/2 + drift((now - o.at).Abs())
}

func (o overlap) middle() time.Duration { return o.low + (o.high-o.low)/2 }

// Add takes a sample. If it contradicts those before, the error of every reading from now on is
// ErrorUnknown, and Add fails with a *ContradictionError, this time and always.
func (c *SyncedClock) Add(s ClockSample) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wrong != nil {
		return c.wrong
	}
	if s.Received < s.Sent {
		return c.contradict(&ContradictionError{Back: s.Sent - s.Received})
	}
	x := s.bounds(c.epoch)
	old := c.known.Load()
	if old == nil {
		c.known.Store(&x)
		return nil
	}
	at := max(old.at, x.at)
	was := old.aged(at)
	x = x.aged(at)
	both := overlap{low: max(was.low, x.low), high: min(was.high, x.high), at: at}
	if both.low > both.high {
		return c.contradict(&ContradictionError{Gap: both.low - both.high, Known: was.half(at),
			Sample: x.half(at)})
	}
	c.worst = max(c.worst, was.half(at))
	c.known.Store(&both)
	return nil
}

// contradict makes the clock useless. Locked.
func (c *SyncedClock) contradict(err *ContradictionError) error {
	c.wrong = err
	k := overlap{}
	if old := c.known.Load(); old != nil {
		k = *old
	}
	k.broken = true
	c.known.Store(&k)
	return err
}

// ContradictionError: samples of two clocks cannot all be true.
type ContradictionError struct {
	// Gap is how much farther apart the samples are than their errors allow, Known the error of
	// those before, Sample that of the last one.
	Gap, Known, Sample time.Duration
	// Back, if not 0, is how far the own clock went back during a sample.
	Back time.Duration
}

func (e *ContradictionError) Error() string {
	if e.Back > 0 {
		return fmt.Sprintf("the own clock went back by %v", e.Back)
	}
	return fmt.Sprintf("the last sample is %v farther away than the errors of %v and %v allow: one "+
		"of the clocks stood still or jumped, as in a paused virtual machine, or runs more than "+
		"%d ppm faster than the other", e.Gap, e.Known, e.Sample, DriftPPM)
}

// drift is how far the clocks can drift apart in a time.
func drift(d time.Duration) time.Duration { return (d*DriftPPM + 999_999) / 1_000_000 }

// Reading is the time since the epoch, and by how much it is wrong at most.
func (c *SyncedClock) Reading() (now, err time.Duration) {
	k := c.known.Load()
	own := c.own.Now()
	now = c.hold(own + k.middle())
	if k.broken {
		return now, ErrorUnknown
	}
	d := drift((own - k.at).Abs())
	return now, max(own+k.high-now, now-own-k.low) + d
}

// hold gives a reading, or the latest one if that is later.
func (c *SyncedClock) hold(now time.Duration) time.Duration {
	for {
		last := time.Duration(c.last.Load())
		if now <= last {
			return last
		}
		if c.last.CompareAndSwap(int64(last), int64(now)) {
			return now
		}
	}
}

// Now is Reading without the error.
func (c *SyncedClock) Now() time.Duration {
	now, _ := c.Reading()
	return now
}

// Error is that of a reading taken now.
func (c *SyncedClock) Error() time.Duration {
	_, err := c.Reading()
	return err
}

// Worst is the largest error of any reading so far.
func (c *SyncedClock) Worst() time.Duration {
	now := c.Error()
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.worst, now)
}

// Bound is what the error should be at most while samples come as often as they should, on an
// ordinary network: what lengths are chosen by. Whether a lease is over is not decided by it, but
// by Reading.
func (c *SyncedClock) Bound() time.Duration { return c.bound }

// Drift is how much faster the other clock has been than the own one since the clock was made, in
// millionths, and the error of that; both 0 before the second sample.
func (c *SyncedClock) Drift() (ppm, within float64) {
	c.mu.Lock()
	first := c.first
	c.mu.Unlock()
	k := c.known.Load()
	since := float64(k.at - first.at)
	if k.broken || since <= 0 {
		return 0, 0
	}
	return float64(k.middle()-first.middle()) / since * 1e6,
		float64((k.high-k.low)/2+(first.high-first.low)/2) / since * 1e6
}

// Sampled is how long ago what is known was last confirmed by a sample.
func (c *SyncedClock) Sampled() time.Duration { return max(c.own.Now()-c.known.Load().at, 0) }
