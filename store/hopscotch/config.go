package hopscotch

import (
	"fmt"

	"drtmd/store"
	"drtmd/store/layout"
)

// Config describes a table. It is the same wherever the table is used.
type Config struct {
	ID         uint16
	Name       string // for messages
	ValueBytes int    // of each value, 1 to layout.MaxValueBytes
	Homes      int    // keys have one each; there are layout.Neighbours - 1 more slots
	Blocks     int    // overflow blocks
	// Layout of the records; 0 = layout.KindLineVersions.
	Layout layout.Kind
	// CPULocks: records are locked by CPUs alone, so that the table may lock one to move it where memory
	// has no line words.
	CPULocks bool
	// Mutation leaves a safety step out; 0 is none. For tests of checks.
	Mutation Mutation
}

// maxBytes bounds a table, so that sums of sizes cannot overflow.
const maxBytes = 1 << 44

// SlotLoad is the percentage of the slots outside of overflow blocks that are taken in a full table of For.
const SlotLoad = 80

// For sizes a table of some records.
func For(id uint16, name string, valueBytes, records int) Config {
	return ForLoad(id, name, valueBytes, records, SlotLoad)
}

// ForLoad sizes a table of some records with fewer slots or more: so many percent are taken when all records are
// there. Above 100 all others are in overflow blocks.
func ForLoad(id uint16, name string, valueBytes, records, percent int) Config {
	homes := max(records*100/percent, 1)
	return Config{ID: id, Name: name, ValueBytes: valueBytes, Homes: homes,
		Blocks: records/8 + 64 + max(records-homes, 0),
	}
}

// Check reports why the table cannot be made.
func (c Config) Check() error {
	switch {
	case c.ValueBytes < 1 || c.ValueBytes > layout.MaxValueBytes:
		return fmt.Errorf("table %q: %w: values of %d bytes, where all have one size from 1 to %d",
			c.Name, store.ErrValueBytes, c.ValueBytes, layout.MaxValueBytes)
	case c.layout().Version() == 0:
		return fmt.Errorf("table %q: %w: %v", c.Name, store.ErrLayout, c.Layout)
	case c.Homes < 1 || c.Blocks < 0 || c.Blocks > layout.MaxBlocks:
		return fmt.Errorf("table %q: %w: %d homes and %d overflow blocks; there must be a home, and at most "+
			"%d blocks", c.Name, store.ErrSize, c.Homes, c.Blocks, layout.MaxBlocks)
	case c.Homes > maxBytes/c.stride() || c.Blocks > maxBytes/(layout.BlockSlots*c.stride()):
		return fmt.Errorf("table %q: %w: more than %d bytes", c.Name, store.ErrSize, int64(maxBytes))
	}
	return nil
}

// Bytes is the memory that the table occupies, a multiple of layout.BucketBytes. The Config is
// one that Check accepts.
func (c Config) Bytes() int {
	p := c.places(0)
	return (p.End() + layout.BucketBytes - 1) &^ (layout.BucketBytes - 1)
}

// Descriptor is what a peer must know of the table, which stands at an offset of its memory
// region.
func (c Config) Descriptor(at int) layout.Descriptor {
	p := c.places(at)
	return layout.Descriptor{Table: c.ID, Layout: c.layout(), Index: layout.HopscotchInline,
		ValueBytes: uint32(c.ValueBytes), MainOffset: uint64(p.Slots), MainBuckets: uint64(c.Homes),
		End: uint64(p.End())}
}

// places is where everything is in a table at an offset.
func (c Config) places(at int) layout.Hopscotch {
	return layout.Hopscotch{Slots: at + headBytes, Homes: c.Homes, Blocks: c.Blocks, Stride: c.stride()}
}

func (c Config) layout() layout.Kind { return c.Layout.Or(layout.KindLineVersions) }

func (c Config) record() layout.Record { return layout.NewRecord(c.layout(), c.ValueBytes) }

func (c Config) stride() int {
	r := c.record()
	return layout.HopscotchStride(&r)
}
