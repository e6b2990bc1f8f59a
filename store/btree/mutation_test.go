package btree

import (
	"errors"
	"testing"

	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/layout"
)

// TestEachMutationIsFound: for every deliberate bug there is a check that passes without it and fails with it.
func TestEachMutationIsFound(t *testing.T) {
	holds := map[Mutation]func(t *testing.T, c Config) bool{
		NoCounter: func(t *testing.T, c Config) bool {
			table := newTable(t, c)
			v := remade(t, table, 5, layout.FirstVersion.Deleted(), 0)
			return v > layout.FirstVersion.Deleted()
		},
		KeepState: func(t *testing.T, c Config) bool {
			table := newTable(t, c)
			table.setWord(table.entriesAt+layout.StateOffset, 8) // a lease
			for off := table.entriesAt; off < table.end; off += table.stride {
				table.setWord(off+layout.StateOffset, 8)
			}
			r, place := htm.NewRegion(htm.Config{}), 0
			in(t, r, func() (ok bool) { place, _, ok, _ = table.EnsureIn(r, 5, 0); return ok })
			return wordIn(table, place+layout.StateOffset) == 0
		},
		TakeLocked: func(t *testing.T, c Config) bool {
			table := newTable(t, c)
			remade(t, table, 5, layout.FirstVersion.Deleted(), 0)
			r, first, second := htm.NewRegion(htm.Config{}), 0, 0
			in(t, r, func() (ok bool) { first, _, ok, _ = table.EnsureIn(r, 6, 0); return ok })
			in(t, r, func() (ok bool) { ok, _ = table.ReclaimIn(r, 6, 0); return ok })
			table.setWord(first+layout.StateOffset, 1) // somebody with an old address
			in(t, r, func() (ok bool) { second, _, ok, _ = table.EnsureIn(r, 7, 0); return ok })
			return first != second
		},
		ReclaimLive: func(t *testing.T, c Config) bool {
			table := spread(t, c, 5)
			r := htm.NewRegion(htm.Config{})
			r.Begin()
			ok, err := table.ReclaimIn(r, 10, 0)
			return ok && errors.Is(err, store.ErrLive)
		},
		ReclaimAnyState: func(t *testing.T, c Config) bool {
			table, r := newTable(t, c), htm.NewRegion(htm.Config{})
			in(t, r, func() bool { _, _, ok, _ := table.EnsureIn(r, 5, 1); return ok })
			r.Begin()
			ok, err := table.ReclaimIn(r, 5, 0)
			return ok && errors.Is(err, store.ErrState)
		},
		AbsenceOutside: func(t *testing.T, c Config) bool { return absenceHolds(t, spread(t, c, 20), 55) },
		NextLeafUnprotected: func(t *testing.T, c Config) bool {
			return !phantom(t, spread(t, c, 90), 100, 800, 90, 795, true)
		},
		SplitUnlinked: func(t *testing.T, c Config) bool {
			table, n := spread(t, c, 90), 0
			table.Each(func(int) bool { n++; return true })
			return n == 90 && checkTable(table) == nil
		},
		Uncounted:     func(t *testing.T, c Config) bool { return changesAreCounted(t, c) == nil },
		ExtentsUnread: func(t *testing.T, c Config) bool { return extentsAreRead(t, c) },
		NoSpent:       func(t *testing.T, c Config) bool { return spentIsRefused(newTable(t, c)) },
		FingerKept:    manyKeysInARegion,
		Unnoted:       func(_ *testing.T, c Config) bool { return cutsArePutBack(c) == nil },
	}
	for m := Mutation(1); m < mutationEnd; m++ {
		t.Run(m.String(), func(t *testing.T) {
			c := For(1, "t", 8, 100)
			if holds[m] == nil || !holds[m](t, c) {
				t.Fatal("there is no check that correct tables pass")
			}
			if c.Mutation = m; holds[m](t, c) {
				t.Error("the check does not find it")
			}
		})
	}
}

// remade makes an entry for a key, gives it back at a version, and makes another one, whose version it gives.
func remade(t testing.TB, table *Table, key uint64, v layout.Version, state uint64) (again layout.Version) {
	t.Helper()
	r := htm.NewRegion(htm.Config{})
	in(t, r, func() bool {
		off, _, ok, err := table.EnsureIn(r, key, state)
		return ok && err == nil && r.Store64(table.m, off+layout.VersionOffset, uint64(v))
	})
	in(t, r, func() bool { ok, err := table.ReclaimIn(r, key, state); return ok && err == nil })
	in(t, r, func() (ok bool) { _, again, ok, _ = table.EnsureIn(r, key, state); return ok })
	return again
}
