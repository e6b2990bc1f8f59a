package keyvalue

import (
	"fmt"
	"math/bits"
	"slices"

	"drtmd/proto"
)

// Store is the index by which a client finds the place of a record: one of the key-value stores of HADES (§VII). Each node
// has the whole of it, as FaRM's machines cache an index, so a look-up sends nothing and is no access of the transaction.
type Store uint8

// Stores.
const (
	NoStore   Store = iota // none of the client's: the protocol finds records by their keys
	HashTable              // buckets of one line
	Map                    // a balanced binary tree, one record in each node
	BTree                  // records in all nodes, up to 15 in each (256 B, as cpp-btree's)
	BPlusTree              // records in the leaves, as in package store/btree
	storeEnd
)

// StoreNames are the stores' names on command lines, in their order.
func StoreNames() []string { return []string{"table", "hash", "map", "btree", "bplustree"} }

func (s Store) String() string {
	if s >= storeEnd {
		return fmt.Sprintf("store %d", uint8(s))
	}
	return StoreNames()[s]
}

// ParseStore finds one by its name.
func ParseStore(name string) (Store, error) {
	if i := slices.Index(StoreNames(), name); i >= 0 {
		return Store(i), nil
	}
	return 0, fmt.Errorf("unknown store %q; known: %v", name, StoreNames())
}

// shape is how the nodes of a tree are made: a header of 16 bytes, then pairs of key and place.
type shape struct {
	fan    int  // children of an inner node
	leaf   int  // most pairs of a leaf
	copies bool // inner nodes have copies of keys, and no records
	bytes  int  // of a node
}

func (s Store) shape() shape {
	switch s {
	case Map:
		return shape{fan: 2, leaf: 1, bytes: lineBytes}
	case BTree:
		return shape{fan: 16, leaf: 15, bytes: 4 * lineBytes}
	case BPlusTree:
		return shape{fan: 16, leaf: 14, copies: true, bytes: 4 * lineBytes}
	}
	return shape{}
}

// Sizes of the caches that an index is read from, in bytes, and what a line takes there in picoseconds (cited: HADES
// Table III, 2 GHz: 2, 12, 40 and 240 cycles; the last-level cache is that of five cores). A level of an index is read
// from the smallest cache that holds it and all levels above it (assumed).
const (
	lineBytes             = 64
	headBytes             = 16
	pairBytes             = 16
	firstBytes, firstPs   = 64 << 10, 1_000
	secondBytes, secondPs = 512 << 10, 6_000
	lastBytes, lastPs     = 20 << 20, 20_000
	memoryPs              = 120_000
	maxStored             = 1 << 28
	bucketPairs           = lineBytes / pairBytes
	maxDepth              = 48
	keyFactor             = 0x9e3779b97f4a7c15 // odd: different records have different keys
)

// linePs is what a line of a structure of some bytes takes.
func linePs(bytes int) int64 {
	switch {
	case bytes <= firstBytes:
		return firstPs
	case bytes <= secondBytes:
		return secondPs
	case bytes <= lastBytes:
		return lastPs
	}
	return memoryPs
}

// index leads from the keys of a store's client to records. It is packed: nodes are ranges of sorted pairs, and divide
// theirs evenly. It is immutable and may be shared; nothing is inserted.
type index struct {
	shape
	keys    []uint64 // sorted
	records []uint32 // in their order
	starts  []uint32 // of the buckets of a hash table, by the first bits of the key; nil: a tree
	shift   int
	levels  [maxDepth]int64 // picoseconds for a line of each; a hash table has one
}

// clientKey is what a store's client calls a record.
func clientKey(record int) uint64 { return bits.ReverseBytes64(uint64(record)*keyFactor) * keyFactor }

// newIndex makes the index of a store over so many records.
func newIndex(s Store, records int) *index {
	x := &index{shape: s.shape(), keys: make([]uint64, records), records: make([]uint32, records)}
	for i := range x.records {
		x.records[i] = uint32(i)
	}
	slices.SortFunc(x.records, func(a, b uint32) int {
		if clientKey(int(a)) < clientKey(int(b)) {
			return -1
		}
		return 1
	})
	for i, r := range x.records {
		x.keys[i] = clientKey(int(r))
	}
	if s == HashTable {
		x.hash()
		return x
	}
	for depth, nodes, all := 0, 1, 0; depth < maxDepth; depth++ {
		all += min(nodes, records) * x.bytes
		x.levels[depth] = linePs(all)
		nodes = min(nodes*x.fan, records)
	}
	return x
}

// hash cuts the keys into buckets, which are half full in the mean.
func (x *index) hash() {
	width := bits.Len(uint(len(x.keys) / (bucketPairs / 2)))
	x.shift = 64 - width
	x.starts = make([]uint32, 1<<width+1)
	for _, k := range x.keys {
		x.starts[k>>x.shift+1]++
	}
	for i := range x.starts[1:] {
		x.starts[i+1] += x.starts[i]
	}
	x.levels[0] = linePs(lineBytes << width)
}

// find is the record of a key, and the time that its look-up takes in picoseconds.
func (x *index) find(key uint64) (record int, ps int64, ok bool) {
	low, high := 0, len(x.keys)
	if x.starts != nil {
		bucket := key >> x.shift
		low, high = int(x.starts[bucket]), int(x.starts[bucket+1])
		i, there := slices.BinarySearch(x.keys[low:high], key)
		ps = x.levels[0] * int64(1+i/bucketPairs)
		return x.at(low+i, there), ps, there
	}
	for depth := 0; ; depth++ {
		if high-low <= x.leaf {
			i, lines := search(high-low, func(i int) bool { return x.keys[low+i] >= key })
			there := low+i < high && x.keys[low+i] == key
			return x.at(low+i, there), ps + x.levels[depth]*lines, there
		}
		c, lines := search(x.fan-1, func(i int) bool {
			k := x.keys[x.separator(low, high, i+1)]
			return k > key || k == key && !x.copies
		})
		ps += x.levels[depth] * lines
		next := x.separator(low, high, c+1)
		if !x.copies && next < high && x.keys[next] == key {
			return x.at(next, true), ps, true
		}
		low, high = x.separator(low, high, c)+x.own(), next
	}
}

// separator is the pair before child i of the node of a range of pairs, or with copies the first one of that child.
func (x *index) separator(low, high, i int) int {
	return low + i*(high-low+x.own())/x.fan - x.own()
}

// own is how many pairs of an inner node stand between two children.
func (x *index) own() int {
	if x.copies {
		return 0
	}
	return 1
}

// search is the least of n pairs of a node that is, or n, and how many lines of the node a binary search reads.
func search(n int, is func(i int) bool) (i int, lines int64) {
	seen, low, high := uint64(1), 0, n
	for low < high {
		middle := (low + high) / 2
		seen |= 1 << ((headBytes + pairBytes*middle) / lineBytes)
		if is(middle) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low, int64(bits.OnesCount64(seen))
}

func (x *index) at(i int, there bool) int {
	if !there {
		return 0
	}
	return int(x.records[i])
}

// lookUp finds a record by the space's store, spends the time that this takes, and reports a place that is another record's.
func (s *Space) lookUp(tx proto.Txn, k proto.Key) error {
	if s.index == nil {
		return nil
	}
	record := int(NumberOf(k))*s.Nodes + int(k>>nodeShift)
	found, ps, ok := s.index.find(clientKey(record))
	if c, charges := tx.(proto.Charger); charges {
		c.Charge(ps)
	}
	if !ok || found != record {
		return fmt.Errorf("%w: store %v leads from the key of record %d to record %d", ErrCorrupt, s.Store, record, found)
	}
	return nil
}
