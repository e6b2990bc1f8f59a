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
