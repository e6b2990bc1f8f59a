package remote

import (
	"errors"
	"testing"

	"drtmd/store/layout"
	"drtmd/verbs"
)

// An ordered table is looked up by its own node: nothing is read of it.
func TestOrderedTablesAreNotSearched(t *testing.T) {
	d := layout.Descriptor{Table: 1, Layout: layout.KindOneVersion, Index: layout.BPlusTree, ValueBytes: 8,
		MainOffset: layout.TreeHeadBytes, MainBuckets: 4, End: 1 << 16}
	table := Open(d, verbs.RemoteMR{Length: 1 << 20})
	var s Search
	s.Start(table, nil, 1)
	if s.reads != 0 || !errors.Is(s.err, ErrHosted) || !errors.Is(table.Err(), ErrHosted) {
		t.Errorf("%d READs, %v, %v", s.reads, s.err, table.Err())
	}
}

// TestExtentsOfOrderedTablesAreLearned: a look-up reads the directory of an ordered table that grows, and from then
// on the places that its host names are known.
func TestExtentsOfOrderedTablesAreLearned(t *testing.T) {
	d := layout.Descriptor{Table: 1, Layout: layout.KindOneVersion, Index: layout.GrowingTrees, ValueBytes: 8,
		MainOffset: layout.TreeHeadBytes, MainBuckets: 4, End: 1 << 16}
	table := Open(d, verbs.RemoteMR{Addr: 1 << 20, Length: d.Reach(), RKey: 7})
	e := layout.Extent{Addr: 1 << 30, Length: 1 << 15, RKey: 99, MainBuckets: 2, Entries: 9, End: 1 << 15}
	off := layout.TreeHeadBytes + 2*layout.NodeBytes
	place := uint64(layout.MakePlace(1, off))
	if !table.Grows() || table.Entry(place) || !table.Entry(d.End-256) {
		t.Error("before, the places of the first extent are known, and no others")
	}
	get := func(line, _ int) layout.ExtentWords {
		if line == 0 {
			return layout.ExtentWords{2}
		}
		return e.Words(line)
	}
	for want := 2; want > 0; want-- {
		var s Search
		s.Start(table, nil, 1)
		lines := feed(t, &s, get, nil)
		if _, err := s.Result(); lines != want || !errors.Is(err, ErrHosted) {
			t.Errorf("a look-up reads %d lines, want %d, and ends with %v", lines, want, err)
		}
	}
	addr, rkey := table.Resolve(place)
	if addr != e.Addr+uint64(off) || rkey != e.RKey || !table.Entry(place) || table.Entry(place-layout.EntryAlignment) {
		t.Errorf("the place is at %#x under %d", addr, rkey)
	}
}

// A peer whose memory makes no sense ends a look-up; it cannot keep it busy or lead it out of the
// table.
func TestSearchEndsOnAnyMemory(t *testing.T) {
	table := testTable(0, 1000)
	d := table.d
	for _, x := range []struct {
		name string
		next func(n int) *layout.Bucket
		want error
	}{
		{"a link to itself", func(int) *layout.Bucket { return bucketOf(1, 1<<17, linkTo(128)) },
			ErrUnstable},
		{"links without end", func(n int) *layout.Bucket {
			return bucketOf(1, 1<<17, linkTo(128*uint64(1+n%100)))
		}, ErrUnstable},
		{"a link out of the table", func(int) *layout.Bucket {
			return bucketOf(1, 1<<17, linkTo(d.End))
		}, ErrUnstable},
		{"a link to the middle of a bucket", func(int) *layout.Bucket {
			return bucketOf(1, 1<<17, linkTo(192))
		}, ErrUnstable},
		{"a link of a cache", func(int) *layout.Bucket {
			return bucketOf(1, 1<<17, layout.MakeSlot(layout.Cached, 0, 1))
		}, ErrUnstable},
		{"an entry out of the table", func(int) *layout.Bucket {
			return bucketOf(5, d.End, 0)
		}, ErrNotFound},
		{"an entry among the buckets", func(int) *layout.Bucket { return bucketOf(5, 128, 0) },
			ErrNotFound},
		{"a link that changes each time", func(n int) *layout.Bucket {
			return bucketOf(1, 1<<17, layout.MakeSlot(layout.Header, layout.Lossy(n),
				d.BucketOffset(5))&^0x3fff_0000_0000_0000|layout.Slot(n&1)<<48)
		}, ErrUnstable},
	} {
		for _, cache := range []*Cache{nil, NewCache(2000, 1)} {
			t.Run(x.name, func(t *testing.T) {
				var s Search
				n := 0
				for s.Start(table, cache, 5); !s.Done(); n++ {
					if n > 10_000 {
						t.Fatal("the look-up does not end")
					}
					if !d.Bucket(s.Next()) {
						t.Fatalf("reads at %d", s.Next())
					}
					s.Feed(x.next(n))
				}
				if _, err := s.Result(); !errors.Is(err, x.want) {
					t.Errorf("got %v, want %v", err, x.want)
				}
			})
		}
	}
}
