package hopscotch

import (
	"math/bits"

	"drtmd/store/layout"
	"drtmd/store/words"
)

const (
	// reach is how far from a home a free slot is looked for.
	reach = 64
	// maxMoves bounds the records that one insertion moves, and movedLines the lines that it then writes: a
	// region has room for them.
	maxMoves   = 16
	movedLines = 128
)

// moving is the state word of a record that is being moved. It is locked, by nobody.
const moving uint64 = 1

// step moves a record of a home from a slot to a free one.
type step struct{ home, from, to int }

// clearSlot gives the number of a free slot in the neighbourhood of a home, moving records if need be; -1:
// there is none.
func clearSlot[A words.Access](t *Table, a A, home int, moves bool) (slot int, ok bool) {
	last := home + layout.Neighbours
	if moves {
		last = min(home+reach, t.p.SlotCount())
	}
	free := -1
	for i := home; i < last && free < 0; i++ {
		is, ok := isFree(t, a, t.p.Slot(i))
		if !ok {
			return -1, false
		}
		if is {
			free = i
		}
	}
	if free < home+layout.Neighbours {
		return free, true
	}
	var steps [maxMoves]step
	n := 0
	for ; free >= home+layout.Neighbours; n++ {
		if n == t.moveLimit {
			return -1, true
		}
		s, ok := movable(t, a, free)
		if !ok || s.from < 0 {
			return -1, ok
		}
		steps[n], free = s, s.from
	}
	for _, s := range steps[:n] {
		if moved, ok := move(t, a, s); !ok || !moved {
			return -1, ok
		}
	}
	return free, true
}

// movable is the farthest record before a free slot that may stand in it: from is -1 if there is none.
func movable[A words.Access](t *Table, a A, free int) (s step, ok bool) {
	for home := max(0, free-layout.Neighbours+1); home < min(free, t.p.Homes); home++ {
		w, ok := a.Load(t.p.Trailer(t.p.Slot(home)))
		if !ok {
			return s, false
		}
		for set := layout.Hop(w).Map(); set != 0; set &= set - 1 {
			from := home + bits.TrailingZeros8(set)
			if from >= free {
				break
			}
			state, ok := a.Load(t.p.Slot(from) + layout.StateOffset)
			if !ok {
				return s, false
			}
			if !layout.Locked(state) || t.lacks(MoveLocked) {
				return step{home, from, free}, true
			}
		}
	}
	return step{from: -1}, true
}

// move moves a record, in the order that the package comment tells; false if somebody has locked it, or the
// free slot, meanwhile.
func move[A words.Access](t *Table, a A, s step) (moved, ok bool) {
	from, to := t.p.Slot(s.from), t.p.Slot(s.to)
	state, ok := a.Load(from + layout.StateOffset)
	if !ok || layout.Locked(state) && !t.lacks(MoveLocked) {
		return false, ok
	}
	if moved, ok = a.Swap(from+layout.StateOffset, state, state|moving); !moved {
		return false, ok
	}
	was, ok := a.Load(to + layout.StateOffset)
	if !ok {
		return false, false
	}
	if layout.Locked(was) && !t.lacks(TakeLocked) {
		return false, a.Store(from+layout.StateOffset, state)
	}
	if moved, ok = a.Swap(to+layout.StateOffset, was, was|moving); !moved {
		return false, ok && a.Store(from+layout.StateOffset, state)
	}
	return true, carry(t, a, s, state)
}

// carry is the rest of move, with both slots locked.
func carry[A words.Access](t *Table, a A, s step, state uint64) (ok bool) {
	from, to, hop := t.p.Slot(s.from), t.p.Slot(s.to), t.p.Trailer(t.p.Slot(s.home))
	w, ok := a.Load(hop)
	if !ok {
		return false
	}
	word := layout.Hop(w)
	if !a.Store(hop, uint64(word.Begun())) {
		return false
	}
	seal, ok := unseal(t, a, from)
	if !ok {
		return false
	}
	for i := layout.ValueOffset; i < t.record.Bytes; i += 8 {
		v, ok := a.Load(from + i)
		if !ok || !a.Store(to+i, v) {
			return false
		}
	}
	key, ok := a.Load(from + layout.KeyOffset)
	if !ok {
		return false
	}
	v, ok := a.Load(from + layout.VersionOffset)
	if !ok || !a.Store(to+layout.KeyOffset, key) || !a.Store(from+layout.KeyOffset, layout.NoKey) ||
		!a.Store(from+layout.VersionOffset, uint64(vacant(layout.Version(v)))) ||
		!a.Store(to+layout.VersionOffset, v) {
		return false
	}
	if t.record.Seal > 0 && !a.Store(to+t.record.Seal, seal) {
		return false
	}
	return a.Store(hop, uint64(word.Begun().Moved(s.from-s.home, s.to-s.home))) &&
		a.Store(to+layout.StateOffset, state) && a.Store(from+layout.StateOffset, 0)
}

// unseal takes the seal off a record that is locked, if it has one, and gives it: who reads the slot from now on does
// not take the record for unlocked there.
func unseal[A words.Access](t *Table, a A, slot int) (seal uint64, ok bool) {
	at := t.record.Seal
	if at == 0 {
		return 0, true
	}
	if seal, ok = a.Load(slot + at); !ok || t.lacks(MoveSealed) {
		return seal, ok
	}
	return seal, a.Store(slot+at, 0)
}
