package store

import (
	"drtmd/htm"
	"drtmd/store/layout"
	"drtmd/store/pool"
	"drtmd/store/words"
)

// ReclaimIn gives the entry of an absent key back, inside a region, if its state word is exactly
// state: what the caller put there or saw there, and knows to hold nobody's lock or lease but its
// own. The key's slot becomes free, the state word zero, and an indirect bucket that is empty then
// leaves its chain. The table keeps the incarnation, so that the key's versions go on growing.
// With an error, one of ErrNoEntry, ErrLive and ErrState, nothing was stored and the region runs
// on. ok is false if the region has aborted. It does not allocate.
//
// Where memory has no line words the entry is given back at once, under the table's lock, and its
// state word is left alone: the caller holds it locked by a CAS of the NIC, and unlocks it so
// afterwards.
func (t *Table) ReclaimIn(r *htm.Region, key, state uint64) (ok bool, err error) {
	if t.lineWords {
		return reclaim(t, insideOf(r, t.m), key, state)
	}
	if !r.Active() || !t.lock(r) {
		return false, nil
	}
	ok, err = reclaim(t, directOf(r, t), key, state)
	t.unlock() // not if it panics: see words.Undo
	return ok, err
}

func reclaim[A access](t *Table, a A, key, state uint64) (ok bool, err error) {
	p, ok := locate(t, a, key)
	if !ok {
		return false, nil
	}
	if p.slotAt == 0 {
		return true, ErrNoEntry
	}
	off := int(p.slot.Offset())
	w, ok := a.Load(off + layout.VersionOffset)
	if !ok {
		return false, nil
	}
	seen, ok := a.Load(off + layout.StateOffset)
	if !ok {
		return false, nil
	}
	v := layout.Version(w)
	switch {
	case v.Live() && !t.lacks(ReclaimLive):
		return true, ErrLive
	case seen != state && !t.lacks(ReclaimAnyState):
		return true, ErrState
	}
	return raise(t, a, v.Incarnation()) && unlink(t, a, &p) && release(t, a, off, v), nil
}

// raise has the counter be n at least. Whoever gives an entry back keeps its incarnation so before anything else: who
// sees the key without an entry, and then the counter as it was before, knows that no version was given back.
func raise[A access](t *Table, a A, n uint32) bool {
	counter, ok := a.Load(t.at + countersAt)
	if !ok {
		return false
	}
	return uint64(n) <= counter || t.lacks(NoCounter) || a.Store(t.at+countersAt, uint64(n))
}

// RaiseIn has the table go on from an incarnation at least, for keys that it does not know, inside a region: the
// keys were given back in another replica. Other workers may use the table. ok is false if the region has aborted.
//
// Where memory has no line words that is so at once, under the table's lock.
func (t *Table) RaiseIn(r *htm.Region, n uint32) (ok bool) {
	if t.lineWords {
		return raise(t, insideOf(r, t.m), n)
	}
	if !r.Active() || !t.lock(r) {
		return false
	}
	ok = raise(t, directOf(r, t), n)
	t.unlock()
	return ok
}

// AbsentIn is the version that a key without an entry has, inside a region: Fresh, with the table's counter.
// While it stays the same, no key has been inserted, deleted and given back. ok is false if the region has
// aborted.
func (t *Table) AbsentIn(r *htm.Region) (v layout.Version, ok bool) {
	if t.lineWords {
		return absent(t, insideOf(r, t.m))
	}
	return absent(t, directOf(r, t))
}

func absent[A access](t *Table, a A) (v layout.Version, ok bool) {
	counter, ok := a.Load(t.at + countersAt)
	return layout.Fresh(uint32(counter)), ok
}

// release puts an entry that no slot names any more into the pool. The key goes first: from here on
// nobody with an out-of-date address takes the entry for the key's, whatever comes next.
func release[A access](t *Table, a A, off int, v layout.Version) bool {
	if t.lineWords && !a.Store(off+layout.StateOffset, 0) {
		return false
	}
	if !t.lacks(KeepKey) && !a.Store(off+layout.KeyOffset, layout.NoKey) {
		return false
	}
	if !t.lacks(NoUnbind) && !a.Store(off+layout.VersionOffset, uint64(v.Unbind())) {
		return false
	}
	return pool.GiveBack(a, t.entryPool(), off)
}

// unlink frees a slot, and its bucket if that is an indirect one which is empty then.
func unlink[A access](t *Table, a A, p *place) bool {
	if !a.Store(p.slotAt, 0) {
		return false
	}
	if p.linkAt == 0 {
		return true
	}
	var link layout.Slot
	for i := range layout.BucketSlots {
		w, ok := a.Load(p.bucket + i*layout.SlotBytes)
		if !ok {
			return false
		}
		switch s := layout.Slot(w); s.Type() {
		case layout.Free:
		case layout.Entry:
			return true
		default:
			link = s
		}
	}
	return bypass(t, a, p, link) && pool.GiveBack(a, t.bucketPool(), p.bucket)
}

// bypass leads the link to an empty bucket to what comes after it, if anything.
func bypass[A access](t *Table, a A, p *place, link layout.Slot) bool {
	if link.Type() == layout.Free {
		return a.Store(p.linkAt, 0)
	}
	next, ok := t.linked(link)
	return words.Checked(a, ok) && setLink(t, a, p.linkAt, next) &&
		a.Store(p.bucket+layout.LinkSlot*layout.SlotBytes, 0)
}
