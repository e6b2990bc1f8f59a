package robinhood

import (
	"errors"
	"testing"

	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
	"drtmd/store/words"
)

// lockSlot locks what stands at an offset.
func lockSlot(table *Table, off int) {
	words.Plain{Base: table.base}.Store(off+layout.StateOffset, 3)
}

// TestWhatSomebodyHoldsIsLeftAlone: a free slot that is locked is not taken, a record that is locked does not move, and
// one that is locked, or has a value, is not given back. With the step left out it is so.
func TestWhatSomebodyHoldsIsLeftAlone(t *testing.T) {
	const key = 7
	for _, x := range []struct {
		name     string
		mutation Mutation
		held     func(t *testing.T, m Mutation) (left bool) // whether it was left alone
	}{
		{"a free slot that is locked", TakeLocked, func(t *testing.T, m Mutation) bool {
			table := newTable(t, crowded(m))
			lockSlot(table, table.p.Slot(0))
			return inserted(t, table, key, 0) != table.p.Slot(0)
		}},
		{"the state of a free slot", KeepState, func(t *testing.T, m Mutation) bool {
			table := newTable(t, crowded(m))
			off := inserted(t, table, key, 4)
			return table.word(off+layout.StateOffset) == 4
		}},
		{"a record that is locked and would move", MoveLocked, func(t *testing.T, m Mutation) bool {
			table, moves := displacing(t, m)
			off, _ := table.Find(moves)
			lockSlot(table, off)
			inserted(t, table, displacer(table, moves), 0)
			now, _ := table.Find(moves)
			return now == off
		}},
		{"a record that is locked and would be given back", ReclaimAnyState, func(t *testing.T, m Mutation) bool {
			table := newTable(t, crowded(m))
			lockSlot(table, inserted(t, table, key, 0))
			return errors.Is(reclaimed(t, table, key), store.ErrState)
		}},
		{"a record with a value", ReclaimLive, func(t *testing.T, m Mutation) bool {
			table := newTable(t, crowded(m))
			if err := table.Load(key, tabletest.Value(8, 1)); err != nil {
				t.Fatal(err)
			}
			return errors.Is(reclaimed(t, table, key), store.ErrLive)
		}},
		{"the incarnation of a record that was given back", NoCounter, func(t *testing.T, m Mutation) bool {
			table := newTable(t, crowded(m))
			off := inserted(t, table, key, 0)
			was := layout.Version(table.word(off + layout.VersionOffset)).Inserted().Deleted()
			table.setWord(off+layout.VersionOffset, uint64(was))
			if err := reclaimed(t, table, key); err != nil {
				t.Fatal(err)
			}
			off = inserted(t, table, key, 0)
			return layout.Version(table.word(off+layout.VersionOffset)) > was
		}},
		{"a record that moved away from its home", DisplacementKept, func(t *testing.T, m Mutation) bool {
			table, moves := displacing(t, m)
			inserted(t, table, displacer(table, moves), 0)
			_, found := table.Find(moves)
			return found && checkTable(table) == nil
		}},
		{"a record as far from home as one that is given back", LoweredEarly, func(t *testing.T, m Mutation) bool {
			table := newTable(t, Config{ID: 1, Name: "t", ValueBytes: 8, Homes: 4, Limit: 3, Blocks: 1, Mutation: m})
			key := uint64(0)
			var keys []uint64
			for _, home := range []int{0, 0, 2, 2} { // in slots 0 to 3: of each home, one is a slot away
				key = keyOf(table, home, key+1)
				inserted(t, table, key, 0)
				keys = append(keys, key)
			}
			if err := reclaimed(t, table, keys[3]); err != nil {
				t.Fatal(err)
			}
			_, found := table.Find(keys[1])
			return found && checkTable(table) == nil
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			for _, m := range []Mutation{0, x.mutation} {
				if got, want := x.held(t, m), m == 0; got != want {
					t.Errorf("mutation %v: left alone is %v", m, got)
				}
			}
		})
	}
}

// inserted makes the record of a key, absent and with a state.
func inserted(t *testing.T, table *Table, key, state uint64) (off int) {
	t.Helper()
	r := htm.NewRegion(htm.Config{})
	r.Begin()
	off, _, ok, err := table.EnsureIn(r, key, state)
	if !ok || err != nil || !r.Commit(nil) {
		t.Fatal(ok, err)
	}
	return off
}

// reclaimed gives the record of a key back that nobody is to have locked.
func reclaimed(t *testing.T, table *Table, key uint64) error {
	t.Helper()
	r := htm.NewRegion(htm.Config{})
	r.Begin()
	ok, err := table.ReclaimIn(r, key, 0)
	if !ok || !r.Commit(nil) {
		t.Fatal("the region has aborted")
	}
	return err
}

// TestADeletionFillsItsSlot (§4.1.2): with a record of the chain, or else with those behind it.
func TestADeletionFillsItsSlot(t *testing.T) {
	for _, x := range []struct {
		name        string
		limit       int
		taken, over int // after the deletion of one of four keys of one home
	}{{"from the chain", 2, 3, 0}, {"by a shift", 3, 3, 0}} {
		t.Run(x.name, func(t *testing.T) {
			table := newTable(t, Config{ID: 1, Name: "t", ValueBytes: 8, Homes: 8, Limit: x.limit, Blocks: 1})
			var keys []uint64
			for from := uint64(0); len(keys) < 4; from = keys[len(keys)-1] + 1 {
				keys = append(keys, keyOf(table, 0, from))
				inserted(t, table, keys[len(keys)-1], 0)
			}
			if err := reclaimed(t, table, keys[0]); err != nil {
				t.Fatal(err)
			}
			o := table.Occupancy()
			if o.Taken != x.taken || o.Overflowed != x.over || o.Linked != 0 {
				t.Errorf("%v", o)
			}
			if err := checkTable(table); err != nil {
				t.Error(err)
			}
			if key := table.word(table.p.Slot(0) + layout.KeyOffset); key == layout.NoKey {
				t.Error("the slot stays free")
			}
		})
	}
}

// TestALookUpTakesThePapersTrips (§4.1.3): one read with a hint that holds; a second, adjacent one behind a hint that
// is too low; the overflow page as the second where there is one. Without NoSecondRead it takes the segment word, too.
func TestALookUpTakesThePapersTrips(t *testing.T) {
	c := Config{ID: 1, Name: "t", ValueBytes: 8, Homes: 8, Limit: 3, Blocks: 1}
	table := newTable(t, c)
	var keys []uint64
	for from := uint64(0); len(keys) < 5; from = keys[len(keys)-1] + 1 {
		keys = append(keys, keyOf(table, 0, from))
		inserted(t, table, keys[len(keys)-1], 0)
	}
	full := layout.Segment(table.word(table.p.Word(0)))
	for _, x := range []struct {
		name          string
		mutation      Mutation
		key           uint64
		hint          layout.Segment
		pieces, slots int
	}{
		{"in its home", 0, keys[0], full, 1, 4},
		{"behind a low hint", 0, keys[1], full.Linked(0).Displaced(0), 2, 4},
		{"behind a low hint, without a second read", NoSecondRead, keys[1], full.Linked(0).Displaced(0), 3, 5},
		{"in overflow", 0, keys[4], full, 2, 4},
	} {
		t.Run(x.name, func(t *testing.T) {
			c.Mutation = x.mutation
			v := MakeView(c, 0)
			var p Probe
			for p.Start(&v, x.key, x.hint, true); !p.Done(); {
				off, n := p.Next()
				p.Feed(table.m.Bytes[off : off+n])
			}
			if pieces, slots := p.Cost(); p.Err() != nil || pieces != x.pieces || slots != x.slots {
				t.Errorf("%v, %d pieces, %d slots, want %d and %d", p.Err(), pieces, slots, x.pieces, x.slots)
			}
		})
	}
}
