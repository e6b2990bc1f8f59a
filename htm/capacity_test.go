package htm

import (
	"math/rand/v2"
	"testing"

	"drtmd/verbs/lineword"
)

func TestCapacityIsThatOfTheCache(t *testing.T) {
	g := Geometry{LineBytes: 64, Sets: 4, Ways: 2, ReadLines: 20}
	run := func(from, step, n int, store bool) (done int, code Code) {
		bed := newBed(256, 1)
		r := NewRegion(Config{Geometry: g})
		r.Begin()
		for i := range n {
			off := (from + i*step) * LineBytes
			if store && !r.Store64(bed.memories[0], off, 1) {
				break
			}
			if _, ok := r.Load64(bed.memories[0], off); !ok {
				break
			}
			done++
		}
		code, _ = r.Aborted()
		if (code == 0) != r.Commit(nil) {
			t.Error("abort code and commit differ")
		}
		return done, code
	}
	for _, c := range []struct {
		name          string
		from, step, n int
		store         bool
		done          int
		code          Code
	}{
		{"consecutive writes fill the cache", 0, 1, 8, true, 8, 0},
		{"one more does not fit", 0, 1, 9, true, 8, Capacity},
		{"a set overflows long before", 1, 4, 3, true, 2, Capacity},
		{"reads are not held to the sets", 1, 4, 20, false, 20, 0},
		{"but counted", 0, 1, 21, false, 20, Capacity},
	} {
		t.Run(c.name, func(t *testing.T) {
			if done, code := run(c.from, c.step, c.n, c.store); done != c.done || code != c.code {
				t.Errorf("%d accesses, %s; want %d, %s", done, code, c.done, c.code)
			}
		})
	}
	t.Run("lines written twice count once", func(t *testing.T) {
		bed := newBed(8, 1)
		r := NewRegion(Config{Geometry: g})
		for range 3 { // and the count starts anew with each region
			r.Begin()
			for range 10 {
				for i := range 8 {
					r.Store64(bed.memories[0], i*LineBytes, 1)
				}
			}
			if len(r.written) != 8 || !r.Commit(nil) {
				t.Errorf("%d lines written", len(r.written))
			}
		}
	})
	t.Run("a journal that is too short", func(t *testing.T) {
		bed := newBed(8, 0)
		m := NewMemory(bed.bytes, bed.words, 1, make([]uint64, lineword.JournalWords(1)))
		r := NewRegion(Config{})
		r.Begin()
		if !r.Store64(m, 0, 1) || r.Store64(m, 64, 1) {
			t.Error("a write set that the journal has no room for")
		}
		if c, _ := r.Aborted(); c != Capacity {
			t.Errorf("aborted by %s", c)
		}
	})
}

// TestRandomWritesOverflowASetEarly is the shape of DrTM Figure 2: lines drawn at random fill a set
// of the cache long before the cache, consecutive ones do not.
func TestRandomWritesOverflowASetEarly(t *testing.T) {
	const lines, trials = 1 << 15, 100
	g := DefaultGeometry()
	capacity := g.Sets * g.Ways
	bed := newBed(lines, 0)
	m := NewMemory(bed.bytes, bed.words, 1, make([]uint64, lineword.JournalWords(capacity)))
	r := NewRegion(Config{Geometry: g})
	rng := rand.New(rand.NewPCG(1, 1))
	written := func(next func(i int) int) int {
		r.Begin()
		for i := 0; r.Active(); i++ {
			r.Store64(m, next(i)*LineBytes, 1)
		}
		if c, _ := r.Aborted(); c != Capacity {
			t.Fatalf("aborted by %s", c)
		}
		return len(r.written)
	}
	if n := written(func(i int) int { return i }); n != capacity {
		t.Errorf("%d consecutive lines fit, want %d", n, capacity)
	}
	sum := 0
	for range trials {
		sum += written(func(int) int { return rng.IntN(lines) })
	}
	// 64 sets of 8: the first to get a ninth line does so after about 225 of 512.
	if mean := sum / trials; mean < capacity/4 || mean > capacity/2 {
		t.Errorf("%d random lines fit on average, of %d", mean, capacity)
	}
}
