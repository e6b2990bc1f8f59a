package drtm

import (
	"time"

	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/store/layout"
)

// REMOTE_READ and REMOTE_WRITE of Figure 10(a): the words that package onesided puts into records by
// CAS, and what it means if another was there. The READ behind the CAS is its business, too.

// record is a record of a transaction.
type record = onesided.Record

// locks reports whether a record is to be locked, not leased.
func (t *tx) locks(r *record) bool { return r.Mode != proto.ModeRead || t.exclusive }

// Want implements onesided.Locks: lines 1 and 2. The first CAS expects what this worker saw last.
func (t *tx) Want(r *record) uint64 {
	e := t.e
	if r.Own.Word == uint64(Init) {
		r.Own.Word = uint64(e.hints.expect(r.Node, r.Own.Off, e))
	}
	if !t.locks(r) {
		return uint64(LeasedUntil(t.leaseTo))
	}
	return uint64(t.lockWord())
}

// lockWord is the word of this attempt's locks.
func (t *tx) lockWord() State {
	if t.ticket == 0 {
		t.ticket = t.e.tickets.take()
	}
	return LockedBy(t.e.Env.Node, t.ticket)
}

// Posted implements onesided.Locks.
func (t *tx) Posted() {
	if t.way != &fallback {
		t.F.Step("drtm: before lock")
	}
}

// Judge implements onesided.Locks: from line 3 on.
func (t *tx) Judge(r *record, old uint64) onesided.Verdict {
	e, s, lock := t.e, State(old), t.locks(r)
	switch {
	case old == r.Own.Word || e.lacks(NoLockTaken): // SUCCESS
		if lock {
			e.hints.saw(r.Node, r.Own.Off, Init) // what it is going to be
			return onesided.Taken
		}
		s = LeasedUntil(t.leaseTo)
		e.hints.saw(r.Node, r.Own.Off, s)
		t.lower(e.endOfOwn(s, t.leaseTo))
		return onesided.Taken
	case e.lockSeen(t, r, s):
		return onesided.Refused // ABORT: write locked
	case e.leaseOver(s, lock):
		e.hints.saw(r.Node, r.Own.Off, s)
		return onesided.Again // RETRY: correct state
	case lock:
		e.hints.saw(r.Node, r.Own.Off, s)
		return onesided.InUse // ABORT: unexpired read leased
	}
	e.hints.saw(r.Node, r.Own.Off, s)
	t.lower(e.endOfJoined(s, t.leaseTo))
	return onesided.Joined // SUCCESS: an unexpired lease is shared, with the end that it has
}

// lower moves the common end of the leases to the earlier one.
func (t *tx) lower(end time.Duration) {
	if t.end == 0 || end < t.end || t.e.lacks(LastEnd) {
		t.end = end
	}
}

// leaseEnd is when leases that are taken now shall end, by softtime: an old one only makes them
// shorter.
func (t *tx) leaseEnd() time.Duration { return t.e.soft + t.e.lasts(t.decl.ReadOnly) }

// hints are states that this worker saw last, so that the first CAS of START expects what is
// there: a lease stays in the word when it is over, and a CAS against INIT would only find that
// out.
type hints struct{ at []hint }

type hint struct {
	off   uint64
	word  State
	node  proto.NodeID
	known bool
}

// hintCount is a power of two.
const hintCount = 1 << 12

func (h *hints) slot(node proto.NodeID, off uint64) *hint {
	return &h.at[(uint(off)/layout.EntryAlignment^uint(node)*0x9e3779b1)%hintCount]
}

// saw notes the state of an entry.
func (h *hints) saw(node proto.NodeID, off uint64, s State) {
	if s.Locked() {
		s = Init // what it is going to be
	}
	*h.slot(node, off) = hint{off, s, node, true}
}

// expect is the state to begin with: one that may be overwritten if it is still there.
func (h *hints) expect(node proto.NodeID, off uint64, e *Engine) State {
	x := h.slot(node, off)
	if x.known && x.off == off && x.node == node &&
		(e.expired(x.word.End()) || e.lacks(NoExpiryOfHint)) {
		return x.word
	}
	return Init
}
