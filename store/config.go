package store

import (
	"errors"
	"fmt"

	"drtmd/store/layout"
	"drtmd/store/pool"
)

// Config describes a table. It is the same wherever the table is used.
type Config struct {
	ID              uint16
	Name            string // for messages
	KeyBytes        int    // 8; 0 = 8
	ValueBytes      int    // of each value, 1 to layout.MaxValueBytes
	MainBuckets     int
	IndirectBuckets int
	Entries         int
	// Layout of the records; 0 = layout.KindOneVersion.
	Layout layout.Kind
	// Grows: the table is the first extent of one that grows (Growing), with the directory behind it.
	Grows bool
	// Mutation leaves a safety step out; 0 is none. For tests of checks.
	Mutation Mutation
}

// maxBytes bounds a table, so that sums of sizes cannot overflow.
const maxBytes = 1 << 44

// What Config.Check refuses.
var (
	// ErrKeyBytes: keys other than 64 bits. Hash longer ones to 64, and keep them in the value.
	ErrKeyBytes = errors.New("key size not supported")
	// ErrValueBytes: no value size, or one over layout.MaxValueBytes. Values of several sizes
	// take the largest and carry their length.
	ErrValueBytes = errors.New("value size not supported")
	// ErrLayout: a layout that this program does not know.
	ErrLayout = errors.New("layout of records not known")
	// ErrSize: no buckets or entries, or more than memory can have.
	ErrSize = errors.New("table size not supported")
)

// For sizes a table of some records: three quarters of the main slots are taken then, and there
// are spare entries for absent keys that are locked or leased.
func For(id uint16, name string, valueBytes, records int) Config {
	main := (records + 5) / 6
	return Config{
		ID: id, Name: name, ValueBytes: valueBytes,
		MainBuckets:     max(1, main),
		IndirectBuckets: main/4 + 4*pool.Stripes,
		Entries:         records + records/8 + 16*pool.Stripes,
	}
}

// Check reports why the table cannot be made: ErrKeyBytes, ErrValueBytes or ErrSize.
func (c Config) Check() error {
	switch {
	case c.KeyBytes != 0 && c.KeyBytes != 8:
		return fmt.Errorf("table %q: %w: keys of %d bytes, not 8; hash longer ones "+
			"and keep them in the value", c.Name, ErrKeyBytes, c.KeyBytes)
	case c.ValueBytes < 1 || c.ValueBytes > layout.MaxValueBytes:
		return fmt.Errorf("table %q: %w: values of %d bytes; a table has values of one size, from 1 to %d",
			c.Name, ErrValueBytes, c.ValueBytes, layout.MaxValueBytes)
	case c.layout().Version() == 0:
		return fmt.Errorf("table %q: %w: %v", c.Name, ErrLayout, c.Layout)
	case c.MainBuckets < 1 || c.Entries < 1 || c.IndirectBuckets < 0:
		return fmt.Errorf("table %q: %w: %d main buckets, %d indirect buckets and %d entries; "+
			"the first and the last must be positive", c.Name, ErrSize, c.MainBuckets,
			c.IndirectBuckets, c.Entries)
	case c.MainBuckets > maxBytes/layout.BucketBytes,
		c.IndirectBuckets > maxBytes/layout.BucketBytes,
		c.Entries > maxBytes/c.stride():
		return fmt.Errorf("table %q: %w: more than %d bytes", c.Name, ErrSize, int64(maxBytes))
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
	n := headBytes + (c.MainBuckets+c.IndirectBuckets)*layout.BucketBytes +
		c.Entries*c.stride()
	return (n + layout.BucketBytes - 1) &^ (layout.BucketBytes - 1)
}

// Descriptor is what a peer must know of the table, which stands at an offset of its memory
// region.
func (c Config) Descriptor(at int) layout.Descriptor {
	main := at + headBytes
	return layout.Descriptor{
		Table:       c.ID,
		Layout:      c.layout(),
		Index:       c.index(),
		ValueBytes:  uint32(c.ValueBytes),
		MainOffset:  uint64(main),
		MainBuckets: uint64(c.MainBuckets),
		End:         uint64(at + c.tableBytes()),
	}
}

func (c Config) layout() layout.Kind { return c.Layout.Or(layout.KindOneVersion) }

func (c Config) index() layout.Index {
	if c.Grows {
		return layout.GrowingClusters
	}
	return layout.ClusterChaining
}

func (c Config) record() layout.Record { return layout.NewRecord(c.layout(), c.ValueBytes) }

func (c Config) stride() int { return c.record().Stride }
