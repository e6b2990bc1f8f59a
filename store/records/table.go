package records

import (
	"sync/atomic"
	"unsafe"

	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/dlht"
	"drtmd/store/internal/head"
	"drtmd/store/layout"
	"drtmd/store/pool"
	"drtmd/store/words"
)

// Table is a table as one worker sees it. It belongs to that worker; records and index are shared.
type Table struct {
	m         *htm.Memory
	base      unsafe.Pointer // of the memory region
	config    Config
	at        int // offset of the head
	stride    int // bytes from record to record
	stripe    int // of the free places, where this worker begins
	loads     int // records loaded so far
	lineWords bool
	record    layout.Record
	index     *index
}

// Format makes an empty table at an offset of memory that nobody uses, with Config.Bytes bytes there. The offset is
// a multiple of layout.BucketBytes and not beyond layout.MaxOffset.
func Format(c Config, m *htm.Memory, at int) (*Table, error) {
	t, err := open(c, m, at)
	if err != nil {
		return nil, err
	}
	if t.index, err = newIndex(c); err != nil {
		return nil, err
	}
	t.format()
	t.index.deal(c.Entries)
	return t, nil
}

// Attach opens a table that Format made, after a restart that kept the memory, once the commits that were under way
// have been finished (package htm). Nobody uses the table meanwhile. It fails with store.ErrNotTable if the memory
// does not hold a table of this Config at this offset.
func Attach(c Config, m *htm.Memory, at int) (*Table, error) {
	t, err := open(c, m, at)
	if err != nil {
		return nil, err
	}
	if err = t.checkHead(); err != nil {
		return nil, err
	}
	if t.index, err = newIndex(c); err != nil {
		return nil, err
	}
	return t, t.rebuild()
}

// View is the same table for another worker of the process, whose view of the memory region is m.
func (t *Table) View(m *htm.Memory) (*Table, error) {
	v, err := open(t.config, m, t.at)
	if err != nil {
		return nil, err
	}
	v.index = t.index
	return v, nil
}

func open(c Config, m *htm.Memory, at int) (*Table, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if err := head.Fits(c.Name, at, c.Bytes(), len(m.Bytes)); err != nil {
		return nil, err
	}
	return &Table{m: m, base: unsafe.Pointer(unsafe.SliceData(m.Bytes)), config: c, at: at, stride: c.stride(),
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

// Occupancy of the index, and how many records are bound.
func (t *Table) Occupancy() dlht.Occupancy { return t.index.keys.Occupancy() }

// Find is the offset of the record of key, outside of any region; there the caller checks it (layout.Match). A false
// says that there was none during the call. It waits for nobody and does not allocate.
func (t *Table) Find(key uint64) (off int, ok bool) {
	at, ok := t.index.keys.Get(key)
	return int(at), ok
}

// Prefetch asks for what Find of a key reads first. It changes nothing.
func (t *Table) Prefetch(key uint64) { t.index.keys.Prefetch(key) }

// FindIn is Find while a region runs, whose read set it leaves as it is. ok is false if the region has aborted.
func (t *Table) FindIn(r *htm.Region, key uint64) (off int, found, ok bool) {
	off, found = t.Find(key)
	return off, found, r.Active()
}

// AbsentIn is the version that a key without a record has: Fresh, with the table's counter. While it stays the same,
// no key has been inserted, deleted and given back. It is that of the moment, and not in the region's read set.
func (t *Table) AbsentIn(*htm.Region) (v layout.Version, ok bool) {
	return layout.Fresh(t.Incarnations()), true
}

// Incarnations is the incarnation from which the table goes on for a key that it does not know.
func (t *Table) Incarnations() uint32 { return uint32(atomic.LoadUint64(t.counter())) }

// RaiseIn has the table go on from an incarnation at least, for keys that it does not know: they were given back in
// another replica. Other workers may use the table. It is so at once, whatever becomes of the region.
func (t *Table) RaiseIn(_ *htm.Region, n uint32) (ok bool) {
	t.raise(n)
	return true
}

// raise has the counter be n at least. Whoever gives a record back keeps its incarnation so before anything else: who
// sees that a key has no record, and then the counter as it was before, knows that no version was given back.
func (t *Table) raise(n uint32) {
	if t.lacks(NoCounter) {
		return
	}
	p := t.counter()
	for now := atomic.LoadUint64(p); now < uint64(n); now = atomic.LoadUint64(p) {
		if atomic.CompareAndSwapUint64(p, now, uint64(n)) {
			return
		}
	}
}

func (t *Table) counter() *uint64 { return t.at64(t.at + countersAt) }

// Each calls f with the places of all records, absent ones included, in their order, until it returns false. For tables
// at rest: what changes meanwhile may be missed.
func (t *Table) Each(f func(off int) bool) {
	t.EachFrom(0, func(_, off int) bool { return f(off) })
}

// EachFrom is Each from the record with an index on; f is told the index of each. Records stay in their places, so a
// table may be walked piece by piece while it is used.
func (t *Table) EachFrom(from int, f func(i, off int) bool) {
	for i := from; i < t.config.Entries; i++ {
		if off := t.place(i); !t.version(off).Unbound() && !f(i, off) {
			return
		}
	}
}

// Load stores a record in a table that nobody else uses yet: version layout.FirstVersion, state zero. It fails with
// store.ErrExists, store.ErrValueSize, or as EnsureIn does.
func (t *Table) Load(key uint64, value []byte) error {
	switch {
	case len(value) != t.config.ValueBytes:
		return store.ErrValueSize
	case key == layout.NoKey:
		return store.ErrKey
	}
	own := t.stripe
	t.stripe = pool.Loading(own, t.loads)
	off, _, made, err := t.make(key, 0)
	t.stripe, t.loads = own, t.loads+1
	switch {
	case err != nil:
		return err
	case !made:
		return store.ErrExists
	}
	t.record.Put(t.m.Bytes[off:], layout.FirstVersion, value)
	return nil
}

// place is the offset of the record with an index.
func (t *Table) place(i int) int { return t.at + headBytes + i*t.stride }

// word reads a word outside of regions. The offset is inside the table.
func (t *Table) word(off int) uint64 { return words.Now(t.m, t.base, off) }

func (t *Table) version(off int) layout.Version {
	return layout.Version(t.word(off + layout.VersionOffset))
}

// setWord stores a word of a table that nobody else uses.
func (t *Table) setWord(off int, v uint64) { *(*uint64)(unsafe.Add(t.base, off)) = v }
