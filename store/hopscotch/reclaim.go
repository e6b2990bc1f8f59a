package hopscotch

import (
	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/layout"
	"drtmd/store/words"
)

// ReclaimIn gives the record of an absent key back, inside a region, if its state word is exactly
// state: what the caller put there or saw there, and knows to hold nobody's lock or lease but its
// own. The slot becomes free, the state word zero, and an overflow block that is empty then
// leaves its chain. The table keeps the incarnation, so that the key's versions go on growing.
// With an error, one of store.ErrNoEntry, store.ErrLive and store.ErrState, nothing was stored and the
// region runs on. ok is false if the region has aborted. It does not allocate.
//
// Where memory has no line words the record is given back at once, under the table's lock, and its
// state word is left alone: the caller holds it locked, and unlocks it afterwards.
func (t *Table) ReclaimIn(r *htm.Region, key, state uint64) (ok bool, err error) {
	if t.lineWords {
		return reclaim(t, words.Inside{R: r, M: t.m}, key, state)
	}
	if !r.Active() || !t.lock(r) {
		return false, nil
	}
	defer t.unlock()
	return reclaim(t, words.Direct{R: r, Base: t.base}, key, state)
}

func reclaim[A words.Access](t *Table, a A, key, state uint64) (ok bool, err error) {
	p, ok := locate(t, a, key)
	if !ok {
		return false, nil
	}
	if p.off == 0 || key == layout.NoKey {
		return true, store.ErrNoEntry
	}
	w, ok := a.Load(p.off + layout.VersionOffset)
	if !ok {
		return false, nil
	}
	seen, ok := a.Load(p.off + layout.StateOffset)
	if !ok {
		return false, nil
	}
	v := layout.Version(w)
	switch {
	case v.Live() && !t.lacks(ReclaimLive):
		return true, store.ErrLive
	case seen != state && !t.lacks(ReclaimAnyState):
		return true, store.ErrState
	}
	return raise(t, a, v.Incarnation()) && unlink(t, a, &p) && release(t, a, p.off, v) &&
		(p.bit >= 0 || leave(t, a, &p)), nil
}

// raise has the counter be n at least. Whoever gives a record back keeps its incarnation so before anything else: who
// sees that the key is absent, and then the counter as it was before, knows that no version was given back.
func raise[A words.Access](t *Table, a A, n uint32) (ok bool) {
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
		return raise(t, words.Inside{R: r, M: t.m}, n)
	}
	if !r.Active() || !t.lock(r) {
		return false
	}
	defer t.unlock()
	return raise(t, words.Direct{R: r, Base: t.base}, n)
}

// AbsentIn is the version that an absent key has, inside a region: Fresh, with the table's counter. While it
// stays the same, no key has been inserted, deleted and given back. ok is false if the region has aborted.
func (t *Table) AbsentIn(r *htm.Region) (v layout.Version, ok bool) {
	var counter uint64
	if t.lineWords {
		counter, ok = words.Inside{R: r, M: t.m}.Load(t.at + countersAt)
	} else {
		counter, ok = words.Direct{R: r, Base: t.base}.Load(t.at + countersAt)
	}
	return layout.Fresh(uint32(counter)), ok
}

// unlink takes a record out of the map of its home.
func unlink[A words.Access](t *Table, a A, p *place) (ok bool) {
	return p.bit < 0 || a.Store(t.trailer(p), uint64(p.hop.Without(p.bit)))
}

// release frees a slot. The key goes first: from here on nobody with an out-of-date address takes the record
// for the key's, whatever comes next.
func release[A words.Access](t *Table, a A, off int, v layout.Version) (ok bool) {
	if t.lineWords && !a.Store(off+layout.StateOffset, 0) {
		return false
	}
	return a.Store(off+layout.KeyOffset, layout.NoKey) &&
		a.Store(off+layout.VersionOffset, uint64(vacant(v)))
}

// leave takes the block of a record that was given back out of its chain, if it is empty.
func leave[A words.Access](t *Table, a A, p *place) (ok bool) {
	for i := range layout.BlockSlots {
		v, ok := a.Load(p.block + i*t.p.Stride + layout.VersionOffset)
		if !ok {
			return false
		}
		if !layout.Version(v).Unbound() {
			return true
		}
	}
	next, ok := a.Load(t.p.Trailer(p.block))
	if !ok {
		return false
	}
	if p.from != t.trailer(p) {
		// The hop word counts that too: a reader may stand in the block.
		hop := p.hop.Linked(uint64(p.hop) >> layout.Neighbours)
		ok = a.Store(t.trailer(p), uint64(hop)) && a.Store(p.from, next)
	} else {
		ok = a.Store(p.from, uint64(p.hop.Linked(next)))
	}
	return ok && giveBlock(t, a, p.block)
}
