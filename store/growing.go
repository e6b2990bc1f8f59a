package store

import (
	"errors"
	"fmt"
	"unsafe"

	"drtmd/htm"
	"drtmd/store/layout"
	"drtmd/verbs"
)

// Growing is a table that grows by further memory regions, as one worker sees it. A key's record is
// in one of its extents, each of which is a Table; what is an offset there is a place here
// (layout.MakePlace). The newest extent is searched first: it is the largest.
//
// A region that changes entries changes memory of their extents, and a region writes to one memory
// (package htm). So protocols that write several records in one region cannot have tables that grow.
type Growing struct {
	g      *Growth
	tables []*Table // of the extents
	// beyond are the regions of the extents but the first: that of extent i is beyond[i-1].
	beyond []verbs.RemoteMR
	view   func(*verbs.MR) (*htm.Memory, error)
	broken error // why an extent could not be opened
}

// AbortGrown aborts a region that began before the table grew; begin it again.
const AbortGrown uint8 = 0xc2

// Open gives a worker its view of the table. t is its view of the first extent; view makes its view of
// an extent's memory. The first worker of a node whose memory has outlived a process says kept: it
// finds the extents that there were.
func (g *Growth) Open(t *Table, kept bool, view func(*verbs.MR) (*htm.Memory, error)) (*Growing, error) {
	x := &Growing{g: g, tables: []*Table{t}, view: view}
	g.mu.Lock()
	var err error
	if kept && g.extents == nil {
		err = g.recover(t)
	}
	g.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if !x.sync() {
		return nil, x.broken
	}
	return x, nil
}

// sync opens the extents that others have added; false if it cannot.
func (x *Growing) sync() bool {
	if len(x.tables) == int(x.g.count.Load()) {
		return true
	}
	return x.open()
}

func (x *Growing) open() bool {
	x.g.mu.Lock()
	defer x.g.mu.Unlock()
	for i := len(x.tables); i < int(x.g.count.Load()); i++ {
		e := x.g.extents[i-1]
		if err := x.attach(Attach, e.config, e.mr); err != nil {
			x.broken = err
			return false
		}
	}
	return true
}

// attach adds the worker's view of an extent.
func (x *Growing) attach(open func(Config, *htm.Memory, int) (*Table, error), c Config, mr *verbs.MR) error {
	m, err := x.view(mr)
	if err == nil {
		var t *Table
		if t, err = open(c, m, 0); err == nil {
			x.tables, x.beyond = append(x.tables, t), append(x.beyond, mr.Remote())
			return nil
		}
	}
	return fmt.Errorf("table %q, extent %d: %w", c.Name, len(x.tables), err)
}

// Grow adds an extent after an ErrFull, unless another worker has done so meanwhile: try again after
// nil. ErrBound and ErrDirectory, both ErrFull, say why the table may not grow. Not inside a region.
func (x *Growing) Grow() error {
	g := x.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(x.tables) < int(g.count.Load()) {
		return nil
	}
	if x.broken != nil {
		return x.broken
	}
	c, err := g.plan()
	if err != nil {
		return err
	}
	mr, err := g.cfg.Alloc(len(x.tables), c.Bytes())
	if err != nil {
		g.cfg.Bound.used.Add(-int64(c.Bytes()))
		return fmt.Errorf("table %q, extent %d of %d bytes: %w", c.Name, len(x.tables), c.Bytes(), err)
	}
	undo := func(err error) error {
		g.cfg.Bound.used.Add(-int64(c.Bytes()))
		return errors.Join(err, mr.Close())
	}
	if err := x.attach(Format, c, mr); err != nil {
		return undo(err)
	}
	g.extents = append(g.extents, extent{c, mr})
	n := len(x.tables)
	if err := g.publish(x.tables[0].m, n-1); err != nil {
		x.tables, x.beyond, g.extents = x.tables[:n-1], x.beyond[:n-2], g.extents[:n-2]
		return undo(err)
	}
	g.count.Store(int32(n))
	return nil
}

// At is the memory of a place, and the offset there.
func (x *Growing) At(place int) (*htm.Memory, int) {
	extent, off := layout.SplitPlace(place)
	return x.tables[extent].m, off
}

// Resolve is the address of a place in an extent but the first, and the key to the memory there.
func (x *Growing) Resolve(place int) (addr uint64, rkey uint32) {
	extent, off := layout.SplitPlace(place)
	r := &x.beyond[extent-1]
	return r.Addr + uint64(off), r.RKey
}

// Occupancy is that of all extents together.
func (x *Growing) Occupancy() (o Occupancy) {
	x.sync()
	for _, t := range x.tables {
		o = o.Plus(t.Occupancy())
	}
	return o
}

// Record is how the table's records lie in memory.
func (x *Growing) Record() *layout.Record { return x.tables[0].Record() }

// Describe is that of the first extent: its directory leads to the others.
func (x *Growing) Describe() layout.Descriptor { return x.tables[0].Describe() }

// Find is Table.Find.
func (x *Growing) Find(key uint64) (place int, ok bool) {
	if !x.sync() {
		return 0, false
	}
	for i := len(x.tables) - 1; i >= 0; i-- {
		if off, ok := x.tables[i].Find(key); ok {
			return layout.MakePlace(i, off), true
		}
	}
	return 0, false
}

// FindIn is Table.FindIn. If there is no entry, the number of extents is in the read set too. It
// aborts the region with AbortGrown if the table has grown since the region began.
func (x *Growing) FindIn(r *htm.Region, key uint64) (place int, found, ok bool) {
	if !x.ready(r) {
		return 0, false, false
	}
	for i := len(x.tables) - 1; i >= 0; i-- {
		if off, found, ok := x.tables[i].FindIn(r, key); found || !ok {
			return layout.MakePlace(i, off), found, ok
		}
	}
	t := x.tables[0]
	if !t.lineWords {
		return 0, false, r.Active()
	}
	return 0, false, whole(x, insideOf(r, t.m))
}

// ready opens new extents; a region that cannot have them is aborted.
func (x *Growing) ready(r *htm.Region) bool {
	if !x.sync() {
		r.Abort(AbortCorrupt)
		return false
	}
	return true
}

// whole reports whether the worker knows all extents that there are, and has that protected.
func whole[A access](x *Growing, a A) bool {
	if x.tables[0].lacks(ExtentsUnread) {
		return true
	}
	n, ok := a.Load(x.g.lineAt(0))
	if ok && int(n) != len(x.tables) {
		a.grown()
		return false
	}
	return ok
}

// EnsureIn is Table.EnsureIn; after an ErrFull see Grow. The newest extent that has room takes the
// entry.
func (x *Growing) EnsureIn(r *htm.Region, key, state uint64) (place int, v layout.Version, ok bool,
	err error) {
	if !x.ready(r) {
		return 0, 0, false, nil
	}
	t := x.tables[0]
	if t.lineWords {
		return ensureGrowing(x, insideOf(r, t.m), key, state)
	}
	if !r.Active() || !t.lock(r) {
		return 0, 0, false, nil
	}
	defer t.unlock()
	return ensureGrowing(x, directOf(r, t.base), key, state)
}

func ensureGrowing[A elsewhere[A]](x *Growing, first A, key, state uint64) (at int, v layout.Version,
	ok bool, err error) {
	if key == layout.NoKey {
		return 0, 0, true, ErrKey
	}
	var places [layout.MaxExtents]place
	i, ok := locateGrowing(x, first, key, &places)
	if !ok {
		return 0, 0, false, nil
	}
	if i >= 0 {
		off, v, ok, err := met(first.at(x.tables[i]), &places[i])
		return layout.MakePlace(i, off), v, ok, err
	}
	counter, ok := absentGrowing(x, first)
	if !ok {
		return 0, 0, false, nil
	}
	for i := len(x.tables) - 1; i >= 0; i-- {
		t := x.tables[i]
		off, v, ok, err := create(t, first.at(t), key, state, &places[i], counter.Incarnation())
		if !ok || err == nil || !errors.Is(err, ErrFull) || i == 0 {
			return layout.MakePlace(i, off), v, ok, err
		}
	}
	return 0, 0, false, nil
}

// AbsentIn is Table.AbsentIn.
func (x *Growing) AbsentIn(r *htm.Region) (v layout.Version, ok bool) {
	if !x.ready(r) {
		return 0, false
	}
	t := x.tables[0]
	if t.lineWords {
		return absentGrowing(x, insideOf(r, t.m))
	}
	return absentGrowing(x, directOf(r, t.base))
}

func absentGrowing[A elsewhere[A]](x *Growing, first A) (v layout.Version, ok bool) {
	for _, t := range x.tables {
		n, ok := absent(t, first.at(t))
		if !ok {
			return 0, false
		}
		v = max(v, n)
	}
	return v, true
}

// locateGrowing walks the chains of a key in all extents; -1 if none has it.
func locateGrowing[A elsewhere[A]](x *Growing, first A, key uint64,
	places *[layout.MaxExtents]place) (extent int, ok bool) {
	for i := len(x.tables) - 1; i >= 0; i-- {
		t := x.tables[i]
		if places[i], ok = locate(t, first.at(t), key); !ok {
			return -1, false
		}
		if places[i].slotAt != 0 {
			return i, true
		}
	}
	return -1, whole(x, first)
}

// ReclaimIn is Table.ReclaimIn.
func (x *Growing) ReclaimIn(r *htm.Region, key, state uint64) (ok bool, err error) {
	if !x.ready(r) {
		return false, nil
	}
	t := x.tables[0]
	if t.lineWords {
		return reclaimGrowing(x, insideOf(r, t.m), key, state)
	}
	if !r.Active() || !t.lock(r) {
		return false, nil
	}
	defer t.unlock()
	return reclaimGrowing(x, directOf(r, t.base), key, state)
}

func reclaimGrowing[A elsewhere[A]](x *Growing, first A, key, state uint64) (ok bool, err error) {
	for i := len(x.tables) - 1; i >= 0; i-- {
		t := x.tables[i]
		if ok, err = reclaim(t, first.at(t), key, state); !ok || err != ErrNoEntry {
			return ok, err
		}
	}
	return whole(x, first), ErrNoEntry
}

// Load is Table.Load, into a table that nobody else uses yet; it grows where it must.
func (x *Growing) Load(key uint64, value []byte) error {
	t := x.tables[0]
	if len(value) != t.config.ValueBytes {
		return ErrValueSize
	}
	for {
		if _, found := x.Find(key); found {
			return ErrExists
		}
		place, _, ok, err := ensureGrowing(x, plainOf(t.base), key, 0)
		switch {
		case errors.Is(err, ErrFull):
			if err := x.Grow(); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		case !ok:
			return ErrCorrupt
		}
		m, off := x.At(place)
		x.Record().Put(m.Bytes[off:], layout.FirstVersion, value)
		return nil
	}
}

// Each is Table.Each.
func (x *Growing) Each(f func(place int) bool) {
	on := x.sync()
	for i := 0; on && i < len(x.tables); i++ {
		x.tables[i].Each(func(off int) bool {
			on = f(layout.MakePlace(i, off))
			return on
		})
	}
}

func baseOf(m *htm.Memory) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(m.Bytes)) }
