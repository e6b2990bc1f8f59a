package remote

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"drtmd/store/layout"
	"drtmd/verbs"
)

// testTable is a description of a table with some main buckets; nothing stands behind it.
func testTable(peer uint16, main uint64) *Table {
	end := (1 + 4*main) * layout.BucketBytes
	return OpenPeer(peer, layout.Descriptor{Table: 1, Layout: layout.KindOneVersion,
		Index: layout.ClusterChaining, ValueBytes: 8,
		MainOffset: layout.BucketBytes, MainBuckets: main, End: end},
		verbs.RemoteMR{Addr: 1 << 20, Length: end, RKey: 7})
}

// bucketOf is a bucket with one entry, of key at offset off, and a link; 0 is none.
func bucketOf(key, off uint64, link layout.Slot) *layout.Bucket {
	b := &layout.Bucket{uint64(layout.MakeSlot(layout.Entry, 0, off)), key}
	b[2*layout.LinkSlot] = uint64(link)
	return b
}

func linkTo(off uint64) layout.Slot { return layout.MakeSlot(layout.Header, 3, off) }

// TestCachedLinkIsRefilledAndRestored is §6.3: the link to a bucket that is taken in leads to the
// copy, and to the bucket again when the copy has gone.
func TestCachedLinkIsRefilledAndRestored(t *testing.T) {
	c := NewCache(1<<12, 1)
	const source, main = 1, 128
	c.fill(source, main, 0, bucketOf(1, 1024, linkTo(4096)))
	c.fill(source, main, linkTo(4096), bucketOf(2, 2048, linkTo(8192)))
	s, set := c.enter(source, main)
	f := findFrame(set, source, main)
	s.leave()
	if link, _ := f.bucket.Link(); link.Type() != layout.Cached || link.Lossy() != 3 {
		t.Errorf("the link is %s", link)
	}
	for _, x := range []struct {
		key  uint64
		want verdict
		off  uint64
	}{{1, cachedEntry, 1024}, {2, cachedEntry, 2048}, {3, cachedLink, 8192}} {
		if got, slot := c.lookup(source, main, x.key); got != x.want || slot.Offset() != x.off {
			t.Errorf("key %d: %d, %s", x.key, got, slot)
		}
	}
	c.fill(source, main, linkTo(12345), bucketOf(4, 64, 0)) // not where the chain ends
	if got, slot := c.lookup(source, main, 4); got != cachedLink || slot != linkTo(8192) {
		t.Errorf("a bucket of another chain was taken in: %d, %s", got, slot)
	}
	s.reclaim(&f.bucket)
	if link, _ := f.bucket.Link(); link != linkTo(4096) {
		t.Errorf("the link is restored as %s", link)
	}
	if got, slot := c.lookup(source, main, 2); got != cachedLink || slot != linkTo(4096) {
		t.Errorf("after reclaiming: %d, %s", got, slot)
	}
}

// A peer cannot make the cache follow an index of its own choice.
func TestCachedTypeOfAPeerIsNotBelieved(t *testing.T) {
	c := NewCache(1<<12, 1)
	c.fill(1, 128, 0, bucketOf(1, 1024, layout.MakeSlot(layout.Cached, 0, 1<<40)))
	if got, slot := c.lookup(1, 128, 2); got != cachedNothing {
		t.Errorf("got %d, %s", got, slot)
	}
}

func TestCacheKeepsToItsBudget(t *testing.T) {
	for _, x := range []struct {
		bytes, ways int
		none        bool
	}{{0, 1, true}, {700, 1, true}, {800, 1, false}, {800, 8, true}, {10_000, 8, false},
		{1 << 20, 1, false}, {1 << 20, 8, false}, {20 << 20, 4, false}} {
		t.Run(fmt.Sprintf("%d bytes, %d ways", x.bytes, x.ways), func(t *testing.T) {
			c := NewCache(x.bytes, x.ways)
			if x.none {
				if c != nil {
					t.Fatalf("a cache of %d bytes", c.Bytes())
				}
				return
			}
			if c.Bytes() > x.bytes || c.Bytes() < x.bytes*7/10-1000 {
				t.Errorf("%d bytes of frames", c.Bytes())
			}
		})
	}
}

// The frame that was not used for longest makes room, with its chain.
func TestSetEvictsWhatWasNotUsedForLongest(t *testing.T) {
	c := NewCache(1000, 4) // one set
	if len(c.shards) != 1 || c.shards[0].sets != 1 {
		t.Fatalf("%d shards of %d sets", len(c.shards), c.shards[0].sets)
	}
	for i := range uint64(4) {
		c.fill(1, 128*(i+1), 0, bucketOf(i, 64*i, linkTo(4096)))
	}
	c.fill(1, 128*2, linkTo(4096), bucketOf(100, 6400, 0))
	for _, i := range []uint64{0, 2, 3} {
		c.lookup(1, 128*(i+1), i)
	}
	c.fill(1, 128*5, 0, bucketOf(4, 256, 0))
	for i := range uint64(5) {
		want := cachedEntry
		if i == 1 {
			want = cachedNothing
		}
		if got, _ := c.lookup(1, 128*(i+1), i); got != want {
			t.Errorf("bucket %d: %d, want %d", i, got, want)
		}
	}
	if s := c.Stats(); s.Evicted != 1 || s.Reclaimed != 1 || s.Chained != 1 || s.Fills != 5 {
		t.Errorf("%+v", s)
	}
}

// Tables at the same place of different peers do not answer for each other.
func TestPeersAreToldApart(t *testing.T) {
	c := NewCache(1<<16, 8)
	a, b := testTable(1, 10), testTable(2, 10)
	main := a.d.BucketOffset(5)
	c.fill(a.source, main, 0, bucketOf(5, 1024, 0))
	if got, _ := c.lookup(b.source, main, 5); got != cachedNothing {
		t.Errorf("peer 2 has %d", got)
	}
	c.Invalidate(b, 5)
	if got, _ := c.lookup(a.source, main, 5); got != cachedEntry {
		t.Errorf("peer 1 has %d", got)
	}
	c.Invalidate(a, 5)
	if got, _ := c.lookup(a.source, main, 5); got != cachedNothing {
		t.Errorf("peer 1 has %d after Invalidate", got)
	}
}

// checkCache says what does not fit in a shard: each chained frame is free or in one chain.
func checkCache(c *Cache) error {
	for i := range c.shards {
		s := &c.shards[i]
		seen := make([]int, len(s.chain))
		for j := s.free; j != noFrame; j = s.chain[j].next {
			seen[j]++
		}
		for j := range s.frames {
			b := &s.frames[j].bucket
			for link, ok := b.Link(); ok && link.Type() == layout.Cached; link, ok = b.Link() {
				if s.frames[j].main == 0 {
					return fmt.Errorf("an empty frame has a chain")
				}
				seen[link.Offset()]++
				b = &s.chain[link.Offset()].bucket
			}
		}
		for j, n := range seen {
			if n != 1 {
				return fmt.Errorf("chained frame %d of shard %d is in %d places", j, i, n)
			}
		}
	}
	return nil
}

// TestCacheLosesNoFrame runs random fills and invalidations on caches so small that everything
// is evicted all the time.
func TestCacheLosesNoFrame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := NewCache(rapid.IntRange(800, 5000).Draw(t, "bytes"), 1)
		table := testTable(0, 16)
		for range 100 {
			main := rapid.Uint64Range(1, 16).Draw(t, "main") * 128
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				c.fill(table.source, main, 0, bucketOf(1, 64, linkTo(main+4096)))
			case 1, 2:
				if got, slot := c.lookup(table.source, main, 2); got == cachedLink {
					c.fill(table.source, main, slot, bucketOf(3, 64, linkTo(slot.Offset()+4096)))
				}
			case 3:
				c.Invalidate(table, rapid.Uint64Range(0, 100).Draw(t, "key"))
			}
			if err := checkCache(c); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestCacheIsSharedByThreads has threads fill, look up and invalidate at once; what a look-up says
// of a key is what some fill said.
func TestCacheIsSharedByThreads(t *testing.T) {
	c := NewCache(8000, 2)
	table := testTable(0, 64)
	var all sync.WaitGroup
	for w := range uint64(4) {
		all.Go(func() {
			random := rand.New(rand.NewPCG(w, 1))
			for range 20_000 {
				key := random.Uint64N(256)
				main := table.d.BucketOffset(key)
				switch random.IntN(8) {
				case 0:
					c.Invalidate(table, key)
				case 1, 2:
					c.fill(table.source, main, 0, bucketOf(key, key*64, linkTo(main+8192)))
				case 3:
					c.fill(table.source, main, linkTo(main+8192),
						bucketOf(key+1000, key*64, 0))
				default:
					got, slot := c.lookup(table.source, main, key)
					if got == cachedEntry && slot.Offset() != key*64 ||
						got == cachedLink && slot != linkTo(main+8192) {
						t.Errorf("key %d: %d, %s", key, got, slot)
						return
					}
				}
			}
		})
	}
	all.Wait()
	if err := checkCache(c); err != nil {
		t.Error(err)
	}
	if s := c.Stats(); s.Hits == 0 || s.Chained == 0 || s.Evicted == 0 || s.Invalidated == 0 {
		t.Errorf("not everything has happened: %+v", s)
	}
}
