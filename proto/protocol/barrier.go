package protocol

import (
	"sync"
	"time"

	"drtmd/internal/invariant"
)

// Barrier is where the publishers and subscribers of a member meet (DrTM §4.2). A publisher is a chain whose last piece,
// which only adds, is deferred: it runs between two epochs, together with those of all publishers that have done their
// other pieces. A subscriber is a transaction that sees what publishers add. So subscribers of an epoch come before its
// publishers, and those of the next one behind all of them, whatever order the publishers' other pieces were in.
//
//	open     publishers and subscribers enter
//	closed   the epoch is over: nobody enters, until those that are in have done their part
//	applied  the deferred pieces run; when the last one has committed, the next epoch is open
//
// Any goroutine may call it. Nothing waits here: who is not let in asks again.
type Barrier struct {
	mu    sync.Mutex
	phase barrierPhase
	since time.Duration // when the results of the epoch before were due
	// publishing have not done the pieces before their deferred one, and pending have; subscribing are in.
	publishing, subscribing, pending int
}

type barrierPhase uint8

const (
	barrierOpen barrierPhase = iota
	barrierClosed
	barrierApplied
)

// Part is what a transaction does at a barrier at present.
type Part uint8

// Parts. 0: none.
const (
	Publishing Part = iota + 1
	Pending
	Subscribing
)

// Enter lets a publisher or subscriber in, unless the barrier is closed.
func (b *Barrier) Enter(p Part) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.phase != barrierOpen {
		return false
	}
	*b.count(p)++
	return true
}

// Defer notes that a publisher has done all pieces but the deferred one.
func (b *Barrier) Defer() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.take(Publishing)
	b.pending++
}

// Due reports whether deferred pieces may run. It closes the barrier if the epoch is over, which lasts so long. Flaws
// are 0, but for deliberate bugs.
func (b *Barrier) Due(now, epoch time.Duration, flaws BarrierFlaw) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.phase == barrierOpen && now-b.since >= epoch {
		b.phase = barrierClosed
	}
	if b.phase == barrierClosed && (b.publishing == 0 || flaws == IgnorePublishers) &&
		(b.subscribing == 0 || flaws == IgnoreSubscribers) {
		b.phase, b.since = barrierApplied, now
	}
	return b.phase == barrierApplied
}

// BarrierFlaw is a deliberate bug of Due.
type BarrierFlaw uint8

// Flaws.
const (
	IgnorePublishers BarrierFlaw = iota + 1
	IgnoreSubscribers
)

// Leave ends a part. The last of those that are pending opens the barrier.
func (b *Barrier) Leave(p Part) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.take(p)
	if b.phase != barrierOpen && b.pending == 0 && p == Pending {
		b.phase = barrierOpen
	}
}

// Idle reports whether nobody is there.
func (b *Barrier) Idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.publishing+b.subscribing+b.pending == 0
}

func (b *Barrier) take(p Part) {
	n := b.count(p)
	*n--
	invariant.Assert(*n >= 0, "a part at the barrier that nobody has taken has ended")
}

func (b *Barrier) count(p Part) *int {
	switch p {
	case Publishing:
		return &b.publishing
	case Pending:
		return &b.pending
	}
	return &b.subscribing
}
