package records

import (
	"fmt"

	"drtmd/store"
	"drtmd/store/dlht"
	"drtmd/store/layout"
	"drtmd/store/pool"
)

// Config describes a table. It is the same wherever the table is used.
type Config struct {
	ID         uint16
	Name       string // for messages
	ValueBytes int    // of each value, 1 to layout.MaxValueBytes
	Entries    int    // records that there is memory for
	// Keys is how many the index has room for before it grows for the first time; 0: Entries.
	Keys int
	// Layout of the records; 0 = layout.KindOneVersion.
	Layout layout.Kind
	// Mutation leaves a safety step out; 0 is none. For tests of checks.
	Mutation Mutation

	step func() // called when a key was seen to have no record, by tests
}

// maxBytes bounds a table, so that sums of sizes cannot overflow.
const maxBytes = 1 << 44

// For sizes a table of some records, with spare ones for absent keys that are locked.
func For(id uint16, name string, valueBytes, records int) Config {
	return Config{ID: id, Name: name, ValueBytes: valueBytes, Entries: records + records/8 + 16*pool.Stripes}
}

// Check reports why the table cannot be made.
func (c Config) Check() error {
	switch {
	case c.ValueBytes < 1 || c.ValueBytes > layout.MaxValueBytes:
		return fmt.Errorf("table %q: %w: values of %d bytes, where all have one size from 1 to %d", c.Name,
			store.ErrValueBytes, c.ValueBytes, layout.MaxValueBytes)
	case c.layout().Version() == 0:
		return fmt.Errorf("table %q: %w: %v", c.Name, store.ErrLayout, c.Layout)
	case c.Entries < 1 || c.Keys < 0:
		return fmt.Errorf("table %q: %w: memory for %d records, and an index for %d keys; there must be a record",
			c.Name, store.ErrSize, c.Entries, c.Keys)
	case c.Entries > min(maxBytes/c.stride(), dlht.MaxKeys):
		return fmt.Errorf("table %q: %w: %d records, where a table has %d bytes and %d records at most", c.Name,
			store.ErrSize, c.Entries, int64(maxBytes), int64(dlht.MaxKeys))
	}
	return nil
}

// Bytes is the registered memory that the table occupies, a multiple of layout.BucketBytes. The Config is one that
// Check accepts. The index lies in the process's memory.
func (c Config) Bytes() int {
	return (headBytes + c.Entries*c.stride() + layout.BucketBytes - 1) &^ (layout.BucketBytes - 1)
}

// index is the configuration of the index. Old and new bins are there together while it grows, or is made anew at twice
// the size of a full one, because links are used up.
func (c Config) index() dlht.Config {
	full := dlht.Config{Keys: c.Entries}
	keys := c.Keys
	if keys == 0 || keys > c.Entries {
		keys = c.Entries
	}
	return dlht.Config{Keys: keys, MaxBytes: 4 * full.Bytes()}
}

// Descriptor is what a peer must know of the table, which stands at an offset of its memory region.
func (c Config) Descriptor(at int) layout.Descriptor {
	return layout.Descriptor{Table: c.ID, Layout: c.layout(), Index: layout.DLHT, ValueBytes: uint32(c.ValueBytes),
		MainOffset: uint64(at + headBytes), MainBuckets: uint64(c.Entries),
		End: uint64(at + headBytes + c.Entries*c.stride())}
}

func (c Config) layout() layout.Kind { return c.Layout.Or(layout.KindOneVersion) }

func (c Config) record() layout.Record { return layout.NewRecord(c.layout(), c.ValueBytes) }

func (c Config) stride() int { return c.record().Stride }
