package drtm

import (
	"time"

	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/proto/protocol"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// spare are entries of the own machine's tables that are to be given back: those of deleted records, and those that were
// made for a key without a value. A lease may run on them, so that they wait.
//
// Where a queue has no room, an entry stays in its table. It is not lost: a scan that meets it has it given back
// (forgetAbsent, onesided.Rules.Tombstone), and so has a table that is full (walk).
type spare struct {
	e *Engine
	// deleted are of deleted records. Whoever commits or begins a transaction looks at all of them: scans meet them as long as
	// they are there, and no queue is filled by what is given back by whoever has filled it.
	deleted queue
	// waiting are entries to be looked at again later: they were made for somebody who has yet to lock them, or were
	// locked or leased when they were looked at.
	waiting queue
	// last are some of those that were made last, by a hash of their keys: table 0 is none.
	last [lastMade]forgotten

	// Where a fiber has to give entries back, that is no transaction's: see pass, makeRoom.
	task      *fiber.Task   // its; nil: there was none yet
	sweeping  bool          // it does now
	needed    bool          // a table needs the room
	stopped   bool          // the worker has ended it
	fullUntil time.Duration // by softtime: it found nothing to give back, and there is none until then

	// Of walk.
	dropped  bool          // a queue had no room since the walk that went through all tables
	nextWalk time.Duration // by softtime, unless dropped
	table    int           // where it goes on
	from     int
	found    []forgotten
}

// queue is a ring of entries, the oldest at head.
type queue struct {
	ring    []forgotten
	head, n int
}

// forgotten is an entry to be given back when nobody holds a lease on it any more.
type forgotten struct {
	table proto.TableID
	key   proto.Key
	after time.Duration // by softtime
}

const (
	// graceLeases is how long an entry that was made is left alone, in read-only leases: whoever asked
	// for it has to lock or lease it first, and its next transactions may want it again.
	graceLeases = 4
	// idleLeases is how much longer one waits on a worker without transactions: whoever asked for it may be held up.
	idleLeases = 64
	// spareBound is the number of entries in each queue; a power of two.
	spareBound = 1 << 12
	lastMade   = 1 << 8
	// waitingLooks and waitingShare are how many of those that wait a transaction looks at: so many, and one in so many. A
	// queue that fills up is emptied faster than transactions fill it, each of which has txset.MaxRecords at most.
	waitingLooks = 2
	waitingShare = 4
	// walkLooks is how many entries a walk gives back before whoever needs room tries again.
	walkLooks = 64
	// walkEvery is the time between two walks that find nothing, unless a queue had no room.
	walkEvery = time.Second
)

func newSpare(e *Engine) spare {
	return spare{e: e, deleted: queue{ring: make([]forgotten, spareBound)}, waiting: queue{ring: make([]forgotten, spareBound)},
		dropped: true, // by a life before
		found:   make([]forgotten, 0, walkLooks)}
}

// put adds an entry; false: there is no room.
func (q *queue) put(x forgotten) bool {
	if q.n == len(q.ring) {
		return false
	}
	q.ring[(q.head+q.n)%len(q.ring)] = x
	q.n++
	return true
}

// due reports whether there is an entry whose time has come.
func (q *queue) due(now time.Duration) bool { return q.n > 0 && q.ring[q.head].after <= now }

// take takes the oldest entry out.
func (q *queue) take() (x forgotten) {
	x = q.ring[q.head]
	q.head = (q.head + 1) % len(q.ring)
	q.n--
	return x
}

// forget remembers the entry of a deleted record.
func (h *spare) forget(table proto.TableID, k proto.Key) {
	h.fullUntil = 0
	x := forgotten{table, k, h.e.soft}
	h.unwanted(&x) // whoever asked for it has had it
	h.dropped = !h.deleted.put(x) || h.dropped
}

// wait remembers an entry that is to be left alone for a time; false: there is no room.
func (h *spare) wait(x forgotten) (ok bool) {
	ok = h.waiting.put(x)
	h.dropped = h.dropped || !ok
	return ok
}

// made is told of every absent entry that was made for somebody. One that waits already waits no longer.
func (h *spare) made(table proto.TableID, k proto.Key) {
	now, _ := h.e.now() // the softtime of a worker that was idle is an old one
	x := forgotten{table, k, now}
	if !h.e.lacks(NoGrace) {
		x.after += graceLeases * h.e.cfg.LeaseReadOnly
	}
	h.fullUntil = 0
	if last := h.lastMade(&x); (last.key != k || last.table != table) && h.wait(x) {
		*last = x
	}
}

// lastMade is the place of an entry among those that were made last.
func (h *spare) lastMade(x *forgotten) *forgotten {
	return &h.last[layout.Hash(uint64(x.key)+uint64(x.table))%uint64(len(h.last))]
}

// wantedSince reports whether the entry of a deleted record was made for somebody since: then it waits already.
func (h *spare) wantedSince(x *forgotten) bool {
	last := h.lastMade(x)
	return last.key == x.key && last.table == x.table
}

// unwanted: nobody who asked for an entry needs it any more.
func (h *spare) unwanted(x *forgotten) {
	if made := h.lastMade(x); made.key == x.key && made.table == x.table {
		*made = forgotten{}
	}
}

// any reports whether there are entries to be given back.
func (h *spare) any() bool { return h.deleted.n+h.waiting.n > 0 }

// pass gives entries back at the end of a pass of the worker: those of records that other machines have deleted, and those
// that have waited for so long that there are no transactions here which would do so.
func (h *spare) pass() {
	deleted := h.e.soft
	if h.e.glob {
		deleted -= h.e.cfg.Lease
	}
	switch {
	case !h.deleted.due(deleted) && !h.waiting.due(h.e.soft-idleLeases*h.e.cfg.LeaseReadOnly):
	case h.e.glob:
		h.sweep(nil, false)
	default:
		h.inFiber()
	}
}

// inFiber gives entries back in a fiber of its own, unless one does so now: without line words that waits for the NIC, which
// a handler and a pass of the worker must not.
func (h *spare) inFiber() {
	switch {
	case h.sweeping || h.stopped:
		return
	case h.task == nil:
		h.sweeping = true
		h.task = h.e.Env.Worker.Go("reclaim", nil, func(f *fiber.Fiber) error {
			h.sweep(f, false)
			for h.needed && f.Err() == nil {
				h.sweepAll(f)
				h.needed = false
			}
			h.sweeping, h.stopped = false, f.Err() != nil
			return nil
		})
	default:
		h.sweeping = true
		h.e.Env.Worker.Restart(h.task)
	}
}

// makeRoom gives back what can be, in a table that is full. Where that takes a fiber, whoever needs the room asks again.
func (h *spare) makeRoom() onesided.Code {
	switch {
	case h.needed:
		return onesided.Busy
	case h.e.soft < h.fullUntil:
		return onesided.Full
	case h.e.glob && h.sweepAll(nil) > 0:
		return onesided.Done
	case h.e.glob:
		return onesided.Full
	}
	h.needed = true
	h.inFiber()
	return onesided.Busy
}

// sweepAll gives entries back before their time too, and those that are in no queue.
func (h *spare) sweepAll(f *fiber.Fiber) (done int) {
	if done = h.sweep(f, true); done == 0 {
		done = h.walk(f)
	}
	if done == 0 {
		h.fullUntil = h.e.soft + h.e.cfg.Lease // all of them are in use
	}
	return done
}

// sweep gives entries back: all of deleted records, and some of those that have waited long enough, or all that wait if
// room is needed. It says how many. Without line words it needs a fiber.
func (h *spare) sweep(f *fiber.Fiber, needed bool) (done int) {
	if !h.e.glob && f == nil {
		return 0
	}
	done = h.look(f, &h.deleted, h.deleted.n, false)
	most := h.waiting.n
	if !needed {
		most = waitingLooks + most/waitingShare
	}
	return done + h.look(f, &h.waiting, most, needed)
}

// look gives at most some of the entries of a queue back, and says how many. An entry that is locked or leased waits, one
// that has a value is no longer to be given back.
func (h *spare) look(f *fiber.Fiber, q *queue, most int, early bool) (done int) {
	for range min(most, q.n) {
		// To give one back may wait; meanwhile other fibers look too.
		if q.n == 0 || !early && !q.due(h.e.soft) || f != nil && f.Err() != nil {
			return done
		}
		x := q.take()
		if q == &h.waiting {
			h.unwanted(&x)
		}
		if !h.wantedSince(&x) {
			done += h.giveBack(f, x)
		}
	}
	return done
}

// giveBack gives an entry back, or has it wait: 1 or 0.
func (h *spare) giveBack(f *fiber.Fiber, x forgotten) (done int) {
	switch h.reclaim(f, x) {
	case onesided.Done:
		return 1
	case onesided.Busy:
		x.after = h.e.soft + h.e.cfg.Lease
		h.wait(x)
	}
	return 0
}

// walk looks for entries to be given back in the tables themselves: of an earlier life of the machine, of a transaction
// whose message that it needs them no more was lost, and those for which a queue had no room. It ends when it has found some,
// and goes on there.
func (h *spare) walk(f *fiber.Fiber) (done int) {
	if !h.dropped && h.e.soft < h.nextWalk {
		return 0
	}
	h.dropped = false
	for range len(h.e.tables) + 1 { // the first one may be entered in its middle
		for more := true; more; {
			more = h.find()
			for _, x := range h.found {
				done += h.giveBack(f, x)
			}
			if done > 0 || f != nil && f.Err() != nil {
				h.dropped = true
				return done
			}
		}
		h.table, h.from = (h.table+1)%len(h.e.tables), 0
	}
	h.nextWalk = h.e.soft + walkEvery
	return 0
}

// find finds the next absent entries of the table where the walk is. more: there may be others behind them.
func (h *spare) find() (more bool) {
	e := h.e
	h.found = h.found[:0]
	protocol.Copied(e.tables[h.table].Index()).EachFrom(h.from, func(i, off int) bool {
		if more = len(h.found) == cap(h.found); more {
			h.from = i
			return false
		}
		if k := e.KeyNow(uint64(off)); k != layout.NoKey && !e.VersionNow(uint64(off)).Live() {
			h.found = append(h.found, forgotten{table: proto.TableID(h.table + 1), key: proto.Key(k)})
		}
		return true
	})
	return more
}
