package occ

import (
	"errors"
	"fmt"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/onesided"
	"drtmd/proto/recovery"
	"drtmd/verbs/rpc"
)

// Commit implements proto.Tx: LOCK, VALIDATE, LOG, COMMIT, TRUNCATE.
func (t *tx) Commit() error {
	if err := t.F.Err(); err != nil {
		t.finish(history.Aborted)
		return err
	}
	f := t.F
	was := f.Shield()
	defer f.Unshield(was)
	if t.e.locksInLog() && t.changes() {
		return t.commitInLog()
	}
	err := t.reserve()
	if len(t.Ranges) > 0 {
		t.regions = false // they are looked at again before anything is written
	}
	if err == nil {
		err = t.lockWrites()
	}
	if err == nil && t.e.lacks(readLocksBack) {
		t.unlockReads()
	}
	if err == nil && t.regions && t.changes() {
		err = t.commitRegion()
	}
	if err == nil {
		err = t.checkRanges()
	}
	if err == nil {
		err = t.validate()
	}
	if err == nil && !t.placed && !t.mayTell() {
		err = t.UnreachableAt(t.e.Env.Node, rpc.ErrPeerGone)
	}
	sent := false
	if err == nil && t.e.lacks(commitFirst) {
		t.NoteWrites()
		t.release(proto.PhaseCommit)
	}
	if err == nil {
		sent, err = t.log()
	}
	if err != nil {
		return t.notLogged(sent, "backups", err)
	}
	return t.carryOut()
}

// notLogged ends an attempt that has not got behind LOG, with the error of Commit. If its records were sent, some of
// the holders may have them, and nobody knows yet how it ends.
func (t *tx) notLogged(sent bool, holders string, err error) error {
	if !sent || t.F.Err() != nil {
		t.finish(history.Aborted)
		return err
	}
	t.e.Counters.Unknown++
	t.End(history.Unknown)
	t.e.backups.unfinished = append(t.e.backups.unfinished, t)
	return fmt.Errorf("%w: not all %s have the update: %w", proto.ErrUnknownOutcome, holders, err)
}

// carryOut is COMMIT and TRUNCATE, of a transaction that takes place. With backups it is committed already,
// and what is left to do at a primary is not the client's concern.
func (t *tx) carryOut() error {
	t.NoteWrites()
	logged := len(t.logs) > 0
	if logged {
		if err := t.e.view.await(t.F); err != nil {
			return err
		}
		if t.epoch != t.e.view.epoch {
			t.Told()
			return t.carryOutAnew()
		}
		t.e.view.busy++
		if t.e.strategy.Undo && !t.e.lacks(ownBackupLate) { // others read there when the client has been told
			t.applyOwn()
		}
		t.Told()
	} else if !t.placed && !t.e.view.beginRelease(t) {
		return t.F.Err()
	}
	defer t.e.view.end()
	if t.e.lacks(truncateEarly) {
		t.truncate()
	}
	t.F.Step(stepCommit)
	if logged && (!t.e.strategy.Undo || t.e.lacks(ownBackupLate)) {
		t.applyOwn()
	}
	if logged && t.e.strategy.Unawaited && len(t.e.unawaited) < mostUnawaited {
		t.writeFirst(proto.PhaseCommit)
		if t.askRelease(proto.PhaseCommit, 0); t.asked > 0 {
			t.F.Step(stepCommitted)
			t.leaveUnawaited()
			return nil
		}
	} else {
		t.release(proto.PhaseCommit)
	}
	t.F.Step(stepCommitted)
	r := t.unconfirmed()
	known := r == nil || logged
	t.truncate()
	var err error
	switch {
	case !known:
		err = fmt.Errorf("%w: node %d did not confirm an update", proto.ErrUnknownOutcome, r.Node)
	case t.placed && !t.mayTell():
		err = fmt.Errorf("%w: this node may be no member any more", proto.ErrUnknownOutcome)
	}
	if err != nil {
		t.e.Counters.Unknown++
		t.End(history.Unknown)
		t.leave()
		return err
	}
	t.e.Counters.Committed++
	t.End(history.Committed)
	t.leave()
	return nil
}

// mayTell reports whether the client may be told of what the transaction has seen: nobody serves in the place of
// this node, which may hold the only copy of it.
func (t *tx) mayTell() bool {
	return t.e.view == nil || t.e.Env.MayServe() || t.e.lacks(serveLeaseless)
}

// carryOutAnew is carryOut of a transaction whose records were complete when the view changed.
func (t *tx) carryOutAnew() error {
	v := t.e.view
	n := t.noteOwn()
	for {
		if err := v.await(t.F); err != nil {
			return err
		}
		r := v.run(t.F)
		err := r.settle(n, !t.e.lacks(toldAborted))
		if err == nil {
			t.letGo()
			r.end()
			break
		}
		r.end()
		if !errors.Is(err, errStopped) {
			return err
		}
	}
	t.endLog()
	t.e.Counters.Committed++
	t.End(history.Committed)
	t.leave()
	return nil
}

// letGo forgets the locks of the updates of a transaction that was settled on all nodes, and gives those back of
// what it has locked and not changed.
func (t *tx) letGo() {
	for i := range t.Records {
		if r := &t.Records[i]; t.logsRecord(r) {
			r.Own.Hold, r.Own.Stored = onesided.Nothing, r.Changes()
		}
	}
	v := t.e.view
	v.forgetGone(t)
	v.busy++
	t.release(proto.PhaseCommit)
	v.end()
}

// endLog ends the part in logs of a transaction that was settled on all nodes.
func (t *tx) endLog() {
	t.unreserve()
	t.raiseOwn() // if it was aborted, nothing is left of it
	t.e.backups.decide(t.logs)
	t.logs, t.inLog, t.verdict = t.logs[:0], false, 0
}

// applyOwn applies the update to the replicas of the own machine that are backups.
func (t *tx) applyOwn() {
	if t.e.lacks(ownBackupForgotten) {
		return
	}
	if t.e.locksInLog() {
		t.raiseOwn()
		return
	}
	for i := range t.Records {
		r := &t.Records[i]
		s := t.e.replica(r.At.Shard)
		if !r.Changes() || r.Node == t.e.Env.Node || s == nil {
			continue
		}
		w := recovery.Write{Shard: r.At.Shard, Table: r.Table, Key: r.Key, Version: r.Next()}
		if r.Is {
			w.Value = r.Value
		}
		t.F.Charge(recordCostPs)
		for !t.e.apply(s, &w) {
			if t.F.Yield() != nil {
				return // the node was killed
			}
		}
	}
}

// changes reports whether the transaction changes anything.
func (t *tx) changes() bool {
	for i := range t.Records {
		if t.Records[i].Changes() {
			return true
		}
	}
	return false
}

// unconfirmed is a record whose update was not confirmed; nil: there is none.
func (t *tx) unconfirmed() *record {
	for i := range t.Records {
		if r := &t.Records[i]; r.Changes() && !r.Own.Stored {
			return r
		}
	}
	return nil
}

// Rollback implements proto.Tx: what the program saw is validated before it is told.
func (t *tx) Rollback() error {
	err := t.F.Err()
	if err == nil && !t.e.lacks(rollbackUnvalidated) {
		was := t.F.Shield()
		if t.e.strategy.by(proto.PhaseValidate) == 0 {
			err = t.lockWrites() // locks take the place of VALIDATE
		}
		if err == nil {
			err = t.checkRanges()
		}
		if err == nil {
			err = t.validate()
		}
		t.F.Unshield(was)
	}
	if err == nil && !t.mayTell() {
		err = t.UnreachableAt(t.e.Env.Node, rpc.ErrPeerGone)
	}
	if err != nil {
		t.finish(history.Aborted)
		return err
	}
	t.e.Counters.RolledBack++
	t.finish(history.UserAborted)
	return nil
}

// Abort implements proto.Tx.
func (t *tx) Abort(error) { t.finish(history.Aborted) }

// leave gives the transaction object back. Locks that are left belong to nodes that cannot be reached;
// they keep the transaction's word, so the object takes another.
func (t *tx) leave() {
	owes := t.e.locksInLog() && t.name != 0 // its lock word is in logs, whose hosts unlock with it once more
	for i := range t.Records {
		r := &t.Records[i]
		if r.Own.Hold == onesided.Nothing {
			continue
		}
		owes = true
		if t.e.strategy.by(proto.PhaseCommit) == OneSided {
			t.Owe(r, r.Changes() && !r.Own.Stored)
			continue
		}
		d := t.e.DebtAt(r.Node, r.Table, r.Key, r.Own.Off, uint64(t.word))
		d.Shard = r.At.Shard
		if d.Value = r.Is; r.Changes() && !r.Own.Stored && !t.e.lacks(noDebtUpdate) {
			r.Seal(r.Next())
			d.Entry = r.Image
		}
		if !t.e.lacks(noDebt) {
			t.e.owed.Owe(d)
		}
	}
	if owes && !t.e.lacks(noNewWord) {
		t.word = t.e.words.Next()
	}
	t.F, t.placed = nil, false
	t.e.free = append(t.e.free, t)
}
