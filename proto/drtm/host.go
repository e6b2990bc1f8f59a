package drtm

import (
	"encoding/binary"
	"errors"
	"time"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/store"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
)

// RPC types of the protocol.
const (
	TypeEnsure rpc.Type = 0x40 // make an absent entry for a key, if it has none
	TypeForget rpc.Type = 0x41 // a record was deleted: its entry can be given back
)

// Requests and responses, little endian. Both requests: table 2 | zero 6 | key 8. The response to
// TypeEnsure: answer 8 | offset of the entry 8.
const (
	ensureRequestBytes  = 16
	ensureResponseBytes = 16
)

// answer to TypeEnsure.
type answer uint64

const (
	answerDone answer = iota + 1
	answerFull        // the table has no room
	answerBusy        // regions kept aborting, or room is being made: ask again
)

// errRequest is what a request is answered with that makes no sense.
var errRequest = errors.New("drtm: malformed request")

// hostTries bounds the regions run for one entry.
const hostTries = 64

// host makes entries and gives them back, in the tables of the own machine: for its own
// transactions and, by RPC, for others. What is made is absent and unlocked; who asked for it locks
// or leases it by CAS like any other, and sees by the entry's key if it was given back meanwhile.
// So no lock is lost with a response that does not arrive.
type host struct {
	e      *Engine
	region *htm.Region
	queue  []forgotten // ring of entries to give back
	head   int
	n      int

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

// queueBound is the number of entries that wait to be given back; a power of two. Beyond it a
// tombstone stays until its key is used again.
const queueBound = 1 << 12

func (h *host) init(e *Engine) error {
	h.e = e
	cfg := e.cfg.Region
	cfg.Spurious = nil // its regions are run again at once, in handlers too
	h.region = htm.NewRegion(cfg)
	h.queue = make([]forgotten, queueBound)
	return nil
}

// serve registers the handlers. They run at once: a region does not wait.
func (h *host) serve(p *rpc.Port) {
	p.Handle(TypeEnsure, func(req, resp []byte) (int, error) {
		table, k, err := h.decode(req)
		if err != nil {
			return 0, err
		}
		off, a := h.ensure(table, k)
		binary.LittleEndian.PutUint64(resp, uint64(a))
		binary.LittleEndian.PutUint64(resp[8:], uint64(off))
		return ensureResponseBytes, nil
	})
	p.Handle(TypeForget, func(req, _ []byte) (int, error) {
		table, k, err := h.decode(req)
		if err == nil {
			h.forget(table, k, h.e.soft)
		}
		return 0, err
	})
}

func (h *host) decode(req []byte) (proto.TableID, proto.Key, error) {
	if len(req) != ensureRequestBytes {
		return 0, 0, errRequest
	}
	table := proto.TableID(binary.LittleEndian.Uint16(req))
	if table == 0 || int(table) > len(h.e.cfg.Specs) {
		return 0, 0, errRequest
	}
	return table, proto.Key(binary.LittleEndian.Uint64(req[8:])), nil
}

func encodeRequest(b *[ensureRequestBytes]byte, table proto.TableID, k proto.Key) {
	clear(b[:8])
	binary.LittleEndian.PutUint16(b[:], uint16(table))
	binary.LittleEndian.PutUint64(b[8:], uint64(k))
}

// ensure finds a key's entry or makes an absent one, and says where it is. One that is made will
// be given back unless the key has a value by then.
func (h *host) ensure(table proto.TableID, k proto.Key) (off int, a answer) {
	t := h.e.cfg.Tables[table-1]
	for range hostTries {
		h.region.Begin()
		off, v, ok, err := t.EnsureIn(h.region, uint64(k), uint64(Init))
		switch {
		case err != nil:
			h.region.Abort(0)
			if a := h.makeRoom(); a != answerDone {
				return 0, a
			}
		case ok && h.region.Commit(nil):
			if !v.Live() {
				h.e.counts.Ensured++
				after := h.e.soft
				if !h.e.lacks(NoGrace) {
					after += graceLeases * h.e.cfg.LeaseReadOnly
				}
				h.forget(table, k, after)
			}
			return off, answerDone
		}
	}
	return 0, answerBusy
}

// makeRoom gives back what can be, in a table that is full. Without line words that waits for the NIC,
// which a handler must not: a fiber of its own does it, and whoever needs the room asks again.
func (h *host) makeRoom() answer {
	switch {
	case h.e.glob && h.sweep(nil, len(h.queue), true) > 0:
		return answerDone
	case h.e.glob:
		return answerFull
	case h.sweeping:
		return answerBusy
	case h.n == 0, h.e.soft < h.fullUntil:
		return answerFull
	}
	h.sweeping = true
	h.e.cfg.Worker.Go("reclaim", nil, func(f *fiber.Fiber) error {
		if h.sweep(f, len(h.queue), true) == 0 {
			h.fullUntil = h.e.soft + h.e.cfg.Lease // all of them are in use
		}
		h.sweeping = false
		return nil
	})
	return answerBusy
}

// forget remembers an entry to be given back after a time.
func (h *host) forget(table proto.TableID, k proto.Key, after time.Duration) {
	h.fullUntil = 0
	if h.n == len(h.queue) {
		return
	}
	h.queue[(h.head+h.n)%len(h.queue)] = forgotten{table, k, after}
	h.n++
}

// sweep gives at most some of the entries back, and says how many. An entry that is locked or
// leased stays in the queue, one that has a value leaves it. Without line words it needs a fiber.
// Before their time they are given back only if room is needed.
func (h *host) sweep(f *fiber.Fiber, most int, needed bool) (done int) {
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
		case reclaimed:
			done++
			h.e.counts.Reclaimed++
		case inUse:
			h.forget(x.table, x.key, h.e.soft+h.e.cfg.Lease)
		}
	}
	return done
}

// fate of a forgotten entry.
type fate uint8

const (
	reclaimed fate = iota + 1
	inUse          // locked or leased: later
	gone           // it has a value, or there is none
)

// reclaim gives one entry back.
func (h *host) reclaim(f *fiber.Fiber, x forgotten) fate {
	t, m := h.e.cfg.Tables[x.table-1], h.e.cfg.Memory
	off, found := t.Find(uint64(x.key))
	if !found {
		return gone
	}
	s := State(word(m, off+layout.StateOffset))
	switch {
	case layout.Version(word(m, off+layout.VersionOffset)).Live():
		return gone
	case s.Locked() && !h.e.lacks(ReclaimLocked),
		!s.Locked() && !h.e.expired(s.End()) && !h.e.lacks(ReclaimLeased):
		return inUse
	case h.e.glob:
		return h.unlink(t, x.key, s)
	}
	return h.reclaimLocked(f, t, x, off, s)
}

// owe keeps the lock of an entry.
func (h *host) owe(d proto.Debt) {
	if !h.e.lacks(ReclaimNoDebt) {
		h.e.oweDebt(d)
	}
}

// unlink takes an entry out of its table if its state is s.
func (h *host) unlink(t *store.Table, k proto.Key, s State) fate {
	h.region.Begin()
	ok, err := t.ReclaimIn(h.region, uint64(k), uint64(s))
	switch {
	case err == store.ErrNoEntry || err == store.ErrLive:
		h.region.Abort(0)
		return gone
	case err != nil:
		h.region.Abort(0)
		return inUse
	case !ok || !h.region.Commit(nil):
		return inUse
	}
	return reclaimed
}

// reclaimLocked is reclaim without line words: the state word is the NIC's, so the entry is
// locked by CAS while it is taken away. A lock of which it is not known whether it was taken, or given
// back, is owed like a transaction's.
func (h *host) reclaimLocked(f *fiber.Fiber, t *store.Table, x forgotten, off int,
	s State) fate {
	was := f.Shield()
	defer f.Unshield(was)
	p := &h.e.cfg.Peers[h.e.cfg.Node]
	at := p.Memory.Addr + uint64(off+layout.StateOffset)
	lock := LockedBy(h.e.cfg.Node, h.e.tickets.take())
	f.Step("drtm: before reclaim")
	if h.e.lacks(ReclaimUnlocked) {
		return h.unlink(t, x.key, State(word(h.e.cfg.Memory, off+layout.StateOffset)))
	}
	debt := proto.Debt{Node: h.e.cfg.Node, Table: x.table, Key: x.key, Off: uint64(off),
		Word: uint64(lock), Unlock: uint64(Init)}
	old, err := p.Conn.CAS(f, at, p.Memory.RKey, uint64(s), uint64(lock))
	switch {
	case err != nil:
		h.owe(debt) // the lock may have been taken all the same
		return inUse
	case State(old) != s && !h.e.lacks(ReclaimUnjudged):
		return inUse
	case State(old) != s:
		return h.unlink(t, x.key, State(old))
	}
	done := h.unlink(t, x.key, lock)
	if _, err := p.Conn.CAS(f, at, p.Memory.RKey, uint64(lock), uint64(Init)); err != nil {
		h.owe(debt)
	}
	return done
}
