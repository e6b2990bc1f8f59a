package hades

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"sort"

	"drtmd/htm"
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

// held is the entry of a record that a transaction of a node inserts or deletes, after its end.
type held struct {
	shard   proto.ShardID
	node    proto.NodeID
	table   proto.TableID
	key     proto.Key
	place   int
	version layout.Version // that memory will have
}

// bank is a replica that its node serves, with the lines that stand for it.
type bank struct {
	memory *htm.Memory
	base   bloom.Line // of its first line
	lines  bloom.Line // of memory; those of buckets and pages come behind
	tables []table
	// versions are those of the buckets' and pages' lines, for HADES-H.
	versions []uint64
	// users are the nodes of transactions that insert or delete a record, by place: its entry stays.
	users map[int][]proto.NodeID
}

// bankBits is how many bits of a line's number are of its place in a bank.
func bankBits(e *protocol.Env) int {
	lines := len(e.Memory.Bytes)/layout.LineBytes + 1
	for i := range e.Specs {
		lines += 2*e.Specs[i].Capacity + 1 // more than there are pages or buckets
	}
	return bits.Len(uint(lines))
}

// open makes the bank of a shard that the node serves from now on.
func (c *Chip) open(shard proto.ShardID) {
	if c.banks[shard] != nil {
		return
	}
	first, nodes := c.first, len(c.banks)
	m, indexes := first.Memory, first.Tables
	if int(shard) < len(first.Shares) && first.Shares[shard] != nil {
		m, indexes = first.Shares[shard].Memory, first.Shares[shard].Tables
	}
	at := (int(shard) + nodes - int(first.Node)) % nodes
	b := &bank{memory: m, base: bloom.Line(at) << c.bankBits, users: map[int][]proto.NodeID{}}
	b.lines = bloom.Line((len(m.Bytes) + layout.LineBytes - 1) / layout.LineBytes)
	next := b.base + b.lines
	for i, x := range indexes {
		t := table{index: x, record: x.Record(), first: next, buckets: 1}
		if o, ok := x.(protocol.OrderedIndex); ok {
			t.ordered = o
			c.paginate(&t)
			next += bloom.Line(len(t.ends) + 1)
		} else {
			for t.buckets*bucketKeys < uint64(first.Specs[i].Capacity) {
				t.buckets *= 2
			}
			next += bloom.Line(t.buckets)
		}
		b.tables = append(b.tables, t)
	}
	b.versions = make([]uint64, next-b.base-b.lines)
	c.banks[shard] = b
}

// bankAt is the bank of a line, and the line from its beginning.
func (c *Chip) bankAt(line bloom.Line) (*bank, bloom.Line) {
	b := c.banks[(int(line>>c.bankBits)+int(c.first.Node))%len(c.banks)]
	return b, line - b.base
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
func (b *bank) find(t proto.TableID, k proto.Key) (place int, ok bool) {
	return b.tables[t-1].index.Find(uint64(k))
}

// ensure finds or makes an entry, and holds it for a transaction of a node.
func (c *Chip) ensure(b *bank, t proto.TableID, k proto.Key, node proto.NodeID) (place int, err error) {
	place, err = c.entry(b.tables[t-1].index, k)
	if err == nil {
		b.users[place] = append(b.users[place], node)
	}
	return place, err
}

// entry finds or makes one in a table.
func (c *Chip) entry(t protocol.PointIndex, k proto.Key) (place int, err error) {
	if place, ok := t.Find(uint64(k)); ok {
		return place, nil
	}
	for range 2 {
		var full error
		ok := c.inRegion(func() (ok bool) {
			place, _, ok, full = t.EnsureIn(c.region, uint64(k), 0)
			if ok && full != nil {
				c.region.Abort(1)
			}
			return ok && full == nil
		})
		if ok {
			return place, nil
		}
		if full == nil {
			return 0, proto.Aborting(proto.ReasonConflict)
		}
		c.sweep()
	}
	return 0, proto.Aborting(proto.ReasonFull)
}

// giveBack gives the entry of an absent key back.
func (c *Chip) giveBack(t protocol.PointIndex, k proto.Key) {
	c.inRegion(func() bool {
		ok, err := t.ReclaimIn(c.region, uint64(k), 0)
		invariant.Assert(!ok || err == nil, "hades: the entry of an absent key cannot be given back")
		return ok
	})
}

// release ends a hold, when memory has the record at a version or a newer one: an update may be on its way.
// Of a node that is gone nothing is held any more, though it may not know that yet.
func (c *Chip) release(h held) {
	if c.view == nil || c.view.lives[h.node] {
		c.held = append(c.held, h)
	}
}

// sweep ends what holds can be ended, and gives entries of absent keys back that nobody holds any more.
func (c *Chip) sweep() {
	kept := c.held[:0]
	for _, x := range c.held {
		b := c.banks[x.shard]
		t := &b.tables[x.table-1]
		v := t.head(x.place).Version
		if v < x.version {
			kept = append(kept, x)
			continue
		}
		if !b.drop(x.place, x.node) || v.Live() {
			continue
		}
		c.giveBack(t.index, x.key)
	}
	c.held = kept
	c.reclaim()
}

// drop ends one use of an entry by a node, and reports whether it was the last one.
func (b *bank) drop(place int, node proto.NodeID) bool {
	list := b.users[place]
	if at := slices.Index(list, node); at >= 0 {
		list = slices.Delete(list, at, at+1)
	}
	if len(list) > 0 {
		b.users[place] = list
		return false
	}
	delete(b.users, place)
	return true
}

// head is what memory has of the header of an entry.
func (t *table) head(place int) layout.Head {
	m, off := t.index.At(place)
	return layout.HeadOf(m.Bytes[off : off+t.record.Bytes])
}

// lineOf is the line at which an entry begins.
func (b *bank) lineOf(t *table, place int) bloom.Line {
	m, off := t.index.At(place)
	invariant.Assert(m == b.memory && off%layout.LineBytes == 0, "hades: a record that begins within a line")
	return b.base + bloom.Line(off/layout.LineBytes)
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
