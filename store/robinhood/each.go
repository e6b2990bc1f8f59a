package robinhood

import (
	"drtmd/store/layout"
)

// Each calls f with the places of all records, absent ones included, until it returns false. For tables at rest: what
// changes meanwhile may be missed or seen twice.
func (t *Table) Each(f func(off int) bool) {
	t.eachSlot(func(slot int) bool {
		off, ok := t.recordOf(slot)
		return !ok || f(off)
	})
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
