package hopscotch

import (
	"testing"

	"pgregory.net/rapid"

	"drtmd/internal/testkit/raceskip"
	"drtmd/store"
	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
)

// tableErrors are what the shared tests of tables expect.
var tableErrors = tabletest.Errors{Full: store.ErrFull, Key: store.ErrKey, Exists: store.ErrExists,
	ValueSize: store.ErrValueSize, NoEntry: store.ErrNoEntry, Live: store.ErrLive, State: store.ErrState}

// TestTableIsAMapWithVersionsThatGrow runs random insertions, writes, deletions and reclaims of a
// few keys, with line words some of them in regions that are aborted, against a map. The tables are so small
// that records move all the time, overflow, and fill the table; some records are locked.
func TestTableIsAMapWithVersionsThatGrow(t *testing.T) {
	raceskip.OneGoroutine(t)
	moved, overflowed, full := 0, 0, 0
	check := func(t *rapid.T) {
		c := Config{ID: 1, Name: "model", ValueBytes: rapid.IntRange(1, 100).Draw(t, "value"),
			Layout: rapid.SampledFrom([]layout.Kind{0, layout.KindOneVersion,
				layout.KindLineVersions, layout.KindSealed}).Draw(t, "layout"),
			Homes:    rapid.IntRange(1, 50).Draw(t, "homes"),
			Blocks:   rapid.IntRange(0, 6).Draw(t, "blocks"),
			CPULocks: rapid.Bool().Draw(t, "CPU locks")}
		memory := tabletest.Memory(c.Bytes(), rapid.Bool().Draw(t, "line words"))
		table, err := Format(c, memory, 0)
		if err != nil {
			t.Fatal(err)
		}
		m := &modelRun{places: map[uint64]int{}, Model: tabletest.Model[*Table]{Table: table, Keys: 64,
			Whole: checkTable, Errors: tableErrors, Full: func(error) { full++ },
			Attach: func() (*Table, error) { return Attach(c, memory, 0) }}}
		m.Start()
		m.Load(t, rapid.Uint64Range(0, m.Keys).Draw(t, "loaded"), func(i uint64) uint64 { return i })
		actions := m.Actions()
		actions[""] = m.check
		t.Repeat(actions)
		moved += m.moved
		overflowed += table.Occupancy().Overflowed
	}
	// Few tables are such that records move: one run in 25 has none.
	for i := 0; i < 5 && (moved == 0 || overflowed == 0 || full == 0); i++ {
		rapid.Check(t, check)
	}
	if moved == 0 || overflowed == 0 || full == 0 {
		t.Errorf("not everything has happened: %d moves, %d overflowed, %d times full", moved, overflowed, full)
	}
}

type modelRun struct {
	tabletest.Model[*Table]
	places map[uint64]int // of records, at the last check
	moved  int
}

// check checks, too, that only unlocked records have moved since the last one.
func (m *modelRun) check(t *rapid.T) {
	m.Check(t)
	for key := range m.Keys {
		off, ok := m.Table.Find(key)
		if !ok {
			delete(m.places, key)
			continue
		}
		if was, there := m.places[key]; there && was != off {
			if m.moved++; layout.Locked(m.State(key)) {
				t.Fatalf("key %d moves while it is locked", key)
			}
		}
		m.places[key] = off
	}
}
