package fiber

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// leastSpin and mostSpin bound the busy polling of a thread before it sleeps.
	leastSpin = 20 * time.Microsecond
	mostSpin  = 200 * time.Microsecond
	// soon is how long a wait may have taken for the next one to spin longer. It is more than
	// mostSpin, since a wait that slept took the wake-up of this thread, and perhaps that of the
	// peer's: on a busy machine both together never end within what spinning would need.
	soon = time.Millisecond
	// mostMisses is the number of waits in a row that sleep after the longest spin before the
	// thread takes spinning for useless, and pause that of the waits before it tries again.
	mostMisses = 4
	pause      = 64
	// yieldAfter is how long a thread spins before it gives the CPU away, once per such time: on
	// a machine whose cores all spin, what is waited for may need this one (the softirqs of
	// Soft-RoCE do).
	yieldAfter = 50 * time.Microsecond
	// glances is the number of passes between two looks at the clock, while there is nothing to
	// do; those between look at completions and memory only.
	glances = 8
)

// idler decides whether a thread without work spins or sleeps. A thread that had to sleep and
// found an arrival (a completion, or a word that changed) soon, spins twice as long the next time,
// so that round trips of one length come not to sleep; a wait that took longer, or that a timer
// ended, takes it back to least, and so do waits that sleep in spite of the longest spin. The clock
// is read only in waits of more than a few passes.
type idler struct {
	least, most time.Duration // of spin; both are 0 where the thread never spins
	spin        time.Duration // bound of the next wait
	empty       int           // passes since the last one that found work
	since       time.Time     // when the clock was first read in this wait
	yielded     time.Duration // since then, at the last yield
	slept       bool          // in this wait
	misses      int           // waits in a row that slept after the longest spin
	paused      int           // waits that sleep before the spin may grow again
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
	waited := i.empty >= glances
	i.empty = 0
	if !i.slept {
		if waited {
			i.misses = 0
		}
		return
	}
	i.slept = false
	i.paused = max(i.paused-1, 0)
	switch took := time.Since(i.since); {
	case !arrived || took > soon || i.paused > 0:
		i.spin = i.least
	case i.spin < i.most:
		i.spin = min(2*i.spin, i.most)
	case i.misses < mostMisses:
		i.misses++
	default:
		i.spin, i.misses, i.paused = i.least, 0, pause
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
