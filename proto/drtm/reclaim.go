package drtm

import (
	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/verbs/fiber"
)

// reclaim gives one entry back. Busy: it is locked or leased; Kept: it has a value, or there is none.
func (h *spare) reclaim(f *fiber.Fiber, x forgotten) onesided.Code {
	e := h.e
	off, found := e.tables[x.table-1].Find(x.key)
	if !found {
		return onesided.Kept
	}
	s := State(e.StateNow(uint64(off)))
	switch {
	case e.VersionNow(uint64(off)).Live():
		return onesided.Kept
	case s.Locked() && !e.lacks(ReclaimLocked),
		!s.Locked() && !e.expired(s.End()) && !e.lacks(ReclaimLeased):
		return onesided.Busy
	case e.glob:
		return e.Unlink(x.table, x.key, uint64(s), 1)
	}
	return h.reclaimLocked(f, x, uint64(off), s)
}

// reclaimLocked is reclaim without line words: the state word is the NIC's, so the entry is
// locked by CAS while it is taken away. A lock of which it is not known whether it was taken, or given
// back, is owed like a transaction's.
func (h *spare) reclaimLocked(f *fiber.Fiber, x forgotten, off uint64, s State) onesided.Code {
	e := h.e
	if e.Env.Peers[e.Env.Node].Conn.Err() != nil {
		return onesided.Busy
	}
	was := f.Shield()
	defer f.Unshield(was)
	lock := LockedBy(e.Env.Node, e.tickets.take())
	slot, ok := h.nameLock(f, x, off, lock)
	if !ok {
		return onesided.Busy
	}
	done, owed := h.reclaimNamed(f, x, off, s, lock)
	switch {
	case slot == noSlot:
	case owed:
		e.logs.keep(slot, uint64(lock))
	default:
		e.logs.release(slot)
	}
	return done
}

// reclaimNamed is reclaimLocked when the lock is logged. owed: it may be there still.
func (h *spare) reclaimNamed(f *fiber.Fiber, x forgotten, off uint64, s, lock State) (c onesided.Code,
	owed bool) {
	e := h.e
	f.Step("drtm: before reclaim")
	if e.lacks(ReclaimUnlocked) {
		return e.Unlink(x.table, x.key, e.StateNow(off), 1), false
	}
	debt := e.DebtAt(e.Env.Node, x.table, x.key, off, uint64(lock))
	old, err := e.CASState(f, x.table, off, uint64(s), uint64(lock))
	switch {
	case err != nil:
		h.owe(debt) // the lock may have been taken all the same
		return onesided.Busy, true
	case State(old) != s && !e.lacks(ReclaimUnjudged):
		return onesided.Busy, false
	case State(old) != s:
		return e.Unlink(x.table, x.key, old, 1), false
	}
	c = e.Unlink(x.table, x.key, uint64(lock), 1)
	if _, err := e.CASState(f, x.table, off, uint64(lock), uint64(Init)); err != nil {
		h.owe(debt)
		return c, true
	}
	return c, false
}

// nameLock logs the lock of an entry that is about to be taken; false: the log has no room now.
func (h *spare) nameLock(f *fiber.Fiber, x forgotten, off uint64, lock State) (slot int, ok bool) {
	l := h.e.logs
	switch {
	case l == nil || h.e.lacks(ReclaimUnnamed):
		return noSlot, true
	case len(l.free) == 0:
		return noSlot, false
	}
	slot, _ = l.take(f, &l.free) // there is one: it does not wait
	own := h.e.Env.Node
	r := record{Key: x.key, Table: x.table, Node: own, At: proto.Location{Primary: own, Shard: proto.ShardID(own)}}
	r.Own.Off = off
	b := appendPlace(l.begin(), &r, 0)
	l.store(f, l.seal(slot, b, sealed{kind: lockAhead, entries: 1, word: uint64(lock)}), b)
	return slot, true
}

// owe keeps the lock of an entry.
func (h *spare) owe(d proto.Debt) {
	if !h.e.lacks(ReclaimNoDebt) {
		h.e.Owe(d)
	}
}
