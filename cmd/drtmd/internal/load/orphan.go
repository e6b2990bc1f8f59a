package load

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"drtmd/proto"
	"drtmd/proto/node"
)

// MostOrphans bounds how many orphans a part names; the others are counted.
const MostOrphans = 256

// Orphan is a proto.Orphan, with the table's name.
type Orphan struct {
	Node  proto.NodeID  `json:"node"` // of the record
	Table string        `json:"table"`
	Key   proto.Key     `json:"key"`
	Owner proto.NodeID  `json:"owner"`    // that holds the lock
	Since time.Duration `json:"since_ns"` // the lock was first met; on the cluster's clock
}

func (o Orphan) String() string {
	return fmt.Sprintf("node %d, table %s, key %d, locked by node %d", o.Node, o.Table, o.Key, o.Owner)
}

// order is by record and owner; an orphan that several workers have met is one.
func (o Orphan) order(b Orphan) int {
	return cmp.Or(cmp.Compare(o.Node, b.Node), cmp.Compare(o.Table, b.Table),
		cmp.Compare(o.Key, b.Key), cmp.Compare(o.Owner, b.Owner))
}

// Orphans are those of several workers or parts: each once, by node, table and key.
type Orphans struct {
	Count int      `json:"count"`
	List  []Orphan `json:"list"` // the first MostOrphans of them
}

// Plus adds others. Those that are only counted, on either side, count as different ones.
func (o Orphans) Plus(b Orphans) Orphans {
	all := slices.Concat(o.List, b.List)
	slices.SortFunc(all, func(x, y Orphan) int {
		return cmp.Or(x.order(y), cmp.Compare(x.Since, y.Since)) // the first sight is kept
	})
	all = slices.CompactFunc(all, func(x, y Orphan) bool { return x.order(y) == 0 })
	n := len(all) + o.Count - len(o.List) + b.Count - len(b.List)
	return Orphans{Count: n, List: all[:min(len(all), MostOrphans)]}
}

// without leaves out those that nodes have locked, as far as they are named.
func (o Orphans) without(owners []proto.NodeID) Orphans {
	left := slices.DeleteFunc(slices.Clone(o.List), func(x Orphan) bool { return slices.Contains(owners, x.Owner) })
	return Orphans{Count: o.Count - len(o.List) + len(left), List: left}
}

// Orphans are the records that stay locked, as far as the part's workers have met them. It may be called
// at any time.
func (p *Part) Orphans(ctx context.Context) (o Orphans, err error) {
	s, release := p.inUse()
	defer release()
	if s == nil {
		return o, nil
	}
	specs := s.cluster.Config.Workload.Tables()
	err = s.cluster.Inspect(ctx, func(w *node.Worker) { o = o.Plus(orphansOf(w, specs)) })
	return o, err
}

// orphansOf asks a worker's engine, on its thread or when that has stopped.
func orphansOf(w *node.Worker, specs []proto.TableSpec) (o Orphans) {
	e, ok := w.Engine.(proto.OrphanLister)
	if !ok {
		return o
	}
	for _, x := range e.Orphans(nil) {
		o.List = append(o.List, Orphan{x.Node, specs[x.Table-1].Name, x.Key, x.Owner, x.Since})
	}
	o.Count = len(o.List)
	return o.Plus(Orphans{}) // cut off, in order
}
