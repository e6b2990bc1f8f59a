package store

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"drtmd/htm"
	"drtmd/store/layout"
	"drtmd/verbs"
	"drtmd/verbs/sim"
)

// growTest is what a table grows by: memory of a simulated device.
type growTest struct {
	t      testing.TB
	pd     *verbs.PD
	words  bool
	kept   [][]byte // what extents held when their process died, from extent 1 on
	failed error    // of the next Alloc
}

func newGrowTest(t testing.TB, words bool) *growTest {
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
	return &growTest{t: t, pd: pd, words: words}
}

func (g *growTest) alloc(i, n int) (*verbs.MR, error) {
	if err := g.failed; err != nil {
		g.failed = nil
		return nil, err
	}
	mr, err := g.pd.AllocMR(n, verbs.AccessAll, verbs.MROptions{LineOwners: 4})
	if err == nil && i <= len(g.kept) {
		copy(mr.Bytes(), g.kept[i-1])
	}
	return mr, err
}

func (g *growTest) view(mr *verbs.MR) (*htm.Memory, error) {
	if !g.words {
		return htm.NewMemory(mr.Bytes(), nil, 0, nil), nil
	}
	o, err := mr.ClaimLineOwner()
	if err != nil {
		return nil, err
	}
	return htm.NewMemory(mr.Bytes(), mr.Lines(), o.Slot, o.Journal), nil
}

// first is the memory of the first extent, for one more worker.
func (g *growTest) first(b []byte, words []uint64, slot uint16) *htm.Memory {
	if !g.words {
		return htm.NewMemory(b, nil, 0, nil)
	}
	return htm.NewMemory(b, words, slot, nil)
}

func (g *growTest) growth(c Config, bound int64) *Growth {
	return NewGrowth(GrowthConfig{Table: c, Bound: &Bound{Bytes: bound, Setting: "tables.bytes"},
		Alloc: g.alloc})
}

// TestAGrowingTableIsAMapWithVersionsThatGrow is the model test of a table, for one that grows until
// its bound, with two workers that take turns, on memory with line words and without.
func TestAGrowingTableIsAMapWithVersionsThatGrow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := newGrowTest(t, rapid.Bool().Draw(rt, "line words"))
		c := Config{ID: 1, Name: "grows", ValueBytes: rapid.SampledFrom([]int{8, 100}).Draw(rt, "value"),
			MainBuckets: 1, IndirectBuckets: rapid.IntRange(0, 1).Draw(rt, "indirect"), Entries: 6, Grows: true,
			Layout: rapid.SampledFrom([]layout.Kind{layout.KindOneVersion,
				layout.KindLineVersions}).Draw(rt, "layout")}
		b, words := aligned(c.Bytes()), make([]uint64, c.Bytes()/layout.LineBytes)
		growth := g.growth(c, int64(rapid.IntRange(0, 200_000).Draw(rt, "bound")))
		m := &growingModel{region: htm.NewRegion(htm.Config{}), live: map[uint64]byte{},
			entries: map[uint64]bool{}, highest: map[uint64]layout.Version{}}
		for i := range 2 {
			open := Attach
			if i == 0 {
				open = Format
			}
			first, err := open(c, g.first(b, words, uint16(i+1)), 0)
			if err != nil {
				rt.Fatal(err)
			}
			w, err := growth.Open(first, false, g.view)
			if err != nil {
				rt.Fatal(err)
			}
			m.workers = append(m.workers, w)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"insert":  m.insert,
			"insert2": m.insert,
			"delete":  m.delete,
			"": func(t *rapid.T) {
				m.x = m.workers[rapid.IntRange(0, 1).Draw(t, "worker")]
				m.check(t)
			},
		})
		if err := growth.Close(); err != nil {
			rt.Error(err)
		}
		if growth.Bound().Used() != 0 {
			rt.Errorf("%d bytes are still taken of the bound", growth.Bound().Used())
		}
	})
}

type growingModel struct {
	workers []*Growing
	x       *Growing // that acts
	region  *htm.Region
	live    map[uint64]byte
	entries map[uint64]bool
	highest map[uint64]layout.Version
	last    byte
}

const growingKeys = 400

// in runs f in a region of the worker, until the region commits.
func (m *growingModel) in(t *rapid.T, f func() bool) {
	for range 10 {
		m.region.Begin()
		f()
		if m.region.Commit(committerOf(m.x.x.Tables[0])) {
			return
		}
	}
	code, n := m.region.Aborted()
	t.Fatalf("the region does not commit: %v %#x", code, n)
}

func committerOf(t *Table) htm.Committer {
	if t.lineWords {
		return nil
	}
	return lonely{}
}

// store writes a record.
func (m *growingModel) store(place int, v layout.Version, value byte) {
	r := m.x.Record()
	image := make([]byte, r.Bytes)
	r.Put(image, v, bytes.Repeat([]byte{value}, r.ValueBytes))
	memory, off := m.x.At(place)
	m.region.Store64(memory, off+layout.VersionOffset, uint64(v))
	m.region.Store(memory, off+layout.ValueOffset, image[layout.ValueOffset:])
}

func (m *growingModel) insert(t *rapid.T) {
	key := rapid.Uint64Range(0, growingKeys-1).Draw(t, "key")
	for range layout.MaxExtents {
		var full error
		m.in(t, func() bool {
			place, v, ok, err := m.x.EnsureIn(m.region, key, 0)
			if full = err; !ok || err != nil {
				return ok
			}
			if _, live := m.live[key]; live != v.Live() || v < m.highest[key] {
				t.Fatalf("key %d: live %v, its version %v after %v", key, live, v, m.highest[key])
			}
			m.last++
			m.entries[key], m.live[key], m.highest[key] = true, m.last, next(v)
			m.store(place, next(v), m.last)
			return true
		})
		if full == nil {
			return
		}
		if !errors.Is(full, ErrFull) || m.entries[key] {
			t.Fatalf("key %d, with an entry %v: %v", key, m.entries[key], full)
		}
		n := m.x.x.Growth.Extents()
		switch err := m.x.Grow(); {
		case errors.Is(err, ErrFull) && strings.Contains(err.Error(), "tables.bytes"):
			return
		case err != nil:
			t.Fatal(err)
		case m.x.x.Growth.Extents() != n+1:
			t.Fatalf("%d extents after %d", m.x.x.Growth.Extents(), n)
		}
	}
	t.Fatalf("key %d has no place in %d extents", key, m.x.x.Growth.Extents())
}

func next(v layout.Version) layout.Version {
	if v.Live() {
		return v.Written()
	}
	return v.Inserted()
}

func (m *growingModel) delete(t *rapid.T) {
	key := rapid.Uint64Range(0, growingKeys-1).Draw(t, "key")
	m.in(t, func() bool {
		place, found, ok := m.x.FindIn(m.region, key)
		if ok && found != m.entries[key] {
			t.Fatalf("key %d: found %v", key, found)
		}
		if ok && found && m.live[key] != 0 {
			v := m.highest[key].Deleted()
			m.store(place, v, 0)
			m.highest[key] = v
		}
		return ok
	})
	delete(m.live, key)
	m.in(t, func() bool {
		ok, err := m.x.ReclaimIn(m.region, key, 0)
		if ok && (err == nil) != m.entries[key] {
			t.Fatalf("key %d: given back: %v", key, err)
		}
		return ok
	})
	delete(m.entries, key)
}

func (m *growingModel) check(t *rapid.T) {
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
	if n != len(m.entries) {
		t.Fatalf("%d entries, want %d", n, len(m.entries))
	}
	for key := range m.entries {
		place, ok := m.x.Find(key)
		if !ok {
			t.Fatalf("key %d is not found", key)
		}
		memory, off := m.x.At(place)
		r := m.x.Record()
		image := memory.Bytes[off : off+r.Bytes]
		want := bytes.Repeat([]byte{m.live[key]}, r.ValueBytes)
		if h := layout.HeadOf(image); h.Key != key || h.Version != m.highest[key] ||
			!bytes.Equal(r.Value(image, make([]byte, r.Room)), want) {
			t.Fatalf("key %d: %+v, %x, want version %v, %x", key, h, image, m.highest[key], want)
		}
	}
}

// TestAGrowingTableKeepsToItsBoundInWords.
func TestAGrowingTableKeepsToItsBoundInWords(t *testing.T) {
	g := newGrowTest(t, true)
	c := For(3, "orders", 8, 10)
	c.Grows = true
	growth := g.growth(c, 100_000)
	first, err := Format(c, g.first(aligned(c.Bytes()), make([]uint64, c.Bytes()/64), 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	x, err := growth.Open(first, false, g.view)
	if err != nil {
		t.Fatal(err)
	}
	g.failed = errors.New("no memory today")
	n := uint64(0)
	for ; err == nil; n++ {
		err = x.Load(n, value(8, n))
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
	b := aligned(c.Bytes())
	g := newGrowTest(t, true)
	growth := g.growth(c, 1<<30)
	first, err := Format(c, g.first(b, make([]uint64, c.Bytes()/64), 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	x, err := growth.Open(first, false, g.view)
	if err != nil {
		t.Fatal(err)
	}
	for k := range uint64(keys) {
		if err := x.Load(k, value(8, k)); err != nil {
			t.Fatal(err)
		}
	}
	for i := 1; i < growth.Extents(); i++ {
		g.kept = append(g.kept, bytes.Clone(growth.MR(i).Bytes()))
	}
	open := func(bound int64) (*Growing, error) {
		first, err := Attach(c, g.first(b, make([]uint64, c.Bytes()/64), 1), 0)
		if err != nil {
			t.Fatal(err)
		}
		return g.growth(c, bound).Open(first, true, g.view)
	}
	again, err := open(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	if again.x.Growth.Extents() != growth.Extents() {
		t.Errorf("%d extents, there were %d", again.x.Growth.Extents(), growth.Extents())
	}
	for k := range uint64(keys) {
		place, ok := again.Find(k)
		if !ok {
			t.Fatalf("key %d is lost", k)
		}
		if m, off := again.At(place); !bytes.Equal(m.Bytes[off+layout.ValueOffset:off+32], value(8, k)) {
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
	if _, err := open(1000); !errors.Is(err, ErrBound) {
		t.Errorf("with a bound that has become less: %v", err)
	}
	b[again.x.Growth.LineAt(1)]++
	if _, err := open(1 << 30); !errors.Is(err, ErrNotTable) || !strings.Contains(err.Error(), "extent 1") {
		t.Errorf("with a damaged directory: %v", err)
	}
}

func TestGrowingHotPathDoesNotAllocate(t *testing.T) {
	g := newGrowTest(t, true)
	c := For(3, "alloc", 8, 10)
	c.Grows = true
	first, err := Format(c, g.first(aligned(c.Bytes()), make([]uint64, c.Bytes()/64), 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	x, err := g.growth(c, 1<<30).Open(first, false, g.view)
	if err != nil {
		t.Fatal(err)
	}
	for k := range uint64(500) {
		if err := x.Load(k, value(8, k)); err != nil {
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
	g := newGrowTest(t, true)
	c := For(3, "absent", 8, 10)
	c.Grows, c.Mutation = true, mutation
	b, words := aligned(c.Bytes()), make([]uint64, c.Bytes()/64)
	growth := g.growth(c, 1<<30)
	var w [2]*Growing
	for i, open := range []func(Config, *htm.Memory, int) (*Table, error){Format, Attach} {
		first, err := open(c, g.first(b, words, uint16(i+1)), 0)
		if err != nil {
			t.Fatal(err)
		}
		if w[i], err = growth.Open(first, false, g.view); err != nil {
			t.Fatal(err)
		}
	}
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
