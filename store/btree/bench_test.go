package btree

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
)

// benchBatch is the number of operations between two looks at the clock.
const benchBatch = 64

// BenchmarkTree loads random keys into a tree and into package store's hash table, and then, in turns of one
// run, finds a key in regions of both (x-find is how much longer the tree takes), scans 10 and 100 records,
// and makes and gives back an entry. levels is the height of the tree.
func BenchmarkTree(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		if testing.Short() {
			n /= 100
		}
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) { benchmarkTree(b, n) })
	}
}

func benchmarkTree(b *testing.B, n int) {
	c, h := For(1, "tree", 8, n), store.For(1, "hash", 8, n)
	tree := newTable(b, c)
	bytes := tabletest.Aligned(h.Bytes())
	hash, err := store.Format(h, htm.NewMemory(bytes, make([]uint64, len(bytes)/layout.LineBytes), 1, nil), 0)
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	keys, one := make([]uint64, n), tabletest.Value(8, 1)
	for i := range keys {
		keys[i] = random.Uint64() &^ 1
		if tree.Load(keys[i], one) != nil || hash.Load(keys[i], one) != nil {
			b.Fatal("loading key ", keys[i])
		}
	}
	r := htm.NewRegion(htm.Config{})
	commit := func() {
		if !r.Commit(nil) {
			b.Fatal("a region that was alone aborted")
		}
	}
	var seen, limit int
	count := func(uint64, int) bool { seen++; return seen < limit }
	ways := []struct {
		unit string
		run  func(key uint64)
	}{
		{"hash-find", func(key uint64) { r.Begin(); hash.FindIn(r, key); commit() }},
		{"find", func(key uint64) { r.Begin(); tree.FindIn(r, key); commit() }},
		{"scan10", func(key uint64) { seen, limit = 0, 10; r.Begin(); tree.Scan(r, key, ^uint64(0), count); commit() }},
		{"scan100", func(key uint64) { seen, limit = 0, 100; r.Begin(); tree.Scan(r, key, ^uint64(0), count); commit() }},
		{"insert+delete", func(key uint64) {
			r.Begin()
			_, _, _, _ = tree.EnsureIn(r, key|1, 0)
			commit()
			r.Begin()
			_, _ = tree.ReclaimIn(r, key|1, 0)
			commit()
		}},
	}
	spent := make([]time.Duration, len(ways))
	done := 0
	b.ReportAllocs()
	for b.Loop() {
		for i, w := range ways {
			start := time.Now()
			for j := range benchBatch {
				w.run(keys[(done+j+i*n/len(ways))%n])
			}
			spent[i] += time.Since(start)
		}
		done += benchBatch
	}
	for i, w := range ways {
		b.ReportMetric(float64(spent[i])/float64(done), "ns/"+w.unit)
	}
	b.ReportMetric(float64(spent[1])/float64(spent[0]), "x-find")
	b.ReportMetric(float64(tree.Occupancy().Height), "levels")
	b.ReportMetric(0, "ns/op")
	if err := checkTable(tree); err != nil {
		b.Fatal(err)
	}
}
