package robinhood

import (
	"errors"
	"fmt"

	"drtmd/store"
	"drtmd/store/layout"
	"drtmd/store/pool"
)

// Displacements.
const (
	// DefaultLimit is the D_m of a table of For: at 90 % occupancy as many keys overflow as FaRM's (Xenic §4.1.4).
	DefaultLimit = 16
	// NoLimit is a D_m that no record reaches: the largest that fits.
	NoLimit = layout.MaxDisplacement
)

// Config describes a table. It is the same wherever the table is used.
type Config struct {
	ID         uint16
	Name       string // for messages
	ValueBytes int    // of each value, 1 to layout.MaxValueBytes
	Homes      int    // slots that keys have their homes in
	Limit      int    // D_m, 1 to NoLimit
	Blocks     int    // overflow blocks
	Outside    int    // records outside of slots, for values above layout.MaxInlineBytes
	// Layout of the records; 0 = layout.KindLineVersions.
	Layout layout.Kind
	// CPULocks: records are locked by CPUs alone, so that the table may lock one to move it where memory has no
	// line words.
	CPULocks bool
	// Mutation leaves a safety step out; 0 is none. For tests of checks.
	Mutation Mutation
}

// ErrLimit: a D_m that no table can have.
var ErrLimit = errors.New("displacement limit not supported")

// maxBytes bounds a table, so that sums of sizes cannot overflow.
const maxBytes = 1 << 44

// SlotLoad is the percentage of the homes that are taken in a full table of For.
const SlotLoad = 80

// For sizes a table of some records.
func For(id uint16, name string, valueBytes, records int) Config {
	return ForLoad(id, name, valueBytes, records, SlotLoad, DefaultLimit)
}

// ForLoad sizes a table of some records with another D_m, of whose homes so many percent are taken when all records
// are there. Above 100 all others are in overflow blocks.
func ForLoad(id uint16, name string, valueBytes, records, percent, limit int) Config {
	homes := max(records*100/percent, 1)
	// A key may overflow, however empty its segment's blocks are.
	c := Config{ID: id, Name: name, ValueBytes: valueBytes, Homes: homes, Limit: limit,
		Blocks: records/6 + 64 + max(records-homes, 0)}
	if c.outside() {
		c.Outside = records + records/8 + 16*pool.Stripes
	}
	return c
}

// Check reports why the table cannot be made.
func (c Config) Check() error {
	switch {
	case c.ValueBytes < 1 || c.ValueBytes > layout.MaxValueBytes:
		return fmt.Errorf("table %q: %w: values of %d bytes, where all have one size from 1 to %d",
			c.Name, store.ErrValueBytes, c.ValueBytes, layout.MaxValueBytes)
	case c.layout().Version() == 0:
		return fmt.Errorf("table %q: %w: %v", c.Name, store.ErrLayout, c.Layout)
	case c.Limit < 1 || c.Limit > layout.MaxDisplacement:
		return fmt.Errorf("table %q: %w: D_m = %d; it is from 1 to %d, which stands for no limit", c.Name, ErrLimit,
			c.Limit, NoLimit)
	case c.Homes < 1 || c.Blocks < 0 || c.Blocks > layout.MaxOverflowBlocks:
		return fmt.Errorf("table %q: %w: %d homes and %d overflow blocks; there must be a home, and at most "+
			"%d blocks", c.Name, store.ErrSize, c.Homes, c.Blocks, layout.MaxOverflowBlocks)
	case c.outside() && c.Outside < 1 || !c.outside() && c.Outside != 0:
		return fmt.Errorf("table %q: %w: %d records outside of slots; values above %d bytes stand there, and no "+
			"others", c.Name, store.ErrSize, c.Outside, layout.MaxInlineBytes)
	case c.Homes > maxBytes/c.stride() || c.Blocks > maxBytes/(layout.OverflowSlots*c.stride()) ||
		c.Outside > maxBytes/c.record().Stride:
		return fmt.Errorf("table %q: %w: more than %d bytes", c.Name, store.ErrSize, int64(maxBytes))
	}
	return nil
}

// Bytes is the memory that the table occupies, a multiple of layout.BucketBytes. The Config is one that Check
// accepts.
func (c Config) Bytes() int {
	return (c.end(0) + layout.BucketBytes - 1) &^ (layout.BucketBytes - 1)
}

// end is the offset behind a table at an offset.
func (c Config) end(at int) int {
	p := c.places(at)
	return p.End() + c.Outside*c.record().Stride
}

// Descriptor is what a peer must know of the table, which stands at an offset of its memory region.
func (c Config) Descriptor(at int) layout.Descriptor {
	return layout.Descriptor{Table: c.ID, Layout: c.layout(), Index: layout.Robinhoods,
		ValueBytes: uint32(c.ValueBytes), MainOffset: uint64(at + headBytes), MainBuckets: uint64(c.Homes),
		End: uint64(c.end(at))}
}

// places is where everything is in a table at an offset. Records outside of slots stand behind.
func (c Config) places(at int) layout.Robinhood {
	return layout.MakeRobinhood(at+headBytes, c.Homes, c.Limit, c.Blocks, c.stride())
}

func (c Config) layout() layout.Kind { return c.Layout.Or(layout.KindLineVersions) }

func (c Config) record() layout.Record { return layout.NewRecord(c.layout(), c.ValueBytes) }

// outside reports whether records stand outside of slots.
func (c Config) outside() bool { return c.ValueBytes > layout.MaxInlineBytes }

// stride is the size of a slot.
func (c Config) stride() int {
	if c.outside() {
		return layout.PointerSlotBytes
	}
	return c.record().Stride
}

// provesItself reports whether one read of a record that is atomic per line says whether it is whole.
func (c Config) provesItself() bool {
	return c.layout() == layout.KindLineVersions || c.record().Bytes <= layout.LineBytes
}
