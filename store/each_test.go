package store

import (
	"testing"

	"drtmd/internal/invariant"
	"drtmd/store/internal/tabletest"
	"drtmd/store/words"
)

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
