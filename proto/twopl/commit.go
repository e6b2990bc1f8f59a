package twopl

import (
	"fmt"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/onesided"
	"drtmd/verbs"
)

// Commit implements proto.Tx.
func (t *tx) Commit() error {
	if err := t.F.Err(); err != nil {
		t.finish(history.Aborted)
		return err
	}
	was := t.F.Shield()
	defer t.F.Unshield(was)
	if err := t.CheckRanges(); err != nil {
		t.finish(history.Aborted)
		return err
	}
	t.NoteWrites()
	t.F.Step(stepCommit)
	err := t.writeBack()
	if err != nil && t.uncertain() && !t.e.lacks(UnknownCommitted) {
		t.e.Counters.Unknown++
		t.End(history.Unknown)
		t.reclaim()
		t.leave()
		return fmt.Errorf("%w: %w", proto.ErrUnknownOutcome, err)
	}
	// Every write is in memory; what may have failed is to give locks back.
	t.F.Step(stepCommitted)
	t.e.Counters.Committed++
	t.End(history.Committed)
	t.reclaim()
	t.leave()
	return nil
}

// Rollback implements proto.Tx: everything read is locked, so the view is valid, but for scanned ranges.
func (t *tx) Rollback() error {
	if err := t.CheckRanges(); err != nil {
		t.finish(history.Aborted)
		return err
	}
	t.e.Counters.RolledBack++
	t.finish(history.UserAborted)
	return nil
}

// Abort implements proto.Tx.
func (t *tx) Abort(error) { t.finish(history.Aborted) }

// finish ends the transaction without effect.
func (t *tx) finish(o history.Outcome) {
	f := t.F
	was := f.Shield()
	defer f.Unshield(was)
	if f.Err() != nil {
		return // the node was killed: what is locked stays so
	}
	t.End(o)
	for i := range t.Records {
		if r := &t.Records[i]; !t.e.lacks(AbortWrites) {
			r.Dirty, r.Is = false, r.Was
		}
		if t.e.lacks(AbortKeepsLocks) {
			t.Records[i].Own.Hold = onesided.Nothing
		}
	}
	f.Step(stepAbort)
	_ = t.writeBack() // leave looks at what could not be given back
	t.reclaim()
	f.Step(stepReleased)
	t.leave()
}

// writeBack writes what was changed and unlocks what will exist, all at once. Entries that end
// absent stay locked, for reclaim.
func (t *tx) writeBack() error {
	t.Batch.Reset()
	for i := range t.Records {
		r := &t.Records[i]
		if r.Own.Op = -1; r.Own.Hold == onesided.Nothing {
			continue
		}
		local := t.cpuLocal(r)
		if local {
			t.F.Charge(cpuLockCostPs)
		}
		if !local || !t.cpuPublish(r) {
			t.Back(r, r.Changes(), !endsAbsent(r))
		}
		if r.Changes() {
			t.F.Step(stepWritten)
		}
	}
	if t.Batch.Len() == 0 {
		return nil
	}
	return t.settle()
}

// settle waits, and takes down which of the posted records were confirmed.
func (t *tx) settle() error {
	err := t.Batch.Await(t.F)
	for i := range t.Records {
		r := &t.Records[i]
		if r.Own.Op < 0 || r.Own.Hold == onesided.Nothing || !t.Confirmed(r) {
			continue
		}
		if r.Own.Stored = r.Changes(); !endsAbsent(r) { // else reclaim unlocks it
			r.Own.Hold = onesided.Nothing
		}
	}
	return err
}

// endsAbsent reports whether the record is locked and will not exist when the transaction has
// ended, so that its entry is of no use.
func endsAbsent(r *record) bool {
	return r.Own.Hold == onesided.Locked && r.Loaded && !r.Is
}

// uncertain reports whether a write was not confirmed.
func (t *tx) uncertain() bool {
	for i := range t.Records {
		if r := &t.Records[i]; r.Changes() && !r.Own.Stored {
			return true
		}
	}
	return false
}

// reclaim gives the entries back that end absent, under their locks, and then the locks. What
// fails here leaves an absent entry behind, for whoever locks it next.
func (t *tx) reclaim() {
	there := false
	for i := range t.Records {
		r := &t.Records[i]
		switch word, ok := t.reclaimable(r); {
		case !ok:
		case r.Node != t.e.Env.Node:
			there = true
		default:
			t.F.Charge(recordCostPs)
			t.reclaimed(r, t.e.Unlink(r.Table, r.Key, word, onesided.HostTries))
		}
	}
	if there {
		t.Reclaim(t.reclaimableThere, t.reclaimed)
	}
	t.Batch.Reset()
	for i := range t.Records {
		r := &t.Records[i]
		// What was written in part stays locked.
		if r.Own.Op = -1; r.Own.Hold != onesided.Nothing &&
			(!r.Changes() || r.Own.Stored || t.e.lacks(HalfUnlocked)) {
			r.Own.Hold = onesided.Asked // a reclaimed entry may be another's by now
			t.Back(r, false, true)
		}
	}
	if t.Batch.Len() > 0 {
		_ = t.settle() // leave looks at what is left
	}
}

// reclaimable reports whether the record's entry is to be given back, and with which state word:
// it is locked and ends absent; or it was made for the transaction, which was refused another
// record. Without the lock only regions that exclude the device can tell that nobody else has it.
func (t *tx) reclaimable(r *record) (word uint64, ok bool) {
	if endsAbsent(r) {
		return uint64(t.word), true
	}
	spare := r.Own.Ensured && r.Own.Found && r.Own.Hold == onesided.Nothing
	return uint64(onesided.Unlocked), spare && (t.e.Env.Scope == verbs.AtomicGlob || t.e.lacks(SpareAnywhere))
}

func (t *tx) reclaimableThere(r *record) (word uint64, ok bool) {
	if r.Node == t.e.Env.Node {
		return 0, false
	}
	return t.reclaimable(r)
}

// reclaimed takes down what became of a record's entry.
func (t *tx) reclaimed(r *record, c onesided.Code) {
	r.Own.Found = false
	if c == onesided.Done && t.e.Env.Scope == verbs.AtomicGlob {
		r.Own.Hold = onesided.Nothing
	}
}

// leave gives the transaction object back. Locks that are left belong to nodes that cannot be
// reached; they keep the transaction's word, so the object takes another.
func (t *tx) leave() {
	owes := false
	for i := range t.Records {
		if r := &t.Records[i]; r.Own.Hold != onesided.Nothing {
			t.Owe(r, r.Changes() && !r.Own.Stored)
			owes = true
		}
	}
	if owes && !t.e.lacks(NoNewWord) {
		t.nameLocks()
	}
	t.F = nil
	t.e.free = append(t.e.free, t)
}
