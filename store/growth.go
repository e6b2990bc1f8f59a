package store

import (
	"fmt"

	"drtmd/htm"
	"drtmd/internal/invariant"
	"drtmd/store/extent"
	"drtmd/store/layout"
	"drtmd/verbs"
)

// Bound is what the extents of one node's tables may take together.
type Bound = extent.Bound

// GrowthConfig of a table.
type GrowthConfig struct {
	// Table is the first extent; it Grows. Each further one has room for twice the records of the one
	// before, or for as many as Bound permits.
	Table Config
	// At is the offset of the table in the first region.
	At    int
	Bound *Bound
	// Alloc registers the memory of extent i: zeroed, or as it was if it outlives the process.
	// The Growth closes it.
	Alloc func(i, bytes int) (*verbs.MR, error)
}

// Growth is what the workers of a node share of a table that grows: its extents. A worker works with
// a Growing of it. It may be used by any goroutine.
type Growth struct{ *extent.Growth[Config] }

// What Grow ends with.
var (
	// ErrBound: more memory than Bound permits. It is an ErrFull.
	ErrBound error = &fullError{"table is full, and may not grow"}
	// ErrDirectory: the directory has no line left. It is an ErrFull.
	ErrDirectory error = &fullError{fmt.Sprintf("table is full: it has %d extents, and can have no more; "+
		"begin with a larger table", layout.MaxExtents)}
)

// NewGrowth prepares a table whose first extent Format or Attach has opened or will open. The Config
// is one that Check accepts.
func NewGrowth(cfg GrowthConfig) *Growth {
	invariant.Assert(cfg.Table.Grows, "the first extent of a table that grows says so")
	return &Growth{extent.NewGrowth(extent.GrowthConfig[Config]{Table: cfg.Table,
		DirectoryAt: cfg.At + cfg.Table.tableBytes(), Bound: cfg.Bound, Alloc: cfg.Alloc,
		Errors: extent.Errors{Bound: ErrBound, Directory: ErrDirectory, NotTable: ErrNotTable}})}
}

// TableName implements extent.Config.
func (c Config) TableName() string { return c.Name }

// Room implements extent.Config.
func (c Config) Room() int { return c.Entries }

// Further implements extent.Config.
func (c Config) Further(records int) Config {
	f := For(c.ID, c.Name, c.ValueBytes, records)
	f.KeyBytes, f.Layout, f.Mutation = c.KeyBytes, c.Layout, c.Mutation
	return f
}

// Sizes implements extent.Config.
func (c Config) Sizes() layout.Extent {
	return layout.Extent{MainBuckets: uint64(c.MainBuckets), IndirectBuckets: uint64(c.IndirectBuckets),
		Entries: uint64(c.Entries)}
}

// Sized implements extent.Config.
func (c Config) Sized(e *layout.Extent) Config {
	c.MainBuckets, c.IndirectBuckets, c.Entries = int(e.MainBuckets), int(e.IndirectBuckets), int(e.Entries)
	c.Grows = false
	return c
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
