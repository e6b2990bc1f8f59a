package records

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tableErrors are what the shared tests of tables expect.
var tableErrors = tabletest.Errors{Full: store.ErrFull, Key: store.ErrKey, Exists: store.ErrExists,
	ValueSize: store.ErrValueSize, NoEntry: store.ErrNoEntry, Live: store.ErrLive, State: store.ErrState}

func newTable(t testing.TB, c Config) *Table {
	t.Helper()
	return tabletest.New(t, c, Format)
}

// TestLoadedKeysAreFoundAndOthersAreNot.
func TestLoadedKeysAreFoundAndOthersAreNot(t *testing.T) {
	tabletest.LoadedKeysAreFound(t, newTable(t, For(1, "t", 8, 1000)), checkTable, tableErrors)
}

// TestEveryTableHasTheRoomThatForPromises, with an index that begins large or small.
func TestEveryTableHasTheRoomThatForPromises(t *testing.T) {
	for _, n := range []int{1, 2, 64, 1000, 50_000} {
		for _, keys := range []int{0, 1} {
			c := For(1, "t", 8, n)
			c.Keys = keys
			table := newTable(t, c)
			for k := range uint64(c.Entries) {
				table.Prefetch(k)
				if err := table.Load(k, tabletest.Value(8, k)); err != nil {
					t.Fatalf("key %d of %d, %+v: %v", k, n, table.Occupancy(), err)
				}
			}
			if err := checkTable(table); err != nil {
				t.Fatal(err)
			}
			if err := table.Load(1<<40, tabletest.Value(8, 0)); !errors.Is(err, store.ErrEntriesFull) {
				t.Errorf("one more: %v", err)
			}
			if bytes := table.Occupancy().Bytes; bytes > table.Config().index().MaxBytes {
				t.Errorf("the index has %d bytes, and its bound is %d", bytes, table.Config().index().MaxBytes)
			}
		}
	}
}

// TestConfigIsRefusedInWords.
func TestConfigIsRefusedInWords(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*Config)
		want error
		text string
	}{
		{"no values", func(c *Config) { c.ValueBytes = 0 }, store.ErrValueBytes, "from 1 to 4096"},
		{"large values", func(c *Config) { c.ValueBytes = 4097 }, store.ErrValueBytes, "values of 4097 bytes"},
		{"unknown layout", func(c *Config) { c.Layout = 99 }, store.ErrLayout, "layout(99)"},
		{"no records", func(c *Config) { c.Entries = 0 }, store.ErrSize, "0 records"},
		{"an index for fewer than none", func(c *Config) { c.Keys = -1 }, store.ErrSize, "-1 keys"},
		{"more than memory can have", func(c *Config) { c.Entries = 1 << 45 }, store.ErrSize, "at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := For(1, "accounts", 8, 100)
			c.edit(&x)
			tabletest.ConfigIsRefused(t, x, Format, c.want, c.text, `"accounts"`)
		})
	}
}

// TestAttachRefusesAnotherTable.
func TestAttachRefusesAnotherTable(t *testing.T) {
	c := For(1, "t", 8, 100)
	m := newTable(t, c).m
	tabletest.AttachRefusesOthers(t, c, m, Attach, store.ErrNotTable, map[string]func(*Config){
		"id":          func(c *Config) { c.ID++ },
		"value bytes": func(c *Config) { c.ValueBytes++ },
		"records":     func(c *Config) { c.Entries-- },
		"layout":      func(c *Config) { c.Layout = layout.KindLineVersions },
	})
}

// TestSpentIncarnationsAreRefused: versions would wrap.
func TestSpentIncarnationsAreRefused(t *testing.T) {
	for _, m := range []Mutation{0, NoSpent} {
		c := For(1, "t", 8, 10)
		c.Mutation = m
		table := newTable(t, c)
		table.setWord(countersAt, 1<<32-2)
		if _, _, err := ensured(t, table, 1); errors.Is(err, store.ErrSpent) != (m == 0) {
			t.Errorf("mutation %v: %v", m, err)
		}
	}
}

// ensured makes the record of a key, unlocked.
func ensured(t testing.TB, table *Table, key uint64) (off int, v layout.Version, err error) {
	t.Helper()
	r := htm.NewRegion(htm.Config{})
	r.Begin()
	off, v, ok, err := table.EnsureIn(r, key, 0)
	if !ok || !r.Commit(nil) {
		t.Fatal("the region has aborted")
	}
	return off, v, err
}

// reclaimed gives the record of a key back that nobody is to have locked.
func reclaimed(t testing.TB, table *Table, key uint64) error {
	t.Helper()
	r := htm.NewRegion(htm.Config{})
	r.Begin()
	ok, err := table.ReclaimIn(r, key, 0)
	if !ok || !r.Commit(nil) {
		t.Fatal("the region has aborted")
	}
	return err
}

// TestARegionThatHasAbortedChangesNothing.
func TestARegionThatHasAbortedChangesNothing(t *testing.T) {
	table := newTable(t, For(1, "t", 8, 10))
	r := htm.NewRegion(htm.Config{})
	r.Begin()
	r.Abort(1)
	if _, _, ok, err := table.EnsureIn(r, 1, 0); ok || err != nil {
		t.Errorf("ensured: %v, %v", ok, err)
	}
	if _, found, ok := table.FindIn(r, 1); found || ok {
		t.Errorf("found %v, and the region runs: %v", found, ok)
	}
	if ok, err := table.ReclaimIn(r, 1, 0); ok || err != nil {
		t.Errorf("given back: %v, %v", ok, err)
	}
	if err := checkTable(table); err != nil {
		t.Error(err)
	}
}

// TestWhatSomebodyHoldsIsLeftAlone: a free place that is locked is not taken, and a record that is locked, or has a
// value, is not given back. With the step left out it is.
func TestWhatSomebodyHoldsIsLeftAlone(t *testing.T) {
	const key = 7
	for _, x := range []struct {
		name     string
		mutation Mutation
		held     func(t *testing.T, table *Table) (left bool) // whether it was left alone
	}{
		{"a free place that is locked", TakeLocked, func(t *testing.T, table *Table) bool {
			place, _, err := ensured(t, table, key)
			if err != nil || reclaimed(t, table, key) != nil {
				t.Fatal(err)
			}
			table.setWord(place+layout.StateOffset, 3)
			off, _, err := ensured(t, table, key)
			if err != nil {
				t.Fatal(err)
			}
			return off != place
		}},
		{"a record that is locked", ReclaimAnyState, func(t *testing.T, table *Table) bool {
			off, _, err := ensured(t, table, key)
			if err != nil {
				t.Fatal(err)
			}
			table.setWord(off+layout.StateOffset, 3)
			return errors.Is(reclaimed(t, table, key), store.ErrState)
		}},
		{"a record with a value", ReclaimLive, func(t *testing.T, table *Table) bool {
			if err := table.Load(key, tabletest.Value(8, 1)); err != nil {
				t.Fatal(err)
			}
			return errors.Is(reclaimed(t, table, key), store.ErrLive)
		}},
		{"the key of a free place", KeepKey, func(t *testing.T, table *Table) bool {
			off, _, err := ensured(t, table, key)
			if err != nil || reclaimed(t, table, key) != nil {
				t.Fatal(err)
			}
			return table.word(off+layout.KeyOffset) == layout.NoKey
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			for _, m := range []Mutation{0, x.mutation} {
				c := Config{ID: 1, Name: "t", ValueBytes: 8, Entries: 16, Mutation: m}
				if got, want := x.held(t, newTable(t, c)), m == 0; got != want {
					t.Errorf("mutation %v: left alone is %v", m, got)
				}
			}
		})
	}
}

// TestTheHotPathAllocatesNothing.
func TestTheHotPathAllocatesNothing(t *testing.T) {
	table := newTable(t, For(1, "t", 8, 100))
	for k := range uint64(100) {
		if err := table.Load(k, tabletest.Value(8, k)); err != nil {
			t.Fatal(err)
		}
	}
	r := htm.NewRegion(htm.Config{})
	if n := testing.AllocsPerRun(100, func() {
		table.Prefetch(7)
		table.Find(5)
		r.Begin()
		table.FindIn(r, 6)
		_, _, _, _ = table.EnsureIn(r, 1000, 0)
		r.Commit(nil)
		r.Begin()
		_, _ = table.ReclaimIn(r, 1000, 0)
		r.Commit(nil)
	}); n > 0 {
		t.Errorf("%.0f allocations", n)
	}
}
