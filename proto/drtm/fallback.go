package drtm

import (
	"time"

	"drtmd/proto"
)

// Pauses between two looks at a lock that the fallback handler waits for.
const (
	lockPauseFirst = 2 * time.Microsecond
	lockPauseMost  = 64 * time.Microsecond
)

// lockAll is START of the fallback handler (§7.2): the attempt before has released everything;
// now all records, local ones included and by verbs like the others (§7.3), are locked or leased
// one after the other in the global order <table, key>. Since everybody who waits for a lock goes
// by that order and all others hold locks without waiting, nobody waits in a circle, so that a
// lock that is held is waited for.
//
// The leases that are taken first may end before the last lock is taken; a transaction to which
// that happens takes write locks for its reads too the next time.
func (t *tx) lockAll() error {
	t.f.Step("drtm: fallback")
	if !t.e.lacks(NoOrder) {
		t.order()
	}
	t.exclusive = t.late
	if err := t.places(); err != nil {
		return err
	}
	for i := range t.items {
		if err := t.lockOne(&t.items[i]); err != nil {
			return err
		}
		t.f.Step("drtm: fallback locked one")
	}
	if t.end != 0 && !t.valid() && !t.e.lacks(NoValidInStart) {
		t.late = true
		return proto.Aborting(proto.ReasonLease)
	}
	return nil
}

// lockOne locks or leases one record, waiting for others' locks and leases.
func (t *tx) lockOne(it *item) error {
	e := t.e
	deadline := e.clock.Now() + e.cfg.LockWait
	pause := lockPauseFirst
	for {
		was := t.f.Shield()
		t.batch.Reset()
		if it.word == Init {
			it.word = e.hints.expect(it.node, it.off, e)
		}
		lease := t.leaseEnd()
		t.post(it, lease)
		_ = t.batch.Await(t.f) // judge looks at the errors
		again, err := t.judge(it, lease)
		t.f.Unshield(was)
		switch reason := proto.AbortReason(err); {
		case err == nil && !again:
			return nil
		case err == nil: // the state that was found is expected now
		case reason == proto.ReasonLeased:
			e.stats.LeaseWaits++
		case reason != proto.ReasonLocked:
			return err
		}
		if e.clock.Now() > deadline {
			if err == nil {
				err = proto.Aborting(proto.ReasonConflict)
			}
			return err
		}
		if err != nil {
			if err := t.f.Sleep(pause); err != nil {
				return err
			}
			pause = min(2*pause, lockPauseMost)
		}
	}
}

// confirmFallback is the commit point of the fallback handler: leases are confirmed before any
// update, since nothing can be undone afterwards, then the updates are logged ahead. The write
// locks that are held keep the transaction at that point whatever the log takes.
func (t *tx) confirmFallback() error {
	if err := t.spent(true); err != nil {
		return err
	}
	if !t.Confirm() && !t.e.lacks(NoConfirmFallback) {
		t.late = true
		return proto.Aborting(proto.ReasonLease)
	}
	t.f.Step("drtm: fallback confirmed")
	if t.e.cfg.LogAhead == nil {
		return nil
	}
	for i := range t.items {
		it := &t.items[i]
		if !it.changes() {
			continue
		}
		u := Update{Node: it.node, Table: it.table, Key: it.key,
			Version: proto.Version(it.next())}
		if it.is {
			u.Value = it.value()
		}
		if err := t.e.cfg.LogAhead(t.f, u); err != nil {
			return err
		}
	}
	return nil
}
