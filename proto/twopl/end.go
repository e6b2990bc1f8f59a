package twopl

import (
	"drtmd/proto/history"
	"drtmd/store/layout"
)

// finish ends the transaction without effect.
func (t *tx) finish(o history.Outcome) {
	was := t.f.Shield()
	defer t.f.Unshield(was)
	if t.f.Err() != nil {
		return // the node was killed: what is locked stays so
	}
	for i := range t.records {
		r := &t.records[i]
		if !t.e.lacks(AbortWrites) {
			r.written, r.live = false, r.is == layout.Live
		}
	}
	t.stopRecording(o)
	t.f.Step(stepAbort)
	if t.e.lacks(AbortKeepsLocks) {
		for i := range t.records {
			t.records[i].lock = lockNone
		}
	}
	_ = t.writeBack() // leave looks at what could not be given back
	t.reclaim()
	t.f.Step(stepReleased)
	t.leave()
}

// leave gives the transaction object back. Locks that are left belong to nodes that cannot be
// reached; they keep the transaction's word, so the object takes another.
func (t *tx) leave() {
	owes := false
	for i := range t.records {
		if r := &t.records[i]; r.lock != lockNone {
			t.owe(r)
			owes = true
		}
	}
	if owes && !t.e.lacks(NoNewWord) {
		t.nameLocks()
	}
	t.e.put(t)
}
