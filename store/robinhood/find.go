package robinhood

import (
	"drtmd/htm"
	"drtmd/store/layout"
	"drtmd/store/words"
)

// Find is the offset of the record of key, outside of any region; there the caller checks it (layout.Match). A false
// proves nothing: see FindIn. It does not allocate.
func (t *Table) Find(key uint64) (off int, ok bool) {
	if key == layout.NoKey { // which stands in free slots
		return 0, false
	}
	home := t.p.Home(key)
	word := layout.Segment(t.word(t.p.Word(home)))
	for i := home; i <= min(home+word.Displacement(), t.p.Last(home)); i++ {
		if slot := t.p.Slot(i); t.word(slot+layout.KeyOffset) == key {
			return t.recordOf(slot)
		}
	}
	link, linked := word.Block()
	for n := 0; linked && link < t.p.Count && n <= t.p.Count; n++ {
		block := t.p.Block(link)
		for i := range layout.OverflowSlots {
			if slot := block + i*t.p.Stride; t.word(slot+layout.KeyOffset) == key {
				return t.recordOf(slot)
			}
		}
		link, linked = layout.BlockLink(t.word(t.p.Link(block)))
	}
	return 0, false
}

// recordOf is the record that a slot has or leads to, outside of regions.
func (t *Table) recordOf(slot int) (off int, ok bool) {
	if !t.outside {
		return slot, true
	}
	off = int(t.word(slot + layout.PointerOffset))
	return off, t.named(off)
}

// named reports whether a record outside of slots can stand at an offset that came from memory.
func (t *Table) named(off int) bool {
	records := t.recordPool()
	return off >= 0 && records.Holds(uint64(off))
}

// FindIn is Find inside a region. The segment word, the slots and the chain that may have the key join the read set,
// all of them if it has no record, so that found and not found are both protected; without line words nothing
// protects them, and a false proves as little as Find's. ok is false if the region has aborted. It does not allocate.
func (t *Table) FindIn(r *htm.Region, key uint64) (off int, found, ok bool) {
	if t.lacks(AbsenceOutside) {
		if _, found = t.Find(key); !found {
			return 0, false, r.Active()
		}
	}
	p, ok := locate(t, words.Inside{R: r, M: t.m}, key)
	return p.off, p.off != 0, ok
}

// place is where a key's record is.
type place struct {
	off   int // of the record; 0: the key has none
	slot  int // offset of the slot that has it or leads to it
	home  int
	index int // of the slot; -1: it is in a block
	block int // offset of that block
	from  int // offset of the word with the link to that block
	word  layout.Segment
}

// locate looks for a key in its slots and its chain.
func locate[A words.Access](t *Table, a A, key uint64) (p place, ok bool) {
	p.home, p.index = t.p.Home(key), -1
	if key == layout.NoKey {
		return p, true
	}
	w, ok := a.Load(t.p.Word(p.home))
	if !ok {
		return p, false
	}
	p.word = layout.Segment(w)
	for i := p.home; i <= min(p.home+p.word.Displacement(), t.p.Last(p.home)); i++ {
		slot := t.p.Slot(i)
		k, ok := a.Load(slot + layout.KeyOffset)
		if !ok {
			return p, false
		}
		if k == key {
			p.index = i
			return p, reach(t, a, slot, &p)
		}
	}
	return p, chain(t, a, key, &p)
}

// reach takes the record of a slot down.
func reach[A words.Access](t *Table, a A, slot int, p *place) (ok bool) {
	p.slot, p.off = slot, slot
	if !t.outside {
		return true
	}
	w, ok := a.Load(slot + layout.PointerOffset)
	p.off = int(w)
	return ok && words.Checked(a, t.named(p.off))
}

// chain looks through the chain of a key's segment.
func chain[A words.Access](t *Table, a A, key uint64, p *place) (ok bool) {
	found := false
	ok = walk(t, a, p.home, p.word, func(from, block int) (more, ok bool) {
		for i := range layout.OverflowSlots {
			slot := block + i*t.p.Stride
			k, ok := a.Load(slot + layout.KeyOffset)
			if !ok {
				return false, false
			}
			if found = k == key; found {
				p.from, p.block = from, block
				return false, reach(t, a, slot, p)
			}
		}
		return true, true
	})
	return ok
}

// walk visits the blocks of a home's segment, whose word is given; from is where the link to a block is.
func walk[A words.Access](t *Table, a A, home int, word layout.Segment,
	visit func(from, block int) (more, ok bool)) (ok bool) {
	from := t.p.Word(home)
	link, linked := word.Block()
	for n := 0; linked; n++ {
		if link >= t.p.Count || n == t.p.Count {
			a.Corrupt()
			return false
		}
		block := t.p.Block(link)
		if more, ok := visit(from, block); !more || !ok {
			return ok
		}
		from = t.p.Link(block)
		w, ok := a.Load(from)
		if !ok {
			return false
		}
		link, linked = layout.BlockLink(w)
	}
	return true
}

// isFree reports whether a slot can be taken: it has no key, and nobody with an out-of-date address has locked it,
// for a moment or, if he died then, for ever.
func isFree[A words.Access](t *Table, a A, slot int) (free, ok bool) {
	k, ok := a.Load(slot + layout.KeyOffset)
	if !ok || k != layout.NoKey {
		return false, ok
	}
	locked, ok := isLocked(t, a, slot)
	return !locked || t.lacks(TakeLocked), ok
}

// isLocked reports whether somebody has locked a slot. Records outside of slots do not move, so their locks do not
// matter to it.
func isLocked[A words.Access](t *Table, a A, slot int) (locked, ok bool) {
	if t.outside {
		return false, true
	}
	state, ok := a.Load(slot + layout.StateOffset)
	return layout.Locked(state), ok
}
