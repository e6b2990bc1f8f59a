package protocol

import (
	"fmt"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/store"
	"drtmd/store/layout"
)

// Entries is a table of DrTM's entries (§6.2) of the own machine, for protocols that know the bytes of these: chained in
// clusters, whose look-ups cost no indirect call, or ordered. The other is nil.
type Entries struct {
	Hash    *store.Table
	Ordered OrderedIndex
}

// EntriesOf are such tables. Others are refused.
func EntriesOf(tables []PointIndex) (list []Entries, err error) {
	for _, t := range tables {
		hash, isHash := t.(*store.Table)
		ordered, isOrdered := t.(OrderedIndex)
		if kind := t.Record().Kind(); !isHash && !isOrdered || kind != layout.KindOneVersion {
			return nil, fmt.Errorf("%w: it knows the bytes of entries of layout %v in ordered tables and those of index %v, and "+
				"a table has layout %v in a %T", ErrNeeds, layout.KindOneVersion, layout.ClusterChaining, kind, t)
		}
		list = append(list, Entries{hash, ordered})
	}
	return list, nil
}

// Index is the table.
func (t *Entries) Index() PointIndex {
	if t.Hash != nil {
		return t.Hash
	}
	return t.Ordered
}

// Find is PointIndex.Find.
func (t *Entries) Find(k proto.Key) (place int, found bool) {
	if t.Hash != nil {
		return t.Hash.Find(uint64(k))
	}
	return t.Ordered.Find(uint64(k))
}

// FindIn is PointIndex.FindIn.
func (t *Entries) FindIn(r *htm.Region, k proto.Key) (place int, found, ok bool) {
	if t.Hash != nil {
		return t.Hash.FindIn(r, uint64(k))
	}
	return t.Ordered.FindIn(r, uint64(k))
}
