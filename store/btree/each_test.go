package btree

import (
	"testing"

	"drtmd/htm"
	"drtmd/internal/invariant"
	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
	"drtmd/store/words"
)

// TestRecordsThatStayAreSeenWhileOthersComeAndGo: a table is walked in pieces, and between two of them keys in front
// of, among and behind the records that stay are inserted and given back, so that leaves split and merge.
func TestRecordsThatStayAreSeenWhileOthersComeAndGo(t *testing.T) {
	const stay, piece = 200, 7
	table := newTable(t, For(1, "t", 8, 3*stay))
	r := htm.NewRegion(htm.Config{})
	for k := range uint64(stay) {
		ensured(t, table, r, 3*k+1)
	}
	come := uint64(0)
	for walk := range 20 {
		seen := map[uint64]int{}
		for from, more := 0, true; more; {
			more = false
			table.EachFrom(from, func(i, off int) bool {
				if i >= from+piece {
					from, more = i, true
					return false
				}
				seen[table.word(off+layout.KeyOffset)]++
				return true
			})
			for range 3 {
				if key := 3 * (come / 2 * 31 % stay); come%2 == 0 {
					ensured(t, table, r, key)
				} else {
					r.Begin()
					if ok, err := table.ReclaimIn(r, key, 0); !ok || err != nil || !r.Commit(nil) {
						t.Fatalf("key %d is not given back: %t, %v", key, ok, err)
					}
				}
				come++
			}
		}
		for k := range uint64(stay) {
			if seen[3*k+1] != 1 {
				t.Fatalf("walk %d has seen key %d %d times", walk, 3*k+1, seen[3*k+1])
			}
		}
	}
	if err := checkTable(table); err != nil {
		t.Error(err)
	}
}

// ensured makes the entry of a key.
func ensured(t *testing.T, table *Table, r *htm.Region, key uint64) layout.Version {
	t.Helper()
	r.Begin()
	_, v, ok, err := table.EnsureIn(r, key, 0)
	if !ok || err != nil || !r.Commit(nil) {
		t.Fatalf("key %d has no entry: %t, %v", key, ok, err)
	}
	return v
}

// TestCountersGoOn: a table goes on from the incarnation of another one, and never back.
func TestCountersGoOn(t *testing.T) {
	tabletest.CountersGoOn(t, For(1, "t", 8, 10), Format, Attach, holdLock)
}

// holdLock calls f while somebody has the table's lock.
func holdLock(table *Table, f func()) {
	invariant.Assert(words.TryLock(table.base, table.at+lockAt), "the table's lock")
	defer table.unlock()
	f()
}
