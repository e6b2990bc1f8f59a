package twopl

import (
	"errors"

	"drtmd/proto"
	"drtmd/store/remote"
)

// lookupBuffers is the number of look-ups in flight for which memory is registered at once.
const lookupBuffers = 64

// locate finds the entries of the records from index first on that have no place yet: in the own
// node's tables, or by READs of the peers' buckets, all in flight together. Hosts make entries for
// keys that have none, so that there is something to lock.
func (t *tx) locate(first int) error {
	missing, err := t.look(first)
	if err != nil || missing == 0 {
		return err
	}
	was := t.f.Shield() // what is made has to be known
	defer t.f.Unshield(was)
	return t.ensure(first, missing)
}

// look finds the entries that there are, and counts the records without one.
func (t *tx) look(first int) (missing int, err error) {
	e := t.e
	t.lookups.Reset()
	for i := first; i < len(t.records); i++ {
		r := &t.records[i]
		r.op = -1
		switch {
		case r.located:
		case r.node == e.cfg.Node:
			t.f.Charge(recordCostPs)
			if off, ok := r.table.local.Find(uint64(r.key)); ok {
				r.off, r.located = uint64(off), true
			} else {
				missing++
			}
		default:
			p := &e.cfg.Peers[r.node]
			r.op = t.lookups.Add(p.Conn, p.Tables[r.table.index], uint64(r.key), e.cfg.Cache)
			e.stats.Lookups++
		}
	}
	if t.lookups.Len() == 0 {
		return missing, nil
	}
	_ = t.lookups.Await(t.f) // each has its own error
	for i := first; i < len(t.records); i++ {
		r := &t.records[i]
		if r.op < 0 {
			continue
		}
		found, err := t.lookups.Result(r.op)
		switch {
		case err == nil:
			r.off, r.located = found.Off, true
			if t.lookups.Reads(r.op) == 0 {
				e.stats.CacheHits++
			}
		case errors.Is(err, remote.ErrNotFound):
			missing++
		case errors.Is(err, remote.ErrUnstable):
			return 0, proto.Aborting(proto.ReasonStale)
		case errors.Is(err, remote.ErrBounds):
			return 0, err
		default:
			return 0, unreachable(err)
		}
	}
	return missing, nil
}

// forget drops a record's place, which was out of date.
func (t *tx) forget(r *record) {
	r.located = false
	if t.e.lacks(KeepStale) {
		return
	}
	if r.node != t.e.cfg.Node {
		p := &t.e.cfg.Peers[r.node]
		t.e.lookup.Invalidate(p.Tables[r.table.index], uint64(r.key), t.e.cfg.Cache)
	}
}

// ensure has the hosts make entries for n records that have none. All answers are taken, also
// after an error, so that finish knows what was made.
func (t *tx) ensure(first, n int) error {
	t.roomForCalls(n)
	var failed error
	calls := 0
	for i := first; i < len(t.records); i++ {
		r := &t.records[i]
		r.op = -1
		switch {
		case r.located:
		case r.node == t.e.cfg.Node:
			t.f.Charge(recordCostPs)
			off, c := t.e.ensure(r.table, r.key)
			failed = earlier(failed, t.ensured(r, off, c))
		default:
			b := t.bodies[calls]
			b.ask(r.table.id, r.key, unlocked)
			t.callErr[calls] = t.e.cfg.Peers[r.node].Session.Start(t.f, t.calls[calls], TypeEnsure,
				b.req[:], b.resp[:])
			r.op = calls
			calls++
		}
	}
	t.awaitCalls(calls)
	for i := first; i < len(t.records); i++ {
		r := &t.records[i]
		if r.op < 0 {
			continue
		}
		off, c, err := t.answer(r.op)
		if err != nil {
			failed = earlier(failed, unreachable(err))
			continue
		}
		failed = earlier(failed, t.ensured(r, off, c))
	}
	return failed
}

// ensured takes down what a host answered.
func (t *tx) ensured(r *record, off uint64, c hostCode) error {
	if c == hostOK {
		r.off, r.located, r.ensured = off, true, true
	}
	return c.err()
}

// earlier is the first error of two.
func earlier(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
