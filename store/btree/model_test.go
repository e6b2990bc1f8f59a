package btree

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"drtmd/internal/testkit/raceskip"
	"drtmd/store"
	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
)

// tableErrors are what the shared tests of tables expect.
var tableErrors = tabletest.Errors{Full: store.ErrFull, Bound: store.ErrBound, Key: store.ErrKey,
	Exists: store.ErrExists, ValueSize: store.ErrValueSize, NoEntry: store.ErrNoEntry, Live: store.ErrLive,
	State: store.ErrState}

// TestTableIsASortedMapWithVersionsThatGrow runs random insertions, writes, deletions, reclaims and scans,
// with line words some of them in regions that are aborted, against a sorted map. After each step every word
// of the tree is checked. The tables are so small that nodes are split and merged all the time, and full. In
// the end every key is inserted, as far as there is room, and every key is reclaimed.
func TestTableIsASortedMapWithVersionsThatGrow(t *testing.T) {
	raceskip.OneGoroutine(t)
	height, shrunk, entriesFull, nodesFull := 0, 0, 0, 0
	sizes := []struct{ nodes, entries int }{{1, 10}, {2, 50}, {20, 50}, {60, 256}, {60, 256}}
	full := func(err error) {
		if errors.Is(err, ErrNodesFull) {
			nodesFull++
		} else {
			entriesFull++
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom(sizes).Draw(t, "size")
		c := Config{ID: 1, Name: "model", ValueBytes: rapid.IntRange(1, 60).Draw(t, "value"),
			Layout: rapid.SampledFrom([]layout.Kind{0, layout.KindOneVersion,
				layout.KindLineVersions, layout.KindSealed}).Draw(t, "layout"),
			Nodes: size.nodes, Entries: size.entries}
		memory := tabletest.Memory(c.Bytes(), rapid.Bool().Draw(t, "line words"))
		table, err := Format(c, memory, 0)
		if err != nil {
			t.Fatal(err)
		}
		m := &modelRun{Model: tabletest.Model[*Table]{Table: table, Keys: 256, Whole: checkTable,
			Errors: tableErrors, Full: full,
			Attach: func() (*Table, error) { return Attach(c, memory, 0) }}}
		m.Start()
		m.load(t)
		actions := m.Actions()
		actions["insert some"], actions["reclaim some"] = m.insertSome, m.reclaimSome
		actions["scan"], actions["next"], actions[""] = m.scan, m.next, m.check
		t.Repeat(actions)
		m.insert(t, 0, m.Keys)
		m.check(t)
		m.reclaim(t, 0, m.Keys)
		m.check(t)
		height = max(height, m.height)
		shrunk += m.shrunk
	})
	if height < 3 || shrunk == 0 || entriesFull == 0 || nodesFull == 0 {
		t.Errorf("not everything has happened: %d levels, %d times fewer, %d times without entries, %d without "+
			"nodes", height, shrunk, entriesFull, nodesFull)
	}
}

type modelRun struct {
	tabletest.Model[*Table]

	steps  int
	height int // most levels so far
	levels int // at the last check
	shrunk int // how often there were fewer levels
}

// load loads keys in ascending, descending or some order.
func (m *modelRun) load(t *rapid.T) {
	n := rapid.SampledFrom([]uint64{0, 40, m.Keys}).Draw(t, "loaded")
	step := rapid.SampledFrom([]uint64{1, m.Keys - 1, 37}).Draw(t, "step")
	m.Load(t, n, func(i uint64) uint64 { return (i + 1) * step % m.Keys })
}

func (m *modelRun) insertSome(t *rapid.T) {
	m.insert(t, m.Key(t, "key"), rapid.Uint64Range(1, 40).Draw(t, "keys"))
}

// insert inserts n keys from one on.
func (m *modelRun) insert(t *rapid.T, from, n uint64) {
	for key := from; key < min(from+n, m.Keys); key++ {
		m.InsertKey(t, key)
	}
}

func (m *modelRun) reclaimSome(t *rapid.T) {
	m.reclaim(t, m.Key(t, "key"), rapid.Uint64Range(1, 100).Draw(t, "keys"))
}

// reclaim deletes and gives back n keys from one on, so that nodes are merged.
func (m *modelRun) reclaim(t *rapid.T, from, n uint64) {
	for key := from; key < min(from+n, m.Keys); key++ {
		if m.Live(key) {
			m.DeleteKey(t, key)
		}
		m.ReclaimKey(t, key, m.State(key))
	}
}

// keys are those from first to last, in the order of a scan.
func (m *modelRun) keys(first, last uint64) (keys []uint64) {
	for _, k := range m.Entries() {
		if k >= min(first, last) && k <= max(first, last) {
			keys = append(keys, k)
		}
	}
	if first > last {
		slices.Reverse(keys)
	}
	return keys
}

// scan scans a range with a limit, forwards or backwards.
func (m *modelRun) scan(t *rapid.T) {
	first, last := m.Key(t, "first"), m.Key(t, "last")
	limit := rapid.IntRange(1, int(m.Keys)).Draw(t, "limit")
	want := m.keys(first, last)
	least, greatest := uint64(0), uint64(0)
	if len(want) > 0 {
		least, greatest = slices.Min(want), slices.Max(want)
	}
	var got []uint64
	m.Region.Begin()
	ok := m.Table.Scan(m.Region, first, last, func(key uint64, place int) bool {
		if off, ok := m.Table.Find(key); !ok || off != place {
			t.Fatalf("key %d is at %d, the scan says %d", key, off, place)
		}
		got = append(got, key)
		return len(got) < limit
	})
	l, g, found, alive := m.Table.Ends(m.Region, min(first, last), max(first, last))
	if !ok || !alive {
		t.Fatal("a region that was alone aborted")
	}
	m.End(t)
	if found != (len(want) > 0) || found && (l != least || g != greatest) {
		t.Fatalf("the ends of %d to %d are %d and %d, %v; want %d and %d", first, last, l, g, found, least, greatest)
	}
	if want = want[:min(limit, len(want))]; !slices.Equal(got, want) {
		t.Fatalf("from %d to %d at most %d: %d, want %d", first, last, limit, got, want)
	}
}

func (m *modelRun) next(t *rapid.T) {
	key := m.Key(t, "key")
	m.Region.Begin()
	next, place, found, ok := m.Table.Next(m.Region, key)
	if !ok {
		t.Fatal("a region that was alone aborted")
	}
	m.End(t)
	want := m.keys(key+1, m.Keys)
	if found != (len(want) > 0) || found && next != want[0] {
		t.Fatalf("after %d comes %d, %v", key, next, found)
	}
	if off, _ := m.Table.Find(next); found && off != place {
		t.Fatalf("key %d is at %d, not %d", next, off, place)
	}
}

func (m *modelRun) check(t *rapid.T) {
	levels := m.Table.Occupancy().Height
	if levels < m.levels {
		m.shrunk++
	}
	m.levels, m.height = levels, max(m.height, levels)
	if m.steps++; raceEnabled && m.steps%16 != 0 {
		return // it reads every word, which is slow there
	}
	m.Check(t)
	var each []uint64
	m.Table.Each(func(off int) bool {
		each = append(each, m.Table.word(off+layout.KeyOffset))
		return true
	})
	if want := m.keys(0, m.Keys); !slices.Equal(each, want) {
		t.Fatalf("keys %d, want %d", each, want)
	}
}
