package store

import "drtmd/store/layout"

// Each calls f with every entry that a bucket leads to, absent ones included, until it returns
// false. For tables at rest: what changes meanwhile may be missed or seen twice.
func (t *Table) Each(f func(off int) bool) {
	for at := t.mainAt; at < t.entriesAt; at += layout.SlotBytes {
		s := layout.Slot(t.word(at))
		if s.Type() == layout.Entry && !f(int(s.Offset())) {
			return
		}
	}
}

// EachFrom is Each from the slot with an index on; f is told the index of each. An entry that stays keeps its
// slot, whatever changes around it, so a table may be walked piece by piece while it is used.
func (t *Table) EachFrom(from int, f func(slot, off int) bool) {
	for at := t.mainAt + from*layout.SlotBytes; at < t.entriesAt; at += layout.SlotBytes {
		s := layout.Slot(t.word(at))
		if s.Type() == layout.Entry && !f((at-t.mainAt)/layout.SlotBytes, int(s.Offset())) {
			return
		}
	}
}

// Incarnations is the incarnation from which the table goes on for a key that it does not know.
func (t *Table) Incarnations() uint32 { return uint32(t.word(t.at + countersAt)) }
