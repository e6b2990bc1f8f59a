package btree

import (
	"errors"

	"drtmd/htm"
	"drtmd/internal/invariant"
	"drtmd/store"
	"drtmd/store/extent"
	"drtmd/store/layout"
	"drtmd/store/words"
	"drtmd/verbs"
)

// Growth is what the workers of a node share of a table that grows: its extents. A worker works with
// a Growing of it. It may be used by any goroutine.
type Growth struct{ *extent.Growth[Config] }

// GrowthConfig of a table.
type GrowthConfig struct {
	// Table is the first extent; it Grows. Each further one has room for twice the records of the one
	// before, or for as many as Bound permits.
	Table Config
	// At is the offset of the table in the first region.
	At    int
	Bound *extent.Bound
	// Alloc registers the memory of extent i: zeroed, or as it was if it outlives the process.
	// The Growth closes it.
	Alloc func(i, bytes int) (*verbs.MR, error)
}

// NewGrowth prepares a table whose first extent Format or Attach has opened or will open. The Config
// is one that Check accepts.
func NewGrowth(cfg GrowthConfig) *Growth {
	invariant.Assert(cfg.Table.Grows, "the first extent of a table that grows says so")
	return &Growth{extent.NewGrowth(extent.GrowthConfig[Config]{Table: cfg.Table,
		DirectoryAt: cfg.At + cfg.Table.tableBytes(), Bound: cfg.Bound, Alloc: cfg.Alloc,
		Errors: extent.Errors{Bound: store.ErrBound, Directory: store.ErrDirectory,
			NotTable: store.ErrNotTable}})}
}

// TableName implements extent.Config.
func (c Config) TableName() string { return c.Name }

// Room implements extent.Config.
func (c Config) Room() int { return c.Entries }

// Further implements extent.Config.
func (c Config) Further(records int) Config {
	f := For(c.ID, c.Name, c.ValueBytes, records)
	f.Layout, f.Mutation = c.Layout, c.Mutation
	return f
}

// Sizes implements extent.Config: the directory's number of main buckets is that of nodes.
func (c Config) Sizes() layout.Extent {
	return layout.Extent{MainBuckets: uint64(c.Nodes), Entries: uint64(c.Entries)}
}

// Sized implements extent.Config.
func (c Config) Sized(e *layout.Extent) Config {
	c.Nodes, c.Entries, c.Grows = int(e.MainBuckets), int(e.Entries), false
	return c
}

// Growing is a table that grows by further memory regions, as one worker sees it. A key's record is in one of
// its extents, each of which is a Table with a tree of its own; what is an offset there is a place here
// (layout.MakePlace). Keys are looked for in the newest extent first, and a scan merges the trees.
//
// A region that makes an entry writes to the memory of its extent, and a region writes to one memory (package
// htm). So protocols that write several records in one region cannot have tables that grow.
type Growing struct {
	x *extent.Views[Config, *Table]
}

// Open gives a worker its view of the table. t is its view of the first extent; view makes its view of
// an extent's memory. The first worker of a node whose memory has outlived a process says kept: it
// finds the extents that there were.
func (g *Growth) Open(t *Table, kept bool, view func(*verbs.MR) (*htm.Memory, error)) (*Growing, error) {
	x, err := extent.Open(g.Growth, t, t.m, kept, extent.Openers[Config, *Table]{Format: Format, Attach: Attach,
		View: view})
	if err != nil {
		return nil, err
	}
	return &Growing{x}, nil
}

// Grow adds an extent after a store.ErrFull, unless another worker has done so meanwhile: try again after
// nil. store.ErrBound and store.ErrDirectory, both ErrFull, say why the table may not grow. Not inside a region.
func (x *Growing) Grow() error { return x.x.Grow() }

// At is the memory of a place, and the offset there.
func (x *Growing) At(place int) (*htm.Memory, int) {
	i, off := layout.SplitPlace(place)
	return x.x.Tables[i].m, off
}

// Resolve is the address of a place in an extent but the first, and the key to the memory there.
func (x *Growing) Resolve(place int) (addr uint64, rkey uint32) { return x.x.Resolve(place) }

// Record is how the table's records lie in memory.
func (x *Growing) Record() *layout.Record { return x.first().Record() }

// Describe is that of the first extent.
func (x *Growing) Describe() layout.Descriptor { return x.first().Describe() }

func (x *Growing) first() *Table { return x.x.Tables[0] }

// Find is Table.Find.
func (x *Growing) Find(key uint64) (place int, ok bool) { return x.x.Find(key) }

// FindIn is Table.FindIn. If there is no entry, the number of extents is in the read set too. It
// aborts the region with extent.AbortGrown if the table has grown since the region began.
func (x *Growing) FindIn(r *htm.Region, key uint64) (place int, found, ok bool) {
	if place, found, ok := x.x.FindIn(r, key); found || !ok {
		return place, found, ok
	}
	return 0, false, x.whole(r)
}

// whole reports whether the worker knows all extents, and has that protected.
func (x *Growing) whole(r *htm.Region) (ok bool) {
	return x.first().lacks(ExtentsUnread) || extent.Whole(x.x, r, x.first().inside(r))
}

// EnsureIn is Table.EnsureIn; after a store.ErrFull see Grow. The newest extent that has room takes the
// entry.
func (x *Growing) EnsureIn(r *htm.Region, key, state uint64) (place int, v layout.Version, ok bool, err error) {
	if !x.x.Ready(r) {
		return 0, 0, false, nil
	}
	t := x.first()
	if t.lineWords {
		return ensureGrowing(x, r, (*Table).inside, key, state)
	}
	if !r.Active() || !t.lock(r) {
		return 0, 0, false, nil
	}
	defer t.unlock()
	return ensureGrowing(x, r, (*Table).direct, key, state)
}

// ensureGrowing is EnsureIn with the access to each extent that of gives.
func ensureGrowing[A words.Access](x *Growing, r *htm.Region, of func(*Table, *htm.Region) A, key,
	state uint64) (place int, v layout.Version, ok bool, err error) {
	if key == layout.NoKey {
		return 0, 0, true, store.ErrKey
	}
	counter, p := uint32(0), path{}
	for i := len(x.x.Tables) - 1; i >= 0; i-- {
		t := x.x.Tables[i]
		a := of(t, r)
		if !descend(t, a, key, &p) {
			return 0, 0, false, nil
		}
		if p.entry != 0 {
			w, ok := a.Load(p.entry + layout.VersionOffset)
			return layout.MakePlace(i, p.entry), layout.Version(w), ok, nil
		}
		n, ok := a.Load(t.at + countersAt)
		if !ok {
			return 0, 0, false, nil
		}
		counter = max(counter, uint32(n))
	}
	if !x.first().lacks(ExtentsUnread) && !extent.Whole(x.x, r, of(x.first(), r)) {
		return 0, 0, false, nil
	}
	for i := len(x.x.Tables) - 1; ; i-- {
		t := x.x.Tables[i]
		a := of(t, r)
		if !descend(t, a, key, &p) {
			return 0, 0, false, nil
		}
		off, v, ok, err := create(t, a, key, state, &p, counter)
		if !ok || err == nil || !errors.Is(err, store.ErrFull) || i == 0 {
			return layout.MakePlace(i, off), v, ok, err
		}
	}
}

// AbsentIn is Table.AbsentIn.
func (x *Growing) AbsentIn(r *htm.Region) (v layout.Version, ok bool) {
	if !x.x.Ready(r) {
		return 0, false
	}
	for _, t := range x.x.Tables {
		n, ok := t.AbsentIn(r)
		if !ok {
			return 0, false
		}
		v = max(v, n)
	}
	return v, true
}

// ReclaimIn is Table.ReclaimIn.
func (x *Growing) ReclaimIn(r *htm.Region, key, state uint64) (ok bool, err error) {
	if !x.x.Ready(r) {
		return false, nil
	}
	t := x.first()
	if t.lineWords {
		return reclaimGrowing(x, r, (*Table).inside, key, state)
	}
	if !r.Active() || !t.lock(r) {
		return false, nil
	}
	defer t.unlock()
	return reclaimGrowing(x, r, (*Table).direct, key, state)
}

func reclaimGrowing[A words.Access](x *Growing, r *htm.Region, of func(*Table, *htm.Region) A, key,
	state uint64) (ok bool, err error) {
	for i := len(x.x.Tables) - 1; i >= 0; i-- {
		t := x.x.Tables[i]
		if ok, err = reclaim(t, of(t, r), key, state); !ok || err != store.ErrNoEntry {
			return ok, err
		}
	}
	return x.first().lacks(ExtentsUnread) || extent.Whole(x.x, r, of(x.first(), r)), store.ErrNoEntry
}

// Load is Table.Load, into a table that nobody else uses yet; it grows where it must.
func (x *Growing) Load(key uint64, value []byte) error {
	if len(value) != x.first().config.ValueBytes {
		return store.ErrValueSize
	}
	plain := func(t *Table, _ *htm.Region) words.Plain { return t.plain() }
	for {
		place, v, ok, err := ensureGrowing(x, nil, plain, key, 0)
		switch {
		case errors.Is(err, store.ErrFull):
			if err := x.Grow(); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		case !ok:
			return store.ErrCorrupt
		case v.Live():
			return store.ErrExists
		}
		m, off := x.At(place)
		x.Record().Put(m.Bytes[off:], layout.FirstVersion, value)
		return nil
	}
}

// Each is Table.Each: in the order of the keys of each extent.
func (x *Growing) Each(f func(place int) bool) {
	on := x.x.Sync()
	for i := 0; on && i < len(x.x.Tables); i++ {
		x.x.Tables[i].Each(func(off int) bool {
			on = f(layout.MakePlace(i, off))
			return on
		})
	}
}

// Changes is Table.Changes.
func (x *Growing) Changes(r *htm.Region) (n uint64, ok bool) {
	if !x.x.Ready(r) {
		return 0, false
	}
	for _, t := range x.x.Tables {
		c, ok := t.Changes(r)
		if !ok {
			return 0, false
		}
		n += c
	}
	return n, r.Active()
}

// Scan is Table.Scan.
func (x *Growing) Scan(r *htm.Region, first, last uint64, f func(key uint64, place int) bool) (ok bool) {
	before, ok := x.Changes(r)
	if !ok || !x.whole(r) {
		return false
	}
	var room [layout.MaxExtents]cursor
	cursors, down := room[:len(x.x.Tables)], first > last
	for i, t := range x.x.Tables {
		if cursors[i], ok = begin(t, t.inside(r), first, down); !ok {
			return false
		}
	}
	for {
		best, key, place := -1, uint64(0), 0
		for i, t := range x.x.Tables {
			c := &cursors[i]
			if c.over {
				continue
			}
			k, off, ok := current(t, t.inside(r), c)
			if !ok {
				return false
			}
			if k < min(first, last) || k > max(first, last) {
				c.over = true
			} else if best < 0 || (k < key) != down {
				best, key, place = i, k, layout.MakePlace(i, off)
			}
		}
		if best < 0 || !f(key, place) {
			break
		}
		if t := x.x.Tables[best]; !forward(t, t.inside(r), &cursors[best], down) {
			return false
		}
	}
	after, ok := x.Changes(r)
	if ok && after != before {
		r.Abort(words.AbortBusy)
	}
	return ok && after == before
}

// Next is Table.Next.
func (x *Growing) Next(r *htm.Region, key uint64) (next uint64, place int, found, ok bool) {
	if key == layout.NoKey {
		return 0, 0, false, r.Active()
	}
	ok = x.Scan(r, key+1, layout.NoKey, func(k uint64, at int) bool {
		next, place, found = k, at, true
		return false
	})
	return next, place, found, ok
}

// Ends is Table.Ends.
func (x *Growing) Ends(r *htm.Region, first, last uint64) (least, greatest uint64, found, ok bool) {
	only := func(k uint64, _ int) bool {
		greatest, found = k, true
		return false
	}
	ok = x.Scan(r, first, last, only)
	if least = greatest; ok && found && first != last {
		ok = x.Scan(r, last, first, only)
	}
	return min(least, greatest), max(least, greatest), found, ok
}
