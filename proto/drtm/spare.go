package drtm

import (
	"time"

	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/verbs/fiber"
)

// spare are entries of the own machine's tables that are to be given back: those that were made for a
// key without a value, and those of deleted records. A lease may run on them, so that they wait.
type spare struct {
	e     *Engine
	queue []forgotten // ring
	head  int
	n     int

	// Without line words, where a fiber has to make room: see makeRoom.
	sweeping  bool          // it does now
	fullUntil time.Duration // by softtime: it found nothing to give back, and there is none until then
}

// forgotten is an entry to be given back when nobody holds a lease on it any more.
type forgotten struct {
	table proto.TableID
	key   proto.Key
	after time.Duration // by softtime
}

// graceLeases is how long an entry that was made is left alone, in read-only leases: whoever asked
// for it has to lock or lease it first, and its next transactions may want it again.
const graceLeases = 4

// spareBound is the number of entries that wait to be given back; a power of two. Beyond it a
// tombstone stays until its key is used again.
const spareBound = 1 << 12

// forget remembers an entry to be given back after a time.
func (h *spare) forget(table proto.TableID, k proto.Key, after time.Duration) {
	h.fullUntil = 0
	if h.n == len(h.queue) {
		return
	}
	h.queue[(h.head+h.n)%len(h.queue)] = forgotten{table, k, after}
	h.n++
}

// made is told of every absent entry that was made for somebody.
func (h *spare) made(table proto.TableID, k proto.Key) {
	after := h.e.soft
	if !h.e.lacks(NoGrace) {
		after += graceLeases * h.e.cfg.LeaseReadOnly
	}
	h.forget(table, k, after)
}

// makeRoom gives back what can be, in a table that is full. Without line words that waits for the NIC,
// which a handler must not: a fiber of its own does it, and whoever needs the room asks again.
func (h *spare) makeRoom() onesided.Code {
	switch {
	case h.e.glob && h.sweep(nil, len(h.queue), true) > 0:
		return onesided.Done
	case h.e.glob:
		return onesided.Full
	case h.sweeping:
		return onesided.Busy
	case h.n == 0, h.e.soft < h.fullUntil:
		return onesided.Full
	}
	h.sweeping = true
	h.e.Env.Worker.Go("reclaim", nil, func(f *fiber.Fiber) error {
		if h.sweep(f, len(h.queue), true) == 0 {
			h.fullUntil = h.e.soft + h.e.cfg.Lease // all of them are in use
		}
		h.sweeping = false
		return nil
	})
	return onesided.Busy
}

// sweep gives at most some of the entries back, and says how many. An entry that is locked or
// leased stays in the queue, one that has a value leaves it. Without line words it needs a fiber.
// Before their time they are given back only if room is needed.
func (h *spare) sweep(f *fiber.Fiber, most int, needed bool) (done int) {
	if !h.e.glob && f == nil {
		return 0
	}
	for range min(most, h.n) {
		// To give one back may wait; meanwhile other fibers sweep too.
		if h.n == 0 || !needed && h.queue[h.head].after > h.e.soft || f != nil && f.Err() != nil {
			return done
		}
		x := h.queue[h.head]
		h.head = (h.head + 1) % len(h.queue)
		h.n--
		switch h.reclaim(f, x) {
		case onesided.Done:
			done++
		case onesided.Busy:
			h.forget(x.table, x.key, h.e.soft+h.e.cfg.Lease)
		}
	}
	return done
}

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
