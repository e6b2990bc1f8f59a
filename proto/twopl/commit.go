package twopl

import (
	"fmt"

	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/store/layout"
	"drtmd/verbs"
)

// Marked steps of the end.
const (
	stepCommit    = "twopl: before write back"
	stepWritten   = "twopl: record written back" // or posted, after each
	stepCommitted = "twopl: after write back"
	stepAbort     = "twopl: before release"
	stepReleased  = "twopl: after release" // of an attempt without effect
)

// Commit implements proto.Tx.
func (t *tx) Commit() error {
	if err := t.f.Err(); err != nil {
		t.finish(history.Aborted)
		return err
	}
	was := t.f.Shield()
	defer t.f.Unshield(was)
	t.recordWrites()
	t.f.Step(stepCommit)
	err := t.writeBack()
	if err != nil && t.uncertain() && !t.e.lacks(UnknownCommitted) {
		t.e.stats.Unknown++
		t.stopRecording(history.Unknown)
		t.reclaim()
		t.leave()
		return fmt.Errorf("%w: %w", proto.ErrUnknownOutcome, err)
	}
	// Every write is in memory; what may have failed is to give locks back.
	t.f.Step(stepCommitted)
	t.e.stats.Committed++
	t.stopRecording(history.Committed)
	t.reclaim()
	t.leave()
	return nil
}

// Rollback implements proto.Tx: everything read is locked, so the view is valid.
func (t *tx) Rollback() error {
	t.e.stats.RolledBack++
	t.finish(history.UserAborted)
	return nil
}

// Abort implements proto.Tx.
func (t *tx) Abort(error) { t.finish(history.Aborted) }

// writeBack writes what was changed and unlocks what will exist, all at once. Entries that end
// absent stay locked, for reclaim.
func (t *tx) writeBack() error {
	t.batch.Reset()
	for i := range t.records {
		r := &t.records[i]
		r.op, r.ops = t.batch.Len(), 0
		if r.lock == lockNone {
			continue
		}
		changed := r.changed()
		if changed && !t.e.lacks(NoVersion) {
			r.setVersion(r.next())
		}
		if t.cpuLocal(r) {
			t.f.Charge(cpuLockCostPs)
		}
		if !t.cpuLocal(r) || !t.cpuPublish(r) {
			t.postWriteBack(r)
		}
		if changed {
			t.f.Step(stepWritten)
		}
	}
	if t.batch.Len() == 0 {
		return nil
	}
	err := t.batch.Await(t.f)
	t.settle()
	return err
}

// postWriteBack posts what writes a record back and unlocks it. The state word is changed by CAS
// only (design decision 3). Nothing is posted behind a request that could not be: the lock is
// held then until all was written.
func (t *tx) postWriteBack(r *record) {
	p := &t.e.cfg.Peers[r.node]
	addr, rkey, conn := p.Memory.Addr+r.off, p.Memory.RKey, p.Conn
	r.posted = true
	posted := func() bool {
		r.ops++
		r.posted = r.posted && t.batch.Err(t.batch.Len()-1) == nil
		return r.posted || t.e.lacks(PostOn)
	}
	unlock := func() {
		if t.e.lacks(PostOn) {
			conn = p.Conn
		}
		if !r.endsAbsent() {
			t.postUnlockOn(r, conn)
			posted()
		}
	}
	if t.e.lacks(UnlockFirst) {
		unlock()
	}
	if r.changed() {
		t.batch.Write(t.f, conn, piece(r.sge, layout.VersionOffset, 8),
			addr+layout.VersionOffset, rkey)
		if !posted() {
			return
		}
		if r.live {
			t.batch.Write(t.f, conn, piece(r.sge, layout.ValueOffset, r.table.valueBytes),
				addr+layout.ValueOffset, rkey)
			if !posted() {
				return
			}
		}
	}
	if !t.e.lacks(UnlockFirst) {
		unlock()
	}
}

// piece is a part of a record's copy.
func piece(s verbs.SGE, offset, length int) verbs.SGE {
	return verbs.SGE{Addr: s.Addr + uint64(offset), Length: uint32(length), LKey: s.LKey}
}

// settle takes down which of the posted records were confirmed.
func (t *tx) settle() {
	for i := range t.records {
		r := &t.records[i]
		if r.ops == 0 || !r.posted {
			continue
		}
		confirmed := true
		for op := r.op; op < r.op+r.ops; op++ {
			confirmed = confirmed && t.batch.Err(op) == nil
		}
		if t.e.lacks(SettleUnconfirmed) {
			r.stored, r.lock = r.changed(), lockNone
			continue
		}
		if !confirmed {
			continue
		}
		r.stored = r.changed()
		if r.endsAbsent() {
			continue // reclaim unlocks it
		}
		word := t.word
		if !t.e.lacks(UnlockByWrite) && !t.e.lacks(UnlockFirst) {
			word = lockWord(t.batch.Old(r.op + r.ops - 1))
		}
		if word != t.word && r.lock != lockAsked { // the message's arguments would be allocated
			invariant.Assertf(false, "twopl: the lock of %v was %v when it was given back", t.word,
				word)
		}
		r.lock = lockNone
	}
}

// uncertain reports whether a write was not confirmed.
func (t *tx) uncertain() bool {
	for i := range t.records {
		if r := &t.records[i]; r.changed() && !r.stored {
			return true
		}
	}
	return false
}
