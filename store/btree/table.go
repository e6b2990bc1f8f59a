package btree

import (
	"fmt"
	"unsafe"

	"drtmd/htm"
	"drtmd/store/internal/head"
	"drtmd/store/layout"
	"drtmd/store/pool"
	"drtmd/store/words"
)

// Table is a table as one worker sees it. It belongs to that worker; the bytes are shared.
type Table struct {
	m         *htm.Memory
	base      unsafe.Pointer // of the memory region
	config    Config
	at        int // offset of the head
	nodesAt   int
	entriesAt int
	end       int // offset behind the last entry
	stride    int // bytes from entry to entry
	stripe    int // of the pools, where this worker begins
	loads     int // records loaded so far
	lineWords bool
	record    layout.Record
	undo      *words.Undo // of its worker; nil: changes that are cut off stay as they are
	finger    finger
	found     path // the way that Find has taken last; leaf 0: none
}

// Format makes an empty table at an offset of memory that nobody uses, with Config.Bytes bytes
// there. The offset is a multiple of layout.BucketBytes and not beyond layout.MaxOffset.
func Format(c Config, m *htm.Memory, at int) (*Table, error) {
	t, err := open(c, m, at)
	if err != nil {
		return nil, err
	}
	t.format()
	return t, nil
}

// Attach opens a table that Format made: for a further worker, or after a restart that kept the
// memory, once the commits that were under way have been finished (package htm). It fails with
// store.ErrNotTable if the memory does not hold a table of this Config at this offset.
func Attach(c Config, m *htm.Memory, at int) (*Table, error) {
	t, err := open(c, m, at)
	if err != nil {
		return nil, err
	}
	if err := t.checkHead(); err != nil {
		return nil, err
	}
	return t, nil
}

func open(c Config, m *htm.Memory, at int) (*Table, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if err := head.Fits(c.Name, at, c.Bytes(), len(m.Bytes)); err != nil {
		return nil, err
	}
	nodesAt := at + headBytes
	entriesAt := nodesAt + c.Nodes*layout.NodeBytes
	return &Table{m: m, base: unsafe.Pointer(unsafe.SliceData(m.Bytes)), config: c, at: at,
		nodesAt: nodesAt, entriesAt: entriesAt, end: entriesAt + c.Entries*c.stride(), stride: c.stride(),
		stripe: int(m.Slot) % pool.Stripes, lineWords: m.Words != nil, record: c.record()}, nil
}

// Config of the table.
func (t *Table) Config() Config { return t.config }

// At is the memory of a record, and the offset there.
func (t *Table) At(off int) (*htm.Memory, int) { return t.m, off }

// Record is how the table's records lie in memory.
func (t *Table) Record() *layout.Record { return &t.record }

// Describe gives what a peer must know of the table.
func (t *Table) Describe() layout.Descriptor { return t.config.Descriptor(t.at) }

func (t *Table) entryPool() pool.Pool {
	return pool.Pool{At: t.at + entryPoolAt, First: t.entriesAt, End: t.end, Size: t.stride,
		Next: layout.ValueOffset, State: layout.StateOffset, Stripe: t.stripe, TakeLocked: t.lacks(TakeLocked)}
}

func (t *Table) nodePool() pool.Pool {
	return pool.Pool{At: t.at + nodePoolAt, First: t.nodesAt, End: t.entriesAt, Size: layout.NodeBytes,
		Next: layout.ChildOffset, Stripe: t.stripe}
}

// isNode reports whether a node can stand at an offset that came from memory.
func (t *Table) isNode(off uint64) bool {
	return off >= uint64(t.nodesAt) && off < uint64(t.entriesAt) &&
		(off-uint64(t.nodesAt))%layout.NodeBytes == 0
}

// isEntry reports whether an entry can stand at an offset that came from memory.
func (t *Table) isEntry(off uint64) bool {
	return off >= uint64(t.entriesAt) && off < uint64(t.end) && (off-uint64(t.entriesAt))%uint64(t.stride) == 0
}

// prefetch asks for the lines of an entry that is likely to be taken next: those of a pool follow one another.
func (t *Table) prefetch(off int) {
	if t.lineWords && off < t.end {
		t.m.Prefetch(off/layout.LineBytes, 1<<min(t.stride/layout.LineBytes, prefetchLines)-1)
	}
}

// prefetchLines bounds how much of an entry is asked for.
const prefetchLines = 4

// inside is access in a region.
func (t *Table) inside(r *htm.Region) words.Inside { return words.Inside{R: r, M: t.m} }

// direct is access by whoever holds the table's lock.
func (t *Table) direct(r *htm.Region) words.Direct {
	return words.Direct{R: r, Base: t.base, Undo: t.undo}
}

// plain is access to a table that nobody else uses.
func (t *Table) plain() words.Plain { return words.Plain{Base: t.base} }

// outside is access that reads the table outside of regions, while others may change it.
type outside struct{ t *Table }

func (a outside) Load(off int) (uint64, bool)                 { return a.t.word(off), true }
func (a outside) Peek(off int) (uint64, bool)                 { return a.t.word(off), true }
func (a outside) Validate() bool                              { return true }
func (a outside) Store(int, uint64) bool                      { return false }
func (a outside) Complete(int, uint64) bool                   { return false }
func (a outside) Swap(int, uint64, uint64) (swapped, ok bool) { return false, false }
func (a outside) Corrupt()                                    {}

// word reads a word outside of regions. The offset is inside the table.
func (t *Table) word(off int) uint64 { return words.Now(t.m, t.base, off) }

// setWord stores a word of a table that nobody else uses.
func (t *Table) setWord(off int, v uint64) { *(*uint64)(unsafe.Add(t.base, off)) = v }

// lock takes the table's lock, which serves memory without line words only.
func (t *Table) lock(r *htm.Region) bool { return words.Lock(r, t.base, t.at+lockAt) }

func (t *Table) unlock() {
	t.undo.Drop()
	words.Unlock(t.base, t.at+lockAt)
}

// Journal has the table note its changes, which are stores one by one where memory has no line words, so that they can be
// put back if they are cut off. The table does not grow.
func (t *Table) Journal(u *words.Undo) {
	if !t.lacks(Unnoted) {
		t.undo = u
	}
}

// Unlock gives back the lock that an earlier life of kept memory has left. Nobody uses the table yet.
func (t *Table) Unlock() { words.Unlock(t.base, t.at+lockAt) }

// Each calls f with the places of all records in the order of their keys, absent ones included, until it
// returns false. For tables at rest: what changes meanwhile may be missed or seen twice.
func (t *Table) Each(f func(off int) bool) {
	scan(t, outside{t}, 0, layout.NoKey, func(_ uint64, off int) bool { return f(off) })
}

// EachFrom calls f with the places of all records from the entry with an index on, in no order; f is told the index
// of each. An entry that stays bound to its key keeps its place, whatever changes around it, so a table may be walked
// piece by piece while it is used.
func (t *Table) EachFrom(from int, f func(entry, off int) bool) {
	for off := t.entriesAt + from*t.stride; off < t.end; off += t.stride {
		v := layout.Version(t.word(off + layout.VersionOffset))
		if v != 0 && !v.Unbound() && !f((off-t.entriesAt)/t.stride, off) { // 0: it was never bound
			return
		}
	}
}

// Incarnations is the incarnation from which the table goes on for a key that it does not know.
func (t *Table) Incarnations() uint32 { return uint32(t.word(t.at + countersAt)) }

// Occupancy says how full a table is.
type Occupancy struct {
	Height         int // levels of nodes, the leaves included
	Nodes, InTree  int
	Entries, Bound int // entries; those that are bound to a key, absent ones included
}

// Occupancy counts outside of regions: exact for a table at rest, near otherwise.
func (t *Table) Occupancy() Occupancy {
	entries, nodes := t.entryPool(), t.nodePool()
	root := t.word(t.at + rootAt)
	return Occupancy{Height: 1 + layout.NodeHead(t.word(int(root))).Level(), Nodes: t.config.Nodes,
		InTree: nodes.Used(t.word), Entries: t.config.Entries, Bound: entries.Used(t.word)}
}

func (o Occupancy) String() string {
	return fmt.Sprintf("%d levels, %d of %d nodes, %d of %d entries", o.Height, o.InTree, o.Nodes, o.Bound,
		o.Entries)
}
