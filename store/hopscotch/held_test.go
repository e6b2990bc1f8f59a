package hopscotch

import (
	"errors"
	"testing"

	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
	"drtmd/store/words"
)

// TestWhatSomebodyHoldsIsLeftAlone: a free slot that is locked is not taken, and a record that is locked, or has a
// value, is not given back. With the step left out it is.
func TestWhatSomebodyHoldsIsLeftAlone(t *testing.T) {
	const key = 7
	for _, x := range []struct {
		name     string
		mutation Mutation
		held     func(t *testing.T, table *Table) (left bool) // whether it was left alone
	}{
		{"a free slot that is locked", TakeLocked, func(t *testing.T, table *Table) bool {
			slot := table.p.Slot(0)
			words.Plain{Base: table.base}.Store(slot+layout.StateOffset, 3)
			off := inserted(t, table, key)
			return off != slot
		}},
		{"a record that is locked", ReclaimAnyState, func(t *testing.T, table *Table) bool {
			words.Plain{Base: table.base}.Store(inserted(t, table, key)+layout.StateOffset, 3)
			return errors.Is(reclaimed(t, table, key), store.ErrState)
		}},
		{"a record with a value", ReclaimLive, func(t *testing.T, table *Table) bool {
			if err := table.Load(key, tabletest.Value(8, 1)); err != nil {
				t.Fatal(err)
			}
			return errors.Is(reclaimed(t, table, key), store.ErrLive)
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			for _, m := range []Mutation{0, x.mutation} {
				c := Config{ID: 1, Name: "t", ValueBytes: 8, Homes: 1, Blocks: 2, Mutation: m}
				if got, want := x.held(t, newTable(t, c)), m == 0; got != want {
					t.Errorf("mutation %v: left alone is %v", m, got)
				}
			}
		})
	}
}

// inserted makes the record of a key, absent and unlocked.
func inserted(t *testing.T, table *Table, key uint64) (off int) {
	t.Helper()
	r := htm.NewRegion(htm.Config{})
	r.Begin()
	off, _, ok, err := table.EnsureIn(r, key, 0)
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
