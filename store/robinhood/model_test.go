package robinhood

import (
	"testing"

	"pgregory.net/rapid"

	"drtmd/store"
	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
	"drtmd/store/pool"
)

// tableErrors are what the shared tests of tables expect.
var tableErrors = tabletest.Errors{Full: store.ErrFull, Key: store.ErrKey, Exists: store.ErrExists,
	ValueSize: store.ErrValueSize, NoEntry: store.ErrNoEntry, Live: store.ErrLive, State: store.ErrState}

// withoutState is a pool whose items are whole blocks: the word of their first slot's lock is none of theirs.
func withoutState(p pool.Pool) pool.Pool { p.State = 0; return p }

// events are what has happened in model runs.
type events struct{ moved, back, overflowed, full int }

// TestTableIsAMapWithVersionsThatGrow runs random insertions, writes, deletions and reclaims of a few keys, with line
// words some of them in regions that are aborted, against a map. The tables are so small that records move all the
// time, overflow, and fill the table; some records are locked.
func TestTableIsAMapWithVersionsThatGrow(t *testing.T) {
	var seen events
	rapid.Check(t, func(t *rapid.T) { runModel(t, drawConfig(t), &seen) })
	t.Logf("%+v", seen)
}

// TestRecordsMoveBothWaysInTheModel: the model's runs on full tables see everything that a table does.
func TestRecordsMoveBothWaysInTheModel(t *testing.T) {
	var seen events
	for i := 0; i < 5 && (seen.moved == 0 || seen.back == 0 || seen.overflowed == 0 || seen.full == 0); i++ {
		rapid.Check(t, func(t *rapid.T) {
			runModel(t, Config{ID: 1, Name: "model", ValueBytes: 8, Homes: 24, Limit: 2, Blocks: 1, CPULocks: true}, &seen)
		})
	}
	if seen.moved == 0 || seen.back == 0 || seen.overflowed == 0 || seen.full == 0 {
		t.Errorf("not everything has happened: %+v", seen)
	}
}

func drawConfig(t *rapid.T) Config {
	c := Config{ID: 1, Name: "model", ValueBytes: rapid.IntRange(1, 400).Draw(t, "value"),
		Layout:   rapid.SampledFrom([]layout.Kind{0, layout.KindOneVersion, layout.KindLineVersions}).Draw(t, "layout"),
		Homes:    rapid.IntRange(1, 50).Draw(t, "homes"),
		Limit:    rapid.SampledFrom([]int{1, 2, 3, 8, NoLimit}).Draw(t, "limit"),
		Blocks:   rapid.IntRange(0, 16).Draw(t, "blocks"),
		CPULocks: rapid.Bool().Draw(t, "CPU locks")}
	if c.outside() {
		c.Outside = rapid.IntRange(1, 70).Draw(t, "outside")
	}
	return c
}

func runModel(t *rapid.T, c Config, seen *events) {
	memory := tabletest.Memory(c.Bytes(), rapid.Bool().Draw(t, "line words"))
	table, err := Format(c, memory, 0)
	if err != nil {
		t.Fatal(err)
	}
	m := &modelRun{slots: map[uint64]int{}, seen: seen, Model: tabletest.Model[*Table]{Table: table, Keys: 64,
		Whole: checkTable, Errors: tableErrors, Full: func(error) { seen.full++ },
		Attach: func() (*Table, error) { return Attach(c, memory, 0) }}}
	m.Start()
	m.Load(t, rapid.Uint64Range(0, m.Keys).Draw(t, "loaded"), func(i uint64) uint64 { return i })
	actions := m.Actions()
	actions["remove"] = m.remove
	actions[""] = m.check
	t.Repeat(actions)
	seen.overflowed += table.Occupancy().Overflowed
}

type modelRun struct {
	tabletest.Model[*Table]
	slots map[uint64]int // offsets of keys' slots, at the last check
	seen  *events
}

// remove deletes a key that has a value, and gives its record back.
func (m *modelRun) remove(t *rapid.T) {
	if key := m.Key(t, "key"); m.Live(key) {
		m.DeleteKey(t, key)
		m.ReclaimKey(t, key, m.State(key))
	}
}

// check checks, too, that only unlocked records have moved since the last one, and that a look-up by DMA finds what
// the table finds.
func (m *modelRun) check(t *rapid.T) {
	m.Check(t)
	proves := m.Table.config.provesItself()
	var v View
	if proves {
		v = MakeView(m.Table.config, 0)
	}
	now := map[uint64]int{}
	m.Table.eachSlot(func(slot int) bool {
		now[m.Table.word(slot+layout.KeyOffset)] = slot
		return true
	})
	for key := range m.Keys {
		off, ok := m.Table.Find(key)
		if was, there := m.slots[key]; there && ok && was != now[key] {
			if !m.Table.outside && layout.Locked(m.State(key)) {
				t.Fatalf("key %d moves while it is locked", key)
			}
			if now[key] > was {
				m.seen.moved++
			} else {
				m.seen.back++
			}
		}
		if !proves || layout.Locked(m.State(key)) && ok {
			continue
		}
		p := probe(m.Table, &v, key)
		if _, at := p.Found(); (p.Err() == nil) != ok || ok && at != off {
			t.Fatalf("key %d: found %v at %d, by DMA %v at %d", key, ok, off, p.Err(), at)
		}
	}
	m.slots = now
}

// probe looks a key up in a table at rest.
func probe(t *Table, v *View, key uint64) *Probe {
	var p Probe
	for p.Start(v, key, 0, false); !p.Done(); {
		off, n := p.Next()
		p.Feed(t.m.Bytes[off : off+n])
	}
	return &p
}
