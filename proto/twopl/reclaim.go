package twopl

import (
	"drtmd/verbs"
	"drtmd/verbs/rpc"
)

// reclaim gives the entries back that end absent, under their locks, and then the locks. What
// fails here leaves an absent entry behind, for whoever locks it next.
func (t *tx) reclaim() {
	if n := t.reclaimHere(); n > 0 {
		t.reclaimThere(n)
	}
	t.batch.Reset()
	for i := range t.records {
		r := &t.records[i]
		r.op, r.ops = t.batch.Len(), 0
		// What was written in part stays locked.
		if r.lock != lockNone && (!r.changed() || r.stored || t.e.lacks(HalfUnlocked)) {
			r.lock = lockAsked // a reclaimed entry may be another's by now
			t.postUnlock(r)
			r.ops, r.posted = 1, t.batch.Err(r.op) == nil
		}
	}
	if t.batch.Len() > 0 {
		_ = t.batch.Await(t.f) // leave looks at what is left
		t.settle()
	}
}

// reclaimable reports whether the record's entry is to be given back, and with which state word:
// it is locked and ends absent; or it was made for the transaction, which was refused another
// record. Without the lock only regions that exclude the device can tell that nobody else has it.
func (t *tx) reclaimable(r *record) (state lockWord, ok bool) {
	if r.endsAbsent() {
		return t.word, true
	}
	return unlocked, r.spare() && (t.e.cfg.Scope == verbs.AtomicGlob || t.e.lacks(SpareAnywhere))
}

// reclaimHere gives back those of the own node, and counts the others.
func (t *tx) reclaimHere() (others int) {
	for i := range t.records {
		r := &t.records[i]
		switch state, ok := t.reclaimable(r); {
		case !ok:
		case r.node != t.e.cfg.Node:
			others++
		default:
			t.f.Charge(recordCostPs)
			t.reclaimed(r, t.e.reclaim(r.table, r.key, state))
		}
	}
	return others
}

// reclaimed takes down what became of a record's entry.
func (t *tx) reclaimed(r *record, c hostCode) {
	r.located = false
	if c == hostOK && t.e.cfg.Scope == verbs.AtomicGlob {
		r.lock = lockNone
	}
}

// reclaimThere asks the hosts of n records, all at once.
func (t *tx) reclaimThere(n int) {
	t.roomForCalls(n)
	k := 0
	for i := range t.records {
		r := &t.records[i]
		r.op = -1
		state, ok := t.reclaimable(r)
		if !ok || r.node == t.e.cfg.Node {
			continue
		}
		b := t.bodies[k]
		b.ask(r.table.id, r.key, state)
		t.callErr[k] = t.e.cfg.Peers[r.node].Session.Start(t.f, t.calls[k], TypeReclaim, b.req[:],
			b.resp[:])
		r.op = k
		k++
	}
	t.awaitCalls(k)
	for i := range t.records {
		r := &t.records[i]
		if r.op < 0 {
			continue
		}
		if _, c, err := t.answer(r.op); err == nil {
			t.reclaimed(r, c)
		}
	}
}

// roomForCalls prepares n calls. They do not move while they run.
func (t *tx) roomForCalls(n int) {
	for len(t.calls) < n {
		t.calls = append(t.calls, new(rpc.Call))
		t.bodies = append(t.bodies, new(body))
		t.callErr = append(t.callErr, nil)
	}
}

// awaitCalls waits for the calls below n that were started.
func (t *tx) awaitCalls(n int) {
	for i := range n {
		if t.callErr[i] == nil {
			_, t.callErr[i] = t.calls[i].Await(t.f, 0)
		}
	}
}

// answer is the answer to call i.
func (t *tx) answer(i int) (off uint64, c hostCode, err error) {
	if t.callErr[i] != nil {
		return 0, 0, t.callErr[i]
	}
	length, err := t.calls[i].Result()
	return t.bodies[i].answer(length, err)
}
