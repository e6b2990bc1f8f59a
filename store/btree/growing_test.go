package btree

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/extent"
	"drtmd/store/layout"
	"drtmd/verbs"
	"drtmd/verbs/sim"
)

// grounds are what a table grows by: memory of a simulated device.
type grounds struct {
	pd    *verbs.PD
	words bool
	kept  [][]byte // what extents held when their process died, from extent 1 on
}

func newGrounds(t testing.TB, words bool) *grounds {
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
	t.Cleanup(func() {
		if err := device.Close(); err != nil {
			t.Error(err)
		}
	})
	pd, err := device.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	return &grounds{pd: pd, words: words}
}

func (g *grounds) alloc(i, n int) (*verbs.MR, error) {
	mr, err := g.pd.AllocMR(n, verbs.AccessAll, verbs.MROptions{LineOwners: 4})
	if err == nil && i <= len(g.kept) {
		copy(mr.Bytes(), g.kept[i-1])
	}
	return mr, err
}

func (g *grounds) view(mr *verbs.MR) (*htm.Memory, error) {
	if !g.words {
		return htm.NewMemory(mr.Bytes(), nil, 0, nil), nil
	}
	o, err := mr.ClaimLineOwner()
	if err != nil {
		return nil, err
	}
	return htm.NewMemory(mr.Bytes(), mr.Lines(), o.Slot, o.Journal), nil
}

// open opens a table for some workers. kept: its memory has outlived a process.
func (g *grounds) open(t rapid.TB, c Config, bound int64, workers int, b []byte, kept bool) []*Growing {
	t.Helper()
	x, err := g.tryOpen(t, c, bound, workers, b, kept)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func (g *grounds) tryOpen(t rapid.TB, c Config, bound int64, workers int, b []byte, kept bool) (list []*Growing,
	err error) {
	t.Helper()
	growth := NewGrowth(GrowthConfig{Table: c, Bound: &extent.Bound{Bytes: bound, Setting: "tables.bytes"},
		Alloc: g.alloc})
	lines := make([]uint64, c.Bytes()/layout.LineBytes)
	for i := range workers {
		m := htm.NewMemory(b, nil, 0, nil)
		if g.words {
			m = htm.NewMemory(b, lines, uint16(i+1), nil)
		}
		first, err := Attach(c, m, 0)
		if i == 0 && !kept {
			first, err = Format(c, m, 0)
		}
		if err != nil {
			return nil, err
		}
		x, err := growth.Open(first, kept && i == 0, g.view)
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, nil
}

// TestAGrowingTableIsASortedMap is the model test of a table, for one that grows until its bound, with two
// workers that take turns, on memory with line words and without.
func TestAGrowingTableIsASortedMap(t *testing.T) {
	extents, refused := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		g := newGrounds(t, rapid.Bool().Draw(rt, "line words"))
		c := Config{ID: 1, Name: "grows", ValueBytes: 8, Nodes: 4, Entries: 6, Grows: true}
		bound := int64(rapid.SampledFrom([]int{0, 30_000, 100_000, 300_000}).Draw(rt, "bound"))
		m := &growingModel{workers: g.open(rt, c, bound, 2, aligned(c.Bytes()), false),
			region: htm.NewRegion(htm.Config{}), words: g.words, highest: map[uint64]layout.Version{},
			there: map[uint64]bool{}}
		rt.Repeat(map[string]func(*rapid.T){
			"insert": m.insert,
			"delete": m.delete,
			"scan":   m.scan,
			"": func(t *rapid.T) {
				m.x = m.workers[rapid.IntRange(0, 1).Draw(t, "worker")]
				m.check(t)
			},
		})
		growth := m.x.x.Growth
		extents, refused = max(extents, growth.Extents()), refused+m.refused
		if err := growth.Close(); err != nil || growth.Bound().Used() != 0 {
			rt.Errorf("%d bytes are still taken of the bound: %v", growth.Bound().Used(), err)
		}
	})
	if extents < 3 || refused == 0 {
		t.Errorf("not everything has happened: %d extents, %d times refused", extents, refused)
	}
}

type growingModel struct {
	workers []*Growing
	x       *Growing // that acts
	region  *htm.Region
	words   bool
	there   map[uint64]bool
	highest map[uint64]layout.Version
	refused int
	steps   int
}

const growingKeys = 400

// in runs f in a region of the worker, until the region commits.
func (m *growingModel) in(t *rapid.T, f func() bool) {
	var x htm.RecordCommitter
	if !m.words {
		x = lonely{}
	}
	for range 10 {
		m.region.Begin()
		f()
		if m.region.Commit(x) {
			return
		}
	}
	code, n := m.region.Aborted()
	t.Fatalf("the region does not commit: %v %#x", code, n)
}

func (m *growingModel) insert(t *rapid.T) {
	from, n := rapid.Uint64Range(0, growingKeys-1).Draw(t, "key"), rapid.Uint64Range(1, 100).Draw(t, "keys")
	for key := from; key < min(from+n, growingKeys); key++ {
		m.insertKey(t, key)
	}
}

func (m *growingModel) insertKey(t *rapid.T, key uint64) {
	for range layout.MaxExtents {
		var full error
		m.in(t, func() bool {
			place, v, ok, err := m.x.EnsureIn(m.region, key, 0)
			if full = err; !ok || err != nil {
				return ok
			}
			if v < m.highest[key] {
				t.Fatalf("key %d: version %v after %v", key, v, m.highest[key])
			}
			if !v.Live() {
				v = v.Inserted()
			}
			m.there[key], m.highest[key] = true, v
			memory, off := m.x.At(place)
			return m.region.Store64(memory, off+layout.VersionOffset, uint64(v))
		})
		if full == nil {
			return
		}
		if !errors.Is(full, store.ErrFull) || m.there[key] {
			t.Fatalf("key %d, with an entry %v: %v", key, m.there[key], full)
		}
		switch err := m.x.Grow(); {
		case errors.Is(err, store.ErrBound) && strings.Contains(err.Error(), "raise tables.bytes"):
			m.refused++
			return
		case err != nil:
			t.Fatal(err)
		}
	}
	t.Fatalf("key %d has no place in %d extents", key, m.x.x.Growth.Extents())
}

func (m *growingModel) delete(t *rapid.T) {
	from, n := rapid.Uint64Range(0, growingKeys-1).Draw(t, "key"), rapid.Uint64Range(1, 20).Draw(t, "keys")
	for key := from; key < min(from+n, growingKeys); key++ {
		m.deleteKey(t, key)
	}
}

func (m *growingModel) deleteKey(t *rapid.T, key uint64) {
	m.in(t, func() bool {
		place, found, ok := m.x.FindIn(m.region, key)
		if ok && found != m.there[key] {
			t.Fatalf("key %d: found %v", key, found)
		}
		if !ok || !found {
			return ok
		}
		memory, off := m.x.At(place)
		v := m.highest[key]
		if v.Live() {
			v = v.Deleted()
		}
		m.highest[key] = v
		return m.region.Store64(memory, off+layout.VersionOffset, uint64(v))
	})
	m.in(t, func() bool {
		ok, err := m.x.ReclaimIn(m.region, key, 0)
		if ok && (err == nil) != m.there[key] {
			t.Fatalf("key %d: given back: %v", key, err)
		}
		return ok
	})
	delete(m.there, key)
}

func (m *growingModel) scan(t *rapid.T) {
	first, last := rapid.Uint64Range(0, growingKeys).Draw(t, "first"), rapid.Uint64Range(0, growingKeys).Draw(t, "last")
	limit := rapid.IntRange(1, growingKeys).Draw(t, "limit")
	var want, got []uint64
	for _, k := range slices.Sorted(maps.Keys(m.there)) {
		if k >= min(first, last) && k <= max(first, last) {
			want = append(want, k)
		}
	}
	m.in(t, func() bool {
		least, greatest, found, ok := m.x.Ends(m.region, min(first, last), max(first, last))
		if ok && (found != (len(want) > 0) || found && (least != want[0] || greatest != want[len(want)-1])) {
			t.Fatalf("ends %d and %d, %v, of %d", least, greatest, found, want)
		}
		return ok
	})
	if first > last {
		slices.Reverse(want)
	}
	want = want[:min(limit, len(want))]
	m.in(t, func() bool {
		got = got[:0]
		return m.x.Scan(m.region, first, last, func(key uint64, place int) bool {
			memory, off := m.x.At(place)
			if h := layout.HeadOf(memory.Bytes[off:]); h.Key != key || h.Version != m.highest[key] {
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
	if m.steps++; raceEnabled && m.steps%16 != 0 {
		return
	}
	if !m.x.x.Sync() {
		t.Fatal(m.x.x.Broken)
	}
	for i, table := range m.x.x.Tables {
		if err := checkTable(table); err != nil {
			t.Fatalf("extent %d: %v", i, err)
		}
	}
	n := 0
	m.x.Each(func(int) bool { n++; return true })
	if n != len(m.there) {
		t.Fatalf("%d entries, want %d", n, len(m.there))
	}
	for key := range m.there {
		if _, ok := m.x.Find(key); !ok {
			t.Fatalf("key %d is not found", key)
		}
	}
}

// TestKeptExtentsAreFoundAgain lets a process die, and another one open the memory that outlived it.
func TestKeptExtentsAreFoundAgain(t *testing.T) {
	const keys = 3000
	c := For(3, "kept", 8, 10)
	c.Grows = true
	b := aligned(c.Bytes())
	g := newGrounds(t, true)
	x := g.open(t, c, 1<<30, 1, b, false)[0]
	for k := range uint64(keys) {
		if err := x.Load(k*7919%keys, value(8, k)); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Load(5, value(8, 5)); !errors.Is(err, store.ErrExists) {
		t.Errorf("a key that was loaded: %v", err)
	}
	for i := 1; i < x.x.Growth.Extents(); i++ {
		g.kept = append(g.kept, bytes.Clone(x.x.Growth.MR(i).Bytes()))
	}
	again := g.open(t, c, 1<<30, 1, b, true)[0]
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
	if _, err := g.tryOpen(t, c, 1000, 1, b, true); !errors.Is(err, store.ErrBound) {
		t.Errorf("with a bound that has become less: %v", err)
	}
	b[again.x.Growth.LineAt(1)]++
	if _, err := g.tryOpen(t, c, 1<<30, 1, b, true); !errors.Is(err, store.ErrNotTable) {
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
		w := newGrounds(t, true).open(t, c, 1<<30, 2, aligned(c.Bytes()), false)
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
	x := newGrounds(t, true).open(t, c, 1<<30, 1, aligned(c.Bytes()), false)[0]
	for k := range uint64(500) {
		if err := x.Load(2*k, value(8, k)); err != nil {
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
