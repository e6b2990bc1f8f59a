package store

import (
	"drtmd/store/layout"
	"drtmd/store/words"
)

// place is where a key stands in its chain, or could.
type place struct {
	slot   layout.Slot // names the key's entry
	slotAt int         // offset of that slot; 0: the key has none
	bucket int         // offset of the bucket that holds the slot
	linkAt int         // offset of the slot that links to that bucket; 0: it is the main one
	freeAt int         // offset of the first free slot that was passed; 0: none
	last   int         // offset of the last bucket of the chain, if the key has no slot
}

// locate walks the chain of a key.
func locate[A access](t *Table, a A, key uint64) (p place, ok bool) {
	b := t.bucketAt(key)
	for range t.chain {
		var link layout.Slot
		for i := range layout.BucketSlots {
			at := b + i*layout.SlotBytes
			w, ok := a.Load(at)
			if !ok {
				return place{}, false
			}
			switch s := layout.Slot(w); s.Type() {
			case layout.Free:
				if p.freeAt == 0 {
					p.freeAt = at
				}
			case layout.Entry:
				k, ok := a.Load(at + layout.SlotKeyOffset)
				if !ok {
					return place{}, false
				}
				if k == key {
					p.slot, p.slotAt, p.bucket = s, at, b
					return p, words.Checked(a, t.named(int(s.Offset())))
				}
			default:
				link = s
			}
		}
		p.last = b
		if link.Type() == layout.Free {
			return p, true
		}
		next, ok := t.linked(link)
		if !ok {
			break
		}
		p.linkAt = b + layout.LinkSlot*layout.SlotBytes
		b = next
	}
	return place{}, words.Checked(a, false)
}
