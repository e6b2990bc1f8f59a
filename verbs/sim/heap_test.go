package sim

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The heap against a sorted list: push, pop and filter in any order.
func TestHeapGivesEntriesInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h eventHeap
		var model []entry
		seq := uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				seq++
				e := newEntry(Time(rapid.IntRange(0, 20).Draw(t, "at")), seq,
					uint32(seq*7919%maxSlots))
				h.push(e)
				model = append(model, e)
				slices.SortFunc(model, func(a, b entry) int {
					if a.before(&b) {
						return -1
					}
					return 1
				})
			},
			"pop": func(t *rapid.T) {
				if len(model) == 0 {
					t.Skip("empty")
				}
				if got := h.pop(); got != model[0] {
					t.Fatalf("pop gave %+v, want %+v", got, model[0])
				}
				model = model[1:]
			},
			"filter": func(t *rapid.T) {
				m := uint32(rapid.IntRange(2, 5).Draw(t, "modulus"))
				keep := func(e entry) bool { return e.slot()%m != 0 }
				h.filter(keep)
				model = slices.DeleteFunc(slices.Clone(model), func(e entry) bool { return !keep(e) })
			},
			"": func(t *rapid.T) {
				if h.len() != len(model) {
					t.Fatalf("%d entries, want %d", h.len(), len(model))
				}
				for i := 1; i < h.len(); i++ {
					if h.a[i].before(&h.a[(i-1)/4]) {
						t.Fatalf("entry %d is before its parent", i)
					}
				}
			},
		})
	})
}

// The loop against a model: calls run in the order of time and scheduling, canceled ones never.
func TestCallsRunInOrderAndCanBeCanceled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		type call struct {
			at   Time
			n    int
			t    Timer
			dead bool
		}
		var calls []*call
		var ran []int
		for i := range rapid.IntRange(1, 300).Draw(t, "calls") {
			c := &call{at: Time(rapid.IntRange(0, 50).Draw(t, "at")), n: i}
			c.t = w.At(c.at, func() {
				ran = append(ran, c.n)
				if w.Now() != c.at {
					t.Fatalf("call for %s ran at %s", c.at, w.Now())
				}
			})
			calls = append(calls, c)
			if rapid.IntRange(0, 2).Draw(t, "cancel") == 0 {
				victim := calls[rapid.IntRange(0, len(calls)-1).Draw(t, "victim")]
				if w.Cancel(victim.t) == victim.dead {
					t.Fatalf("Cancel of call %d, dead: %v", victim.n, victim.dead)
				}
				victim.dead = true
			}
		}
		if err := w.Run(); err != nil {
			t.Fatal(err)
		}
		var want []int
		slices.SortStableFunc(calls, func(a, b *call) int { return int(a.at - b.at) })
		for _, c := range calls {
			if !c.dead {
				want = append(want, c.n)
			}
			if w.Cancel(c.t) {
				t.Fatalf("call %d could be canceled after it ran", c.n)
			}
		}
		if !slices.Equal(ran, want) {
			t.Fatalf("ran %v, want %v", ran, want)
		}
	})
}

// What is scheduled for now comes after everything that was scheduled for the same time before.
func TestCallsForNowRunBehindTheOthersOfNow(t *testing.T) {
	w, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	ran := ""
	note := func(s string) func() { return func() { ran += s } }
	var e Timer
	w.At(10, func() {
		ran += "a"
		w.After(0, func() {
			ran += "d"
			w.After(1, note("h"))
			w.After(0, note("g"))
		})
		e = w.After(0, note("e"))
		w.At(5, note("f")) // the past is now
	})
	w.At(10, note("b"))
	w.At(10, func() {
		ran += "c"
		if !w.Cancel(e) || w.Cancel(e) || w.Pending() != 3 {
			t.Errorf("%d pending", w.Pending())
		}
	})
	w.At(11, note("i")) // scheduled before h
	if err := w.RunUntil(10); err != nil || ran != "abcdfg" || w.Pending() != 2 {
		t.Errorf("ran %s, %d pending, %v", ran, w.Pending(), err)
	}
	if err := w.Run(); err != nil || ran != "abcdfgih" {
		t.Errorf("ran %s, %v", ran, err)
	}
}
