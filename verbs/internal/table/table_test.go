package table

import "testing"

// Growing keeps what is there, and indexes that were never set are empty.
func TestGrowingKeepsEntries(t *testing.T) {
	var tab Table[int]
	if tab.Get(0) != nil || tab.Get(1<<20) != nil {
		t.Fatal("an empty table has entries")
	}
	put := map[uint32]*int{}
	for _, i := range []uint32{0, 1, 63, 64, 65, 1000, 100_000} {
		put[i] = new(int)
		tab.Set(i, put[i])
		for j, want := range put {
			if tab.Get(j) != want {
				t.Fatalf("after setting %d, index %d is lost", i, j)
			}
		}
	}
	tab.Set(64, nil)
	if tab.Get(64) != nil || tab.Get(66) != nil {
		t.Error("an index that is not set has an entry")
	}
}
