package drtm

import (
	"time"

	"drtmd/proto"
)

// The points at which deliberate bugs (Mutation) are injected into the protocol, as questions that it
// asks. The honest answer is found first, so that a point costs nothing while there is no bug.

// lacks reports whether a step is left out.
func (e *Engine) lacks(m Mutation) bool { return e.cfg.Mutation == m }

// lockSeen: START sees another's lock.
func (e *Engine) lockSeen(t *tx, r *record, s State) bool {
	return s.Locked() && !e.lacks(NoLockSeen) &&
		!(e.lacks(OrphanTaken) && proto.AbortReason(t.Met(r, uint64(s))) == proto.ReasonOrphaned)
}

// oneByOne is the mutation FallbackBeforeLog, which is in the middle of its updates for as long as each takes.
func (t *tx) oneByOne() {
	if t.e.lacks(FallbackBeforeLog) && t.way == &fallback {
		_ = t.Batch.Await(t.F)
		t.F.Step("drtm: after release")
	}
}

// logLate is the mutation FallbackBeforeLog: the fallback handler logs its updates when it has made them.
func (t *tx) logLate() error {
	if t.e.lacks(FallbackBeforeLog) && t.way == &fallback {
		return t.logWrites()
	}
	return nil
}

// leaseOver: START may take over a record whose lease has ended.
func (e *Engine) leaseOver(s State, lock bool) bool {
	return e.expired(s.End()) || s.Locked() || lock && e.lacks(NoLeaseSeen)
}

// endOfOwn is the end of a lease that was taken, asked until a time.
func (e *Engine) endOfOwn(s State, asked time.Duration) time.Duration {
	if e.lacks(NoRounding) {
		return asked
	}
	return s.End()
}

// endOfJoined is the end of one that another has taken.
func (e *Engine) endOfJoined(s State, asked time.Duration) time.Duration {
	if e.lacks(NoJoinedEnd) {
		s = LeasedUntil(asked)
	}
	return s.End()
}

// expired is EXPIRED by softtime.
func (e *Engine) expired(end time.Duration) bool {
	delta := e.softDelta
	if e.lacks(NoDeltaInExpired) {
		delta = 0
	}
	return Expired(end, e.soft, delta)
}

// valid is VALID for the common end of the leases, by the real clock.
func (t *tx) valid() bool {
	now, delta := t.e.soft, t.e.softDelta
	if !t.e.lacks(SoftTimeInValid) {
		now, delta = t.e.now()
	}
	if t.e.lacks(NoDeltaInValid) {
		delta = 0
	}
	return Valid(t.end, now, delta)
}

// startUnjudged: START does not look whether its leases are of use.
func (e *Engine) startUnjudged() bool { return e.lacks(NoValidInStart) || e.lacks(NoConfirm) }

// entryNeeded: there are no line words, so that only an entry can say that a record is absent.
func (e *Engine) entryNeeded() bool { return !e.glob && !e.lacks(AbsenceWithoutEntry) }

// absenceBelieved: the commit has no version to compare, because the record is absent without an entry.
func (e *Engine) absenceBelieved(r *record) bool { return !r.Own.Found && e.lacks(AbsenceWithoutEntry) }

// localUnjudged: a state that is in the way of a local access is not looked at.
func (e *Engine) localUnjudged(s State, write bool) bool {
	if write {
		return e.lacks(NoStateCheck) || !s.Locked() && e.lacks(NoLeaseCheckLocal)
	}
	return e.lacks(NoStateCheckRead)
}

// confirmUnjudged: the commit of the region does not confirm the leases.
func (e *Engine) confirmUnjudged() bool { return e.lacks(NoConfirm) || e.lacks(ConfirmBeforeLock) }

// confirmed is Confirm where no region ends, unless m leaves it out.
func (t *tx) confirmed(m Mutation) bool { return t.Confirm() || t.e.lacks(m) }

// confirmedEarly is the mutation ConfirmBeforeLock: COMMIT in the order that the paper prints.
func (t *tx) confirmedEarly() error {
	switch {
	case !t.e.lacks(ConfirmBeforeLock) || t.end == 0:
		return nil
	case !t.valid():
		return proto.Aborting(proto.ReasonLease)
	}
	t.F.Step("drtm: confirmed before XEND")
	t.F.Charge(costCommit)
	return nil
}

// rollbackUnjudged: a rollback does not look whether what the program saw is valid.
func (e *Engine) rollbackUnjudged(d *proto.Decl) bool {
	return e.lacks(NoRollbackCheck) && !d.ReadOnly || e.lacks(NoReadOnlyRollbackCheck) && d.ReadOnly
}

// usedUp: the incarnations of a record that the transaction changes are.
func (e *Engine) usedUp(r *record) bool {
	return r.Version.Spent() && r.Changes() && !e.lacks(NoSpent)
}

// unlocked and the following are what the rounds of a read-only transaction look at.
func (e *Engine) lockInFirstRound(s State) bool { return s.Locked() && !e.lacks(NoLockInFirstRound) }

// sameInRounds: the second round has found what the first did.
func (e *Engine) sameInRounds(key, version, unlocked bool) bool {
	return (key || e.lacks(NoKeyInRounds)) && (version || e.lacks(NoVersionInRounds)) &&
		(unlocked || e.lacks(NoLockInRounds)) || e.lacks(NoSecondRound)
}

// sameInCommit: without line words, the commit has found what LocalTX did.
func (e *Engine) sameInCommit(key, version, unlocked bool) bool {
	return (key || e.lacks(HCANoKeyInValidate)) && (version || e.lacks(HCANoVersionInValidate)) &&
		(unlocked || e.lacks(HCANoLockInValidate)) || e.lacks(HCANoValidate)
}
