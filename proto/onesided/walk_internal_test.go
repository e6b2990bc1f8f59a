package onesided

import (
	"testing"

	"drtmd/proto"
	"drtmd/proto/protocol"
)

// seen is a table at which a glance sees some keys.
type seen struct {
	protocol.OrderedIndex
	keys []uint64
	ok   bool
}

func (s *seen) Glance(_, _ uint64, f func(uint64, int) bool) bool {
	for _, k := range s.keys {
		if !f(k, 1) {
			break
		}
	}
	return s.ok
}

// TestAGlanceAtARangeThatChangesIsNotTaken: PeekRange gives each key once, in its order, as a region finds them.
func TestAGlanceAtARangeThatChangesIsNotTaken(t *testing.T) {
	for _, x := range []struct {
		name string
		keys []uint64
		down bool
		ok   bool
		want bool
	}{
		{"ascending", []uint64{1, 2, 5}, false, true, true},
		{"descending", []uint64{5, 2, 1}, true, true, true},
		{"nothing", nil, false, true, true},
		{"more than wanted", []uint64{1, 2, 3, 4, 4}, false, true, true},
		{"a key twice", []uint64{1, 2, 2}, false, true, false},
		{"a key twice on the way down", []uint64{5, 2, 2}, true, true, false},
		{"a key that has moved", []uint64{1, 5, 2}, false, true, false},
		{"the wrong way", []uint64{1, 2}, true, true, false},
		{"what no table has", []uint64{1, 2}, false, false, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := walk{list: make([]pair, 4)}
			w.take = w.add
			from, to := proto.Key(0), proto.Key(9)
			if x.down {
				from, to = to, from
			}
			if got := w.glance(&seen{keys: x.keys, ok: x.ok}, from, to); got != x.want {
				t.Errorf("taken: %t, want %t", got, x.want)
			}
			if n := min(len(x.keys), 4); w.n != n {
				t.Errorf("%d keys, want %d", w.n, n)
			}
		})
	}
	if w := (walk{}); w.glance(struct{ protocol.OrderedIndex }{}, 0, 9) {
		t.Error("a table that cannot be looked at was")
	}
}
