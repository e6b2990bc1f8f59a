package store

import (
	"testing"

	"drtmd/htm"
	"drtmd/store/internal/tabletest"
)

func newTable(t testing.TB, c Config) *Table {
	t.Helper()
	return tabletest.New(t, c, Format)
}

// do runs f in a region until it commits.
func do(t testing.TB, r *htm.Region, f func()) {
	t.Helper()
	for range 1000 {
		if !r.Begin() {
			t.Fatal("nested")
		}
		if f(); r.Commit(nil) {
			return
		}
	}
	code, n := r.Aborted()
	t.Fatalf("region does not commit: %s %d", code, n)
}

func TestLoadedKeysAreFoundAndOthersAreNot(t *testing.T) {
	tabletest.LoadedKeysAreFound(t, newTable(t, For(1, "t", 8, 1000)), checkTable, tableErrors)
}

func TestLoadLeavesEvenRoom(t *testing.T) {
	table := newTable(t, For(1, "t", 8, 12_000))
	tabletest.LoadLeavesEvenRoom(t, 10_000, func(k uint64) error { return table.Load(k, tabletest.Value(8, k)) },
		table.word, table.entryPool())
}
