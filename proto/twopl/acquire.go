package twopl

import (
	"drtmd/proto"
	"drtmd/proto/onesided"
)

// record is a record of a transaction.
type record = onesided.Record

// relocations bounds how often the records of one Load are looked up again, because what was
// locked turned out to belong to another key.
const relocations = 8

// Load locks and reads the records from index from to before index to. After an error some may be
// locked: finish gives them back.
func (t *tx) Load(from, to int) error {
	if from == to {
		return nil
	}
	t.F.Step(stepLocate)
	for range relocations {
		if err := t.Locate(from, to); err != nil {
			return err
		}
		t.F.Step(stepLock)
		again, err := t.lock(from, to)
		if err != nil || !again {
			t.F.Step(stepLocked)
			return err
		}
	}
	return proto.Aborting(proto.ReasonStale)
}

// lock asks for the locks that are not held: by the CPU where it may, since a refusal there costs
// nothing, then of the devices. Entries that are not their keys' are unlocked, and looked up again.
func (t *tx) lock(from, to int) (again bool, err error) {
	was := t.F.Shield()
	defer t.F.Unshield(was)
	for i := from; i < to; i++ {
		r := &t.Records[i]
		if r.Own.Hold != onesided.Locked && t.cpuLocal(r) {
			t.F.Charge(cpuLockCostPs)
			if refusal := t.cpuLock(r); refusal != nil {
				return false, refusal
			}
		}
	}
	if _, err = onesided.Round(&t.Tx, t, from, to); err != nil && !onesided.IsStale(err) {
		return false, err
	}
	if again, err = t.giveStaleBack(from, to); err == nil && !again && t.e.lacks(AbsentLocksBack) {
		err = t.earlyUnlock(from, func(r *record) bool { return !r.Was })
	}
	return again, err
}

// Want implements onesided.Locks.
func (t *tx) Want(r *record) uint64 {
	r.Own.Word = uint64(onesided.Unlocked)
	return uint64(t.word)
}

// Posted implements onesided.Locks.
func (t *tx) Posted() {}

// Judge implements onesided.Locks: a lock that somebody else has is not waited for.
func (t *tx) Judge(_ *record, old uint64) onesided.Verdict {
	switch holder := onesided.Word(old); {
	case holder == onesided.Unlocked, t.e.lacks(LockUnjudged), holder == t.word && t.e.lacks(OwnWordHeld):
		return onesided.Taken
	case holder == t.word:
		return onesided.Elsewhere
	}
	return onesided.Refused
}

// giveStaleBack unlocks entries that are not their keys', and says whether there is something to
// be looked up or locked once more.
func (t *tx) giveStaleBack(from, to int) (again bool, err error) {
	t.Batch.Reset()
	for i := from; i < to; i++ {
		r := &t.Records[i]
		again = again || r.Own.Stale
		if r.Own.Stale && r.Own.Hold == onesided.Locked && !t.e.lacks(StaleKept) {
			// What the word holds does not matter: the entry may have been bound anew meanwhile.
			r.Own.Hold = onesided.Asked
			t.Back(r, false, true)
		}
	}
	if !again {
		return false, nil
	}
	_ = t.Batch.Await(t.F) // each has its own error
	for i := from; i < to; i++ {
		r := &t.Records[i]
		switch {
		case !r.Own.Stale:
			continue
		case r.Own.Hold == onesided.Asked && t.Batch.Err(r.Own.Op) != nil:
			err = t.Unreachable(r, t.Batch.Err(r.Own.Op))
		default:
			r.Own.Hold = onesided.Nothing
		}
		r.Own.Stale = false
	}
	return again, err
}

// earlyUnlock is a mutation: locks that the transaction relies on are given back.
func (t *tx) earlyUnlock(from int, which func(*record) bool) error {
	t.Batch.Reset()
	for i := from; i < len(t.Records); i++ {
		if r := &t.Records[i]; r.Own.Hold == onesided.Locked && which(r) {
			t.Back(r, false, true)
			r.Own.Hold = onesided.Nothing
		}
	}
	return t.Batch.Await(t.F)
}
