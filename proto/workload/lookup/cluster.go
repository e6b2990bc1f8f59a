package lookup

import (
	"fmt"
	"unsafe"

	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/layout"
	"drtmd/store/remote"
	"drtmd/verbs"
)

// cluster is the real store, filled by package store and looked up by package store/remote, whose
// READs go to memory of this process and are counted.
type cluster struct {
	memory []byte
	table  *store.Table
	remote *remote.Table
	search remote.Search
	value  []byte
}

// newCluster makes an empty table with main slots, and room for some keys.
func newCluster(slots, keys int) (*cluster, error) {
	c := store.Config{ID: 1, Name: "lookup", ValueBytes: 8, MainBuckets: slots / layout.BucketSlots,
		IndirectBuckets: slots / layout.BucketSlots, Entries: keys}
	if err := c.Check(); err != nil {
		return nil, err
	}
	memory := make([]byte, c.Bytes()+layout.BucketBytes)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(memory))) % layout.BucketBytes
	memory = memory[skip:][:c.Bytes()]
	t, err := store.Format(c, htm.NewMemory(memory, nil, 0, nil), 0)
	if err != nil {
		return nil, err
	}
	return &cluster{memory: memory, table: t, value: make([]byte, c.ValueBytes),
		remote: remote.Open(t.Describe(), verbs.RemoteMR{Length: uint64(len(memory))})}, nil
}

func (c *cluster) insert(key uint64) error { return c.table.Load(key, c.value) }

// reads is how many READs a look-up of the key takes; 0 if it is not there.
func (c *cluster) reads(key uint64) int {
	n, err := c.look(key, nil)
	if err != nil {
		return 0
	}
	return n
}

// look looks a key up through a cache, which may be nil, and counts the READs.
func (c *cluster) look(key uint64, cache *remote.Cache) (int, error) {
	s := &c.search
	for s.Start(c.remote, cache, key); !s.Done(); {
		s.Feed((*layout.Bucket)(unsafe.Pointer(&c.memory[s.Next()])))
	}
	e, err := s.Result()
	if err != nil {
		return 0, fmt.Errorf("key %d: %w", key, err)
	}
	if k := c.table.KeyAt(int(e.Off)); k != key {
		return 0, fmt.Errorf("key %d: its place holds key %d", key, k)
	}
	return s.Reads(), nil
}

// linked counts the same buckets as if each had eight keys and a link beside them: the i-th key of
// a main bucket is i/8 links away.
type linked struct {
	start []uint32 // by main bucket: where its keys begin in order
	order []uint32 // keys by main bucket, and by age within it
	rank  []uint32 // of each key within its main bucket
}

func newLinked(slots, keys int) *linked {
	n := uint64(slots / layout.BucketSlots)
	l := &linked{start: make([]uint32, n+1), order: make([]uint32, keys),
		rank: make([]uint32, keys)}
	for k := range uint64(keys) {
		b := layout.BucketIndex(k, n)
		l.rank[k] = l.start[b+1]
		l.start[b+1]++
	}
	for b := range n {
		l.start[b+1] += l.start[b]
	}
	for k := range uint64(keys) {
		l.order[l.start[layout.BucketIndex(k, n)]+l.rank[k]] = uint32(k)
	}
	return l
}

func (l *linked) reads(key uint64) int { return 1 + int(l.rank[key])/layout.BucketSlots }

// fetched is the keys that a look-up of the key has read, in their order.
func (l *linked) fetched(key uint64) []uint32 {
	b := layout.BucketIndex(key, uint64(len(l.start)-1))
	first := l.start[b]
	return l.order[first:min(first+uint32(l.reads(key)*layout.BucketSlots), l.start[b+1])]
}

// keyCache is the fitted cache: direct mapped, one key in a place, filled with every key of every
// bucket that was read. Links are not cached.
type keyCache struct {
	places []uint32 // key + 1, 0: empty
	table  *linked
}

// look looks a key up and counts the READs.
func (c *keyCache) look(key uint64) int {
	n := uint64(len(c.places))
	if c.places[key%n] == uint32(key)+1 {
		return 0
	}
	for _, k := range c.table.fetched(key) {
		c.places[uint64(k)%n] = k + 1
	}
	return c.table.reads(key)
}
