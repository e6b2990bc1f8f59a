package store

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"drtmd/htm"
	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
)

func TestConfigRefusesByName(t *testing.T) {
	good := Config{ID: 1, Name: "t", ValueBytes: 8, MainBuckets: 1, Entries: 1}
	for _, c := range []struct {
		name string
		edit func(*Config)
		want error
		text string
	}{
		{"nothing wrong", func(c *Config) {}, nil, ""},
		{"64-bit keys by name", func(c *Config) { c.KeyBytes = 8 }, nil, ""},
		{"longer keys", func(c *Config) { c.KeyBytes = 16 }, ErrKeyBytes, "keys of 16 bytes"},
		{"no value", func(c *Config) { c.ValueBytes = 0 }, ErrValueBytes, "values of 0 bytes"},
		{"largest value", func(c *Config) { c.ValueBytes = 4096 }, nil, ""},
		{"value over the limit", func(c *Config) { c.ValueBytes = 4097 }, ErrValueBytes,
			"1 to 4096"},
		{"no main bucket", func(c *Config) { c.MainBuckets = 0 }, ErrSize, "0 main buckets"},
		{"fewer than no indirect bucket", func(c *Config) { c.IndirectBuckets = -1 }, ErrSize,
			"-1 indirect"},
		{"no entry", func(c *Config) { c.Entries = 0 }, ErrSize, "0 entries"},
		{"another layout", func(c *Config) { c.Layout = layout.KindLineVersions }, nil, ""},
		{"an unknown layout", func(c *Config) { c.Layout = 77 }, ErrLayout, "layout(77)"},
		{"sizes that overflow", func(c *Config) { c.Entries = 1 << 60 }, ErrSize, "more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := good
			c.edit(&x)
			err := x.Check()
			if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.text)
			}
		})
	}
}

func TestFormatRefusesAPlaceThatDoesNotFit(t *testing.T) {
	c := For(1, "t", 8, 10)
	m := htm.NewMemory(tabletest.Aligned(c.Bytes()+128), make([]uint64, c.Bytes()/64+2), 1, nil)
	for _, x := range []struct {
		name string
		at   int
		ok   bool
	}{
		{"start", 0, true}, {"next bucket", 128, true}, {"beyond", 256, false},
		{"before", -128, false}, {"between buckets", 64, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			if _, err := Format(c, m, x.at); (err == nil) != x.ok {
				t.Error(err)
			}
		})
	}
}

// Each limit is met with the others far away; the table is then byte for byte as before.
func TestFullTableIsAnErrorAndUnchanged(t *testing.T) {
	for _, x := range []struct {
		name  string
		c     Config
		loads uint64
		want  error
	}{
		{"entries", Config{ID: 1, ValueBytes: 8, MainBuckets: 8, IndirectBuckets: 8, Entries: 20},
			20, ErrEntriesFull},
		{"no indirect buckets", Config{ID: 1, ValueBytes: 8, MainBuckets: 1, Entries: 20}, 8,
			ErrIndirectFull},
		// The first link costs a slot of the main bucket, the next one of the first.
		{"indirect buckets", Config{ID: 1, ValueBytes: 8, MainBuckets: 1, IndirectBuckets: 2,
			Entries: 40}, 7 + 7 + 8, ErrIndirectFull},
	} {
		t.Run(x.name, func(t *testing.T) {
			table := newTable(t, x.c)
			for k := range x.loads {
				if err := table.Load(k, tabletest.Value(8, k)); err != nil {
					t.Fatalf("key %d of %d: %v", k, x.loads, err)
				}
			}
			before := bytes.Clone(table.m.Bytes)
			unchanged := func(how string) {
				t.Helper()
				if !bytes.Equal(before, table.m.Bytes) {
					t.Errorf("%s changed the table", how)
				}
			}
			if err := table.Load(x.loads, tabletest.Value(8, 0)); !errors.Is(err, x.want) {
				t.Errorf("loading: %v", err)
			}
			unchanged("loading")
			r := htm.NewRegion(htm.Config{})
			do(t, r, func() {
				_, _, ok, err := table.EnsureIn(r, x.loads, 0)
				if !ok || !errors.Is(err, x.want) || !errors.Is(err, ErrFull) {
					t.Errorf("ensuring: %v %v", ok, err)
				}
			})
			unchanged("ensuring")
			if err := checkTable(table); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDeletedSpaceIsUsedAgain replaces the keys of a full table over and over.
func TestDeletedSpaceIsUsedAgain(t *testing.T) {
	c := Config{ID: 1, ValueBytes: 8, MainBuckets: 4, IndirectBuckets: 12, Entries: 64}
	table := newTable(t, c)
	r := htm.NewRegion(htm.Config{})
	for round := range uint64(200) {
		for k := range uint64(64) {
			key := round*64 + k
			do(t, r, func() {
				off, v, ok, err := table.EnsureIn(r, key, 0)
				if !ok || err != nil {
					t.Fatalf("round %d, key %d: %v", round, k, err)
				}
				r.Store64(table.m, table.VersionOffset(off), uint64(v.Inserted()))
			})
		}
		for k := range uint64(64) {
			key := round*64 + k
			off, ok := table.Find(key)
			if !ok {
				t.Fatalf("round %d: key %d is gone", round, k)
			}
			do(t, r, func() {
				w, _ := r.Load64(table.m, table.VersionOffset(off))
				r.Store64(table.m, table.VersionOffset(off),
					uint64(layout.Version(w).Deleted()))
			})
			do(t, r, func() {
				if ok, err := table.ReclaimIn(r, key, 0); !ok || err != nil {
					t.Fatalf("round %d, key %d: %v", round, k, err)
				}
			})
		}
		if err := checkTable(table); err != nil {
			t.Fatal(err)
		}
	}
	if o := table.Occupancy(); o.Bound != 0 || o.Chained != 0 || o.MainTaken != 0 {
		t.Errorf("an empty table has %s", o)
	}
}

// A CAS with an old address may leave a lock on an entry that is bound to nothing, for ever if its
// owner died. Such an entry is passed over, and used again once it is unlocked.
func TestEntryThatAStrayLockHoldsIsPassedOver(t *testing.T) {
	table := newTable(t, Config{ID: 1, ValueBytes: 8, MainBuckets: 1, Entries: 2})
	r := htm.NewRegion(htm.Config{})
	ensure := func(key uint64) (off int, err error) {
		do(t, r, func() {
			var ok bool
			if off, _, ok, err = table.EnsureIn(r, key, 0); !ok {
				t.Fatal("aborted")
			}
		})
		return off, err
	}
	reclaim := func(key uint64) {
		do(t, r, func() {
			if _, err := table.ReclaimIn(r, key, 0); err != nil {
				t.Fatal(err)
			}
		})
	}
	first, _ := ensure(1)
	second, _ := ensure(2)
	reclaim(1)
	reclaim(2)
	table.setWord(table.StateOffset(second), 1) // the head of the free list
	if off, err := ensure(3); err != nil || off != first {
		t.Errorf("got the entry at %d, %v, want that at %d", off, err, first)
	}
	if _, err := ensure(4); !errors.Is(err, ErrEntriesFull) {
		t.Errorf("got %v with only a locked entry left", err)
	}
	table.setWord(table.StateOffset(second), 0)
	if off, err := ensure(4); err != nil || off != second {
		t.Errorf("got the entry at %d, %v, want that at %d", off, err, second)
	}
	if err := checkTable(table); err != nil {
		t.Error(err)
	}
}

func TestSpentIncarnationsAreRefused(t *testing.T) {
	table := newTable(t, For(1, "t", 8, 10))
	table.setWord(table.at+countersAt, 1<<32-2)
	r := htm.NewRegion(htm.Config{})
	do(t, r, func() {
		if _, _, ok, err := table.EnsureIn(r, 1, 0); !ok || !errors.Is(err, ErrSpent) {
			t.Errorf("got %v %v", ok, err)
		}
	})
}

// TestAttachChecksTheHead attaches to memory that a table left, and to memory that it did not.
func TestAttachChecksTheHead(t *testing.T) {
	c := For(7, "t", 8, 100)
	m := tabletest.Memory(c.Bytes(), true)
	if _, err := Attach(c, m, 0); !errors.Is(err, ErrNotTable) {
		t.Errorf("empty memory: %v", err)
	}
	table, err := Format(c, m, 0)
	if err != nil {
		t.Fatal(err)
	}
	for k := range uint64(100) {
		if err := table.Load(k, tabletest.Value(8, k)); err != nil {
			t.Fatal(err)
		}
	}
	again, err := Attach(c, htm.NewMemory(m.Bytes, m.Words, 2, nil), 0)
	if err != nil {
		t.Fatal(err)
	}
	for k := range uint64(100) {
		if _, ok := again.Find(k); !ok {
			t.Fatalf("key %d is gone", k)
		}
	}
	if err := checkTable(again); err != nil {
		t.Error(err)
	}
	tabletest.AttachRefusesOthers(t, c, m, Attach, ErrNotTable, map[string]func(*Config){
		"table id":     func(c *Config) { c.ID++ },
		"value bytes":  func(c *Config) { c.ValueBytes = 9 },
		"main buckets": func(c *Config) { c.MainBuckets--; c.IndirectBuckets++ },
		"entries":      func(c *Config) { c.Entries-- },
		"layout":       func(c *Config) { c.Layout = layout.KindLineVersions },
	})
}

// Scribbled memory aborts a region by name; nothing panics or runs for ever.
func TestCorruptMemoryAbortsTheRegion(t *testing.T) {
	c := Config{ID: 1, ValueBytes: 8, MainBuckets: 1, IndirectBuckets: 2, Entries: 20}
	for _, x := range []struct {
		name string
		slot layout.Slot
	}{
		{"entry outside", layout.MakeSlot(layout.Entry, 0, layout.MaxOffset)},
		{"entry between entries", layout.MakeSlot(layout.Entry, 0, uint64(c.Bytes()-8))},
		{"link outside", layout.MakeSlot(layout.Header, 0, layout.MaxOffset)},
		{"link to the head", layout.MakeSlot(layout.Header, 0, 0)},
		{"link to itself", layout.MakeSlot(layout.Header, 0,
			uint64(headBytes+layout.BucketBytes))},
	} {
		t.Run(x.name, func(t *testing.T) {
			table := newTable(t, c)
			// The link slot of the main bucket, and of the first indirect one behind it.
			at := table.mainAt + layout.LinkSlot*layout.SlotBytes
			table.setWord(at, uint64(x.slot))
			table.setWord(at+layout.SlotKeyOffset, 5)
			table.setWord(at+layout.BucketBytes, uint64(x.slot))
			if off, ok := table.Find(5); ok && off+layout.HeaderBytes > len(table.m.Bytes) {
				t.Errorf("found an entry at %d", off)
			}
			r := htm.NewRegion(htm.Config{})
			for name, f := range map[string]func() bool{
				"find":    func() bool { _, _, ok := table.FindIn(r, 5); return ok },
				"ensure":  func() bool { _, _, ok, _ := table.EnsureIn(r, 5, 0); return ok },
				"reclaim": func() bool { ok, _ := table.ReclaimIn(r, 5, 0); return ok },
			} {
				r.Begin()
				if f() {
					t.Errorf("%s: the region runs on", name)
				}
				if r.Commit(nil) {
					t.Errorf("%s: the region commits", name)
				}
				if code, n := r.Aborted(); code != htm.Explicit || n != AbortCorrupt {
					t.Errorf("%s: aborted by %s %d", name, code, n)
				}
			}
		})
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	table := newTable(t, For(1, "t", 8, 1000))
	for k := range uint64(1000) {
		if err := table.Load(k, tabletest.Value(8, k)); err != nil {
			t.Fatal(err)
		}
	}
	r := htm.NewRegion(htm.Config{})
	key := uint64(0)
	for name, f := range map[string]func(){
		"find": func() { table.Find(key) },
		"find in a region": func() {
			r.Begin()
			table.FindIn(r, key)
			r.Commit(nil)
		},
		"ensure and reclaim": func() {
			r.Begin()
			_, _, _, err := table.EnsureIn(r, key+1000, 0)
			if !r.Commit(nil) || err != nil {
				t.Fatal(err)
			}
			r.Begin()
			_, err = table.ReclaimIn(r, key+1000, 0)
			if !r.Commit(nil) || err != nil {
				t.Fatal(err)
			}
		},
	} {
		f()
		if n := testing.AllocsPerRun(100, func() { f(); key = (key + 1) % 1000 }); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// TestSlotFollowsTheIncarnation is §6.2: the lossy incarnation of a slot is that of its entry.
// Whoever inserts a deleted key again comes by EnsureIn, which brings the slot up to date.
func TestSlotFollowsTheIncarnation(t *testing.T) {
	table := newTable(t, For(1, "t", 8, 10))
	r := htm.NewRegion(htm.Config{})
	for range 3 {
		do(t, r, func() {
			off, v, ok, err := table.EnsureIn(r, 5, 0)
			if !ok || err != nil {
				t.Fatal(err)
			}
			r.Store64(table.m, table.VersionOffset(off), uint64(v.Inserted()))
		})
		do(t, r, func() {
			off, _, _ := table.FindIn(r, 5)
			w, _ := r.Load64(table.m, table.VersionOffset(off))
			r.Store64(table.m, table.VersionOffset(off), uint64(layout.Version(w).Deleted()))
		})
		do(t, r, func() {
			if _, _, ok, err := table.EnsureIn(r, 5, 0); !ok || err != nil {
				t.Fatal(err)
			}
		})
		p, _ := locate(table, plainOf(table.base), 5)
		v := layout.Version(table.word(table.VersionOffset(int(p.slot.Offset()))))
		if v.Live() || p.slot.Lossy() != v.Lossy() {
			t.Errorf("slot %s of an entry at %s", p.slot, v)
		}
	}
}
