package drtm

import (
	"drtmd/htm"
	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// Commit makes the writes take effect (COMMIT, Figure 9(a), in the order of design decision 6).
func (t *tx) Commit() error {
	if t.err != nil {
		err := t.err
		t.Abort(err)
		return err
	}
	var err error
	switch t.way {
	case twoRounds, leaseAll:
		err = t.confirmRounds()
	case fallback:
		err = t.confirmFallback()
	default:
		err = t.xend(true)
	}
	if err != nil {
		t.Abort(err)
		return err
	}
	return t.committed()
}

// committed does what is left when the transaction has taken place: its remote updates are
// written back and the records unlocked. Whatever happens now it stays committed: its local writes
// may have been read, and a remote record that cannot be reached stays locked, so that nobody reads
// the value before, until the update is made (Finish) or the machine's recovery makes it.
func (t *tx) committed() error {
	t.noteWrites()
	t.f.Step("drtm: after commit")
	if t.ticket != 0 {
		t.settle(true)
	}
	t.e.stats.Committed++
	t.end0(history.Committed)
	return nil
}

// Rollback ends the transaction without effect if what it read was a valid view: the region
// commits without stores, leases are confirmed, the second round is made.
func (t *tx) Rollback() error {
	err := t.err
	unchecked := t.e.lacks(NoRollbackCheck) && !t.decl.ReadOnly ||
		t.e.lacks(NoReadOnlyRollbackCheck) && t.decl.ReadOnly
	switch {
	case err != nil:
	case unchecked:
		if t.inRegion {
			t.region.Abort(0)
			t.inRegion = false
		}
	default:
		switch t.way {
		case twoRounds, leaseAll:
			err = t.confirmRounds()
		case fallback:
			if !t.Confirm() {
				err = proto.Aborting(proto.ReasonLease)
			}
		default:
			err = t.xend(false)
		}
	}
	if err != nil {
		t.Abort(err)
		return err
	}
	if t.ticket != 0 {
		t.settle(false)
	}
	t.e.stats.RolledBack++
	t.end0(history.UserAborted)
	return nil
}

// Abort ends the attempt without effect: it leaves the region and releases every lock. The runner
// counts the cause.
func (t *tx) Abort(error) {
	if t.ended {
		return
	}
	if t.inRegion {
		t.region.Abort(0)
		t.inRegion = false
	}
	t.f.Step("drtm: abort")
	if t.ticket != 0 && !t.e.lacks(AbortKeepsLocks) {
		t.settle(false)
	}
	t.end0(history.Aborted)
}

// end0 ends the attempt for the history, and gives the object back.
func (t *tx) end0(o history.Outcome) {
	if t.note != nil {
		t.noteEnd(o)
	}
	t.close()
}

// xend ends the region (XEND), with the writes or without. Without local records there is no
// region: the locks are all held, and the leases' confirmation is the point.
func (t *tx) xend(store bool) error {
	if t.e.lacks(ConfirmBeforeLock) && t.end != 0 {
		if !t.valid() {
			return proto.Aborting(proto.ReasonLease)
		}
		t.f.Step("drtm: confirmed before XEND")
		t.f.Charge(costCommit)
	}
	if !t.inRegion {
		if !t.Confirm() && !t.e.lacks(NoConfirmRemote) {
			return proto.Aborting(proto.ReasonLease)
		}
		return t.spent(store)
	}
	if store {
		if err := t.storeLocal(); err != nil {
			return err
		}
		if err := t.spent(store); err != nil {
			return err
		}
		t.noteWrites()
	}
	t.f.Charge(costCommit)
	var c htm.Committer
	switch {
	case !t.e.glob:
		c = (*recordCommitter)(t)
	case t.end != 0:
		c = t
	}
	if !t.region.Commit(c) {
		return t.regionOver()
	}
	t.inRegion = false
	for i := range t.items {
		if it := &t.items[i]; store && !it.verbs && it.was && !it.is {
			t.e.host.forget(it.table, it.key, t.e.soft)
		}
	}
	return nil
}

// spent aborts if a remote record's incarnations are used up, while that is still possible.
func (t *tx) spent(store bool) error {
	for i := range t.items {
		if it := &t.items[i]; store && it.verbs && it.changes() && it.version.Spent() &&
			!t.e.lacks(NoSpent) {
			return t.leaveFull()
		}
	}
	return nil
}

func (t *tx) leaveFull() error {
	if t.inRegion {
		return t.leave(proto.ReasonFull)
	}
	return proto.Aborting(proto.ReasonFull)
}

// settle gives every lock of the attempt back, all at once. With commit it writes the updates
// back before (REMOTE_WRITE_BACK): version and value, never the state word, then the CAS that
// unlocks, on one queue pair and so in this order. What cannot be done because the machine is gone,
// its queue pair having used up its retries, is owed. Shielded: a cancellation keeps no lock.
func (t *tx) settle(commit bool) {
	was := t.f.Shield()
	defer t.f.Unshield(was)
	t.f.Step("drtm: before release")
	t.batch.Reset()
	if commit && t.e.lacks(UnlockBeforeWriteBack) {
		t.unlockFirst()
	} else {
		for i := range t.items {
			it := &t.items[i]
			if it.hold != locked && it.hold != asked {
				continue
			}
			// If the queue pair is made anew in between, the unlock must fail with the update.
			conn := t.conn(it)
			if commit && it.changes() {
				t.postUpdate(it, conn)
			}
			t.postUnlock(it, conn)
		}
		_ = t.batch.Await(t.f) // each has its own error
		t.f.Step("drtm: after release")
		t.released(commit)
	}
	if commit {
		t.forgetRemote()
	}
}

// released looks at what became of the unlocking CASes. One of a lock that it was not known to
// have, may find anything.
func (t *tx) released(commit bool) {
	for i := range t.items {
		it := &t.items[i]
		if it.hold != locked && it.hold != asked {
			continue
		}
		update := commit && it.changes()
		if t.batch.Err(it.op) != nil {
			if update {
				t.e.counts.Unfinished++
			}
			t.e.owe(it, update)
		} else if !t.e.lacks(UnlockByWrite) {
			invariant.Assert(it.hold == asked || State(t.batch.Old(it.op)) == it.word,
				"drtm: a lock was not its holder's any more")
		}
		it.hold = nothing
	}
}

// unlockFirst is the mutation UnlockBeforeWriteBack.
func (t *tx) unlockFirst() {
	for _, write := range [...]bool{false, true} {
		for i := range t.items {
			switch it := &t.items[i]; {
			case it.hold != locked:
			case !write:
				t.postUnlock(it, t.conn(it))
			case it.changes():
				t.postUpdate(it, t.conn(it))
			}
		}
		_ = t.batch.Await(t.f)
		t.batch.Reset()
		t.f.Step("drtm: unlocked before write-back")
	}
	for i := range t.items {
		t.items[i].hold = nothing
	}
}

// conn is the queue pair to the item's machine, as it is now.
func (t *tx) conn(it *item) *fiber.Conn { return t.e.cfg.Peers[it.node].Conn }

// postUpdate writes version and value of a record.
func (t *tx) postUpdate(it *item, conn *fiber.Conn) {
	p := &t.e.cfg.Peers[it.node]
	at := p.Memory.Addr + uint64(it.off)
	it.encode(it.next(), it.word)
	t.batch.Write(t.f, conn, t.buffer.mr.SGE(it.at+layout.VersionOffset, 8),
		at+layout.VersionOffset, p.Memory.RKey)
	if it.is {
		t.batch.Write(t.f, conn, t.buffer.mr.SGE(it.at+layout.ValueOffset, it.size),
			at+layout.ValueOffset, p.Memory.RKey)
	}
	t.f.Charge(costPost)
}

// postUnlock unlocks a record, by CAS: the state word is for atomics only.
func (t *tx) postUnlock(it *item, conn *fiber.Conn) {
	p := &t.e.cfg.Peers[it.node]
	it.op = t.batch.Len()
	if t.e.lacks(UnlockByWrite) {
		it.encode(it.version, Init)
		t.batch.Write(t.f, conn, t.buffer.mr.SGE(it.at+layout.StateOffset, 8),
			p.Memory.Addr+uint64(it.off+layout.StateOffset), p.Memory.RKey)
		return
	}
	t.batch.CAS(t.f, conn, p.Memory.Addr+uint64(it.off+layout.StateOffset), p.Memory.RKey,
		uint64(it.word), uint64(Init))
}

// forgetRemote tells the machines of deleted records that these can be given back. Nothing depends
// on it: a machine that is not told keeps a tombstone until the key is used again.
func (t *tx) forgetRemote() {
	for i := range t.items {
		it := &t.items[i]
		switch {
		case !it.verbs || it.is || !it.was || !it.dirty:
		case it.node == t.e.cfg.Node:
			t.e.host.forget(it.table, it.key, t.e.soft)
		default:
			t.sendForget(it)
		}
	}
}
