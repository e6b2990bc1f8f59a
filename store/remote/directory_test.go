package remote

import (
	"errors"
	"testing"

	"drtmd/store/layout"
	"drtmd/verbs"
)

// growingTable is testTable of a table that grows, and an extent of it.
func growingTable() (*Table, layout.Extent) {
	d := testTable(0, 4).d
	d.Index = layout.GrowingClusters
	e := layout.Extent{Addr: 1 << 30, Length: 1 << 16, RKey: 99, MainBuckets: 8, Entries: 9, End: 1 << 16}
	return OpenPeer(3, d, verbs.RemoteMR{Addr: 1 << 20, Length: d.Reach(), RKey: 7}), e
}

// feed runs a look-up on memory that get gives, and says how many lines of the directory it read.
func feed(t *testing.T, s *Search, get func(line, reads int) layout.ExtentWords,
	bucket func(extent int) *layout.Bucket) (lines int) {
	t.Helper()
	for n := 0; !s.Done(); n++ {
		if n > 10_000 {
			t.Fatal("the look-up does not end")
		}
		if s.bytes() == layout.BucketBytes {
			s.Feed(bucket(s.table.extent))
			continue
		}
		line := int(s.Next()-s.root.d.End) / layout.LineBytes
		var b layout.Bucket
		w := get(line, n)
		copy(b[:], w[:])
		s.Feed(&b)
		lines++
	}
	return lines
}

// TestAbsenceIsBelievedAfterTheDirectory: an extent that came after the last look-up is found when a
// key is in no other, and from then on without the directory.
func TestAbsenceIsBelievedAfterTheDirectory(t *testing.T) {
	for _, m := range []Mutation{0, NoDirectory} {
		t.Run(m.String(), func(t *testing.T) {
			table, e := growingTable()
			table.Mutate(m)
			get := func(line, _ int) layout.ExtentWords {
				if line == 0 {
					return layout.ExtentWords{2}
				}
				return e.Words(line)
			}
			bucket := func(extent int) *layout.Bucket {
				if extent == 1 {
					return bucketOf(5, e.End-64, 0)
				}
				return &layout.Bucket{}
			}
			var s Search
			s.Start(table, nil, 5)
			lines := feed(t, &s, get, bucket)
			found, err := s.Result()
			if m == NoDirectory {
				if !errors.Is(err, ErrNotFound) || lines != 0 {
					t.Errorf("%+v, %v after %d lines", found, err, lines)
				}
				return
			}
			want := Entry{Addr: e.Addr + e.End - 64, RKey: e.RKey, Off: 1<<48 | (e.End - 64)}
			if err != nil || found != want || lines != 2 {
				t.Fatalf("%+v, %v after %d lines; want %+v after 2", found, err, lines, want)
			}
			if addr, rkey := table.Resolve(found.Off); addr != found.Addr || rkey != found.RKey {
				t.Errorf("the place leads to %#x under %d", addr, rkey)
			}
			cache := NewCache(1<<13, 4)
			for i, x := range []struct{ reads, lines int }{{1, 0}, {0, 0}} {
				s.Start(table, cache, 5)
				if n := feed(t, &s, get, bucket); n != x.lines || s.Reads() != x.reads {
					t.Errorf("look-up %d: %d READs, %d of the directory; want %d, %d", i, s.Reads(), n, x.reads,
						x.lines)
				}
			}
			if cache.Invalidate(table, 5); cache.Stats().Invalidated != 1 {
				t.Errorf("invalidated: %+v", cache.Stats())
			}
			s.Start(table, cache, 6)
			if n := feed(t, &s, get, func(int) *layout.Bucket { return &layout.Bucket{} }); n != 1 || s.Reads() != 3 {
				t.Errorf("an absent key took %d READs, %d of the directory; want 3, 1", s.Reads(), n)
			}
		})
	}
}

// TestADirectoryThatMakesNoSenseEndsTheLookup.
func TestADirectoryThatMakesNoSenseEndsTheLookup(t *testing.T) {
	_, e := growingTable()
	long := e
	long.End = long.Length + 64
	for _, c := range []struct {
		name string
		get  func(line, reads int) layout.ExtentWords
		want error
	}{
		{"no extent", func(int, int) layout.ExtentWords { return layout.ExtentWords{} }, ErrBounds},
		{"more than there can be", func(int, int) layout.ExtentWords { return layout.ExtentWords{33} }, ErrBounds},
		{"a line that stays torn", func(line, _ int) layout.ExtentWords {
			if line == 0 {
				return layout.ExtentWords{2}
			}
			return layout.ExtentWords{1, 2, 3}
		}, ErrUnstable},
		{"an extent beyond its region", func(line, _ int) layout.ExtentWords {
			if line == 0 {
				return layout.ExtentWords{2}
			}
			return long.Words(line)
		}, ErrUnstable},
		{"a line that was torn at first", func(line, reads int) layout.ExtentWords {
			switch {
			case line == 0:
				return layout.ExtentWords{2}
			case reads < 5:
				w := e.Words(line)
				w[3]++
				return w
			}
			return e.Words(line)
		}, ErrNotFound},
		{"an extent more at each look", func(line, reads int) layout.ExtentWords {
			if line == 0 {
				return layout.ExtentWords{uint64(min(2+reads, layout.MaxExtents))}
			}
			return e.Words(line)
		}, ErrNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			table, _ := growingTable()
			var s Search
			s.Start(table, nil, 5)
			feed(t, &s, c.get, func(int) *layout.Bucket { return &layout.Bucket{} })
			if _, err := s.Result(); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}
