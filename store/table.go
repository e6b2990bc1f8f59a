package store

import (
	"unsafe"

	"drtmd/htm"
	"drtmd/store/internal/head"
	"drtmd/store/layout"
	"drtmd/store/pool"
	"drtmd/store/words"
)

// Table is a table as one worker sees it. It belongs to that worker; the bytes are shared.
type Table struct {
	m          *htm.Memory
	base       unsafe.Pointer // of the memory region
	main       unsafe.Pointer // of the first main bucket
	mainCount  uint64
	config     Config
	at         int // offset of the head
	mainAt     int
	indirectAt int
	entriesAt  int
	lastEntry  int
	stride     int // bytes from entry to entry
	chain      int // most buckets of a chain
	stripe     int // of the pools, where this worker begins
	loads      int // records loaded so far
	lineWords  bool
	record     layout.Record
	undo       *words.Undo // of its worker; nil: changes that are cut off stay as they are
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
// ErrNotTable if the memory does not hold a table of this Config at this offset.
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
	base := unsafe.Pointer(unsafe.SliceData(m.Bytes))
	mainAt := at + headBytes
	indirectAt := mainAt + c.MainBuckets*layout.BucketBytes
	entriesAt := indirectAt + c.IndirectBuckets*layout.BucketBytes
	stride := c.stride()
	return &Table{
		m: m, base: base, main: unsafe.Add(base, mainAt), mainCount: uint64(c.MainBuckets),
		config: c, at: at, mainAt: mainAt, indirectAt: indirectAt,
		entriesAt: entriesAt, lastEntry: entriesAt + (c.Entries-1)*stride, stride: stride,
		record: c.record(),
		chain:  c.IndirectBuckets + 1,
		stripe: int(m.Slot) % pool.Stripes, lineWords: m.Words != nil,
	}, nil
}

// Config of the table.
func (t *Table) Config() Config { return t.config }

// Memory is the region in which the table stands.
func (t *Table) Memory() *htm.Memory { return t.m }

// At is the memory of an entry, and the offset there.
func (t *Table) At(off int) (*htm.Memory, int) { return t.m, off }

// Record is how the table's records lie in memory.
func (t *Table) Record() *layout.Record { return &t.record }

// Describe gives what a peer must know to look keys up.
func (t *Table) Describe() layout.Descriptor { return t.config.Descriptor(t.at) }

// VersionOffset is where the version word of the entry at off stands.
func (t *Table) VersionOffset(off int) int { return off + layout.VersionOffset }

// StateOffset is where the state word of the entry at off stands.
func (t *Table) StateOffset(off int) int { return off + layout.StateOffset }

// ValueOffset is where the value of the entry at off begins, as the layout has it.
func (t *Table) ValueOffset(off int) int { return off + layout.ValueOffset }

// KeyAt is the key word of the entry at off, read outside of any region.
func (t *Table) KeyAt(off int) uint64 { return t.word(off + layout.KeyOffset) }

// bucketAt is the offset of a key's main bucket.
func (t *Table) bucketAt(key uint64) int {
	return t.mainAt + int(layout.BucketIndex(key, t.mainCount))*layout.BucketBytes
}

// linked is the offset of the indirect bucket that a link names, and false if there cannot be one.
func (t *Table) linked(s layout.Slot) (int, bool) {
	off := int(s.Offset())
	return off, off >= t.indirectAt && off < t.entriesAt &&
		(off-t.indirectAt)%layout.BucketBytes == 0
}

// named reports whether an entry can stand at an offset that came from memory.
func (t *Table) named(off int) bool {
	return off >= t.entriesAt && off <= t.lastEntry && (off-t.entriesAt)%t.stride == 0
}

// word reads a word outside of regions. The offset is inside the table.
func (t *Table) word(off int) uint64 { return words.Now(t.m, t.base, off) }

// setWord stores a word of a table that nobody else uses.
func (t *Table) setWord(off int, v uint64) { *(*uint64)(unsafe.Add(t.base, off)) = v }
