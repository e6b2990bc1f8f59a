package robinhood

import (
	"fmt"
	"unsafe"

	"drtmd/htm"
	"drtmd/store"
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
	p         layout.Robinhood
	record    layout.Record
	outside   bool // records stand outside of slots
	lineWords bool
	stripe    int   // of the pools, where this worker begins
	loads     int   // records loaded so far
	path      []int // slots of the records that an insertion moves
}

const (
	// maxPath bounds the records that one insertion moves, and movedLines the lines that it writes in a region.
	maxPath    = 1024
	movedLines = 128
)

// Format makes an empty table at an offset of memory that nobody uses, with Config.Bytes bytes there. The offset is a
// multiple of layout.BucketBytes and not beyond layout.MaxOffset.
func Format(c Config, m *htm.Memory, at int) (*Table, error) {
	t, err := open(c, m, at)
	if err != nil {
		return nil, err
	}
	t.format()
	return t, nil
}

// Attach opens a table that Format made: for a further worker, or after a restart that kept the memory, once the
// commits that were under way have been finished (package htm). It fails with store.ErrNotTable if the memory does
// not hold a table of this Config at this offset.
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
	return &Table{m: m, base: unsafe.Pointer(unsafe.SliceData(m.Bytes)), config: c, at: at, p: c.places(at),
		record: c.record(), outside: c.outside(), lineWords: m.Words != nil, stripe: int(m.Slot) % pool.Stripes,
		path: make([]int, min(c.Limit+1, maxPath))}, nil
}

// regionMoves bounds the records that move in one region.
func (t *Table) regionMoves() int {
	return min(len(t.path), max(1, movedLines*layout.LineBytes/t.p.Stride))
}

// Config of the table.
func (t *Table) Config() Config { return t.config }

// At is the memory of a record, and the offset there.
func (t *Table) At(off int) (*htm.Memory, int) { return t.m, off }

// Record is how the table's records lie in memory.
func (t *Table) Record() *layout.Record { return &t.record }

// Describe gives what a peer must know of the table. No peer looks keys up in it.
func (t *Table) Describe() layout.Descriptor { return t.config.Descriptor(t.at) }

// word reads a word outside of regions. The offset is inside the table.
func (t *Table) word(off int) uint64 { return words.Now(t.m, t.base, off) }

// setWord stores a word of a table that nobody else uses.
func (t *Table) setWord(off int, v uint64) { *(*uint64)(unsafe.Add(t.base, off)) = v }

// lock takes the table's lock, which serves memory without line words only.
func (t *Table) lock(r *htm.Region) bool { return words.Lock(r, t.base, t.at+lockAt) }

func (t *Table) unlock() { words.Unlock(t.base, t.at+lockAt) }

// Occupancy says how full a table is.
type Occupancy struct {
	Homes, Taken   int // slots that keys have their homes in; slots outside of blocks that are taken
	Blocks, Linked int // overflow blocks; those in chains
	Overflowed     int // records in them
}

// Occupancy counts. It reads all of the table outside of regions: exact for a table at rest, near otherwise, and not
// for the hot path.
func (t *Table) Occupancy() Occupancy {
	blocks := t.blockPool()
	o := Occupancy{Homes: t.p.Homes, Blocks: t.p.Count, Linked: blocks.Used(t.word)}
	t.eachSlot(func(slot int) bool {
		if slot < t.p.Blocks {
			o.Taken++
		} else {
			o.Overflowed++
		}
		return true
	})
	return o
}

func (o Occupancy) String() string {
	return fmt.Sprintf("%d slots taken, of %d homes and more; %d records in %d of %d overflow blocks", o.Taken, o.Homes,
		o.Overflowed, o.Linked, o.Blocks)
}

// Refusals of a table without room.
var (
	// ErrOverflowFull: a record goes to an overflow chain, and there is no block.
	ErrOverflowFull error = fmt.Errorf("%w: no free slot within the displacement limit and no overflow block; make "+
		"the table with more homes, a higher limit or more blocks", store.ErrFull)
	// ErrRecordsFull: all records outside of slots are in use.
	ErrRecordsFull error = fmt.Errorf("%w: no free record for a large value; make the table with more of them",
		store.ErrFull)
)
