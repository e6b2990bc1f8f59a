package bench

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// clock counts nanoseconds since the run began. A reading costs some 40 to 70 ns.
type clock struct{ origin time.Time }

func (c clock) now() int64 { return int64(time.Since(c.origin)) }

func newClock() clock { return clock{origin: time.Now()} }

// ClockCostNs measures what one reading of the clock costs, in nanoseconds: the least of a few
// runs.
func ClockCostNs() float64 {
	const readings = 2000
	c := newClock()
	best := int64(1 << 62)
	for range 5 {
		start := c.now()
		for range readings {
			c.now()
		}
		best = min(best, c.now()-start)
	}
	return float64(best) / readings
}

var (
	// errStopped: somebody asked to stop; the caller knows whom to ask.
	errStopped = errors.New("stopped")
	// errStalled: nothing arrived for the time that the waiter allows.
	errStalled = errors.New("no progress")
)

const (
	// yieldPolls is after how many empty polls the CPU is given away. It matters where what is
	// waited for needs this core: on Soft-RoCE in a guest with 2 CPUs, 64 took the 99 % latency
	// of a SEND ping-pong from 20 ms (with 1024) to 0.3 ms and left its median alone.
	yieldPolls   = 64
	emptyPolls   = 1024 // between two looks at the clock; a multiple of yieldPolls
	sleepAfterNs = int64(20 * time.Millisecond)
	sleepFor     = 100 * time.Microsecond
	// stallLimit bounds a wait without progress. It is far over what the retries of a QP take.
	stallLimit = 10 * time.Second
	// lossLimit is after how long a datagram counts as lost.
	lossLimit = 250 * time.Millisecond
)

// waiter makes busy polling bounded. Not safe for concurrent use.
type waiter struct {
	clock clock
	limit time.Duration
	stop  func() bool  // cheap; asked while idle
	look  func() error // looks for errors elsewhere while idle; may be nil

	empty int
	since int64 // when the wait was first noticed; 0 = not yet
}

// progress is called after a poll that found something.
func (w *waiter) progress() { w.empty, w.since = 0, 0 }

// idle is called after a poll that found nothing.
func (w *waiter) idle() error {
	if w.empty++; w.empty%yieldPolls != 0 {
		return nil
	}
	if w.empty%emptyPolls != 0 {
		yield()
		return nil
	}
	return w.longIdle()
}

// yield lets another thread of the system run on this CPU.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

func (w *waiter) longIdle() error {
	if w.stop() {
		return errStopped
	}
	if w.look != nil {
		if err := w.look(); err != nil {
			return err
		}
	}
	now := w.clock.now()
	if w.since == 0 {
		w.since = now
	}
	switch waited := now - w.since; {
	case waited > int64(w.limit):
		w.progress()
		return fmt.Errorf("%w for %s", errStalled, w.limit)
	case waited > sleepAfterNs:
		w.empty = emptyPolls - 2 // after a sleep, look again soon
		time.Sleep(sleepFor)
	default:
		yield()
	}
	return nil
}
