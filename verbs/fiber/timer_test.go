package fiber

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The heap against the obvious model: a sorted list of (time, order of setting).
func TestTimersFireInOrderOfTimeThenOfSetting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h timers
		pool := make([]timer, 8)
		type set struct{ at, seq, id int }
		var model []set
		var fired []int
		for i := range pool {
			pool[i].fire = func() { fired = append(fired, i) }
		}
		drop := func(id int) {
			model = slices.DeleteFunc(model, func(s set) bool { return s.id == id })
		}
		seq, now := 0, 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			id := rapid.IntRange(0, len(pool)-1).Draw(t, "timer")
			switch rapid.SampledFrom([]string{"set", "drop", "fire"}).Draw(t, "what") {
			case "set":
				at := now + rapid.IntRange(0, 20).Draw(t, "in")
				h.set(&pool[id], time.Duration(at))
				drop(id)
				seq++
				model = append(model, set{at, seq, id})
			case "drop":
				h.drop(&pool[id])
				drop(id)
			case "fire":
				now += rapid.IntRange(0, 10).Draw(t, "pass")
				slices.SortFunc(model, func(a, b set) int {
					if a.at != b.at {
						return a.at - b.at
					}
					return a.seq - b.seq
				})
				var want []int
				for len(model) > 0 && model[0].at <= now {
					want = append(want, model[0].id)
					model = model[1:]
				}
				fired = nil
				h.fire(time.Duration(now))
				if !slices.Equal(fired, want) {
					t.Fatalf("at %d fired %v, want %v", now, fired, want)
				}
			}
			if len(h.heap) != len(model) {
				t.Fatalf("%d timers set, want %d", len(h.heap), len(model))
			}
		}
	})
}
