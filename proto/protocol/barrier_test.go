package protocol

import (
	"testing"
	"time"

	"drtmd/internal/invariant"
)

// TestABarrierPublishesAnEpochAtOnce: nobody enters from the end of an epoch until all its results are there, and these
// are due when publishers and subscribers of the epoch have done their part (DrTM §4.2).
func TestABarrierPublishesAnEpochAtOnce(t *testing.T) {
	const epoch = time.Millisecond
	var b Barrier
	due := func(now time.Duration, want bool) {
		t.Helper()
		if got := b.Due(now, epoch, 0); got != want {
			t.Errorf("at %v: due %t", now, got)
		}
	}
	enter := func(p Part, want bool) {
		t.Helper()
		if got := b.Enter(p); got != want {
			t.Errorf("part %d enters: %t", p, got)
		}
	}
	enter(Publishing, true)
	enter(Publishing, true)
	enter(Subscribing, true)
	b.Defer()
	due(epoch/2, false)
	enter(Subscribing, true) // the epoch is not over
	due(epoch, false)        // it is: the others are waited for
	enter(Subscribing, false)
	enter(Publishing, false)
	b.Defer()
	due(epoch, false)
	b.Leave(Subscribing)
	due(epoch, false)
	b.Leave(Subscribing)
	due(epoch, true)
	b.Leave(Pending)
	enter(Subscribing, false) // half of the results are there
	b.Leave(Pending)
	enter(Subscribing, true)
	enter(Publishing, true)
	b.Defer()
	due(epoch+epoch/2, false) // a new epoch
	due(2*epoch, false)
	b.Leave(Pending) // it gives up: nobody waits for it
	enter(Publishing, true)
}

// TestABarrierIsLeftOnce, by those that have entered.
func TestABarrierIsLeftOnce(t *testing.T) {
	defer func() {
		if _, ok := recover().(invariant.Violation); !ok {
			t.Error("a subscriber that is not there has left")
		}
	}()
	var b Barrier
	b.Leave(Subscribing)
}
