package fiber

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// leastSpin and mostSpin bound the busy polling of a thread before it sleeps.
	leastSpin = 20 * time.Microsecond
	mostSpin  = 200 * time.Microsecond
	// yieldAfter is how long a thread spins before it gives the CPU away, once per such time: on
	// a machine whose cores all spin, what is waited for may need this one (the softirqs of
	// Soft-RoCE do).
	yieldAfter = 50 * time.Microsecond
	// glances is the number of passes between two looks at the clock, while there is nothing to
	// do; those between look at completions and memory only.
	glances = 8
)

// idler decides whether a thread without work spins or sleeps. A thread that had to sleep and
// found an arrival (a completion, or a word that changed) within most, spins up to twice as long
// as that took the next time, so that round trips of one length never sleep; a wait longer than
// most, or one that a timer ended, takes it back to least. The clock is read only in waits of
// more than a few passes.
type idler struct {
	least, most time.Duration // of spin; both are 0 where the thread never spins
	spin        time.Duration // bound of the next wait
	empty       int           // passes since the last one that found work
	since       time.Time     // when the clock was first read in this wait
	yielded     time.Duration // since then, at the last yield
	slept       bool          // in this wait
}

func newIdler(spin time.Duration) idler {
	switch {
	case spin < 0:
		return idler{}
	case spin == 0:
		return idler{least: leastSpin, most: mostSpin, spin: leastSpin}
	}
	return idler{least: spin, most: spin, spin: spin}
}

// glance reports whether the next pass may look at completions and memory only.
func (i *idler) glance() bool { return !i.slept && i.empty%glances != 0 }

// worked ends a wait; arrived: by a completion or a change of memory.
func (i *idler) worked(arrived bool) {
	i.empty = 0
	if !i.slept {
		return
	}
	i.slept = false
	if took := time.Since(i.since); arrived && took <= i.most {
		i.spin = min(max(i.spin, 2*took), i.most)
	} else {
		i.spin = i.least
	}
}

// sleeps is called after a pass without work, and says whether the thread should sleep.
func (i *idler) sleeps() bool {
	i.empty++
	if i.slept { // and was woken for nothing
		return true
	}
	if i.spin > 0 && i.empty%glances != 0 {
		return false
	}
	if i.empty <= glances {
		i.since, i.yielded, i.slept = time.Now(), 0, i.spin <= 0
		return i.slept
	}
	took := time.Since(i.since)
	i.slept = took >= i.spin
	if !i.slept && took-i.yielded >= yieldAfter {
		i.yielded = took
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
	return i.slept
}
