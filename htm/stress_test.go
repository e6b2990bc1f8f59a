package htm

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"drtmd/verbs/lineword"
)

// TestThreadsConserveTheSum moves amounts between words of few lines from several threads, with
// readers that sum them up: every sum, seen inside a region too, is the same.
func TestThreadsConserveTheSum(t *testing.T) {
	const (
		lines, writers, readers = 12, 3, 2
		start                   = 1000
	)
	moves := rounds(20_000)
	bed := newBed(lines, writers+readers)
	for i := range lines {
		write(bed.memories[0], i*LineBytes, start)
	}
	var wg sync.WaitGroup
	for k, m := range bed.memories {
		wg.Go(func() {
			r := NewRegion(Config{})
			rng := rand.New(rand.NewPCG(1, uint64(k)))
			for done := 0; done < moves; {
				r.Begin()
				if k < writers {
					move(r, m, rng, lines)
				} else if sum, ok := sumOf(r, m, lines); ok && sum != lines*start {
					t.Errorf("a region saw the sum %d", sum)
					return
				}
				if r.Commit(nil) {
					done += 1 + k/writers*9 // a sum is longer than a move
				} else {
					runtime.Gosched()
				}
			}
		})
	}
	wg.Wait()
	r := NewRegion(Config{})
	r.Begin()
	if sum, ok := sumOf(r, bed.memories[0], lines); !ok || sum != lines*start {
		t.Errorf("the sum is %d, want %d", sum, lines*start)
	}
	bed.unlocked(t)
}

// rounds is n, or less where everything is slow.
func rounds(n int) int {
	if raceEnabled {
		return n / 10
	}
	return n
}

// move takes 1 from one line and gives it to another.
func move(r *Region, m *Memory, rng *rand.Rand, lines int) {
	from, to := rng.IntN(lines)*LineBytes, rng.IntN(lines)*LineBytes
	if v, ok := r.Load64(m, from); ok {
		r.Store64(m, from, v-1)
	}
	if v, ok := r.Load64(m, to); ok {
		r.Store64(m, to, v+1)
	}
}

func sumOf(r *Region, m *Memory, lines int) (sum uint64, ok bool) {
	for i := range lines {
		v, ok := r.Load64(m, i*LineBytes)
		if !ok {
			return 0, false
		}
		sum += v
	}
	return sum, true
}

// TestDoomedRegionsSeeOneMoment has writers keep x == y and readers look at both, slowly: they must
// never see them differ, although most of their regions abort.
func TestDoomedRegionsSeeOneMoment(t *testing.T) {
	const x, y = 0, 5 * LineBytes
	writes := uint64(rounds(50_000))
	bed := newBed(8, 2)
	var wg sync.WaitGroup
	var stop sync.Once
	done := make(chan struct{})
	wg.Go(func() {
		defer stop.Do(func() { close(done) })
		r := NewRegion(Config{})
		for i := uint64(1); i <= writes; {
			r.Begin()
			r.Store64(bed.memories[0], x, i)
			r.Store64(bed.memories[0], y, i)
			if r.Commit(nil) {
				i++
			}
			if i%64 == 0 {
				runtime.Gosched()
			}
		}
	})
	wg.Go(func() {
		r := NewRegion(Config{})
		m := bed.memories[1]
		for {
			select {
			case <-done:
				return
			default:
			}
			r.Begin()
			a, _ := r.Load64(m, x)
			for range 20 {
				lineword.Pause()
			}
			if b, ok := r.Load64(m, y); ok && a != b {
				t.Errorf("x is %d and y is %d in one region", a, b)
				return
			}
			r.Commit(nil)
		}
	})
	wg.Wait()
	bed.unlocked(t)
}
