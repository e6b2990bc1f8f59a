package drtm

import (
	"time"

	"drtmd/proto"
	"drtmd/proto/onesided"
)

// Pauses between two looks at a lock that the fallback handler waits for.
const (
	lockPauseFirst = 2 * time.Microsecond
	lockPauseMost  = 64 * time.Microsecond
)

// fallback locks everything, and has no region.
var fallback = way{byVerbs: true, start: (*tx).lockAll, commit: (*tx).confirmFallback,
	rollback: func(t *tx) error {
		if err := t.sameRanges(); err != nil {
			return err
		}
		if !t.Confirm() {
			return proto.Aborting(proto.ReasonLease)
		}
		return nil
	}}

// lockAll is START of the fallback handler (§7.2): the attempt before has released everything;
// now all records, local ones included and by verbs like the others (§7.3), are locked or leased
// one after the other in the global order <table, key>. Since everybody who waits for a lock goes
// by that order and all others hold locks without waiting, nobody waits in a circle, so that a
// lock that is held is waited for.
//
// The leases that are taken first may end before the last lock is taken; a transaction to which
// that happens takes write locks for its reads too the next time.
func (t *tx) lockAll() error {
	t.F.Step("drtm: fallback")
	if !t.e.lacks(NoOrder) {
		t.Sort()
	}
	t.exclusive = t.exclusive || t.late
	if err := t.Locate(0, len(t.Records)); err != nil {
		return err
	}
	if err := t.nameLocks(false); err != nil {
		return err
	}
	for i := range t.Records {
		if err := t.lockOne(i); err != nil {
			return err
		}
		t.F.Step("drtm: fallback locked one")
	}
	if t.end != 0 && !t.valid() && !t.e.lacks(NoValidInStart) {
		t.late = true
		return proto.Aborting(proto.ReasonLease)
	}
	return nil
}

// lockOne locks or leases one record, waiting for others' locks and leases.
func (t *tx) lockOne(i int) error {
	e := t.e
	deadline := e.Env.Clock.Now() + e.cfg.LockWait
	pause := lockPauseFirst
	for {
		was := t.F.Shield()
		t.leaseTo = t.leaseEnd()
		again, err := onesided.Round(&t.Tx, t, i, i+1)
		t.F.Unshield(was)
		switch reason := proto.AbortReason(err); {
		case err == nil && !again:
			return nil
		case err == nil: // the state that was found is expected now
		case reason == proto.ReasonLeased:
			e.Counters.LeaseWaits++
		case reason != proto.ReasonLocked:
			return err
		}
		if e.Env.Clock.Now() > deadline {
			if err == nil {
				err = proto.Aborting(proto.ReasonConflict)
			}
			return err
		}
		if err != nil {
			if err := t.F.Sleep(pause); err != nil {
				return err
			}
			pause = min(2*pause, lockPauseMost)
		}
	}
}

// confirmFallback is the commit point of the fallback handler: leases are confirmed before any
// update, since nothing can be undone afterwards.
func (t *tx) confirmFallback() error {
	if err := t.spent(true); err != nil {
		return err
	}
	if err := t.atRest(); err != nil {
		return err
	}
	if err := t.sameRanges(); err != nil {
		return err
	}
	if !t.confirmed(NoConfirmFallback) {
		t.late = true
		return proto.Aborting(proto.ReasonLease)
	}
	t.F.Step("drtm: fallback confirmed")
	if t.e.lacks(FallbackBeforeLog) {
		return nil
	}
	return t.logWrites()
}
