package store

import (
	"errors"

	"drtmd/htm"
	"drtmd/store/extent"
	"drtmd/store/layout"
)

// Growing is a table that grows by further memory regions, as one worker sees it. A key's record is
// in one of its extents, each of which is a Table; what is an offset there is a place here
// (layout.MakePlace). The newest extent is searched first: it is the largest.
//
// A region that changes entries changes memory of their extents, and a region writes to one memory
// (package htm). So protocols that write several records in one region cannot have tables that grow.
type Growing struct {
	x *extent.Views[Config, *Table]
}

// AbortGrown aborts a region that began before the table grew; begin it again.
const AbortGrown = extent.AbortGrown

// Grow adds an extent after an ErrFull, unless another worker has done so meanwhile: try again after
// nil. ErrBound and ErrDirectory, both ErrFull, say why the table may not grow. Not inside a region.
func (x *Growing) Grow() error { return x.x.Grow() }

// At is the memory of a place, and the offset there.
func (x *Growing) At(place int) (*htm.Memory, int) {
	extent, off := layout.SplitPlace(place)
	return x.x.Tables[extent].m, off
}

// Resolve is the address of a place in an extent but the first, and the key to the memory there.
func (x *Growing) Resolve(place int) (addr uint64, rkey uint32) { return x.x.Resolve(place) }

// Occupancy is that of all extents together.
func (x *Growing) Occupancy() (o Occupancy) {
	x.x.Sync()
	for _, t := range x.x.Tables {
		o = o.Plus(t.Occupancy())
	}
	return o
}

// Record is how the table's records lie in memory.
func (x *Growing) Record() *layout.Record { return x.x.Tables[0].Record() }

// Describe is that of the first extent: its directory leads to the others.
func (x *Growing) Describe() layout.Descriptor { return x.x.Tables[0].Describe() }

// Find is Table.Find.
func (x *Growing) Find(key uint64) (place int, ok bool) { return x.x.Find(key) }

// FindIn is Table.FindIn. If there is no entry, the number of extents is in the read set too. It
// aborts the region with AbortGrown if the table has grown since the region began.
func (x *Growing) FindIn(r *htm.Region, key uint64) (place int, found, ok bool) {
	if place, found, ok := x.x.FindIn(r, key); found || !ok {
		return place, found, ok
	}
	t := x.x.Tables[0]
	if !t.lineWords {
		return 0, false, r.Active()
	}
	return 0, false, whole(x, insideOf(r, t.m))
}

// whole reports whether the worker knows all extents that there are, and has that protected.
func whole[A access](x *Growing, a A) bool {
	if x.x.Tables[0].lacks(ExtentsUnread) {
		return true
	}
	return extent.Whole(x.x, a.region(), a)
}

// EnsureIn is Table.EnsureIn; after an ErrFull see Grow. The newest extent that has room takes the
// entry.
func (x *Growing) EnsureIn(r *htm.Region, key, state uint64) (place int, v layout.Version, ok bool,
	err error) {
	if !x.x.Ready(r) {
		return 0, 0, false, nil
	}
	t := x.x.Tables[0]
	if t.lineWords {
		return ensureGrowing(x, insideOf(r, t.m), key, state)
	}
	if !r.Active() || !t.lock(r) {
		return 0, 0, false, nil
	}
	defer t.unlock()
	return ensureGrowing(x, directOf(r, t), key, state)
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
		off, v, ok, err := met(first.at(x.x.Tables[i]), &places[i])
		return layout.MakePlace(i, off), v, ok, err
	}
	counter, ok := absentGrowing(x, first)
	if !ok {
		return 0, 0, false, nil
	}
	for i := len(x.x.Tables) - 1; i >= 0; i-- {
		t := x.x.Tables[i]
		off, v, ok, err := create(t, first.at(t), key, state, &places[i], counter.Incarnation())
		if !ok || err == nil || !errors.Is(err, ErrFull) || i == 0 {
			return layout.MakePlace(i, off), v, ok, err
		}
	}
	return 0, 0, false, nil
}

// AbsentIn is Table.AbsentIn.
func (x *Growing) AbsentIn(r *htm.Region) (v layout.Version, ok bool) {
	if !x.x.Ready(r) {
		return 0, false
	}
	t := x.x.Tables[0]
	if t.lineWords {
		return absentGrowing(x, insideOf(r, t.m))
	}
	return absentGrowing(x, directOf(r, t))
}

func absentGrowing[A elsewhere[A]](x *Growing, first A) (v layout.Version, ok bool) {
	for _, t := range x.x.Tables {
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
	for i := len(x.x.Tables) - 1; i >= 0; i-- {
		t := x.x.Tables[i]
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
	if !x.x.Ready(r) {
		return false, nil
	}
	t := x.x.Tables[0]
	if t.lineWords {
		return reclaimGrowing(x, insideOf(r, t.m), key, state)
	}
	if !r.Active() || !t.lock(r) {
		return false, nil
	}
	defer t.unlock()
	return reclaimGrowing(x, directOf(r, t), key, state)
}

func reclaimGrowing[A elsewhere[A]](x *Growing, first A, key, state uint64) (ok bool, err error) {
	for i := len(x.x.Tables) - 1; i >= 0; i-- {
		t := x.x.Tables[i]
		if ok, err = reclaim(t, first.at(t), key, state); !ok || err != ErrNoEntry {
			return ok, err
		}
	}
	return whole(x, first), ErrNoEntry
}

// Load is Table.Load, into a table that nobody else uses yet; it grows where it must.
func (x *Growing) Load(key uint64, value []byte) error {
	t := x.x.Tables[0]
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
	on := x.x.Sync()
	for i := 0; on && i < len(x.x.Tables); i++ {
		x.x.Tables[i].Each(func(off int) bool {
			on = f(layout.MakePlace(i, off))
			return on
		})
	}
}
