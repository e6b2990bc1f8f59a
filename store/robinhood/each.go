package robinhood

import (
	"drtmd/htm"
	"drtmd/store/layout"
	"drtmd/store/words"
	"drtmd/verbs/lineword"
)

// Each calls f with the places of all records, absent ones included, until it returns false. For tables at rest: what
// changes meanwhile may be missed or seen twice.
func (t *Table) Each(f func(off int) bool) {
	t.eachSlot(func(slot int) bool {
		off, ok := t.recordOf(slot)
		return !ok || f(off)
	})
}

// Keys are those of all records at this moment, absent ones included; false: somebody is changing the table. It looks at
// every slot at once, so it is for who belongs to one event loop with all others that use the table.
func (t *Table) Keys() (keys []uint64, ok bool) {
	ok = true
	t.eachSlot(func(slot int) bool {
		keys = append(keys, t.word(slot+layout.KeyOffset))
		return true
	})
	if t.m.Words == nil { // one thread has the memory
		return keys, true
	}
	lines := t.m.Words[t.at/layout.LineBytes : (t.at+t.config.Bytes()+layout.LineBytes-1)/layout.LineBytes]
	for i := range lines {
		ok = ok && !lineword.Load(&lines[i]).Locked()
	}
	return keys, ok
}

// Incarnations is the incarnation from which the table goes on for a key that it does not know.
func (t *Table) Incarnations() uint32 { return uint32(t.word(t.at + countersAt)) }

// RaiseIn has that number be n at least, inside a region.
func (t *Table) RaiseIn(r *htm.Region, n uint32) (ok bool) {
	a := words.Inside{R: r, M: t.m}
	counter, ok := a.Load(t.at + countersAt)
	return ok && (uint64(n) <= counter || a.Store(t.at+countersAt, uint64(n)))
}

// eachSlot calls f with the offsets of all slots that have a key.
func (t *Table) eachSlot(f func(slot int) bool) {
	for i := range t.p.SlotCount() {
		if slot := t.p.Slot(i); t.word(slot+layout.KeyOffset) != layout.NoKey && !f(slot) {
			return
		}
	}
	for b := range t.p.Count {
		for i := range layout.OverflowSlots {
			slot := t.p.Block(b) + i*t.p.Stride
			if t.word(slot+layout.KeyOffset) != layout.NoKey && !f(slot) {
				return
			}
		}
	}
}
