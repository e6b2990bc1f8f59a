package robinhood

import (
	"drtmd/store/layout"
	"drtmd/store/words"
)

// moving is the state word of a record that is being moved. It is locked, by nobody.
const moving uint64 = 1

// to is where a record goes: the offset of a free slot, and its number; -1: it is in a block of the record's segment.
type to struct{ slot, index int }

// move moves a record from the slot with a number, in the order that the package comment tells; false if somebody
// has locked it, or the free slot, meanwhile.
func move[A words.Access](t *Table, a A, index int, to to) (moved, ok bool) {
	return moveSlot(t, a, t.p.Slot(index), index, to)
}

// moveSlot is move, from a slot that may be in a block; its number is -1 then.
func moveSlot[A words.Access](t *Table, a A, from, index int, to to) (moved, ok bool) {
	if t.outside {
		return true, carryPointer(t, a, from, index, to)
	}
	state, ok := a.Load(from + layout.StateOffset)
	if !ok || layout.Locked(state) && !t.lacks(MoveLocked) {
		return false, ok
	}
	if moved, ok = a.Swap(from+layout.StateOffset, state, state|moving); !moved {
		return false, ok
	}
	was, ok := a.Load(to.slot + layout.StateOffset)
	if !ok {
		return false, false
	}
	if layout.Locked(was) && !t.lacks(TakeLocked) {
		return false, a.Store(from+layout.StateOffset, state)
	}
	if moved, ok = a.Swap(to.slot+layout.StateOffset, was, was|moving); !moved {
		return false, ok && a.Store(from+layout.StateOffset, state)
	}
	return true, carry(t, a, from, index, to, state)
}

// carry is the rest of moveSlot, with both slots locked: the record is in its new slot before its old one is cleared.
// The version comes behind the key, and behind the value: see layout.NoKey.
func carry[A words.Access](t *Table, a A, from, index int, to to, state uint64) (ok bool) {
	key, ok := a.Load(from + layout.KeyOffset)
	if !ok {
		return false
	}
	home := t.p.Home(key)
	if to.index > index && index >= 0 && !displaced(t, a, home, to.index) {
		return false
	}
	for i := layout.ValueOffset; i < t.record.Bytes; i += 8 {
		v, ok := a.Load(from + i)
		if !ok || !a.Store(to.slot+i, v) {
			return false
		}
	}
	v, ok := a.Load(from + layout.VersionOffset)
	if !ok || !a.Store(to.slot+layout.KeyOffset, key) || !a.Store(to.slot+layout.VersionOffset, v) ||
		!a.Store(from+layout.KeyOffset, layout.NoKey) ||
		!a.Store(from+layout.VersionOffset, uint64(vacant(layout.Version(v)))) {
		return false
	}
	return left(t, a, home, index, to.index) && a.Store(to.slot+layout.StateOffset, state) &&
		a.Store(from+layout.StateOffset, 0)
}

// carryPointer moves the slot of a record outside. The pointer comes before the key.
func carryPointer[A words.Access](t *Table, a A, from, index int, to to) (ok bool) {
	key, ok := a.Load(from + layout.KeyOffset)
	if !ok {
		return false
	}
	home := t.p.Home(key)
	if to.index > index && index >= 0 && !displaced(t, a, home, to.index) {
		return false
	}
	pointer, ok := a.Load(from + layout.PointerOffset)
	return ok && a.Store(to.slot+layout.PointerOffset, pointer) && a.Store(to.slot+layout.KeyOffset, key) &&
		a.Store(from+layout.KeyOffset, layout.NoKey) && left(t, a, home, index, to.index)
}

// displaced raises the displacement of a home's segment, if a record of it in the slot with a number asks for it.
func displaced[A words.Access](t *Table, a A, home, index int) (ok bool) {
	w, ok := a.Load(t.p.Word(home))
	if !ok {
		return false
	}
	if word := layout.Segment(w); index-home > word.Displacement() && !t.lacks(DisplacementKept) {
		return a.Store(t.p.Word(home), uint64(word.Displaced(index-home)))
	}
	return true
}

// left says of a home's segment that a record of it has left the slot with a number for another one: -1 stands for a
// slot in a block.
func left[A words.Access](t *Table, a A, home, index, to int) (ok bool) {
	if index >= 0 && to > index { // it went away from its home
		return true
	}
	w, ok := a.Load(t.p.Word(home))
	if !ok {
		return false
	}
	word := layout.Segment(w)
	if to >= 0 && !t.lacks(ShiftUncounted) {
		word = word.Counted()
	}
	if to-home > word.Displacement() {
		word = word.Displaced(to - home)
	}
	if index >= 0 && index-home == word.Displacement() {
		d, ok := farthest(t, a, home, word.Displacement())
		if !ok {
			return false
		}
		if t.lacks(LoweredEarly) && d > 0 {
			d--
		}
		if d < word.Displacement() {
			word = word.Displaced(d)
		}
	}
	return uint64(word) == w || a.Store(t.p.Word(home), uint64(word))
}

// farthest is the largest displacement of the records of a home's segment in slots, which is at most so large.
func farthest[A words.Access](t *Table, a A, home, most int) (d int, ok bool) {
	segment := home / layout.SegmentHomes
	first := segment * layout.SegmentHomes
	last := min(first+layout.SegmentHomes-1+most, t.p.SlotCount()-1)
	for i := first; i <= last; i++ {
		key, ok := a.Load(t.p.Slot(i) + layout.KeyOffset)
		if !ok {
			return 0, false
		}
		if h := t.p.Home(key); key != layout.NoKey && h/layout.SegmentHomes == segment {
			d = max(d, i-h)
		}
	}
	return d, true
}

// vacant is the version of a slot that held a record with a version.
func vacant(v layout.Version) layout.Version {
	if v.Live() {
		v = v.Deleted()
	}
	return v.Unbind()
}

// swapFromFront is a deliberate bug: records are in nobody's slot while they are in hand.
func swapFromFront[A words.Access](t *Table, a A, path []int, end to) (ok bool) {
	var hand [layout.LineBytes * 8]uint64
	n := t.p.Stride / 8
	if n > len(hand)/2 {
		n = len(hand) / 2
	}
	load := func(slot int, b []uint64) bool {
		for i := range b {
			v, ok := a.Load(slot + i*8)
			if !ok {
				return false
			}
			b[i] = v
		}
		return true
	}
	store := func(slot int, b []uint64) bool {
		for i := range b {
			if !a.Store(slot+i*8, b[i]) {
				return false
			}
		}
		return true
	}
	if !load(t.p.Slot(path[0]), hand[:n]) || !a.Store(t.p.Slot(path[0])+layout.KeyOffset, layout.NoKey) {
		return false
	}
	from := path[0]
	for i := 1; i <= len(path); i++ {
		at, index := end.slot, end.index
		if i < len(path) {
			at, index = t.p.Slot(path[i]), path[i]
		}
		home := t.p.Home(hand[0])
		if !load(at, hand[n:2*n]) || !displaced(t, a, home, index) || !store(at, hand[:n]) ||
			!left(t, a, home, from, index) {
			return false
		}
		copy(hand[:n], hand[n:2*n])
		from = index
	}
	return true
}
