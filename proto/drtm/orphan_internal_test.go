package drtm

import (
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/store/layout"
)

// TestEveryLockThatStaysIsCalledOrphaned: also if many more stay than fit into the places where
// they are remembered, all of them waited for at the same time.
func TestEveryLockThatStaysIsCalledOrphaned(t *testing.T) {
	e := &Engine{cfg: Config{OrphanAfter: 100 * time.Millisecond}, soft: time.Second}
	o := &e.orphans
	const locks = 8 * orphanWays
	var waiting []*item
	for off := 0; len(waiting) < locks; off += layout.EntryAlignment {
		if o.set(1, off) == o.set(1, 0) {
			waiting = append(waiting, &item{node: 1, off: off})
		}
	}
	limit := e.soft + 2*locks/orphanWays*e.cfg.OrphanAfter
	for len(waiting) > 0 {
		if e.soft > limit {
			t.Fatalf("%d of %d locks are waited for after %v", len(waiting), locks, limit)
		}
		var still []*item
		for _, it := range waiting {
			e.soft += 30 * time.Microsecond
			s := LockedBy(2, Ticket(it.off+1))
			if proto.AbortReason(o.met(e, it, s)) != proto.ReasonOrphaned {
				still = append(still, it)
			}
		}
		waiting = still
	}
}

// TestTicketsOfAnotherLifeAreOthers: a worker that begins later repeats no ticket of the life
// before, whose locks may still be held, and no worker has another's.
func TestTicketsOfAnotherLifeAreOthers(t *testing.T) {
	seen := map[Ticket]bool{}
	for worker := range uint16(3) {
		for life := range 3 {
			k := newTickets(worker, time.Duration(life)*time.Millisecond)
			for range 999 { // less than one a microsecond: none is numbered 0
				x := k.take()
				if x == 0 || seen[x] {
					t.Fatalf("ticket %d of worker %d is none, or there twice", x, worker)
				}
				seen[x] = true
			}
		}
	}
}

// TestTicketsGoOnWhenTheirCountIsUsedUp, and stay the worker's.
func TestTicketsGoOnWhenTheirCountIsUsedUp(t *testing.T) {
	k := tickets{1<<ticketBits - 1}
	last, next := k.take(), k.take()
	if last != 1<<ticketBits-1 || next != 1 {
		t.Errorf("ticket %#x after %#x", next, last)
	}
}
