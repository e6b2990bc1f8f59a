package drtm

import (
	"drtmd/store/layout"
)

// recordCommitter is the commit where the CPU's atomics and the NIC's do not exclude each other
// (design decision 3): the state words of the local records that were written are taken by CAS
// through the NIC, in the global order; leases are confirmed; every local record that was read is
// looked at again, because a remote transaction may have locked, written and unlocked it since
// and only its version tells; then the region publishes, and the state words go back by CAS.
type recordCommitter tx

// Confirm is the transaction's.
func (r *recordCommitter) Confirm() bool { return (*tx)(r).Confirm() }

// Lock takes the state words of the local records that were written.
func (r *recordCommitter) Lock() bool {
	t := (*tx)(r)
	if t.e.lacks(HCANoLock) {
		return true
	}
	was := t.f.Shield()
	defer t.f.Unshield(was)
	t.order()
	t.cursor = 0
	p := &t.e.cfg.Peers[t.e.cfg.Node]
	t.batch.Reset()
	for i := range t.items {
		it := &t.items[i]
		if it.verbs || !it.changes() {
			continue
		}
		if t.ticket == 0 {
			t.ticket = t.e.tickets.take()
		}
		it.hold, it.op = asked, t.batch.Len()
		t.batch.CAS(t.f, p.Conn, p.Memory.Addr+uint64(it.off+layout.StateOffset), p.Memory.RKey,
			uint64(it.word), uint64(LockedBy(t.e.cfg.Node, t.ticket)))
	}
	_ = t.batch.Await(t.f) // each has its own error
	all := true
	for i := range t.items {
		it := &t.items[i]
		if it.verbs || it.hold != asked {
			continue
		}
		switch {
		case t.batch.Err(it.op) != nil:
			t.e.counts.Unsure++
			it.word = LockedBy(t.e.cfg.Node, t.ticket)
			if t.e.lacks(HCAUnsureForgotten) {
				it.hold = nothing
			}
			all = false
		case State(t.batch.Old(it.op)) != it.word && !t.e.lacks(HCALockUnjudged):
			it.hold = nothing
			all = false
		default:
			it.hold, it.word = locked, LockedBy(t.e.cfg.Node, t.ticket)
		}
	}
	return all
}

// Validate looks at every local record again that was read: same key, same version, and no lock
// but its own.
func (r *recordCommitter) Validate() bool {
	t := (*tx)(r)
	e, m := t.e, t.e.cfg.Memory
	if e.lacks(HCANoValidate) {
		return true
	}
	for i := range t.items {
		it := &t.items[i]
		if it.verbs || !it.loaded {
			continue
		}
		s := State(word(m, it.off+layout.StateOffset))
		mine := it.hold == locked && s == it.word
		key := word(m, it.off) == uint64(it.key)
		version := layout.Version(word(m, it.off+layout.VersionOffset)) == it.version
		if s.Locked() && !mine && !e.lacks(HCANoLockInValidate) ||
			!key && !e.lacks(HCANoKeyInValidate) || !version && !e.lacks(HCANoVersionInValidate) {
			return false
		}
	}
	return true
}

// Unlock gives the state words back, whether or not the commit has taken place.
func (r *recordCommitter) Unlock(bool) {
	t := (*tx)(r)
	was := t.f.Shield()
	defer t.f.Unshield(was)
	t.batch.Reset()
	for i := range t.items {
		if it := &t.items[i]; !it.verbs && (it.hold == locked || it.hold == asked) {
			t.postUnlock(it, t.conn(it))
		}
	}
	_ = t.batch.Await(t.f) // each has its own error
	for i := range t.items {
		it := &t.items[i]
		if it.verbs || it.hold != locked && it.hold != asked {
			continue
		}
		if t.batch.Err(it.op) != nil && !t.e.lacks(HCANoDebt) {
			t.e.owe(it, false) // the region has published what was written
		}
		it.hold = nothing
	}
}
