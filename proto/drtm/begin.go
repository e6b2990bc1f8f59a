package drtm

import (
	"errors"
	"time"

	"drtmd/proto"
	"drtmd/store/layout"
	"drtmd/store/remote"
)

// startRounds bounds how often START repeats a CAS with the state that the last one found.
const startRounds = 4

// start is START (Figure 9(a)) for the records that are reached by verbs: locks those to be
// written, leases the others until one common end, and reads all of them. Everything of a round
// is in flight at once: to each record a CAS and behind it on the same queue pair the READ.
// Every lock is on record before it is asked for, so that whatever fails later releases it.
func (t *tx) start() error {
	if err := t.places(); err != nil {
		return err
	}
	return t.acquire()
}

// acquire is the second half of start, when all places are known.
func (t *tx) acquire() error {
	todo := false
	for i := range t.items {
		todo = todo || t.items[i].verbs
	}
	if !todo {
		return nil
	}
	lease := t.leaseEnd()
	for round := 0; ; round++ {
		was := t.f.Shield()
		again, err := t.round(lease)
		t.f.Unshield(was)
		switch {
		case err != nil:
			return err
		case !again:
			t.f.Step("drtm: after lock")
			if t.end != 0 && !t.valid() && !t.e.lacks(NoValidInStart) && !t.e.lacks(NoConfirm) {
				t.e.stats.LeaseWaits++
				return proto.Aborting(proto.ReasonLease) // joined too late to be of use
			}
			return nil
		case round == startRounds:
			return proto.Aborting(proto.ReasonConflict)
		}
		t.e.counts.Renewed++
	}
}

// leaseEnd is when leases that are taken now shall end, by softtime: an old one only makes them
// shorter.
func (t *tx) leaseEnd() time.Duration {
	return t.e.soft + t.e.lasts(t.decl.ReadOnly)
}

// places finds the place of every record that is reached by verbs: one-sided look-ups at other
// machines, all in flight at once, and entries made where there are none (ensure).
func (t *tx) places() error {
	e := t.e
	t.lookups.Reset()
	asked := 0
	for i := range t.items {
		it := &t.items[i]
		if it.verbs && e.cfg.Peers[it.node].Conn.Err() != nil {
			return proto.Aborting(proto.ReasonUnreachable) // nothing is asked of a broken queue pair
		}
		switch {
		case !it.verbs:
		case it.node == e.cfg.Node:
			it.off, it.found = e.cfg.Tables[it.table-1].Find(uint64(it.key))
			asked++
		case it.mode == proto.ModeInsert:
			asked++ // its machine is asked to make the entry, and finds it if there is one
		default:
			p := &e.cfg.Peers[it.node]
			it.op = t.lookups.Add(p.Conn, p.Tables[it.table-1], uint64(it.key), e.cfg.Cache)
		}
	}
	if t.lookups.Len() > 0 {
		t.f.Step("drtm: before lookup")
		t.f.Charge(costFind * int64(t.lookups.Len()))
		_ = t.lookups.Await(t.f) // each has its own error
		for i := range t.items {
			it := &t.items[i]
			if !it.verbs || it.node == e.cfg.Node || it.mode == proto.ModeInsert {
				continue
			}
			found, err := t.lookups.Result(it.op)
			e.stats.Lookups++
			if t.lookups.Reads(it.op) == 0 {
				e.stats.CacheHits++
			}
			switch {
			case err == nil:
				it.off, it.found = int(found.Off), true
			case errors.Is(err, remote.ErrNotFound):
				asked++
			case errors.Is(err, remote.ErrUnstable):
				return proto.Aborting(proto.ReasonStale)
			default:
				return unreachable(t.f, err)
			}
		}
	}
	if asked == 0 {
		return nil
	}
	return t.ensure()
}

// post asks for one record's lock or lease, and for its content.
func (t *tx) post(it *item, lease time.Duration) {
	e := t.e
	p := &e.cfg.Peers[it.node]
	at := p.Memory.Addr + uint64(it.off)
	want := LeasedUntil(lease)
	if writes(it.mode) || t.exclusive {
		if t.ticket == 0 {
			t.ticket = e.tickets.take()
		}
		want = LockedBy(e.cfg.Node, t.ticket)
	}
	it.hold, it.op = asked, t.batch.Len()
	conn := p.Conn // both on one queue pair: the READ comes after the CAS
	t.batch.CAS(t.f, conn, at+layout.StateOffset, p.Memory.RKey, uint64(it.word), uint64(want))
	t.batch.Read(t.f, conn, t.buffer.mr.SGE(it.at, len(it.image)), at, p.Memory.RKey)
	t.f.Charge(costPost)
}

// round asks for everything that the transaction does not hold yet, and reports whether another
// round is needed. Shielded: it learns what became of each request.
func (t *tx) round(lease time.Duration) (again bool, err error) {
	t.batch.Reset()
	for i := range t.items {
		if it := &t.items[i]; it.verbs && it.hold == nothing {
			if it.word == Init {
				it.word = t.e.hints.expect(it.node, it.off, t.e)
			}
			t.post(it, lease)
		}
	}
	t.f.Step("drtm: before lock")
	_ = t.batch.Await(t.f) // each has its own error
	for i := range t.items {
		it := &t.items[i]
		if !it.verbs || it.hold != asked {
			continue
		}
		retry, e := t.judge(it, lease)
		again = again || retry
		if err == nil {
			err = e
		}
	}
	return again, err
}

// judge is REMOTE_READ and REMOTE_WRITE (Figure 10(a)) from line 3 on: what the CAS has found
// decides.
func (t *tx) judge(it *item, lease time.Duration) (again bool, err error) {
	e := t.e
	lock := writes(it.mode) || t.exclusive
	if err := t.batch.Err(it.op); err != nil {
		if !lock {
			it.hold = nothing // if there is a lease it ends by itself
			return false, unreachable(t.f, err)
		}
		e.counts.Unsure++
		it.word = LockedBy(e.cfg.Node, t.ticket) // stays asked: perhaps it is there
		if e.lacks(UnsureForgotten) {
			it.hold = nothing
		}
		return false, unreachable(t.f, err)
	}
	old := State(t.batch.Old(it.op))
	switch {
	case old == it.word || e.lacks(NoLockTaken): // the CAS has succeeded
		e.sightings.Released(it.node, uint64(it.off))
		if lock {
			it.hold, it.word = locked, LockedBy(e.cfg.Node, t.ticket)
		} else {
			it.hold, it.word = leased, LeasedUntil(lease)
			if e.lacks(NoRounding) {
				t.lower(lease)
			} else {
				t.lower(it.word.End())
			}
		}
	case old.Locked() && !e.lacks(NoLockSeen):
		it.hold = nothing
		if t.misplaced(it) {
			return false, t.stale(it)
		}
		return false, e.met(it, old)
	case e.expired(old.End()) || old.Locked() || lock && e.lacks(NoLeaseSeen):
		it.hold, it.word = nothing, old
		e.hints.saw(it.node, it.off, old)
		return true, nil
	case lock:
		it.hold = nothing
		e.hints.saw(it.node, it.off, old)
		if t.misplaced(it) {
			return false, t.stale(it)
		}
		return false, proto.Aborting(proto.ReasonLeased)
	default: // an unexpired lease is shared, with the end that it has
		it.hold, it.word = leased, old
		if e.lacks(NoJoinedEnd) {
			old = LeasedUntil(lease)
		}
		t.lower(old.End())
		e.counts.Joined++
	}
	e.hints.saw(it.node, it.off, it.word)
	if err := t.batch.Err(it.op + 1); err != nil && !e.lacks(NoReadError) {
		return false, unreachable(t.f, err)
	}
	return false, t.check(it)
}

// check looks whether the entry that was locked or leased is the key's. Its state word must be
// as the CAS left it: one that was given to the key in between had another.
func (t *tx) check(it *item) error {
	e := t.e
	key, v, s := it.decode()
	presence := layout.Match(uint64(it.key), key, v)
	switch {
	case s == it.word || e.lacks(NoStateBehindCAS):
	case it.hold == leased && !s.Locked() && s != Init:
		// A lease that was joined at its very end, and taken again by another in between.
		return proto.Aborting(proto.ReasonLease)
	default:
		presence = layout.Stale
	}
	if presence == layout.Stale {
		if !e.lacks(NoIncarnationCheck) {
			return t.stale(it)
		}
		presence = layout.Live
	}
	it.accept(v, presence == layout.Live)
	return nil
}

// misplaced reports whether the entry that the CAS went to is another key's by now. It is asked
// when the state was in the way: the lock may be the transaction's own, for that other key, and
// would be waited for in vain.
func (t *tx) misplaced(it *item) bool {
	key, v, _ := it.decode()
	return t.batch.Err(it.op+1) == nil &&
		layout.Match(uint64(it.key), key, v) == layout.Stale
}

// stale drops what the cache says of a record's place.
func (t *tx) stale(it *item) error {
	if it.node != t.e.cfg.Node && !t.e.lacks(KeepStale) {
		t.e.client.Invalidate(t.e.cfg.Peers[it.node].Tables[it.table-1], uint64(it.key),
			t.e.cfg.Cache)
	}
	return proto.Aborting(proto.ReasonStale)
}

// valid is VALID for the common end of the leases, by the real clock.
func (t *tx) valid() bool {
	now, delta := t.e.soft, t.e.softDelta
	if !t.e.lacks(SoftTimeInValid) {
		now, delta = t.e.now()
	}
	if t.e.lacks(NoDeltaInValid) {
		delta = 0
	}
	return Valid(t.end, now, delta)
}

// Confirm reports whether all leases are still valid (COMMIT, lines 1 to 3). The commit of the
// region calls it with the write set locked: that is when the transaction takes place.
func (t *tx) Confirm() bool {
	if t.end == 0 {
		return true
	}
	switch t.e.cfg.Mutation {
	case NoConfirm, ConfirmBeforeLock:
		return true
	}
	return t.valid()
}

// hints are states that this worker saw last, so that the first CAS of START expects what is
// there: a lease stays in the word when it is over, and a CAS against INIT would only find that
// out.
type hints struct{ at []hint }

type hint struct {
	off   int
	word  State
	node  proto.NodeID
	known bool
}

// hintCount is a power of two.
const hintCount = 1 << 12

func (h *hints) init() { h.at = make([]hint, hintCount) }

func (h *hints) slot(node proto.NodeID, off int) *hint {
	return &h.at[(uint(off)/layout.EntryAlignment^uint(node)*0x9e3779b1)%hintCount]
}

// saw notes the state of an entry.
func (h *hints) saw(node proto.NodeID, off int, s State) {
	if s.Locked() {
		s = Init // what it is going to be
	}
	*h.slot(node, off) = hint{off, s, node, true}
}

// expect is the state to begin with: one that may be overwritten if it is still there.
func (h *hints) expect(node proto.NodeID, off int, e *Engine) State {
	x := h.slot(node, off)
	if x.known && x.off == off && x.node == node &&
		(e.expired(x.word.End()) || e.lacks(NoExpiryOfHint)) {
		return x.word
	}
	return Init
}
