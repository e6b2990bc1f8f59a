package hopscotch

import (
	"math/bits"
	"unsafe"

	"drtmd/htm"
	"drtmd/store/layout"
	"drtmd/store/words"
	"drtmd/verbs/lineword"
)

// Find is the offset of the record of key, outside of any region; there the caller checks it
// (layout.Match). A false proves nothing: see FindIn. It does not allocate.
func (t *Table) Find(key uint64) (off int, ok bool) {
	first := t.p.Slot(t.p.Home(key))
	hop := layout.Hop(t.word(t.p.Trailer(first)))
	for set := hop.Map(); set != 0; set &= set - 1 {
		if off = first + bits.TrailingZeros8(set)*t.p.Stride; t.word(off+layout.KeyOffset) == key {
			return off, true
		}
	}
	link, linked := hop.Block()
	for n := 0; linked && link < t.p.Blocks && n <= t.p.Blocks && key != layout.NoKey; n++ {
		block := t.p.Block(link)
		for i := range layout.BlockSlots {
			if off = block + i*t.p.Stride; t.word(off+layout.KeyOffset) == key {
				return off, true
			}
		}
		link, linked = layout.BlockLink(t.word(t.p.Trailer(block)))
	}
	return 0, false
}

// Prefetch asks for what Find of a key reads first: the home's slot, with the line word of that where there is one.
// Where the key stands in its neighbourhood cannot be predicted, so one Find alone does not overlap the next.
func (t *Table) Prefetch(key uint64) {
	first := t.p.Slot(t.p.Home(key))
	lineword.Prefetch2((*uint64)(unsafe.Add(t.base, t.p.Trailer(first))), (*uint64)(unsafe.Add(t.base, first)))
	if t.lineWords {
		lineword.Prefetch(&t.m.Words[first/layout.LineBytes])
	}
}

// FindIn is Find inside a region. The hop word, the records of the home and its chain join the read set, all
// of them if the key has no record, so that found and not found are both protected; without line words
// nothing protects them, and a false proves as little as Find's. ok is false if the region has
// aborted. It does not allocate.
func (t *Table) FindIn(r *htm.Region, key uint64) (off int, found, ok bool) {
	if t.lacks(AbsenceOutside) {
		if _, found = t.Find(key); !found {
			return 0, false, r.Active()
		}
	}
	p, ok := locate(t, words.Inside{R: r, M: t.m}, key)
	return p.off, p.off != 0, ok
}

// place is where a key's record is, or could be.
type place struct {
	off   int // of the record; 0: the key has none
	first int // offset of the home's slot
	home  int
	hop   layout.Hop // of the home
	bit   int        // the record's slot in the neighbourhood; -1: it is in a block
	block int        // offset of that block
	from  int        // offset of the word with the link to that block: a hop word or a trailer
	spare int        // offset of a free slot in the chain; 0: there is none
}

// trailer is the offset of the home's hop word.
func (t *Table) trailer(p *place) int { return t.p.Trailer(p.first) }

// locate looks through the neighbourhood and the chain of a key.
func locate[A words.Access](t *Table, a A, key uint64) (p place, ok bool) {
	p.home = t.p.Home(key)
	p.first, p.bit = t.p.Slot(p.home), -1
	if key == layout.NoKey { // which stands in free slots
		return p, true
	}
	w, ok := a.Load(t.trailer(&p))
	if !ok {
		return p, false
	}
	p.hop = layout.Hop(w)
	for set := p.hop.Map(); set != 0; set &= set - 1 {
		i := bits.TrailingZeros8(set)
		off := p.first + i*t.p.Stride
		k, ok := a.Load(off + layout.KeyOffset)
		if !ok {
			return p, false
		}
		if k == key {
			p.off, p.bit = off, i
			return p, true
		}
	}
	return p, chain(t, a, key, &p)
}

// chain looks through the chain of a home.
func chain[A words.Access](t *Table, a A, key uint64, p *place) (ok bool) {
	link, linked := p.hop.Block()
	p.from = t.trailer(p)
	for n := 0; linked; n++ {
		if link >= t.p.Blocks || n == t.p.Blocks {
			a.Corrupt()
			return false
		}
		p.block = t.p.Block(link)
		for i := range layout.BlockSlots {
			off := p.block + i*t.p.Stride
			k, ok := a.Load(off + layout.KeyOffset)
			if !ok {
				return false
			}
			if k == key {
				p.off = off
				return true
			}
			if k == layout.NoKey && p.spare == 0 {
				free, ok := isFree(t, a, off)
				if !ok {
					return false
				}
				if free {
					p.spare = off
				}
			}
		}
		from := t.p.Trailer(p.block)
		w, ok := a.Load(from)
		if !ok {
			return false
		}
		if link, linked = layout.BlockLink(w); linked {
			p.from = from
		}
	}
	return true
}

// isFree reports whether a slot can be taken: it is bound to no key, and nobody with an out-of-date address
// has locked it, for a moment or, if he died then, for ever.
func isFree[A words.Access](t *Table, a A, off int) (free, ok bool) {
	v, ok := a.Load(off + layout.VersionOffset)
	if !ok || !layout.Version(v).Unbound() {
		return false, ok
	}
	state, ok := a.Load(off + layout.StateOffset)
	return !layout.Locked(state) || t.lacks(TakeLocked), ok
}
