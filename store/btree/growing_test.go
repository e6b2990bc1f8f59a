package btree

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"drtmd/htm"
	"drtmd/internal/testkit/raceskip"
	"drtmd/store"
	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
	"drtmd/verbs/sim"
)

// newGround is memory of a simulated device.
func newGround(t testing.TB, words bool) *tabletest.Ground {
	t.Helper()
	world, err := sim.New(sim.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	node, err := world.AddNode(sim.NodeConfig{})
	if err != nil {
		t.Fatal(err)
	}
	device, err := node.Open()
	if err != nil {
		t.Fatal(err)
	}
	return tabletest.NewGround(t, device, words)
}

// openGrowing opens a table that grows on g.
func openGrowing(g *tabletest.Ground, c Config, o tabletest.Opening) ([]*Growing, error) {
	growth := NewGrowth(GrowthConfig{Table: c, Bound: o.Bound(), Alloc: g.Alloc})
	return tabletest.Open(g, c, &o, tabletest.Openers[Config, *Table, *Growing]{Format: Format, Attach: Attach,
		Open: growth.Open})
}

// newGrowing opens an empty table for some workers.
func newGrowing(t rapid.TB, g *tabletest.Ground, c Config, bound int64, workers int) []*Growing {
	t.Helper()
	list, err := openGrowing(g, c, tabletest.Opening{BoundBytes: bound, Workers: workers})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// checkExtents is checkTable for all extents.
func checkExtents(x *Growing) error { return tabletest.CheckExtents(x.x, checkTable) }

// TestAGrowingTableIsASortedMap is the model test of a table, for one that grows until its bound, with two
// workers that take turns, on memory with line words and without.
func TestAGrowingTableIsASortedMap(t *testing.T) {
	raceskip.OneGoroutine(t)
	extents, refused := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		g := newGround(t, rapid.Bool().Draw(rt, "line words"))
		c := Config{ID: 1, Name: "grows", ValueBytes: 8, Nodes: 4, Entries: 6, Grows: true}
		bound := int64(rapid.SampledFrom([]int{0, 30_000, 100_000, 300_000}).Draw(rt, "bound"))
		workers := newGrowing(rt, g, c, bound, 2)
		m := &growingModel{GrowingModel: tabletest.GrowingModel[*Growing]{Workers: workers,
			Growth: workers[0].x.Growth, Keys: 400, Whole: checkExtents, Errors: tableErrors}}
		m.Start()
		rt.Repeat(map[string]func(*rapid.T){"insert": m.insert, "delete": m.delete, "scan": m.scan, "": m.check})
		extents, refused = max(extents, m.Growth.Extents()), refused+m.Refused
		m.Close(rt)
	})
	if extents < 3 || refused == 0 {
		t.Errorf("not everything has happened: %d extents, %d times refused", extents, refused)
	}
}

type growingModel struct {
	tabletest.GrowingModel[*Growing]
	steps int
}

func (m *growingModel) insert(t *rapid.T) {
	from, n := m.Key(t, "key"), rapid.Uint64Range(1, 100).Draw(t, "keys")
	for key := from; key < min(from+n, m.Keys); key++ {
		m.InsertKey(t, key)
	}
}

func (m *growingModel) delete(t *rapid.T) {
	from, n := m.Key(t, "key"), rapid.Uint64Range(1, 20).Draw(t, "keys")
	for key := from; key < min(from+n, m.Keys); key++ {
		m.DeleteKey(t, key)
	}
}

func (m *growingModel) scan(t *rapid.T) {
	to := rapid.Uint64Range(0, m.Keys)
	first, last := to.Draw(t, "first"), to.Draw(t, "last")
	limit := rapid.IntRange(1, int(m.Keys)).Draw(t, "limit")
	var want, got []uint64
	for _, k := range m.Entries() {
		if k >= min(first, last) && k <= max(first, last) {
			want = append(want, k)
		}
	}
	m.In(t, func(r *htm.Region) bool {
		least, greatest, found, ok := m.Acts.Ends(r, min(first, last), max(first, last))
		if ok && (found != (len(want) > 0) || found && (least != want[0] || greatest != want[len(want)-1])) {
			t.Fatalf("ends %d and %d, %v, of %d", least, greatest, found, want)
		}
		return ok
	})
	if first > last {
		slices.Reverse(want)
	}
	want = want[:min(limit, len(want))]
	m.In(t, func(r *htm.Region) bool {
		got = got[:0]
		return m.Acts.Scan(r, first, last, func(key uint64, place int) bool {
			memory, off := m.Acts.At(place)
			if h := layout.HeadOf(memory.Bytes[off:]); h.Key != key || h.Version != m.Highest(key) {
				t.Fatalf("key %d leads to %+v", key, h)
			}
			got = append(got, key)
			return len(got) < limit
		})
	})
	if !slices.Equal(got, want) {
		t.Fatalf("from %d to %d at most %d: %d, want %d", first, last, limit, got, want)
	}
}

func (m *growingModel) check(t *rapid.T) {
	m.Turn(t)
	if m.steps++; raceEnabled && m.steps%16 != 0 {
		return
	}
	m.Check(t)
}

// TestKeptExtentsAreFoundAgain lets a process die, and another one open the memory that outlived it.
func TestKeptExtentsAreFoundAgain(t *testing.T) {
	const keys = 3000
	c := For(3, "kept", 8, 10)
	c.Grows = true
	b := tabletest.Aligned(c.Bytes())
	g, opening := newGround(t, true), tabletest.Opening{BoundBytes: 1 << 30, Workers: 1, Memory: b}
	workers, err := openGrowing(g, c, opening)
	if err != nil {
		t.Fatal(err)
	}
	x := workers[0]
	for k := range uint64(keys) {
		if err := x.Load(k*7919%keys, tabletest.Value(8, k)); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Load(5, tabletest.Value(8, 5)); !errors.Is(err, store.ErrExists) {
		t.Errorf("a key that was loaded: %v", err)
	}
	for i := 1; i < x.x.Growth.Extents(); i++ {
		g.Kept = append(g.Kept, bytes.Clone(x.x.Growth.MR(i).Bytes()))
	}
	opening.Kept = true
	if workers, err = openGrowing(g, c, opening); err != nil {
		t.Fatal(err)
	}
	again := workers[0]
	if n := again.x.Growth.Extents(); n != x.x.Growth.Extents() || n < 3 {
		t.Errorf("%d extents, there were %d", n, x.x.Growth.Extents())
	}
	r, next := htm.NewRegion(htm.Config{}), uint64(0)
	in(t, r, func() bool {
		return again.Scan(r, 0, layout.NoKey, func(key uint64, _ int) bool {
			if key != next {
				t.Fatalf("key %d, want %d", key, next)
			}
			next++
			return true
		})
	})
	if next != keys {
		t.Errorf("%d keys, want %d", next, keys)
	}
	less := opening
	less.BoundBytes = 1000
	if _, err := openGrowing(g, c, less); !errors.Is(err, store.ErrBound) {
		t.Errorf("with a bound that has become less: %v", err)
	}
	b[again.x.Growth.LineAt(1)]++
	if _, err := openGrowing(g, c, opening); !errors.Is(err, store.ErrNotTable) {
		t.Errorf("with a damaged directory: %v", err)
	}
}

// TestAScanIsOfAllExtents: a region that has scanned a range, or not found a key, does not commit if another
// worker has added an extent, and a key in it, meanwhile.
func TestAScanIsOfAllExtents(t *testing.T) {
	if !extentsAreRead(t, For(3, "t", 8, 10)) {
		t.Error("a scan is committed, though a key is in a new extent")
	}
}

func extentsAreRead(t testing.TB, c Config) (holds bool) {
	t.Helper()
	c.Grows = true
	holds = true
	for _, look := range []func(x *Growing, r *htm.Region) bool{
		func(x *Growing, r *htm.Region) bool {
			return x.Scan(r, 50, 100, func(uint64, int) bool { return true })
		},
		func(x *Growing, r *htm.Region) bool { _, found, ok := x.FindIn(r, 77); return ok && !found },
	} {
		w := newGrowing(t, newGround(t, true), c, 1<<30, 2)
		r, other := htm.NewRegion(htm.Config{}), htm.NewRegion(htm.Config{})
		r.Begin()
		if !look(w[0], r) {
			t.Fatal("the region aborted, or found a key")
		}
		if err := w[1].Grow(); err != nil {
			t.Fatal(err)
		}
		in(t, other, func() bool { _, _, ok, err := w[1].EnsureIn(other, 77, 0); return ok && err == nil })
		committed := r.Commit(nil)
		holds = holds && !committed
		in(t, r, func() bool {
			next, place, found, ok := w[0].Next(r, 0)
			if i, _ := layout.SplitPlace(place); ok && (!found || next != 77 || i != 1) {
				t.Errorf("then: key %d in extent %d, found %v", next, i, found)
			}
			return ok
		})
	}
	return holds
}

// TestAGrowingTableAllocatesNothing in its hot path.
func TestAGrowingTableAllocatesNothing(t *testing.T) {
	c := For(3, "alloc", 8, 10)
	c.Grows = true
	x := newGrowing(t, newGround(t, true), c, 1<<30, 1)[0]
	for k := range uint64(500) {
		if err := x.Load(2*k, tabletest.Value(8, k)); err != nil {
			t.Fatal(err)
		}
	}
	var sum uint64
	r, add := htm.NewRegion(htm.Config{}), func(k uint64, _ int) bool { sum += k; return true }
	change := func() {
		in(t, r, func() bool { _, _, ok, _ := x.EnsureIn(r, 101, 0); return ok })
		in(t, r, func() bool { return x.Scan(r, 50, 150, add) && x.Scan(r, 150, 50, add) })
		in(t, r, func() bool { _, _, _, ok := x.Next(r, 7); return ok })
		in(t, r, func() bool { _, _, _, ok := x.Ends(r, 7, 100); return ok })
		in(t, r, func() bool { ok, _ := x.ReclaimIn(r, 101, 0); return ok })
		x.Find(7)
	}
	change()
	if n := testing.AllocsPerRun(100, change); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
