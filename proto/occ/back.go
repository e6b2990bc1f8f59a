package occ

import (
	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/store/layout"
	"drtmd/verbs"
)

// COMMIT and the end of an attempt over one-sided verbs.

// releaseByVerbs is release where NICs lock. Entries that end absent stay locked until their hosts have
// taken them back.
func (t *tx) releaseByVerbs(p proto.Phase) {
	t.releaseHere()
	t.Batch.Reset()
	for i := range t.Records {
		r := &t.Records[i]
		if r.Own.Op = -1; r.Own.Hold != onesided.Nothing && !t.byCPU(r) {
			t.back(p, r, r.Changes(), !endsAbsent(r))
		}
	}
	t.settle()
	t.reclaim(p)
}

// back posts the update of a record, and what unlocks it.
func (t *tx) back(p proto.Phase, r *record, update, unlock bool) {
	t.F.Charge(itemCostPs)
	t.Back(r, update, unlock)
	if update {
		t.count(p, r.Node, 1, 8)
		if r.Is {
			t.count(p, r.Node, 1, len(r.Image)-layout.ValueOffset)
		}
	}
	if unlock {
		t.count(p, r.Node, 1, casBytes)
	}
}

// unlockReads is a mutation: what is only read is unlocked.
func (t *tx) unlockReads() {
	t.Batch.Reset()
	for i := range t.Records {
		r := &t.Records[i]
		if r.Own.Op = -1; r.Own.Hold == onesided.Locked && !r.Changes() && r.Is {
			t.back(proto.PhaseCommit, r, false, true)
		}
	}
	t.settle()
}

// settle waits, and takes down which of the posted records were confirmed.
func (t *tx) settle() {
	if t.Batch.Len() == 0 {
		return
	}
	t.trips++
	_ = t.Batch.Await(t.F) // each has its own error
	for i := range t.Records {
		r := &t.Records[i]
		if r.Own.Op < 0 || r.Own.Hold == onesided.Nothing || !t.Confirmed(r) {
			continue
		}
		if r.Own.Stored = r.Changes(); !endsAbsent(r) { // else reclaim unlocks it
			r.Own.Hold = onesided.Nothing
		}
	}
}

// endsAbsent reports whether the record is locked and will not exist when the transaction has ended, so
// that its entry is of no use.
func endsAbsent(r *record) bool { return r.Own.Hold == onesided.Locked && r.Loaded && !r.Is }

// reclaim gives the entries back that end absent, under their locks, and then the locks; and those that
// were made for a lock that was not taken. What fails here leaves an absent entry behind, for whoever locks
// it next.
func (t *tx) reclaim(p proto.Phase) {
	there := false
	for i := range t.Records {
		r := &t.Records[i]
		switch word, ok := t.reclaimable(r); {
		case !ok:
		case r.Node != t.e.Env.Node:
			there = true
		default:
			t.F.Charge(recordCostPs)
			t.reclaimed(r, t.e.UnlinkAt(t.e.Here(r), r.Table, r.Key, word, onesided.HostTries))
		}
	}
	if there {
		t.Reclaim(t.reclaimableThere, t.reclaimed)
		t.countSent(p)
	}
	t.Batch.Reset()
	for i := range t.Records {
		r := &t.Records[i]
		// What was written in part stays locked.
		if r.Own.Op = -1; r.Own.Hold != onesided.Nothing && (!r.Changes() || r.Own.Stored) &&
			!t.byCPU(r) {
			r.Own.Hold = onesided.Asked // a reclaimed entry may be another's by now
			t.back(p, r, false, true)
		}
	}
	t.settle() // leave looks at what is left
}

// reclaimable reports whether a record's entry is to be given back, and with which state word: it is locked
// and ends absent; or it was made for the transaction, which did not lock it. Without the lock only regions
// that exclude the device can tell that nobody else has it.
func (t *tx) reclaimable(r *record) (word uint64, ok bool) {
	if endsAbsent(r) {
		return uint64(t.word), true
	}
	return uint64(onesided.Unlocked), r.Own.Ensured && r.Own.Found && r.Own.Hold == onesided.Nothing &&
		t.e.Env.Scope == verbs.AtomicGlob
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
