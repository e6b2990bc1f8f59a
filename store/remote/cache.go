package remote

import (
	"sync/atomic"

	"drtmd/internal/invariant"
	"drtmd/store/layout"
)

// Cache is a location cache (§6.3): a bounded number of copies of buckets.
//
// It is cut into shards that have nothing in common. A shard has sets of frames, each for a main
// bucket with what table and offset it is of, and a pool of chained frames for indirect buckets. A
// copy whose successor is in the cache too has a link of type Cached, with the index of the
// chained frame as its offset; that frame remembers the slot word that stood there. To evict a
// main bucket gives its chain back first; to evict a chain puts that slot word back.
type Cache struct {
	shards []shard
	ways   int
}

// shard is one part, padded so that neighbours share no line.
type shard struct {
	busy   atomic.Uint32 // guards the rest; taken without waiting
	sets   uint64
	frames []frame
	chain  []chained
	free   int32 // first free chained frame, by next; none is noFrame
	hand   int   // where to look for a chain to evict
	clock  uint32
	stats  CacheStats

	mutation Mutation // 0 is none

	_ [64]byte
}

// frame is the copy of a main bucket.
type frame struct {
	source uint64 // of the table
	main   uint64 // offset of the bucket; 0: the frame is empty
	used   uint32 // the shard's clock when it was last used
	bucket layout.Bucket
}

// chained is the copy of an indirect bucket.
type chained struct {
	home   layout.Slot // the Header slot word that the link to this frame replaced
	next   int32       // in the free list
	bucket layout.Bucket
}

const (
	frameBytes   = 24 + layout.BucketBytes
	chainedBytes = 16 + layout.BucketBytes
	noFrame      = int32(-1)
	maxShards    = 64
	shardFrames  = 64 // least in a shard, where there is more than one
	spins        = 32 // looks at a busy shard
	evictLooks   = 64 // frames looked at for a chain to evict
)

// CacheStats count what a cache did.
type CacheStats struct {
	Hits        uint64 // entries found
	Links       uint64 // links found to a bucket that was not in the cache
	Misses      uint64
	Fills       uint64 // main buckets taken in
	Chained     uint64 // indirect buckets taken in
	Evicted     uint64 // main buckets that made room
	Reclaimed   uint64 // indirect buckets given back
	Invalidated uint64 // main buckets found out of date
}

// NewCache makes a cache of at most some bytes, with sets of ways frames (1: direct mapped). A
// fifth of the frames is for indirect buckets. It is nil, which is no cache, if not even one set
// fits.
func NewCache(bytes, ways int) *Cache {
	invariant.Assert(ways >= 1, "a set of a cache has at least one frame")
	perGroup := 4*frameBytes + chainedBytes
	frames := bytes / perGroup * 4
	if frames < ways {
		return nil
	}
	n := 1
	for n < maxShards && frames/(2*n) >= max(shardFrames, ways) {
		n *= 2
	}
	c := &Cache{shards: make([]shard, n), ways: ways}
	for i := range c.shards {
		sets := frames / n / ways
		c.shards[i].init(sets, ways, sets*ways/4)
	}
	return c
}

func (s *shard) init(sets, ways, chain int) {
	s.sets = uint64(sets)
	s.frames = make([]frame, sets*ways)
	s.chain = make([]chained, chain)
	s.free = noFrame
	for i := range s.chain {
		s.chain[i].next = s.free
		s.free = int32(i)
	}
}

// Bytes is the memory of the frames.
func (c *Cache) Bytes() int {
	n := 0
	for i := range c.shards {
		n += len(c.shards[i].frames)*frameBytes + len(c.shards[i].chain)*chainedBytes
	}
	return n
}

// Stats adds the counts of the shards up, each as of some moment of its own.
func (c *Cache) Stats() CacheStats {
	var sum CacheStats
	for i := range c.shards {
		s := &c.shards[i]
		for !s.busy.CompareAndSwap(0, 1) {
		}
		x := s.stats
		s.leave()
		sum.Hits += x.Hits
		sum.Links += x.Links
		sum.Misses += x.Misses
		sum.Fills += x.Fills
		sum.Chained += x.Chained
		sum.Evicted += x.Evicted
		sum.Reclaimed += x.Reclaimed
		sum.Invalidated += x.Invalidated
	}
	return sum
}

// enter takes the shard that a bucket belongs to, and its set, unless somebody else has it.
func (c *Cache) enter(source, main uint64) (*shard, []frame) {
	h := layout.Hash(source ^ main)
	s := &c.shards[h&uint64(len(c.shards)-1)]
	for range spins {
		if s.busy.CompareAndSwap(0, 1) {
			set := int((h >> 8) % s.sets)
			return s, s.frames[set*c.ways : (set+1)*c.ways]
		}
	}
	return nil, nil
}

func (s *shard) leave() { s.busy.Store(0) }

// verdict is what a cache knows of a key.
type verdict uint8

const (
	cachedNothing verdict = iota
	cachedEntry           // the slot word of its entry
	cachedLink            // the slot word of the link to go on from
)

// lookup says what the cache knows of a key whose main bucket is at offset main.
func (c *Cache) lookup(source, main, key uint64) (verdict, layout.Slot) {
	s, set := c.enter(source, main)
	if s == nil {
		return cachedNothing, 0
	}
	defer s.leave()
	f := findFrame(set, source, main)
	if f == nil {
		s.stats.Misses++
		return cachedNothing, 0
	}
	s.clock++
	f.used = s.clock
	b := &f.bucket
	for {
		if slot, ok := b.Find(key); ok {
			s.stats.Hits++
			return cachedEntry, slot
		}
		link, ok := b.Link()
		if !ok {
			s.stats.Misses++
			return cachedNothing, 0
		}
		if link.Type() == layout.Header {
			s.stats.Links++
			return cachedLink, link
		}
		b = &s.chain[link.Offset()].bucket
	}
}

func findFrame(set []frame, source, main uint64) *frame {
	for i := range set {
		if set[i].main == main && set[i].source == source {
			return &set[i]
		}
	}
	return nil
}

// fill takes in a bucket that was read: the main one at offset main, or the one behind it to which
// the link via led.
func (c *Cache) fill(source, main uint64, via layout.Slot, b *layout.Bucket) {
	s, set := c.enter(source, main)
	if s == nil {
		return
	}
	defer s.leave()
	f := findFrame(set, source, main)
	if via != 0 {
		if f != nil {
			s.append(f, via, b)
		}
		return
	}
	if f == nil {
		f = &set[0]
		for i := range set {
			if set[i].main == 0 {
				f = &set[i]
				break
			}
			if s.clock-set[i].used > s.clock-f.used {
				f = &set[i]
			}
		}
		if f.main != 0 {
			s.stats.Evicted++
		}
	}
	s.reclaim(&f.bucket)
	s.clock++
	s.stats.Fills++
	f.source, f.main, f.used, f.bucket = source, main, s.clock, *b
	s.sanitize(&f.bucket)
}

// append puts a copy behind the last one of a frame's chain, if via is the link there.
func (s *shard) append(f *frame, via layout.Slot, b *layout.Bucket) {
	tail := &f.bucket
	for range maxPath {
		if tail.Slot(layout.LinkSlot).Type() != layout.Cached {
			break
		}
		tail = &s.chain[tail.Slot(layout.LinkSlot).Offset()].bucket
	}
	if tail.Slot(layout.LinkSlot) != via && s.mutation != AppendAnywhere {
		return // somebody else has changed the chain, or it is as long as it may get
	}
	i := s.take(f)
	if i == noFrame {
		return
	}
	x := &s.chain[i]
	x.home, x.bucket = via, *b
	s.sanitize(&x.bucket)
	setLink(tail, layout.MakeSlot(layout.Cached, via.Lossy(), uint64(i)))
	s.stats.Chained++
}
