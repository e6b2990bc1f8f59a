package btree

import (
	"errors"
	"fmt"
	"testing"

	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
)

// spread loads keys 10, 20, ... so that the tree has several levels.
func spread(t testing.TB, c Config, n uint64) *Table {
	t.Helper()
	table := newTable(t, c)
	for k := range n {
		if err := table.Load(10*(k+1), tabletest.Value(c.ValueBytes, k)); err != nil {
			t.Fatal(err)
		}
	}
	return table
}

// phantom scans keys in a region, has another one insert or give back a key meanwhile, and reports whether
// the scan's region commits all the same.
func phantom(t testing.TB, table *Table, first, last uint64, limit int, key uint64, insert bool) (commits bool) {
	t.Helper()
	r, other := htm.NewRegion(htm.Config{}), htm.NewRegion(htm.Config{})
	if !insert {
		in(t, r, func() bool {
			off, found, ok := table.FindIn(r, key)
			return ok && found && r.Store64(table.m, off+layout.VersionOffset,
				uint64(layout.FirstVersion.Deleted()))
		})
	}
	r.Begin()
	n := 0
	if !table.Scan(r, first, last, func(uint64, int) bool { n++; return n < limit }) {
		t.Fatal("the scan's region aborted")
	}
	in(t, other, func() bool {
		var ok bool
		var err error
		if insert {
			_, _, ok, err = table.EnsureIn(other, key, 0)
		} else {
			ok, err = table.ReclaimIn(other, key, 0)
		}
		return ok && err == nil
	})
	if err := checkTable(table); err != nil && !table.lacks(SplitUnlinked) {
		t.Fatal(err)
	}
	return r.Commit(nil)
}

// TestScansHaveNoPhantoms: what a scan has not seen cannot come before it commits, and what it has seen cannot
// go, wherever in the range, in both directions, and where a leaf is split or merged for it.
func TestScansHaveNoPhantoms(t *testing.T) {
	const n = 200
	for _, down := range []bool{false, true} {
		for key := uint64(505); key < 1500; key += 5 {
			table := spread(t, For(1, "t", 8, n), n)
			first, last := uint64(500), uint64(1500)
			if down {
				first, last = last, first
			}
			if phantom(t, table, first, last, n, key, key%10 != 0) {
				t.Errorf("a scan from %d to %d commits though key %d has changed", first, last, key)
			}
		}
	}
}

// TestScansOfNothingHaveNoPhantoms: a range without keys is protected, too.
func TestScansOfNothingHaveNoPhantoms(t *testing.T) {
	for gap := uint64(0); gap < 40; gap++ {
		for _, x := range [][2]uint64{{10*gap + 1, 10*gap + 9}, {10*gap + 9, 10*gap + 1}} {
			table := spread(t, For(1, "t", 8, 60), 39)
			if phantom(t, table, x[0], x[1], 1, 10*gap+5, true) {
				t.Errorf("a scan from %d to %d commits though a key has come", x[0], x[1])
			}
		}
	}
}

// TestScansEndWhereTheirLimitIs: what comes far behind is no conflict.
func TestScansEndWhereTheirLimitIs(t *testing.T) {
	for _, x := range []struct {
		name        string
		first, last uint64
		limit       int
		key         uint64
	}{
		{"forwards", 500, 2000, 5, 1995},
		{"backwards", 2000, 500, 5, 505},
		{"before the range", 1000, 2000, 500, 505},
		{"behind the range", 500, 1000, 500, 1995},
	} {
		t.Run(x.name, func(t *testing.T) {
			table := spread(t, For(1, "t", 8, 200), 200)
			if !phantom(t, table, x.first, x.last, x.limit, x.key, true) {
				t.Errorf("key %d disturbs the scan", x.key)
			}
		})
	}
}

// TestAnAbsenceIsProtected: what a region has not found cannot come before it commits.
func TestAnAbsenceIsProtected(t *testing.T) {
	for key := uint64(5); key < 400; key += 10 {
		if !absenceHolds(t, spread(t, For(1, "t", 8, 60), 39), key) {
			t.Errorf("a region commits that has not found key %d, which is there", key)
		}
	}
}

func absenceHolds(t testing.TB, table *Table, key uint64) bool {
	t.Helper()
	r, other := htm.NewRegion(htm.Config{}), htm.NewRegion(htm.Config{})
	r.Begin()
	if _, found, ok := table.FindIn(r, key); found || !ok {
		t.Fatal(found, ok)
	}
	in(t, other, func() bool { _, _, ok, err := table.EnsureIn(other, key, 0); return ok && err == nil })
	return !r.Commit(nil)
}

// TestWithoutLineWordsChangesAreCounted: there a scan is of one moment if the count is the same.
func TestWithoutLineWordsChangesAreCounted(t *testing.T) {
	if err := changesAreCounted(t, For(1, "t", 8, 100)); err != nil {
		t.Error(err)
	}
}

func changesAreCounted(t testing.TB, c Config) error {
	t.Helper()
	table, err := Format(c, tabletest.Memory(c.Bytes(), false), 0)
	if err != nil {
		t.Fatal(err)
	}
	for k := range uint64(30) {
		if err := table.Load(k, tabletest.Value(8, k)); err != nil {
			t.Fatal(err)
		}
	}
	r := htm.NewRegion(htm.Config{})
	r.Begin()
	before, ok := table.Changes(r)
	if _, _, ok, err := table.EnsureIn(r, 100, 0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	after, alive := table.Changes(r)
	if !ok || !alive || after == before {
		return fmt.Errorf("%d changes before and %d after one, region runs %v %v", before, after, ok, alive)
	}
	// A change in the middle of a scan: the scan does not count.
	other := htm.NewRegion(htm.Config{})
	other.Begin()
	ok = table.Scan(r, 0, 200, func(k uint64, _ int) bool {
		if k == 3 {
			if _, _, ok, err := table.EnsureIn(other, 101, 0); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		return true
	})
	if code, n := r.Aborted(); ok || code != htm.Explicit || n != store.AbortBusy {
		return fmt.Errorf("a scan of two moments: %v, %v %d", ok, code, n)
	}
	// And one that was begun by another worker.
	table.setWord(table.at+changesAt, table.word(table.at+changesAt)+1)
	r.Begin()
	if table.Scan(r, 0, 200, func(uint64, int) bool { return true }) {
		return errors.New("a scan while the tree changes")
	}
	return nil
}
