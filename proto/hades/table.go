package hades

import (
	"encoding/binary"
	"sort"

	"drtmd/htm/bloom"
	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/protocol"
	"drtmd/store/layout"
)

const (
	// bucketKeys is how many keys a bucket has on average, pageKeys how many a page has at first.
	bucketKeys = 4
	pageKeys   = 16
	// regionTries bounds the regions of a change of a table: nothing else runs meanwhile.
	regionTries = 4
)

// table of a member.
type table struct {
	index   protocol.PointIndex
	ordered protocol.OrderedIndex // nil: it is a hash table
	record  *layout.Record
	// Lines of its buckets, or of its pages: from first on. ends are the last keys of pages, but for the last page.
	first   bloom.Line
	buckets uint64 // a power of two
	ends    []proto.Key
}

// held is the entry of a record that a transaction inserts or deletes, after its end.
type held struct {
	table   proto.TableID
	key     proto.Key
	place   int
	version layout.Version // that memory will have
}

// openTables takes the tables of a member as they were loaded.
func (c *Chip) openTables(e *protocol.Env) error {
	next := c.lines
	for i, x := range e.Tables {
		t := table{index: x, record: x.Record(), first: next, buckets: 1}
		if o, ok := x.(protocol.OrderedIndex); ok {
			t.ordered = o
			c.paginate(&t)
			next += bloom.Line(len(t.ends) + 1)
		} else {
			for t.buckets*bucketKeys < uint64(e.Specs[i].Capacity) {
				t.buckets *= 2
			}
			next += bloom.Line(t.buckets)
		}
		c.tables = append(c.tables, t)
	}
	c.versions = make([]uint64, next-c.lines)
	return nil
}

// paginate cuts the keys of an ordered table into pages.
func (c *Chip) paginate(t *table) {
	for from, more := uint64(0), true; more; {
		n, last := 0, uint64(0)
		ok := c.inRegion(func() bool {
			n = 0
			return t.ordered.Scan(c.region, from, lastKey, func(key uint64, _ int) bool {
				last = key
				n++
				return n < pageKeys
			})
		})
		invariant.Assert(ok, "hades: the keys of a page do not fit into a region")
		if more = n == pageKeys; more {
			t.ends = append(t.ends, proto.Key(last))
			from = last + 1
		}
	}
}

const lastKey = layout.NoKey - 1

// inRegion runs what reads or changes tables, and reports whether the region has committed. Nothing else runs meanwhile.
func (c *Chip) inRegion(do func() bool) bool {
	for range regionTries {
		if c.region.Begin() && do() && c.region.Commit(nil) {
			return true
		}
	}
	return false
}

// find is the place of a record's entry.
func (c *Chip) find(t proto.TableID, k proto.Key) (place int, ok bool) {
	return c.tables[t-1].index.Find(uint64(k))
}

// ensure finds or makes an entry, and holds it.
func (c *Chip) ensure(t proto.TableID, k proto.Key) (place int, err error) {
	if place, ok := c.find(t, k); ok {
		c.users[place]++
		return place, nil
	}
	for range 2 {
		var full error
		ok := c.inRegion(func() (ok bool) {
			place, _, ok, full = c.tables[t-1].index.EnsureIn(c.region, uint64(k), 0)
			if ok && full != nil {
				c.region.Abort(1)
			}
			return ok && full == nil
		})
		if ok {
			c.users[place]++
			return place, nil
		}
		if full == nil {
			return 0, proto.Aborting(proto.ReasonConflict)
		}
		c.sweep()
	}
	return 0, proto.Aborting(proto.ReasonFull)
}

// release ends a hold, when memory has the record at a version or a newer one: an update may be on its way.
func (c *Chip) release(t proto.TableID, k proto.Key, place int, v layout.Version) {
	c.held = append(c.held, held{t, k, place, v})
}

// sweep ends what holds can be ended, and gives entries of absent keys back that nobody holds any more.
func (c *Chip) sweep() {
	kept := c.held[:0]
	for _, x := range c.held {
		t := &c.tables[x.table-1]
		v := c.head(t, x.place).Version
		if v < x.version {
			kept = append(kept, x)
			continue
		}
		if c.users[x.place]--; c.users[x.place] > 0 {
			continue
		}
		delete(c.users, x.place)
		if v.Live() {
			continue
		}
		c.inRegion(func() bool {
			ok, err := t.index.ReclaimIn(c.region, uint64(x.key), 0)
			invariant.Assert(!ok || err == nil, "hades: the entry of an absent key cannot be given back")
			return ok
		})
	}
	c.held = kept
}

// head is what memory has of the header of an entry.
func (c *Chip) head(t *table, place int) layout.Head {
	m, off := t.index.At(place)
	return layout.HeadOf(m.Bytes[off : off+t.record.Bytes])
}

// lineOf is the line at which an entry begins.
func (c *Chip) lineOf(t *table, place int) bloom.Line {
	m, off := t.index.At(place)
	invariant.Assert(m == c.memory && off%layout.LineBytes == 0, "hades: a record that begins within a line")
	return bloom.Line(off / layout.LineBytes)
}

// guard is the line of the bucket or page of a key, which stands for its absence.
func (t *table) guard(k proto.Key) bloom.Line {
	if t.ordered != nil {
		return t.first + bloom.Line(t.page(k))
	}
	return t.first + bloom.Line(layout.Hash(uint64(k))>>7&(t.buckets-1))
}

// page of a key.
func (t *table) page(k proto.Key) int {
	return sort.Search(len(t.ends), func(i int) bool { return t.ends[i] >= k })
}

// span is the part of a range from one key to another that lies in the page of the first.
func (t *table) span(from, to proto.Key) (end proto.Key, last bool) {
	p := t.page(from)
	if p == t.page(to) {
		return to, true
	}
	if from > to {
		return t.ends[p-1] + 1, false
	}
	return t.ends[p], false
}

func versionOf(header []byte) uint64 {
	return binary.LittleEndian.Uint64(header[layout.VersionOffset:])
}

func putVersion(header []byte, v uint64) {
	binary.LittleEndian.PutUint64(header[layout.VersionOffset:], v)
}
