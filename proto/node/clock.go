package node

import (
	"time"

	"golang.org/x/sys/unix"

	"drtmd/verbs"
)

// MachineClock is CLOCK_MONOTONIC, which all processes of a machine share, counted from an epoch.
type MachineClock struct {
	base   time.Time
	offset time.Duration // of the clock at base, from the epoch
}

// MachineNow reads CLOCK_MONOTONIC: an epoch for a MachineClock.
func MachineNow() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return time.Duration(t.Nano()), err
}

// clockLooks is how often NewMachineClock compares the clocks: the best look counts.
const clockLooks = 16

// NewMachineClock makes a clock that reads 0 at the epoch, which is a reading of CLOCK_MONOTONIC.
// Its readings are Go's, which cost less; how far these are from CLOCK_MONOTONIC is measured, and
// cannot be known better than to half of the time that the measurement took, which is the error.
func NewMachineClock(epoch time.Duration) (*MachineClock, time.Duration, error) {
	c, best := &MachineClock{}, time.Duration(-1)
	for range clockLooks {
		before, err := MachineNow()
		if err != nil {
			return nil, 0, err
		}
		base := time.Now()
		after, err := MachineNow()
		if err != nil {
			return nil, 0, err
		}
		if half := (after - before + 1) / 2; best < 0 || half < best {
			best, c.base, c.offset = half, base, before+half-epoch
		}
	}
	return c, best, nil
}

// Now is safe for concurrent use.
func (c *MachineClock) Now() time.Duration { return c.offset + time.Since(c.base) }

// lastingClock goes on over the lives of kept memory, so that read leases in it end, and no ticket of a lock is
// used twice: it begins with the wall clock, which must not be set back between two lives, and goes on with
// CLOCK_MONOTONIC.
type lastingClock struct {
	verbs.Clock
	begun time.Duration
}

// lastingFrom is when lasting clocks read 0.
var lastingFrom = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// LastingEpoch is an epoch for the MachineClocks of a plane that goes on over the lives of kept memory: at a reading of
// CLOCK_MONOTONIC they read as much as has passed since 2026 by the wall clock, which must not be set back between two
// lives.
func LastingEpoch(now time.Duration) time.Duration { return now - max(time.Since(lastingFrom), 0) }

func newLastingClock() lastingClock {
	c := verbs.NewMonotonicClock()
	return lastingClock{Clock: c, begun: max(time.Since(lastingFrom), 0) - c.Now()}
}

// Now is safe for concurrent use.
func (c lastingClock) Now() time.Duration { return c.begun + c.Clock.Now() }
