package records

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"drtmd/htm"
	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
)

// TestTableIsAMapWithVersionsThatGrow runs random insertions, writes, deletions, reclaims and restarts on a few keys
// against a map, with line words some of them in regions that are aborted. Tables are so small that they are full
// again and again, and the index begins with the fewest bins.
func TestTableIsAMapWithVersionsThatGrow(t *testing.T) {
	full, grown := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		c := Config{ID: 1, Name: "model", ValueBytes: rapid.IntRange(1, 100).Draw(t, "value"),
			Layout: rapid.SampledFrom([]layout.Kind{0, layout.KindOneVersion,
				layout.KindLineVersions}).Draw(t, "layout"),
			Entries: rapid.IntRange(1, 300).Draw(t, "entries"), Keys: 1}
		memory := tabletest.Memory(c.Bytes(), rapid.Bool().Draw(t, "line words"))
		table, err := Format(c, memory, 0)
		if err != nil {
			t.Fatal(err)
		}
		bins := table.Occupancy().Bins
		m := &tabletest.Model[*Table]{Table: table, Keys: 256, AtOnce: true, Whole: checkTable, Errors: tableErrors,
			Full: func(error) { full++ }, Attach: func() (*Table, error) { return Attach(c, memory, 0) }}
		m.Start()
		m.Load(t, rapid.Uint64Range(0, m.Keys).Draw(t, "loaded"), func(i uint64) uint64 { return i })
		t.Repeat(m.Actions())
		if m.Table.Occupancy().Bins > bins || m.Table.Occupancy().Growing {
			grown++
		}
	})
	if full == 0 || grown == 0 {
		t.Errorf("not everything has happened: %d times full, %d times grown", full, grown)
	}
}

// TestCountersGoOn is tabletest.CountersGoOn for a table that acts at once.
func TestCountersGoOn(t *testing.T) {
	for _, worded := range []bool{true, false} {
		c := For(1, "t", 8, 10)
		table, err := Format(c, tabletest.Memory(c.Bytes(), worded), 0)
		if err != nil {
			t.Fatal(err)
		}
		other, err := table.View(htm.NewMemory(table.m.Bytes, table.m.Words, 2, nil))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct{ to, want uint32 }{{6, 6}, {4, 6}, {8, 8}} {
			if !other.RaiseIn(nil, x.to) || table.Incarnations() != x.want {
				t.Errorf("raised to %d: %d, want %d", x.to, table.Incarnations(), x.want)
			}
		}
		off, v, err := ensured(t, table, 1)
		if err != nil || v.Incarnation() != 8 {
			t.Fatalf("a new record has version %v: %v", v, err)
		}
		table.setWord(off+layout.VersionOffset, uint64(v.Inserted().Deleted()))
		if err := reclaimed(t, table, 1); err != nil || table.Incarnations() != 10 {
			t.Errorf("%v, and the counter is %d", err, table.Incarnations())
		}
		if v, ok := table.AbsentIn(nil); !ok || v != layout.Fresh(10) {
			t.Errorf("an absence has version %v", v)
		}
	}
}

// checkTable looks at every record, and compares the index with them. Nobody uses the table.
func checkTable(t *Table) error {
	bound := 0
	for i := range t.config.Entries {
		off := t.place(i)
		v, key := t.version(off), t.word(off+layout.KeyOffset)
		at, found := t.index.keys.Get(key)
		switch {
		case v.Unbound() && key != layout.NoKey && !t.lacks(KeepKey):
			return fmt.Errorf("record %d is free, and has key %d", i, key)
		case v.Unbound() && found && int(at) == off:
			return fmt.Errorf("the index leads from key %d to record %d, which is free", key, i)
		case v.Unbound():
			continue
		case !found || int(at) != off:
			return fmt.Errorf("record %d of key %d: the index leads to %d, %v", i, key, at, found)
		case v.Incarnation() > t.Incarnations() && !v.Live() && v.Trace() == 0:
			return fmt.Errorf("record %d of key %d is new, at %v above the counter %d", i, key, v, t.Incarnations())
		}
		bound++
	}
	if o := t.Occupancy(); !o.Growing && o.Records != bound {
		return fmt.Errorf("the index has %d keys, and %d records are bound", o.Records, bound)
	}
	unused, listed := 0, map[uint32]bool{}
	for i := range t.index.free {
		f := &t.index.free[i]
		unused += f.end - f.next
		for _, at := range f.list {
			if listed[at] || !t.version(t.place(int(at))).Unbound() {
				return fmt.Errorf("record %d is in a list of free ones twice, or bound", at)
			}
			listed[at] = true
		}
	}
	if unused+len(listed)+bound != t.config.Entries {
		return fmt.Errorf("%d never used, %d free, %d bound, of %d", unused, len(listed), bound, t.config.Entries)
	}
	return nil
}
