package btree

import (
	"math/rand/v2"
	"testing"

	"drtmd/htm"
)

// manyKeysInARegion makes, looks up and takes out keys of the same leaves in one region, in orders that take turns: up,
// as the lines of an order come, and at random. It reports whether each is found where it was put, and no other.
func manyKeysInARegion(t *testing.T, c Config) bool {
	for seed := range uint64(8) {
		table, r := newTable(t, c), htm.NewRegion(htm.Config{})
		random := rand.New(rand.NewPCG(seed, 1))
		keys := random.Perm(60)
		if seed%2 == 0 {
			for i := range keys {
				keys[i] = i
			}
		}
		places := map[uint64]int{}
		agrees := func(k uint64) bool {
			off, found, ok := table.FindIn(r, k)
			return ok && off == places[k] && found == (places[k] != 0)
		}
		right := true
		in(t, r, func() bool {
			for i, k := range keys {
				key := uint64(k)
				right = right && agrees(key) && agrees(key+1)
				off, _, ok, err := table.EnsureIn(r, key, 0)
				if right = right && ok && err == nil && off != 0; !right {
					return r.Active()
				}
				places[key] = off
				old := uint64(keys[i/2])
				right = agrees(key) && agrees(old)
				if i%5 == 4 && places[old] != 0 {
					// A new entry is absent.
					ok, err := table.ReclaimIn(r, old, 0)
					right = right && ok && err == nil
					delete(places, old)
					right = right && agrees(old) && agrees(key)
				}
			}
			return r.Active()
		})
		if !right || checkTable(table) != nil {
			return false
		}
		for k := range uint64(len(keys)) {
			if off, found := table.Find(k); off != places[k] || found != (places[k] != 0) {
				return false
			}
		}
	}
	return true
}

// TestAFingerIsOfItsRegion: another region, and another run of the same one, see what others have changed meanwhile.
func TestAFingerIsOfItsRegion(t *testing.T) {
	table := spread(t, For(1, "t", 8, 300), 90)
	mine, others := htm.NewRegion(htm.Config{}), htm.NewRegion(htm.Config{})
	for key := uint64(1); key < 900; key += 2 {
		mine.Begin()
		if _, found, ok := table.FindIn(mine, key); found || !ok {
			t.Fatalf("key %d is there before it was made", key)
		}
		var place int
		if key%3 == 0 {
			in(t, others, func() (ok bool) { place, _, ok, _ = table.EnsureIn(others, key, 0); return ok })
		}
		mine.Abort(1)
		in(t, mine, func() bool {
			off, found, ok := table.FindIn(mine, key)
			if found != (place != 0) || off != place {
				t.Fatalf("key %d: %d, %t; it was put to %d", key, off, found, place)
			}
			return ok
		})
	}
	if err := checkTable(table); err != nil {
		t.Error(err)
	}
}

// TestFindSeesWhatOthersHaveChangedInItsLeaf: it begins where it has found the last key, and another worker splits and
// merges the leaves there, and gives their nodes to others.
func TestFindSeesWhatOthersHaveChangedInItsLeaf(t *testing.T) {
	const keys = 200
	c := For(1, "t", 8, keys)
	table := newTable(t, c)
	mine, err := Attach(c, table.m, table.at)
	if err != nil {
		t.Fatal(err)
	}
	random, r := rand.New(rand.NewPCG(1, 1)), htm.NewRegion(htm.Config{})
	places := map[uint64]int{}
	for round := range 200 {
		first := uint64(random.IntN(keys))
		for key := first; key < min(first+20, keys); key++ {
			in(t, r, func() bool {
				if round%3 == 2 && places[key] != 0 {
					ok, err := table.ReclaimIn(r, key, 0)
					delete(places, key)
					return ok && err == nil
				}
				off, _, ok, err := table.EnsureIn(r, key, 0)
				places[key] = off
				return ok && err == nil
			})
			glanced := keysFrom(t, mine, key/2)
			for k := key / 2; k < keys; k++ {
				if place := glanced[k]; place != places[k] {
					t.Fatalf("a glance at key %d: %d; it was put to %d", k, place, places[k])
				}
			}
			for _, k := range []uint64{key, key + 1, first, uint64(random.IntN(keys))} {
				if off, found := mine.Find(k); off != places[k] || found != (places[k] != 0) {
					t.Fatalf("key %d: %d, %t; it was put to %d", k, off, found, places[k])
				}
			}
		}
	}
	if err := checkTable(table); err != nil {
		t.Error(err)
	}
}

// keysFrom are the places of all keys from one on, in one glance.
func keysFrom(t *testing.T, table *Table, from uint64) map[uint64]int {
	t.Helper()
	found, last := map[uint64]int{}, uint64(0)
	if !table.Glance(from, 1<<40, func(key uint64, place int) bool {
		if len(found) > 0 && key <= last {
			t.Fatalf("key %d comes behind key %d", key, last)
		}
		found[key], last = place, key
		return true
	}) {
		t.Fatal("a glance met what no table has")
	}
	return found
}
