package hopscotch

import (
	"fmt"
	"sync/atomic"
	"testing"

	"drtmd/htm"
	"drtmd/internal/invariant"
	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
	"drtmd/store/words"
)

// TestAWalkMissesNoRecordThatStays: one worker walks a table piece by piece, again and again, while another one
// inserts keys and gives them back, for which records move. Those that stay are seen in every walk.
func TestAWalkMissesNoRecordThatStays(t *testing.T) {
	const stay, piece = 300, 7
	for _, worded := range []bool{true, false} {
		t.Run(fmt.Sprintf("worded=%t", worded), func(t *testing.T) {
			c := ForLoad(1, "t", 8, 400, 90)
			c.CPULocks = true
			table, err := Format(c, tabletest.Memory(c.Bytes(), worded), 0)
			if err != nil {
				t.Fatal(err)
			}
			at := map[uint64]int{}
			for k := range uint64(stay) {
				at[k] = inserted(t, table, k)
			}
			walks := 200
			if invariant.Enabled {
				walks = 10
			}
			var over atomic.Bool
			moved := make(chan int)
			go func() { moved <- churn(table, stay, at, &over) }()
			for range walks {
				seen := map[uint64]bool{}
				for from, more := 0, true; more; {
					more = false
					table.EachFrom(from, func(i, off int) bool {
						if i >= from+piece {
							from, more = i, true
							return false
						}
						if h, ok := headAt(table, off); ok {
							seen[h.Key] = true
						}
						return true
					})
				}
				for k := range uint64(stay) {
					if !seen[k] {
						t.Errorf("key %d was not seen", k)
					}
				}
			}
			over.Store(true)
			if n := <-moved; n == 0 {
				t.Error("no record moved")
			}
			if err := checkTable(table); err != nil {
				t.Error(err)
			}
		})
	}
}

// headAt is the header of a slot; false if it is bound to no key.
func headAt(t *Table, off int) (layout.Head, bool) {
	var line [layout.LineBytes]byte
	for !t.m.Peek(off/layout.LineBytes, &line) {
	}
	h := layout.HeadOf(line[:])
	return h, h.Key != layout.NoKey
}

// churn inserts keys and gives them back until it is over, and counts the records of the first keys, which were
// at these places, that have moved.
func churn(table *Table, first int, at map[uint64]int, over *atomic.Bool) (moved int) {
	mine, err := Attach(table.Config(), table.m, 0)
	invariant.Assert(err == nil, "a second view of the table")
	r := htm.NewRegion(htm.Config{})
	const more = 150
	for n := uint64(0); !over.Load(); n++ {
		key := uint64(first) + n*7919%more
		if r.Begin(); n/more%2 == 0 {
			if _, _, ok, err := mine.EnsureIn(r, key, 0); ok && err == nil {
				r.Commit(nil)
				continue
			}
		} else if ok, err := mine.ReclaimIn(r, key, 0); ok && err == nil {
			r.Commit(nil)
			continue
		}
		r.Abort(1)
	}
	for k, off := range at {
		if now, ok := mine.Find(k); ok && now != off {
			moved++
		}
	}
	return moved
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
