package protocol

import (
	"fmt"

	"drtmd/htm"
	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/store"
	"drtmd/store/layout"
)

// PointIndex is a table of the own node as engines use it: it leads from keys to places of records. A
// place is an offset in the memory that At gives; a table of several memory regions tells them apart in
// it (layout.MakePlace). Look-ups in tables elsewhere are package remote's: a remote.Table has the
// index that its descriptor names.
//
// All methods are called on the worker's thread. With an error nothing has changed and the region runs
// on; ok is false if the region has aborted. store.Table is the first implementation: what it promises
// of each method holds for all.
type PointIndex interface {
	// Record is how records lie in memory.
	Record() *layout.Record
	// At is the memory of a place, and the offset there.
	At(place int) (m *htm.Memory, off int)
	// Find is the place of a key's entry, outside of any region. A false proves nothing.
	Find(key uint64) (place int, ok bool)
	// FindIn is Find inside a region, which has found and not found in its read set.
	FindIn(r *htm.Region, key uint64) (place int, found, ok bool)
	// EnsureIn finds the entry of a key or makes an absent one with a state word.
	EnsureIn(r *htm.Region, key, state uint64) (place int, v layout.Version, ok bool, err error)
	// ReclaimIn gives an absent entry with a state word back.
	ReclaimIn(r *htm.Region, key, state uint64) (ok bool, err error)
	// AbsentIn is the version that a key without an entry has: layout.Fresh, with a counter that grows
	// when a key was inserted, deleted and given back.
	AbsentIn(r *htm.Region) (v layout.Version, ok bool)
	// Load stores a record before anybody else uses the table.
	Load(key uint64, value []byte) error
	// Each calls f with the places of all entries, until it returns false. For tables at rest.
	Each(f func(place int) bool)
}

// PrefetchingIndex is a PointIndex that can bring what a look-up reads first into the caches.
type PrefetchingIndex interface {
	PointIndex
	// Prefetch asks for what Find of a key reads first.
	Prefetch(key uint64)
}

// Prefetcher asks for what look-ups of declared records will read: by table, nil where its index cannot.
type Prefetcher []prefetched

// prefetched is a table, or nothing.
type prefetched struct {
	hash  *store.Table // if it is one: without an indirect call
	other PrefetchingIndex
}

// PrefetcherOf makes the Prefetcher of the own machine's tables.
func PrefetcherOf(tables []PointIndex) Prefetcher {
	p := make(Prefetcher, len(tables))
	for i, t := range tables {
		var ok bool
		if p[i].hash, ok = t.(*store.Table); !ok {
			p[i].other, _ = t.(PrefetchingIndex)
		}
	}
	return p
}

// Prefetch asks for all that a transaction declares, so that its cache misses overlap with each other and with what
// comes before the first look-up. Records of other machines are asked for, too: that costs less than to tell them apart.
func (p Prefetcher) Prefetch(d *proto.Decl) {
	for i := range d.Accesses {
		a := &d.Accesses[i]
		if n := uint(a.Table) - 1; n < uint(len(p)) {
			switch x := &p[n]; {
			case x.hash != nil:
				x.hash.Prefetch(uint64(a.Key))
			case x.other != nil:
				x.other.Prefetch(uint64(a.Key))
			}
		}
	}
}

// GrowingIndex is a PointIndex of several memory regions.
type GrowingIndex interface {
	PointIndex
	// Grow adds a region after a store.ErrFull: try again after nil. Not inside a region of HTM.
	Grow() error
	// Resolve is the address of a place beyond the first region, and the key to the memory there.
	Resolve(place int) (addr uint64, rkey uint32)
}

// Growth is what the tables of a member may grow by, together.
type Growth struct {
	Bytes   int64  `json:"bytes"`   // 0: they do not grow
	Setting string `json:"setting"` // names it to whoever reads a refusal, as "--growth"
}

// Refusal says why a table has no room; nil: it does not grow.
func (g Growth) Refusal() error {
	if g.Bytes == 0 {
		return nil
	}
	return fmt.Errorf("the tables of a node may not grow by more than %s = %v: raise it", g.Setting,
		option.Bytes(g.Bytes))
}

// OrderedIndex is a PointIndex that knows the order of its keys. What a region has seen of the order is
// in its read set: the keys of a range, and that there are no others.
type OrderedIndex interface {
	PointIndex
	// Scan calls f with the entries of the keys from first to last, both included, in ascending order
	// or, if first is above last, in descending order, until f returns false.
	Scan(r *htm.Region, first, last uint64, f func(key uint64, place int) bool) (ok bool)
	// Next is the entry of the least key above key.
	Next(r *htm.Region, key uint64) (next uint64, place int, found, ok bool)
	// Ends are the least and the greatest key from first to last, both included.
	Ends(r *htm.Region, first, last uint64) (least, greatest uint64, found, ok bool)
}

// GlancedIndex is an OrderedIndex that can be looked at outside of regions.
type GlancedIndex interface {
	OrderedIndex
	// Glance is Scan outside of any region. What it gives proves nothing: if others change the range meanwhile, keys may be
	// missing, or be there twice. ok is false if it has met what no table has.
	Glance(first, last uint64, f func(key uint64, place int) bool) (ok bool)
}

// CopiedIndex is a table that can be copied piece by piece while it is used, and numbers the lives of keys.
type CopiedIndex interface {
	// EachFrom calls f with the entries from one on, until it returns false.
	EachFrom(from int, f func(i, off int) bool)
	// Incarnations is the number from which the table goes on for keys that it does not know.
	Incarnations() uint32
	// RaiseIn has that number be n at least, inside a region.
	RaiseIn(r *htm.Region, n uint32) (ok bool)
}

// Copied is a table as one that can be copied. All tables of shards with replicas can.
func Copied(t PointIndex) CopiedIndex {
	c, ok := t.(CopiedIndex)
	invariant.Assert(ok, "a table with replicas cannot be copied")
	return c
}
