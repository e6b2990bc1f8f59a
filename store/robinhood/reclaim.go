package robinhood

import (
	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/layout"
	"drtmd/store/pool"
	"drtmd/store/words"
)

// ReclaimIn gives the record of an absent key back, inside a region, if its state word is exactly state: what the
// caller put there or saw there, and knows to hold nobody's lock or lease but its own. The state word becomes zero,
// and a record of the chain takes the slot, or those behind it are shifted back. The table keeps the incarnation, so
// that the key's versions go on growing. With an error, one of store.ErrNoEntry, store.ErrLive and store.ErrState,
// nothing was stored and the region runs on. ok is false if the region has aborted. It does not allocate.
//
// Where memory has no line words the record is given back at once, under the table's lock, and its state word is left
// alone: the caller holds it locked, and unlocks it afterwards. So no other record can take the slot.
func (t *Table) ReclaimIn(r *htm.Region, key, state uint64) (ok bool, err error) {
	if t.lineWords {
		return reclaim(t, words.Inside{R: r, M: t.m}, key, state, true)
	}
	if !r.Active() || !t.lock(r) {
		return false, nil
	}
	defer t.unlock()
	return reclaim(t, words.DirectOf(r, t.m), key, state, false)
}

// reclaim is ReclaimIn; fills says whether other records may take the slot.
func reclaim[A words.Access](t *Table, a A, key, state uint64, fills bool) (ok bool, err error) {
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
	if !raise(t, a, v) || !release(t, a, &p, v) {
		return false, nil
	}
	if p.index < 0 {
		return leave(t, a, p.home, p.from, p.block), nil
	}
	if !left(t, a, p.home, p.index, -1) {
		return false, nil
	}
	return !fills || fill(t, a, p.home, p.index), nil
}

// raise keeps the incarnation of a record that is about to be given back. It comes before anything else: who sees that
// the key is absent, and then the counter as it was before, knows that no version was given back.
func raise[A words.Access](t *Table, a A, v layout.Version) (ok bool) {
	counter, ok := a.Load(t.at + countersAt)
	if !ok {
		return false
	}
	n := uint64(v.Incarnation())
	return n <= counter || t.lacks(NoCounter) || a.Store(t.at+countersAt, n)
}

// AbsentIn is the version that an absent key has, inside a region: Fresh, with the table's counter. While it stays the
// same, no key has been inserted, deleted and given back. ok is false if the region has aborted.
func (t *Table) AbsentIn(r *htm.Region) (v layout.Version, ok bool) {
	var counter uint64
	if t.lineWords {
		counter, ok = words.Inside{R: r, M: t.m}.Load(t.at + countersAt)
	} else {
		counter, ok = words.DirectOf(r, t.m).Load(t.at + countersAt)
	}
	return layout.Fresh(uint32(counter)), ok
}

// release frees a slot, and the record outside that it led to. The record's key goes first: from here on nobody with
// an out-of-date address takes it for the key's, whatever comes next.
func release[A words.Access](t *Table, a A, p *place, v layout.Version) (ok bool) {
	if t.lineWords && !a.Store(p.off+layout.StateOffset, 0) {
		return false
	}
	if !a.Store(p.off+layout.KeyOffset, layout.NoKey) || !a.Store(p.off+layout.VersionOffset, uint64(vacant(v))) {
		return false
	}
	return !t.outside || a.Store(p.slot+layout.KeyOffset, layout.NoKey) && pool.GiveBack(a, t.recordPool(), p.off)
}

// fill moves a record of a home's segment from its chain into a slot that has become free; if none can stand there, it
// shifts the records behind the slot back.
func fill[A words.Access](t *Table, a A, home, index int) (ok bool) {
	filled, ok := fillFromChain(t, a, home, index)
	if !ok || filled {
		return ok
	}
	for hole := index; hole < min(t.p.Last(index), index+t.regionMoves()); hole++ {
		slot := t.p.Slot(hole + 1)
		key, ok := a.Load(slot + layout.KeyOffset)
		if !ok {
			return false
		}
		if key == layout.NoKey || t.p.Home(key) > hole {
			return true
		}
		moved, ok := move(t, a, hole+1, to{t.p.Slot(hole), hole})
		if !moved || !ok {
			return ok
		}
	}
	return true
}

// fillFromChain is the first part of fill.
func fillFromChain[A words.Access](t *Table, a A, home, index int) (filled, ok bool) {
	w, ok := a.Load(t.p.Word(home))
	if !ok {
		return false, false
	}
	ok = walk(t, a, home, layout.Segment(w), func(from, block int) (more, ok bool) {
		for i := range layout.OverflowSlots {
			slot := block + i*t.p.Stride
			key, ok := a.Load(slot + layout.KeyOffset)
			if !ok {
				return false, false
			}
			h := t.p.Home(key)
			if key == layout.NoKey || h > index || index > t.p.Last(h) {
				continue
			}
			if filled, ok = moveSlot(t, a, slot, -1, to{t.p.Slot(index), index}); filled || !ok {
				return false, ok && leave(t, a, home, from, block)
			}
		}
		return true, true
	})
	return filled, ok
}

// leave takes the block from which a record has gone out of its chain, if it is empty. The segment word counts that: a
// reader may stand in the block.
func leave[A words.Access](t *Table, a A, home, from, block int) (ok bool) {
	for i := range layout.OverflowSlots {
		key, ok := a.Load(block + i*t.p.Stride + layout.KeyOffset)
		if !ok {
			return false
		}
		if key != layout.NoKey {
			return true
		}
	}
	next, ok := a.Load(t.p.Link(block))
	if !ok {
		return false
	}
	w, ok := a.Load(t.p.Word(home))
	if !ok {
		return false
	}
	word := layout.Segment(w).Counted()
	if from == t.p.Word(home) {
		word = word.Linked(next)
	} else if !a.Store(from, next) {
		return false
	}
	return a.Store(t.p.Word(home), uint64(word)) && pool.GiveBack(a, t.blockPool(), block)
}
