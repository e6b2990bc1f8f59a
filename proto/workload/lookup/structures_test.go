package lookup

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// A cuckoo table that is filled until nothing fits keeps every key that it has taken, and is
// unchanged by the insertion that failed.
func TestCuckooLosesNoKey(t *testing.T) {
	c := newCuckoo(1000, rand.New(rand.NewPCG(1, 2)))
	n := uint64(0)
	for ; ; n++ {
		before := slices.Clone(c.slots)
		err := c.insert(n * 31)
		if err == nil {
			continue
		}
		if !errors.Is(err, errFull) || !slices.Equal(before, c.slots) {
			t.Fatalf("%v, and the table has changed: %v", err, !slices.Equal(before, c.slots))
		}
		break
	}
	if n < 850 {
		t.Errorf("only %d of 1000 slots could be filled", n)
	}
	for k := range n {
		if c.reads(k*31) == 0 {
			t.Errorf("key %d is lost", k*31)
		}
	}
	if c.reads(n*31) != 0 {
		t.Error("a key that was refused is there")
	}
}

// Hopscotch finds every key, more of them than it has slots even, by its chains.
func TestHopscotchLosesNoKey(t *testing.T) {
	h := newHopscotch(400)
	for k := range uint64(500) {
		if err := h.insert(k); err != nil {
			t.Fatal(err)
		}
		for i := range k + 1 {
			if h.reads(i) == 0 {
				t.Fatalf("key %d is lost after %d", i, k)
			}
		}
	}
	if h.reads(500) != 0 {
		t.Error("a key that was not inserted is there")
	}
}

// The real store and the count by rank agree where no bucket is full, and differ as Figure 12 says
// where one has more than eight keys.
func TestClusterCountsTheRealStore(t *testing.T) {
	const slots, keys = 1024, 1000
	c, err := newCluster(slots, keys)
	if err != nil {
		t.Fatal(err)
	}
	for k := range uint64(keys) {
		if err := c.insert(k); err != nil {
			t.Fatal(err)
		}
	}
	l := newLinked(slots, keys)
	for k := range uint64(keys) {
		all := len(l.fetched(k))
		got, want := c.reads(k), l.reads(k)
		if l.rank[k] == 7 && got == 2 { // the eighth, which had to move
			want = 2
		}
		if l.rank[k] >= 8 { // 7 keys in all buckets but the last
			want = max(want, got)
		}
		if got != want {
			t.Errorf("key %d, number %d of its bucket: %d reads, want %d", k, l.rank[k], got, want)
		}
		if all <= int(l.rank[k]) {
			t.Errorf("key %d is not among the %d that were fetched", k, all)
		}
	}
	if c.reads(keys) != 0 {
		t.Error("a key that was not inserted is there")
	}
}
