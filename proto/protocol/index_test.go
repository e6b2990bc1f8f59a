package protocol_test

import (
	"maps"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"drtmd/htm"
	"drtmd/proto/protocol"
	"drtmd/store"
	"drtmd/store/btree"
	"drtmd/store/layout"
)

var (
	_ protocol.PointIndex   = (*store.Table)(nil)
	_ protocol.PointIndex   = (*store.Growing)(nil)
	_ protocol.OrderedIndex = (*sorted)(nil)
	_ protocol.GlancedIndex = (*btree.Table)(nil)
	_ protocol.OrderedIndex = (*btree.Growing)(nil)
	_ protocol.GrowingIndex = (*btree.Growing)(nil)
)

// sorted is an OrderedIndex for tests: a hash table, and behind it in memory an array in ascending order
// of the keys that have an entry.
//
//	+0  number of keys 8 | +8 key 8, place 8 | +24 key 8, place 8 | ...
type sorted struct {
	*store.Table
	m  *htm.Memory
	at int // offset of the array
}

func newSorted(t testing.TB, records int) *sorted {
	t.Helper()
	c := store.For(1, "sorted", 8, records)
	n := c.Bytes() + 64 + c.Entries*16
	n = (n + layout.LineBytes - 1) &^ (layout.LineBytes - 1)
	b := make([]byte, n+layout.BucketBytes)
	b = b[-uintptr(unsafe.Pointer(unsafe.SliceData(b)))%layout.BucketBytes:][:n]
	m := htm.NewMemory(b, make([]uint64, n/layout.LineBytes), 1, nil)
	table, err := store.Format(c, m, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &sorted{table, m, c.Bytes()}
}

func (s *sorted) slot(i uint64) int { return s.at + 8 + int(i)*16 }

func (s *sorted) key(r *htm.Region, i uint64) (uint64, bool) { return r.Load64(s.m, s.slot(i)) }

// search is the index of the first key that is not below key, and the number of keys. It reads every
// key before that, so that nobody can add one among them.
func (s *sorted) search(r *htm.Region, key uint64) (i, n uint64, ok bool) {
	if n, ok = r.Load64(s.m, s.at); !ok {
		return 0, 0, false
	}
	for ; i < n; i++ {
		k, ok := s.key(r, i)
		if !ok || k >= key {
			return i, n, ok
		}
	}
	return n, n, true
}

func (s *sorted) move(r *htm.Region, from, to uint64) bool {
	for w := range 2 {
		v, ok := r.Load64(s.m, s.slot(from)+8*w)
		if !ok || !r.Store64(s.m, s.slot(to)+8*w, v) {
			return false
		}
	}
	return true
}

func (s *sorted) EnsureIn(r *htm.Region, key, state uint64) (int, layout.Version, bool, error) {
	place, v, ok, err := s.Table.EnsureIn(r, key, state)
	if !ok || err != nil {
		return place, v, ok, err
	}
	i, n, ok := s.search(r, key)
	if k, alive := s.key(r, i); !ok || !alive || i < n && k == key {
		return place, v, ok && alive, nil
	}
	for j := n; j > i; j-- {
		if !s.move(r, j-1, j) {
			return 0, 0, false, nil
		}
	}
	ok = r.Store64(s.m, s.slot(i), key) && r.Store64(s.m, s.slot(i)+8, uint64(place)) &&
		r.Store64(s.m, s.at, n+1)
	return place, v, ok, nil
}

func (s *sorted) ReclaimIn(r *htm.Region, key, state uint64) (bool, error) {
	if ok, err := s.Table.ReclaimIn(r, key, state); !ok || err != nil {
		return ok, err
	}
	i, n, ok := s.search(r, key)
	for ; ok && i+1 < n; i++ {
		ok = s.move(r, i+1, i)
	}
	return ok && r.Store64(s.m, s.at, n-1), nil
}

func (s *sorted) Scan(r *htm.Region, first, last uint64, f func(uint64, int) bool) bool {
	from, n, ok := s.search(r, min(first, last))
	if !ok {
		return false
	}
	var found []uint64
	for i := from; i < n; i++ {
		k, ok := s.key(r, i)
		if !ok {
			return false
		}
		if k > max(first, last) {
			break
		}
		found = append(found, i)
	}
	if first > last {
		slices.Reverse(found)
	}
	for _, i := range found {
		k, _ := s.key(r, i)
		place, ok := r.Load64(s.m, s.slot(i)+8)
		if !ok || !f(k, int(place)) {
			return ok
		}
	}
	return true
}

func (s *sorted) Next(r *htm.Region, key uint64) (uint64, int, bool, bool) {
	if key == layout.NoKey {
		return 0, 0, false, r.Active()
	}
	i, n, ok := s.search(r, key+1)
	if !ok || i == n {
		return 0, 0, false, ok
	}
	k, _ := s.key(r, i)
	place, ok := r.Load64(s.m, s.slot(i)+8)
	return k, int(place), ok, ok
}

func (s *sorted) Ends(r *htm.Region, first, last uint64) (least, greatest uint64, found, ok bool) {
	ok = s.Scan(r, first, last, func(k uint64, _ int) bool {
		if !found {
			least = k
		}
		greatest, found = k, true
		return true
	})
	return least, greatest, found, ok
}

// in runs f in a region that must commit.
func in(t rapid.TB, r *htm.Region, f func() bool) {
	t.Helper()
	r.Begin()
	if !f() || !r.Commit(nil) {
		t.Fatal("a region that was alone aborted")
	}
}

// TestAnOrderedIndexIsASortedMap.
func TestAnOrderedIndexIsASortedMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var x protocol.OrderedIndex = newSorted(t, 50)
		model, r := map[uint64]int{}, htm.NewRegion(htm.Config{})
		drawKey := func(t *rapid.T, what string) uint64 { return rapid.Uint64Range(0, 30).Draw(t, what) }
		rt.Repeat(map[string]func(*rapid.T){
			"ensure": func(t *rapid.T) {
				key := drawKey(t, "key")
				in(t, r, func() bool {
					place, _, ok, err := x.EnsureIn(r, key, 0)
					model[key] = place
					return ok && err == nil
				})
			},
			"reclaim": func(t *rapid.T) {
				key := drawKey(t, "key")
				_, there := model[key]
				in(t, r, func() bool {
					ok, err := x.ReclaimIn(r, key, 0)
					return ok && (err == nil) == there
				})
				delete(model, key)
			},
			"look": func(t *rapid.T) {
				first, last := drawKey(t, "first"), drawKey(t, "last")
				var want, got []uint64
				for _, k := range slices.Sorted(maps.Keys(model)) {
					if k >= min(first, last) && k <= max(first, last) {
						want = append(want, k)
					}
				}
				in(t, r, func() bool {
					least, greatest, found, ok := x.Ends(r, min(first, last), max(first, last))
					if found != (len(want) > 0) || found && (least != want[0] || greatest != want[len(want)-1]) {
						t.Errorf("ends %d and %d, %v, of %d", least, greatest, found, want)
					}
					return ok && x.Scan(r, first, last, func(k uint64, place int) bool {
						if place != model[k] {
							t.Errorf("key %d is at %d, want %d", k, place, model[k])
						}
						got = append(got, k)
						return true
					})
				})
				if first > last {
					slices.Reverse(want)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("from %d to %d: %d, want %d", first, last, got, want)
				}
				in(t, r, func() bool {
					next, _, found, ok := x.Next(r, first)
					for _, k := range slices.Sorted(maps.Keys(model)) {
						if k > first {
							if !found || next != k {
								t.Errorf("%d comes after %d, %v, want %d", next, first, found, k)
							}
							return ok
						}
					}
					if found {
						t.Errorf("%d comes after %d, want none", next, first)
					}
					return ok
				})
			},
		})
	})
}

// TestAScanHasNoPhantoms: what a scan has not seen cannot come before it commits.
func TestAScanHasNoPhantoms(t *testing.T) {
	x := newSorted(t, 50)
	r, other := htm.NewRegion(htm.Config{}), htm.NewRegion(htm.Config{})
	for _, key := range []uint64{10, 20, 30} {
		in(t, r, func() bool { _, _, ok, err := x.EnsureIn(r, key, 0); return ok && err == nil })
	}
	r.Begin()
	n := 0
	if !x.Scan(r, 10, 20, func(uint64, int) bool { n++; return true }) || n != 2 {
		t.Fatalf("the scan has seen %d keys", n)
	}
	in(t, other, func() bool { _, _, ok, err := x.EnsureIn(other, 15, 0); return ok && err == nil })
	if r.Commit(nil) {
		t.Error("a scan commits though a key has come into its range")
	}
}
