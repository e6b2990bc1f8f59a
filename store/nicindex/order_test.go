package nicindex

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestAnOrderIsASortedSet: keys come and go, in many chunks; ranges in both directions are those of a sorted list, and what
// has changed in a range since a stamp is known.
func TestAnOrderIsASortedSet(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const space = 4000
	var keys []uint64
	o := NewOrder(nil, 0)
	low, high := uint64(1000), uint64(1200)
	since, changed := o.Stamp(), false
	for i := range 30_000 {
		k, live := uint64(r.IntN(space)), r.IntN(3) > 0
		at, is := slices.BinarySearch(keys, k)
		o.Set(k, live)
		switch {
		case live && !is:
			keys = slices.Insert(keys, at, k)
		case !live && is:
			keys = slices.Delete(keys, at, at+1)
		}
		changed = changed || live != is && low <= k && k <= high
		if o.Len() != len(keys) || o.Has(k) != live {
			t.Fatalf("%d keys, not %d; key %d: %v, not %v", o.Len(), len(keys), k, o.Has(k), live)
		}
		if unchanged := o.Unchanged(since, low, high); unchanged == changed {
			t.Fatalf("step %d: unchanged %v, and the range has changed: %v", i, unchanged, changed)
		}
		if i%7 == 0 {
			since, changed = o.Stamp(), false
			from, to, most := uint64(r.IntN(space)), uint64(r.IntN(space)), r.IntN(40)
			var want []uint64
			for _, k := range keys {
				if min(from, to) <= k && k <= max(from, to) {
					want = append(want, k)
				}
			}
			if from > to {
				slices.Reverse(want)
			}
			want = want[:min(most, len(want))]
			if got := o.Keys(nil, from, to, most); !slices.Equal(got, want) {
				t.Fatalf("step %d: from %d to %d at most %d: %v, not %v", i, from, to, most, got, want)
			}
		}
	}
	if got := NewOrder(slices.Clone(keys), 0).Keys(nil, 0, space, space); !slices.Equal(got, keys) {
		t.Errorf("an order of %d keys has %d", len(keys), len(got))
	}
	wrong := NewOrder([]uint64{1}, OrderUnstamped)
	if wrong.Set(1, false); !wrong.Unchanged(0, 0, 2) {
		t.Error("the mutation has no effect")
	}
	for range orderChanges + 1 {
		o.Set(space, !slices.Contains(o.Keys(nil, space, space, 1), space))
	}
	if o.Unchanged(since, 0, 0) {
		t.Error("more has changed than is remembered, and a range is said to be unchanged")
	}
}
