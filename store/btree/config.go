package btree

import (
	"fmt"

	"drtmd/store"
	"drtmd/store/layout"
	"drtmd/store/pool"
)

// Config describes a table. It is the same wherever the table is used.
type Config struct {
	ID         uint16
	Name       string // for messages
	ValueBytes int    // of each value, 1 to layout.MaxValueBytes
	Nodes      int
	Entries    int // records, absent ones included
	// Layout of the records; 0 = layout.KindOneVersion.
	Layout layout.Kind
	// Grows: the table is the first extent of one that grows (Growing), with the directory behind it.
	Grows bool
	// Mutation leaves a safety step out; 0 is none. For tests of checks.
	Mutation Mutation
}

// maxBytes bounds a table, so that sums of sizes cannot overflow.
const maxBytes = 1 << 44

// For sizes a table of some records, with spare entries for absent keys that are locked or leased. Whatever
// the keys are and in whatever order they come and go, nodes do not run out before entries.
func For(id uint16, name string, valueBytes, records int) Config {
	entries := records + records/8 + 16*pool.Stripes
	return Config{ID: id, Name: name, ValueBytes: valueBytes, Entries: entries, Nodes: nodesFor(entries)}
}

// nodesFor is how many nodes a tree of some entries has at most: leaves have minPairs entries and inner
// nodes minPairs children at least, but the root.
func nodesFor(entries int) int { return entries/(minPairs-1) + 2 }

// Check reports why the table cannot be made.
func (c Config) Check() error {
	switch {
	case c.ValueBytes < 1 || c.ValueBytes > layout.MaxValueBytes:
		return fmt.Errorf("table %q: %w: values of %d bytes, where all have one size from 1 to %d",
			c.Name, store.ErrValueBytes, c.ValueBytes, layout.MaxValueBytes)
	case c.layout().Version() == 0:
		return fmt.Errorf("table %q: %w: %v", c.Name, store.ErrLayout, c.Layout)
	case c.Nodes < 1 || c.Entries < 1:
		return fmt.Errorf("table %q: %w: %d nodes and %d entries; both must be positive", c.Name,
			store.ErrSize, c.Nodes, c.Entries)
	case c.Nodes > maxBytes/layout.NodeBytes || c.Entries > maxBytes/c.stride():
		return fmt.Errorf("table %q: %w: more than %d bytes", c.Name, store.ErrSize, int64(maxBytes))
	}
	return nil
}

// Bytes is the memory that the table occupies, a multiple of layout.BucketBytes. The Config is
// one that Check accepts.
func (c Config) Bytes() int {
	n := c.tableBytes()
	if c.Grows {
		n += layout.DirectoryBytes
	}
	return n
}

// tableBytes is Bytes without the directory.
func (c Config) tableBytes() int {
	n := headBytes + c.Nodes*layout.NodeBytes + c.Entries*c.stride()
	return (n + layout.BucketBytes - 1) &^ (layout.BucketBytes - 1)
}

// Descriptor is what a peer must know of the table, which stands at an offset of its memory
// region.
func (c Config) Descriptor(at int) layout.Descriptor {
	return layout.Descriptor{Table: c.ID, Layout: c.layout(), Index: c.index(),
		ValueBytes: uint32(c.ValueBytes), MainOffset: uint64(at + headBytes), MainBuckets: uint64(c.Nodes),
		End: uint64(at + c.tableBytes())}
}

func (c Config) layout() layout.Kind { return c.Layout.Or(layout.KindOneVersion) }

func (c Config) index() layout.Index {
	if c.Grows {
		return layout.GrowingTrees
	}
	return layout.BPlusTree
}

func (c Config) record() layout.Record { return layout.NewRecord(c.layout(), c.ValueBytes) }

func (c Config) stride() int { return c.record().Stride }
