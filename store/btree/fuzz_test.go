package btree

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/layout"
)

// FuzzTree reads operations from bytes, two each, runs them on a table and on a map, and checks every word of
// the tree and scans of it after every eighth and the last.
func FuzzTree(f *testing.F) {
	ascending, mixed := []byte{}, []byte{}
	for i := range 120 {
		ascending = append(ascending, byte(2*i), 0)
		mixed = append(mixed, byte(77*i), byte(i))
	}
	f.Add(ascending)
	f.Add(append(slices.Clone(ascending), mixed...))
	f.Add(mixed)
	f.Fuzz(func(t *testing.T, program []byte) {
		c := Config{ID: 1, Name: "fuzz", ValueBytes: 8, Nodes: 40, Entries: 120}
		table := newTable(t, c)
		r, keys := htm.NewRegion(htm.Config{}), map[uint64]bool{}
		for ; len(program) > 1; program = program[2:] {
			key := uint64(program[0])
			r.Begin()
			var ok bool
			var err error
			if program[1]%4 == 3 {
				if ok, err = table.ReclaimIn(r, key, 0); (err == nil) != keys[key] {
					t.Fatalf("key %d, there %v, is given back: %v", key, keys[key], err)
				}
				delete(keys, key)
			} else if _, _, ok, err = table.EnsureIn(r, key, 0); err == nil {
				keys[key] = true
			} else if !errors.Is(err, store.ErrFull) || keys[key] {
				t.Fatalf("key %d, there %v: %v", key, keys[key], err)
			}
			if !ok || !r.Commit(nil) {
				t.Fatal("a region that was alone aborted")
			}
			if len(program)%16 == 0 || len(program) < 4 {
				if err := checkTable(table); err != nil {
					t.Fatal(err)
				}
				checkOrder(t, table, r, keys)
			}
		}
	})
}

// checkOrder scans all keys in both directions.
func checkOrder(t *testing.T, table *Table, r *htm.Region, keys map[uint64]bool) {
	t.Helper()
	want := slices.Sorted(maps.Keys(keys))
	for range 2 {
		var got []uint64
		first, last := uint64(0), layout.NoKey
		if !slices.IsSorted(want) {
			first, last = last, first
		}
		in(t, r, func() bool {
			return table.Scan(r, first, last, func(key uint64, _ int) bool {
				got = append(got, key)
				return true
			})
		})
		if !slices.Equal(got, want) {
			t.Fatalf("from %d: keys %d, want %d", first, got, want)
		}
		slices.Reverse(want)
	}
}
