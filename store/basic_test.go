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
