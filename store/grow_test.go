package store

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"drtmd/htm"
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

// TestAGrowingTableIsAMapWithVersionsThatGrow is the model test of a table, for one that grows until
// its bound, with two workers that take turns, on memory with line words and without.
func TestAGrowingTableIsAMapWithVersionsThatGrow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := newGround(t, rapid.Bool().Draw(rt, "line words"))
		c := Config{ID: 1, Name: "grows", ValueBytes: rapid.SampledFrom([]int{8, 100}).Draw(rt, "value"),
			MainBuckets: 1, IndirectBuckets: rapid.IntRange(0, 1).Draw(rt, "indirect"), Entries: 6, Grows: true,
			Layout: rapid.SampledFrom([]layout.Kind{layout.KindOneVersion,
				layout.KindLineVersions}).Draw(rt, "layout")}
		workers := newGrowing(rt, g, c, int64(rapid.IntRange(0, 200_000).Draw(rt, "bound")), 2)
		m := &tabletest.GrowingModel[*Growing]{Workers: workers, Growth: workers[0].x.Growth,
			Keys: 400, Whole: checkExtents, Errors: tableErrors}
		m.Start()
		actions := m.Actions()
		actions["insert2"] = actions["insert"]
		rt.Repeat(actions)
		m.Close(rt)
	})
}

// TestAGrowingTableKeepsToItsBoundInWords.
func TestAGrowingTableKeepsToItsBoundInWords(t *testing.T) {
	g := newGround(t, true)
	c := For(3, "orders", 8, 10)
	c.Grows = true
	x := newGrowing(t, g, c, 100_000, 1)[0]
	growth := x.x.Growth
	g.Failed = errors.New("no memory today")
	var err error
	n := uint64(0)
	for ; err == nil; n++ {
		err = x.Load(n, tabletest.Value(8, n))
		if err != nil && strings.Contains(err.Error(), "no memory today") {
			if used := growth.Bound().Used(); used != 0 || growth.Extents() != 1 {
				t.Fatalf("after %v, %d bytes are taken and there are %d extents", err, used, growth.Extents())
			}
			n, err = n-1, nil
		}
	}
	if !errors.Is(err, ErrFull) || !errors.Is(err, ErrBound) {
		t.Fatal(err)
	}
	for _, part := range []string{`table "orders"`, "exceed tables.bytes = 100000", "raise tables.bytes"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
	if used := growth.Bound().Used(); used > 100_000 || used != int64(growth.Bytes()) || growth.Extents() < 2 {
		t.Errorf("%d bytes are taken, %d registered, in %d extents", used, growth.Bytes(), growth.Extents())
	}
	if err := growth.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestKeptExtentsAreFoundAgain lets a process die, and another one open the memory that outlived it,
// at other addresses.
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
		if err := x.Load(k, tabletest.Value(8, k)); err != nil {
			t.Fatal(err)
		}
	}
	for i := 1; i < x.x.Growth.Extents(); i++ {
		g.Kept = append(g.Kept, bytes.Clone(x.x.Growth.MR(i).Bytes()))
	}
	opening.Kept = true
	workers, err = openGrowing(g, c, opening)
	if err != nil {
		t.Fatal(err)
	}
	again := workers[0]
	if again.x.Growth.Extents() != x.x.Growth.Extents() {
		t.Errorf("%d extents, there were %d", again.x.Growth.Extents(), x.x.Growth.Extents())
	}
	for k := range uint64(keys) {
		place, ok := again.Find(k)
		if !ok {
			t.Fatalf("key %d is lost", k)
		}
		if m, off := again.At(place); !bytes.Equal(m.Bytes[off+layout.ValueOffset:off+32], tabletest.Value(8, k)) {
			t.Fatalf("key %d has another value", k)
		}
	}
	for i := range again.x.Growth.Extents() - 1 {
		mr := again.x.Growth.MR(i + 1)
		var w layout.ExtentWords
		for j := range w {
			w[j] = again.x.Tables[0].word(again.x.Growth.LineAt(i+1) + 8*j)
		}
		if x, ok := w.Extent(i + 1); !ok || x.RKey != mr.RKey() || x.Addr != mr.Addr() {
			t.Errorf("the directory says that extent %d is at %+v", i+1, x)
		}
	}
	less := opening
	less.BoundBytes = 1000
	if _, err := openGrowing(g, c, less); !errors.Is(err, ErrBound) {
		t.Errorf("with a bound that has become less: %v", err)
	}
	b[again.x.Growth.LineAt(1)]++
	_, err = openGrowing(g, c, opening)
	if !errors.Is(err, ErrNotTable) || !strings.Contains(err.Error(), "extent 1") {
		t.Errorf("with a damaged directory: %v", err)
	}
}

func TestGrowingHotPathDoesNotAllocate(t *testing.T) {
	g := newGround(t, true)
	c := For(3, "alloc", 8, 10)
	c.Grows = true
	x := newGrowing(t, g, c, 1<<30, 1)[0]
	for k := range uint64(500) {
		if err := x.Load(k, tabletest.Value(8, k)); err != nil {
			t.Fatal(err)
		}
	}
	r := htm.NewRegion(htm.Config{})
	change := func() {
		r.Begin()
		_, _, _, err := x.EnsureIn(r, 1000, 0)
		if !r.Commit(nil) || err != nil {
			t.Fatal(err)
		}
		r.Begin()
		_, err = x.ReclaimIn(r, 1000, 0)
		if !r.Commit(nil) || err != nil {
			t.Fatal(err)
		}
		x.Find(7)
	}
	change()
	if n := testing.AllocsPerRun(100, change); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestAnAbsenceIsOfAllExtents: a region that found nothing does not commit if another worker has added
// an extent, and the key in it, meanwhile.
func TestAnAbsenceIsOfAllExtents(t *testing.T) {
	for _, m := range []Mutation{0, ExtentsUnread} {
		t.Run(m.String(), func(t *testing.T) { absenceInExtents(t, m) })
	}
}

func absenceInExtents(t *testing.T, mutation Mutation) {
	g := newGround(t, true)
	c := For(3, "absent", 8, 10)
	c.Grows, c.Mutation = true, mutation
	w := newGrowing(t, g, c, 1<<30, 2)
	r, other := htm.NewRegion(htm.Config{}), htm.NewRegion(htm.Config{})
	r.Begin()
	if _, found, ok := w[0].FindIn(r, 77); found || !ok {
		t.Fatalf("found %v, runs %v", found, ok)
	}
	if err := w[1].Grow(); err != nil {
		t.Fatal(err)
	}
	other.Begin()
	if _, _, ok, err := w[1].EnsureIn(other, 77, 0); !ok || err != nil || !other.Commit(nil) {
		t.Fatal("the key was not inserted")
	}
	if committed := r.Commit(nil); committed != (mutation == ExtentsUnread) {
		t.Errorf("an absence is committed, though the key is in a new extent: %v", committed)
	}
	r.Begin()
	if place, found, ok := w[0].FindIn(r, 77); !found || !ok || place>>48 != 1 {
		t.Errorf("then: place %#x, found %v, runs %v", place, found, ok)
	}
	r.Commit(nil)
}
