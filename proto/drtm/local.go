package drtm

import (
	"sync/atomic"
	"unsafe"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/store/layout"
)

// enter begins the region of LocalTX, if the transaction has local records. Where they are is
// found out before: a stale place shows inside.
func (t *tx) enter() error {
	n := t.locate()
	if n == 0 {
		return nil
	}
	t.f.Charge(costFind * int64(n))
	t.f.Step("drtm: before XBEGIN")
	t.region.Begin()
	t.inRegion = true
	t.e.stats.RegionRuns++
	return nil
}

// locate finds the local records outside of any region, and says how many there are.
func (t *tx) locate() int {
	n := 0
	for i := range t.items {
		if it := &t.items[i]; !it.verbs {
			it.off, it.found = t.e.cfg.Tables[it.table-1].Find(uint64(it.key))
			if !it.found && !t.e.glob && !t.e.lacks(AbsenceWithoutEntry) {
				// Without line words only an entry can say that there is no record.
				off, a := t.e.host.ensure(it.table, it.key)
				it.off, it.found = off, a == answerDone
			}
			n++
		}
	}
	return n
}

// loadLocal is LOCAL_READ and the checks of LOCAL_WRITE (Figure 10(b)), inside the region.
func (t *tx) loadLocal(it *item) error {
	presence := layout.Stale
	var err error
	if it.found {
		if presence, err = t.copyLocal(it); err != nil {
			return err
		}
	}
	if presence == layout.Stale {
		ok := true
		if t.e.lacks(AbsenceOutsideRegion) {
			it.off, it.found = t.e.cfg.Tables[it.table-1].Find(uint64(it.key))
		} else {
			it.off, it.found, ok = t.e.cfg.Tables[it.table-1].FindIn(t.region, uint64(it.key))
		}
		if !ok {
			return t.regionOver()
		}
		if !it.found && !t.e.glob && !t.e.lacks(AbsenceWithoutEntry) {
			return t.leave(proto.ReasonConflict) // it was given back again, or there is no room
		}
		if !it.found {
			it.absent() // the lines of its buckets are in the read set
			return nil
		}
		if presence, err = t.copyLocal(it); err != nil {
			return err
		}
		if presence == layout.Stale {
			return t.leave(proto.ReasonConflict) // only a doomed view can be so
		}
	}
	_, v, s := it.decode()
	if err := t.checkState(it, s); err != nil {
		return err
	}
	it.word = s
	it.accept(v, presence == layout.Live)
	return nil
}

// checkState aborts on a write lock, and, if the record is to be written, on an unexpired lease.
func (t *tx) checkState(it *item, s State) error {
	e := t.e
	if writes(it.mode) && e.lacks(NoStateCheck) {
		return nil
	}
	if s.Locked() {
		if e.lacks(NoStateCheckRead) && !writes(it.mode) {
			return nil
		}
		return t.leave(proto.AbortReason(e.met(it, s)))
	}
	if s != Init && writes(it.mode) && !e.expired(s.End()) && !e.lacks(NoLeaseCheckLocal) {
		return t.leave(proto.ReasonLeased)
	}
	return nil
}

// copyLocal copies the entry at the item's place into its image, in the region.
func (t *tx) copyLocal(it *item) (layout.Presence, error) {
	m := t.e.cfg.Memory
	if !t.loadLines(it) {
		return 0, t.regionOver()
	}
	key, v, s := it.decode()
	if !t.e.glob && !t.e.lacks(NoSecondLookLocal) {
		// No line words: the copy is one only if nobody wrote between two looks (design decision 3).
		v2, _ := t.region.Load64(m, it.off+layout.VersionOffset)
		s2, ok := t.region.Load64(m, it.off+layout.StateOffset)
		if !ok {
			return 0, t.regionOver()
		}
		if layout.Version(v2) != v || State(s2).Locked() != s.Locked() {
			return 0, t.leave(proto.ReasonConflict)
		}
	}
	if t.e.lacks(NoKeyCheckLocal) {
		return layout.Live, nil
	}
	return layout.Match(uint64(it.key), key, v), nil
}

// loadLines copies an entry in the region. The simulator shows what comes between two lines of it.
func (t *tx) loadLines(it *item) bool {
	if !t.e.cfg.Simulated || t.e.glob {
		return t.region.Load(t.e.cfg.Memory, it.off, it.image)
	}
	for at := 0; at < len(it.image); at += layout.LineBytes {
		to := min(at+layout.LineBytes, len(it.image))
		if !t.region.Load(t.e.cfg.Memory, it.off+at, it.image[at:to]) {
			return false
		}
		t.f.Step("drtm: between lines")
	}
	return true
}

// leave aborts the region, with the reason as XABORT's code, and gives the attempt's error. One that
// had to give way to a lock or a lease counts for Config.Attempts only: a region can do it as soon
// as these are gone, while the fallback handler, waiting for them with locks of its own on records
// that many want, makes others wait in their turn, who then come to wait in the same way.
func (t *tx) leave(r proto.Reason) error {
	t.region.Abort(uint8(r))
	t.inRegion = false
	if r != proto.ReasonLocked && r != proto.ReasonLeased {
		t.aborts++
	}
	return proto.Aborting(r)
}

// regionOver is the attempt's error after the region has aborted.
func (t *tx) regionOver() error {
	t.inRegion = false
	t.aborts++
	code, arg := t.region.Aborted()
	switch code {
	case htm.Capacity:
		t.overflow = true
		return proto.Aborting(proto.ReasonCapacity)
	case htm.System, htm.Nested:
		return proto.Aborting(proto.ReasonSystem)
	case htm.Explicit:
		if arg == htm.Unconfirmed {
			return proto.Aborting(proto.ReasonLease)
		}
	}
	return proto.Aborting(proto.ReasonConflict)
}

// storeLocal stores what the transaction has written into the region (LOCAL_WRITE, and the
// making of entries for insertions).
func (t *tx) storeLocal() error {
	for i := range t.items {
		it := &t.items[i]
		if it.verbs || !it.changes() {
			continue
		}
		if !it.found {
			if err := t.makeLocal(it); err != nil {
				return err
			}
		}
		t.f.Charge(costAccess)
		if it.version.Spent() && !t.e.lacks(NoSpent) {
			return t.leave(proto.ReasonFull)
		}
		if !t.storeItem(it, it.next()) {
			return t.regionOver()
		}
	}
	return nil
}

// storeItem stores version and value. With line words the state goes along: an expired lease is
// cleared by the way (Figure 10(b), lines 4 to 6), since the line is written anyway. Elsewhere
// the state word belongs to the NIC.
func (t *tx) storeItem(it *item, v layout.Version) bool {
	m := t.e.cfg.Memory
	if t.e.glob {
		s := Init
		if t.e.lacks(NoStateCheck) {
			s = it.word
		}
		it.encode(v, s)
		if !it.is {
			return t.region.Store(m, it.off+layout.VersionOffset,
				it.image[layout.VersionOffset:layout.ValueOffset])
		}
		return t.region.Store(m, it.off+layout.VersionOffset, it.image[layout.VersionOffset:])
	}
	return t.region.Store64(m, it.off+layout.VersionOffset, uint64(v)) &&
		(!it.is || t.region.Store(m, it.off+layout.ValueOffset, it.value()))
}

// makeLocal makes the entry of a record that has none, in the region that makes it live: nobody
// sees it absent.
func (t *tx) makeLocal(it *item) error {
	off, v, ok, err := t.e.cfg.Tables[it.table-1].EnsureIn(t.region, uint64(it.key), uint64(Init))
	switch {
	case !ok:
		return t.regionOver()
	case err != nil:
		return t.leave(proto.ReasonFull)
	}
	it.off, it.found, it.version = off, true, v
	t.e.counts.Ensured++
	return nil
}

// word is an aligned word of memory as it is now, outside of any region.
func word(m *htm.Memory, off int) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&m.Bytes[off])))
}
