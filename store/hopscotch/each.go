package hopscotch

import (
	"drtmd/store/layout"
	"drtmd/store/words"
	"drtmd/verbs/lineword"
)

// Each calls f with the places of all records, absent ones included, until it returns false. For tables
// at rest: what changes meanwhile may be missed or seen twice.
func (t *Table) Each(f func(off int) bool) {
	for off := t.p.Slots; off < t.p.End(); off += t.p.Stride {
		if !layout.Version(t.word(off+layout.VersionOffset)).Unbound() && !f(off) {
			return
		}
	}
}

// EachFrom is Each from the slot with an index on, those of overflow blocks being the last; f is told the index of
// each. A table may be walked piece by piece while it is used. A record that stays in it is seen: it moves to
// higher indexes only, and a slot is looked at when nobody is moving a record from it or to it. One that moves
// may be seen twice.
func (t *Table) EachFrom(from int, f func(slot, off int) bool) {
	for off := t.p.Slots + from*t.p.Stride; off < t.p.End(); off += t.p.Stride {
		if t.taken(off) && !f((off-t.p.Slots)/t.p.Stride, off) {
			return
		}
	}
}

// takenLooks bounds the wait for who is at a slot.
const takenLooks = 1 << 10

// taken reports whether a slot may hold a record. Moves are not seen in part: a region that moves a record has the
// lines of both slots locked, and where memory has no line words the mover has the table's lock. If that does
// not end, the slot counts as taken.
func (t *Table) taken(off int) bool {
	if t.lineWords {
		var line [layout.LineBytes]byte
		for range takenLooks {
			if t.m.Peek(off/layout.LineBytes, &line) {
				return !layout.HeadOf(line[:]).Version.Unbound()
			}
			lineword.Pause()
		}
		return true
	}
	for range takenLooks {
		if words.TryLock(t.base, t.at+lockAt) {
			defer t.unlock()
			return !layout.Version(t.word(off + layout.VersionOffset)).Unbound()
		}
	}
	return true
}

// Incarnations is the incarnation from which the table goes on for a key that it does not know.
func (t *Table) Incarnations() uint32 { return uint32(t.word(t.at + countersAt)) }
