package drtm

import (
	"testing"
	"time"
)

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
	k := tickets{next: 1<<ticketBits - 1}
	last, next := k.take(), k.take()
	if last != 1<<ticketBits-1 || next != 1 {
		t.Errorf("ticket %#x after %#x", next, last)
	}
}
