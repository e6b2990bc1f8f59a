package store

import (
	"fmt"

	"drtmd/store/layout"
)

// Occupancy says how full a table is.
type Occupancy struct {
	MainSlots, MainTaken     int // slots of main buckets, links included
	IndirectBuckets, Chained int
	Entries, Bound           int // entries; those that are bound to a key, absent ones included
}

// Occupancy counts. It reads every main bucket outside of regions: exact for a table at rest, near
// otherwise, and not for the hot path.
func (t *Table) Occupancy() Occupancy {
	entries, buckets := t.entryPool(), t.bucketPool()
	o := Occupancy{
		MainSlots:       t.config.MainBuckets * layout.BucketSlots,
		IndirectBuckets: t.config.IndirectBuckets, Chained: buckets.Used(t.word),
		Entries: t.config.Entries, Bound: entries.Used(t.word),
	}
	for at := t.mainAt; at < t.indirectAt; at += layout.SlotBytes {
		if layout.Slot(t.word(at)).Type() != layout.Free {
			o.MainTaken++
		}
	}
	return o
}

// Plus is that of two tables together.
func (o Occupancy) Plus(p Occupancy) Occupancy {
	return Occupancy{
		MainSlots: o.MainSlots + p.MainSlots, MainTaken: o.MainTaken + p.MainTaken,
		IndirectBuckets: o.IndirectBuckets + p.IndirectBuckets, Chained: o.Chained + p.Chained,
		Entries: o.Entries + p.Entries, Bound: o.Bound + p.Bound,
	}
}

func (o Occupancy) String() string {
	return fmt.Sprintf("%d of %d main slots, %d of %d indirect buckets, %d of %d entries",
		o.MainTaken, o.MainSlots, o.Chained, o.IndirectBuckets, o.Bound, o.Entries)
}
