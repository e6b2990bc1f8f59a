package remote

import (
	"errors"
	"fmt"
	"sync/atomic"

	"drtmd/store/layout"
	"drtmd/verbs"
)

// What a look-up can end with, beside the errors of the transport.
var (
	// ErrNotFound: the table has no entry of this key.
	ErrNotFound = errors.New("no entry of this key")
	// ErrUnstable: the chain changed each time that it was read. Try again later.
	ErrUnstable = errors.New("bucket chain kept changing while it was read")
	// ErrBounds: the table does not fit in the memory that its node offers. Exchange
	// descriptors anew.
	ErrBounds = errors.New("table reaches beyond the memory region")
	// ErrHosted: the table is a tree, a Robinhood table or one of DLHT, in which nothing is looked up by READs.
	ErrHosted = errors.New("the index is looked up by its node only: call it")
)

// Table is a peer's table, as a place to read from: of one that grows, the first extent.
type Table struct {
	d      layout.Descriptor
	record layout.Record
	base   uint64 // address of the region
	rkey   uint32
	source uint64 // names the table in a cache
	err    error  // why it cannot be used
	peer   uint16
	extent int
	// places are those of a hopscotch table; of others the zero value.
	places layout.Hopscotch
	// extents of a table that grows, as far as they are known; the first is the table itself. nil:
	// the table does not grow. Whoever reads the directory replaces the list by a longer one.
	extents atomic.Pointer[[]*Table]

	mutation Mutation // 0 is none
}

// Open describes the table d of the node that offers mr. If both do not fit together, each
// look-up is an ErrBounds; of an ordered table it is an ErrHosted, and only learns the extents of one that grows.
func Open(d layout.Descriptor, mr verbs.RemoteMR) *Table { return OpenPeer(0, d, mr) }

// OpenPeer is Open that tells the tables of peers apart in a cache, even if they are at the same
// address under the same key there.
func OpenPeer(peer uint16, d layout.Descriptor, mr verbs.RemoteMR) *Table {
	t := &Table{d: d, record: d.Record(), base: mr.Addr, rkey: mr.RKey, peer: peer,
		source: layout.Hash(layout.Hash(uint64(peer)+1)^uint64(mr.RKey)) ^
			layout.Hash(d.MainOffset)}
	if d.Reach() > mr.Length {
		t.err = fmt.Errorf("%w: table %d ends at %d of %d", ErrBounds, d.Table, d.Reach(), mr.Length)
	}
	switch d.Index {
	case layout.BPlusTree, layout.GrowingTrees, layout.Robinhoods, layout.DLHT:
		if t.err == nil {
			t.err = fmt.Errorf("%w: table %d, of index %v", ErrHosted, d.Table, d.Index)
		}
	case layout.HopscotchInline:
		t.places = d.Hopscotch()
	}
	if d.Index == layout.GrowingClusters || d.Index == layout.GrowingTrees {
		t.extents.Store(&[]*Table{t})
	}
	return t
}

// inline reports whether records are inside of the index: the READ that finds one fetches it.
func (t *Table) inline() bool { return t.places.Stride > 0 }

// Grows reports whether the table may have extents.
func (t *Table) Grows() bool { return t.extents.Load() != nil }

// Extents is how many the caller's peer has, as far as is known.
func (t *Table) Extents() int {
	if l := t.extents.Load(); l != nil {
		return len(*l)
	}
	return 1
}

// directoryAt is the offset of line i of the directory.
func (t *Table) directoryAt(i int) uint64 { return t.d.End + uint64(i)*layout.LineBytes }

// learn takes a line of the directory in; false if it is not whole, or describes what cannot be.
func (t *Table) learn(i int, w *layout.ExtentWords) bool {
	e, ok := w.Extent(i)
	if !ok {
		return false
	}
	d, ok := e.Of(t.d)
	if !ok {
		return false
	}
	x := OpenPeer(t.peer, d, verbs.RemoteMR{Addr: e.Addr, Length: e.Length, RKey: e.RKey})
	x.extent, x.mutation = i, t.mutation
	for {
		list := t.extents.Load()
		if len(*list) > i {
			return true // somebody else was faster
		}
		longer := append((*list)[:i:i], x)
		if t.extents.CompareAndSwap(list, &longer) {
			return true
		}
	}
}

// Resolve is the address of a place, and the key to the memory there: that of Entry.Off. A place in an
// extent that is not known has neither: the key opens nothing.
func (t *Table) Resolve(place uint64) (addr uint64, rkey uint32) {
	extent, off := layout.SplitPlace(int(place))
	if t = t.known(extent); t == nil {
		return 0, 0
	}
	return t.base + uint64(off), t.rkey
}

// Entry reports whether an entry can stand at a place, in an extent that is known.
func (t *Table) Entry(place uint64) bool {
	extent, off := layout.SplitPlace(int(place))
	t = t.known(extent)
	return t != nil && t.d.Entry(uint64(off))
}

// known is an extent, or nil if that is not known.
func (t *Table) known(extent int) *Table {
	if extent == 0 {
		return t
	}
	list := t.extents.Load()
	if list == nil || extent < 0 || extent >= len(*list) {
		return nil
	}
	return (*list)[extent]
}

// Descriptor of the table.
func (t *Table) Descriptor() layout.Descriptor { return t.d }

// RKey opens the memory in which the table is; of one that grows see Resolve.
func (t *Table) RKey() uint32 { return t.rkey }

// Counters are where the incarnation counters of the table's extents are: the greatest of them is the
// incarnation of a key without an entry. Whoever READs them before or after a look-up that found nothing
// learns whether a key was inserted, deleted and given back meanwhile.
func (t *Table) Counters(visit func(addr uint64, rkey uint32)) {
	list := []*Table{t}
	if l := t.extents.Load(); l != nil {
		list = *l
	}
	for _, x := range list {
		visit(x.base+x.d.Counter(), x.rkey)
	}
}

// Addr is the address of an offset of the table's memory region.
func (t *Table) Addr(offset uint64) uint64 { return t.base + offset }

// Record is how the table's records lie in memory.
func (t *Table) Record() *layout.Record { return &t.record }

// Err is why look-ups cannot work; nil if they can.
func (t *Table) Err() error { return t.err }

// Entry is the place of a key's entry.
type Entry struct {
	Addr   uint64       // in the peer's memory
	RKey   uint32       // opens it
	Off    uint64       // the place: in bytes from the start of the region, and its extent
	Lossy  layout.Lossy // of the incarnation that the entry had when it was last ensured
	Cached bool         // a cache said so
}
