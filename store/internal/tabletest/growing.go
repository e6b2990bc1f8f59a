package tabletest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"drtmd/htm"
	"drtmd/store/extent"
	"drtmd/store/layout"
	"drtmd/verbs"
)

// Ground is what a table grows by: memory of a device.
type Ground struct {
	Words  bool     // whether memory has line words
	Kept   [][]byte // what extents held when their process died, from extent 1 on
	Failed error    // of the next Alloc

	pd *verbs.PD
}

// NewGround makes a Ground of a device, which the test closes.
func NewGround(t testing.TB, device *verbs.Context, words bool) *Ground {
	t.Helper()
	t.Cleanup(func() {
		if err := device.Close(); err != nil {
			t.Error(err)
		}
	})
	pd, err := device.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	return &Ground{Words: words, pd: pd}
}

// Alloc is for the GrowthConfig of a table.
func (g *Ground) Alloc(i, n int) (*verbs.MR, error) {
	if err := g.Failed; err != nil {
		g.Failed = nil
		return nil, err
	}
	mr, err := g.pd.AllocMR(n, verbs.AccessAll, verbs.MROptions{LineOwners: 4})
	if err == nil && i <= len(g.Kept) {
		copy(mr.Bytes(), g.Kept[i-1])
	}
	return mr, err
}

func (g *Ground) view(mr *verbs.MR) (*htm.Memory, error) {
	if !g.Words {
		return htm.NewMemory(mr.Bytes(), nil, 0, nil), nil
	}
	o, err := mr.ClaimLineOwner()
	if err != nil {
		return nil, err
	}
	return htm.NewMemory(mr.Bytes(), mr.Lines(), o.Slot, o.Journal), nil
}

// Openers open tables of one kind: their first extents, of type T, and all of one, of type X.
type Openers[C, T, X any] struct {
	Format, Attach func(C, *htm.Memory, int) (T, error)
	Open           func(first T, kept bool, view func(*verbs.MR) (*htm.Memory, error)) (X, error)
}

// Opening says how to open a table.
type Opening struct {
	BoundBytes int64
	Workers    int
	Memory     []byte // of the first extent; nil: new
	Kept       bool   // whether Memory has outlived a process
}

// Bound is for the GrowthConfig of a table.
func (o *Opening) Bound() *extent.Bound {
	return &extent.Bound{Bytes: o.BoundBytes, Setting: "tables.bytes"}
}

// Open opens a table, a view per worker.
func Open[C interface{ Bytes() int }, T, X any](g *Ground, c C, o *Opening,
	by Openers[C, T, X]) (list []X, err error) {
	b := o.Memory
	if b == nil {
		b = Aligned(c.Bytes())
	}
	lines := make([]uint64, len(b)/layout.LineBytes)
	for i := range o.Workers {
		m := htm.NewMemory(b, nil, 0, nil)
		if g.Words {
			m = htm.NewMemory(b, lines, uint16(i+1), nil)
		}
		open := by.Attach
		if i == 0 && !o.Kept {
			open = by.Format
		}
		first, err := open(c, m, 0)
		if err != nil {
			return nil, err
		}
		x, err := by.Open(first, o.Kept && i == 0, g.view)
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, nil
}

// CheckExtents has check look at every word of all extents, those that other workers have added included.
func CheckExtents[C extent.Config[C], T extent.Table](x *extent.Views[C, T], check func(T) error) error {
	if !x.Sync() {
		return x.Broken
	}
	for i, table := range x.Tables {
		if err := check(table); err != nil {
			return fmt.Errorf("extent %d: %w", i, err)
		}
	}
	return nil
}

// GrowingTable is a Table that grows.
type GrowingTable interface {
	Table
	Grow() error
}

// Growth is what the workers of a table that grows share.
type Growth interface {
	Extents() int
	Bound() *extent.Bound
	Close() error
}

// GrowingModel is a Model of a table that grows until its bound, with workers that take turns.
type GrowingModel[T GrowingTable] struct {
	Workers []T
	Growth  Growth
	Keys    uint64              // keys are below
	Whole   func(table T) error // says what does not fit of the words of all extents at rest
	Errors  Errors

	Acts    T   // the worker that acts
	Refused int // how often the table did not grow, for its bound

	region    *htm.Region
	committer htm.RecordCommitter
	values    map[uint64]byte           // of keys with an entry, all of which are live
	highest   map[uint64]layout.Version // of what a key ever had
	last      byte                      // value
}

// Start readies a GrowingModel of which the fields up to Errors are set, with an empty table.
func (m *GrowingModel[T]) Start() {
	memory, _ := m.Workers[0].At(0)
	m.region, m.committer = htm.NewRegion(htm.Config{}), CommitterOf(memory)
	m.values, m.highest = map[uint64]byte{}, map[uint64]layout.Version{}
}

// Actions are the operations and the check behind each, for rapid.T.Repeat.
func (m *GrowingModel[T]) Actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"insert": func(t *rapid.T) { m.InsertKey(t, m.Key(t, "key")) },
		"delete": func(t *rapid.T) { m.DeleteKey(t, m.Key(t, "key")) },
		"":       func(t *rapid.T) { m.Turn(t); m.Check(t) },
	}
}

// Key draws one.
func (m *GrowingModel[T]) Key(t *rapid.T, label string) uint64 {
	return rapid.Uint64Range(0, m.Keys-1).Draw(t, label)
}

// Turn draws the worker that acts.
func (m *GrowingModel[T]) Turn(t *rapid.T) {
	m.Acts = m.Workers[rapid.IntRange(0, len(m.Workers)-1).Draw(t, "worker")]
}

// Entries are the keys that have an entry, in order.
func (m *GrowingModel[T]) Entries() []uint64 { return slices.Sorted(maps.Keys(m.values)) }

// Highest is the last version of a key.
func (m *GrowingModel[T]) Highest(key uint64) layout.Version { return m.highest[key] }

// In runs f in a region of the worker, until the region commits.
func (m *GrowingModel[T]) In(t *rapid.T, f func(r *htm.Region) bool) {
	for range 10 {
		m.region.Begin()
		f(m.region)
		if m.region.Commit(m.committer) {
			return
		}
	}
	code, n := m.region.Aborted()
	t.Fatalf("the region does not commit: %v %#x", code, n)
}

// store writes a record.
func (m *GrowingModel[T]) store(place int, v layout.Version, value byte) {
	r := m.Acts.Record()
	image := make([]byte, r.Bytes)
	r.Put(image, v, bytes.Repeat([]byte{value}, r.ValueBytes))
	memory, off := m.Acts.At(place)
	m.region.Store64(memory, off+layout.VersionOffset, uint64(v))
	m.region.Store(memory, off+layout.ValueOffset, image[layout.ValueOffset:])
}

// InsertKey gives a key a value. The table grows for it, if it has to and may.
func (m *GrowingModel[T]) InsertKey(t *rapid.T, key uint64) {
	for range layout.MaxExtents {
		full := m.insert(t, key)
		if full == nil {
			return
		}
		if _, there := m.values[key]; !errors.Is(full, m.Errors.Full) || there {
			t.Fatalf("key %d, with an entry %v: %v", key, there, full)
		}
		n := m.Growth.Extents()
		switch err := m.Acts.Grow(); {
		case errors.Is(err, m.Errors.Full) && errors.Is(err, m.Errors.Bound) &&
			strings.Contains(err.Error(), "raise tables.bytes"):
			m.Refused++
			return
		case err != nil:
			t.Fatal(err)
		case m.Growth.Extents() != n+1:
			t.Fatalf("%d extents after %d", m.Growth.Extents(), n)
		}
	}
	t.Fatalf("key %d has no place in %d extents", key, m.Growth.Extents())
}

func (m *GrowingModel[T]) insert(t *rapid.T, key uint64) (full error) {
	m.In(t, func(r *htm.Region) bool {
		place, v, ok, err := m.Acts.EnsureIn(r, key, 0)
		if full = err; !ok || err != nil {
			return ok
		}
		if _, live := m.values[key]; live != v.Live() || v < m.highest[key] {
			t.Fatalf("key %d: live %v, its version %v after %v", key, live, v, m.highest[key])
		}
		if v.Live() {
			v = v.Written()
		} else {
			v = v.Inserted()
		}
		m.last++
		m.values[key], m.highest[key] = m.last, v
		m.store(place, v, m.last)
		return true
	})
	return full
}

// DeleteKey deletes a key and gives its entry back.
func (m *GrowingModel[T]) DeleteKey(t *rapid.T, key uint64) {
	_, there := m.values[key]
	m.In(t, func(r *htm.Region) bool {
		place, found, ok := m.Acts.FindIn(r, key)
		if ok && found != there {
			t.Fatalf("key %d: found %v", key, found)
		}
		if ok && found {
			m.highest[key] = m.highest[key].Deleted()
			m.store(place, m.highest[key], 0)
		}
		return ok
	})
	m.In(t, func(r *htm.Region) bool {
		ok, err := m.Acts.ReclaimIn(r, key, 0)
		if ok && (err == nil) != there {
			t.Fatalf("key %d: given back: %v", key, err)
		}
		return ok
	})
	delete(m.values, key)
}

// Check compares the table with the map.
func (m *GrowingModel[T]) Check(t *rapid.T) {
	if err := m.Whole(m.Acts); err != nil {
		t.Fatal(err)
	}
	n := 0
	m.Acts.Each(func(int) bool { n++; return true })
	if n != len(m.values) {
		t.Fatalf("%d entries, want %d", n, len(m.values))
	}
	for key, value := range m.values {
		place, ok := m.Acts.Find(key)
		if !ok {
			t.Fatalf("key %d is not found", key)
		}
		image := imageAt(m.Acts, place)
		want := bytes.Repeat([]byte{value}, m.Acts.Record().ValueBytes)
		if h := layout.HeadOf(image); h.Key != key || h.Version != m.highest[key] ||
			!bytes.Equal(valueOf(m.Acts, image), want) {
			t.Fatalf("key %d: %+v, %x, want version %v, %x", key, h, image, m.highest[key], want)
		}
	}
}

// Close frees the extents and checks that their memory is no longer taken of the bound.
func (m *GrowingModel[T]) Close(t *rapid.T) {
	if err := m.Growth.Close(); err != nil || m.Growth.Bound().Used() != 0 {
		t.Errorf("%d bytes are still taken of the bound: %v", m.Growth.Bound().Used(), err)
	}
}
