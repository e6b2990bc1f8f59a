package tabletest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"drtmd/htm"
	"drtmd/store/layout"
)

// Model is a table, and a map that says what it should hold: keys whose versions grow. Its operations are drawn
// and run in regions, of which some are aborted where memory has line words.
type Model[T Table] struct {
	Table  T
	Keys   uint64 // keys are below
	Attach func() (T, error)
	Whole  func(table T) error // says what does not fit of the words of a table at rest
	Full   func(err error)     // is told of each refusal; may be nil
	// AtOnce: entries are made and given back at once where memory has line words, too, whatever becomes of the region.
	AtOnce bool
	Errors Errors

	Region *htm.Region // of all operations

	committer htm.RecordCommitter
	worded    bool
	last      uint64                    // value
	live      map[uint64]uint64         // key to value
	entries   map[uint64]bool           // keys with an entry
	highest   map[uint64]layout.Version // of what a key ever had
	state     map[uint64]uint64         // of keys with an entry
}

// Start readies a Model of which the fields up to Errors are set, with an empty table.
func (m *Model[T]) Start() {
	memory, _ := m.Table.At(0)
	m.Region, m.worded, m.committer = htm.NewRegion(htm.Config{}), memory.Words != nil, CommitterOf(memory)
	m.live, m.entries = map[uint64]uint64{}, map[uint64]bool{}
	m.highest, m.state = map[uint64]layout.Version{}, map[uint64]uint64{}
}

// Load loads n keys, or as many as there is room for.
func (m *Model[T]) Load(t *rapid.T, n uint64, key func(i uint64) uint64) {
	for i := range n {
		err := m.Table.Load(key(i), m.value(1))
		if errors.Is(err, m.Errors.Full) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		m.last, m.entries[key(i)], m.live[key(i)] = 1, true, 1
		m.raise(t, key(i), layout.FirstVersion)
	}
}

// Actions are the operations and the check behind each, for rapid.T.Repeat.
func (m *Model[T]) Actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"insert":  func(t *rapid.T) { m.InsertKey(t, m.Key(t, "key")) },
		"write":   m.write,
		"delete":  m.delete,
		"reclaim": func(t *rapid.T) { m.ReclaimKey(t, m.Key(t, "key"), drawState(t)) },
		"attach": func(t *rapid.T) {
			var err error
			if m.Table, err = m.Attach(); err != nil {
				t.Fatal(err)
			}
		},
		"": m.Check,
	}
}

// Key draws one.
func (m *Model[T]) Key(t *rapid.T, label string) uint64 {
	return rapid.Uint64Range(0, m.Keys-1).Draw(t, label)
}

// drawState draws the state word of a record; 1 is locked.
func drawState(t *rapid.T) uint64 { return rapid.Uint64Range(0, 2).Draw(t, "state") }

// Entries are the keys that have an entry, in order.
func (m *Model[T]) Entries() []uint64 { return slices.Sorted(maps.Keys(m.entries)) }

// Live reports whether a key has a value.
func (m *Model[T]) Live(key uint64) bool { _, live := m.live[key]; return live }

// State is the state word of a key's entry.
func (m *Model[T]) State(key uint64) uint64 { return m.state[key] }

func (m *Model[T]) atOnce() bool { return m.AtOnce || !m.worded }

// commit ends the region, or aborts it if so drawn, and reports whether it has committed.
func (m *Model[T]) commit(t *rapid.T) bool {
	if m.worded && rapid.IntRange(0, 4).Draw(t, "abort") == 0 {
		m.Region.Abort(1)
		return false
	}
	m.End(t)
	return true
}

// End commits the region.
func (m *Model[T]) End(t *rapid.T) {
	if !m.Region.Commit(m.committer) {
		code, n := m.Region.Aborted()
		t.Fatalf("a region that was alone did not commit: %s %d", code, n)
	}
}

// raise takes down a version that key has got.
func (m *Model[T]) raise(t *rapid.T, key uint64, v layout.Version) {
	if was := m.highest[key]; v <= was {
		t.Fatalf("version of key %d goes from %s to %s", key, was, v)
	}
	m.highest[key] = v
}

// InsertKey has the table make an entry for a key, with a state that is drawn, and a value if so drawn.
func (m *Model[T]) InsertKey(t *rapid.T, key uint64) {
	state := drawState(t)
	memory, _ := m.Table.At(0)
	before := bytes.Clone(memory.Bytes)
	m.Region.Begin()
	off, v, ok, err := m.Table.EnsureIn(m.Region, key, state)
	if !ok {
		t.Fatal("a region that was alone aborted")
	}
	if err != nil {
		if !errors.Is(err, m.Errors.Full) || m.entries[key] {
			t.Fatalf("key %d, with an entry %v: %v", key, m.entries[key], err)
		}
		if m.Full != nil {
			m.Full(err)
		}
		m.End(t)
		if !bytes.Equal(before, memory.Bytes) {
			t.Fatalf("%v, and the table has changed", err)
		}
		return
	}
	if m.Live(key) != v.Live() {
		t.Fatalf("key %d is live: %v; its version is %s", key, m.Live(key), v)
	}
	made := !m.entries[key]
	if made && (v.Live() || v.Trace() != 0 || v < m.highest[key]) {
		t.Fatalf("new entry of key %d has version %s after %s", key, v, m.highest[key])
	}
	insert := !v.Live() && rapid.Bool().Draw(t, "make live")
	if insert {
		m.last++
		m.store(off, key, v.Inserted(), m.last)
	}
	if m.atOnce() && made { // whatever becomes of the region
		if m.entries[key] = true; !m.worded {
			state = 0
		}
		m.state[key] = state
	}
	if !m.commit(t) {
		return
	}
	if m.entries[key] = true; made && m.worded {
		m.state[key] = state
	}
	if insert {
		m.live[key] = m.last
		m.raise(t, key, v.Inserted())
	}
}

// store writes a record as a protocol does: its version, and all behind the header.
func (m *Model[T]) store(off int, key uint64, v layout.Version, value uint64) {
	r := m.Table.Record()
	image := make([]byte, r.Bytes)
	binary.LittleEndian.PutUint64(image, key)
	r.Put(image, v, m.value(value))
	memory, _ := m.Table.At(0)
	m.Region.Store64(memory, off+layout.VersionOffset, uint64(v))
	m.Region.Store(memory, off+layout.ValueOffset, image[layout.ValueOffset:])
}

func (m *Model[T]) value(v uint64) []byte {
	return bytes.Repeat([]byte{byte(v)}, m.Table.Record().ValueBytes)
}

// found begins a region and finds a record in it; if the key has no value it ends the region.
func (m *Model[T]) found(t *rapid.T, key uint64) (off int, v layout.Version, live bool) {
	m.Region.Begin()
	off, ok, alive := m.Table.FindIn(m.Region, key)
	if !alive || ok != m.entries[key] {
		t.Fatalf("key %d: found %v, region runs %v", key, ok, alive)
	}
	if ok {
		memory, _ := m.Table.At(0)
		w, _ := m.Region.Load64(memory, off+layout.VersionOffset)
		v = layout.Version(w)
	}
	if !ok || !v.Live() {
		m.End(t)
		return 0, 0, false
	}
	return off, v, true
}

func (m *Model[T]) write(t *rapid.T) {
	key := m.Key(t, "key")
	off, v, live := m.found(t, key)
	if !live {
		return
	}
	if rapid.IntRange(0, 9).Draw(t, "wrap") == 0 {
		v |= 1<<32 - 1
	}
	m.last++
	m.store(off, key, v.Written(), m.last)
	if m.commit(t) {
		m.live[key] = m.last
		m.raise(t, key, v.Written())
	}
}

func (m *Model[T]) delete(t *rapid.T) { m.deleteKey(t, m.Key(t, "key"), m.commit) }

// DeleteKey deletes a key that has a value.
func (m *Model[T]) DeleteKey(t *rapid.T, key uint64) {
	m.deleteKey(t, key, func(t *rapid.T) bool { m.End(t); return true })
}

func (m *Model[T]) deleteKey(t *rapid.T, key uint64, commit func(*rapid.T) bool) {
	off, v, live := m.found(t, key)
	if !live {
		return
	}
	memory, _ := m.Table.At(0)
	m.Region.Store64(memory, off+layout.VersionOffset, uint64(v.Deleted()))
	if commit(t) {
		delete(m.live, key)
		m.raise(t, key, v.Deleted())
	}
}

// ReclaimKey gives the entry of a key back that is to have a state.
func (m *Model[T]) ReclaimKey(t *rapid.T, key, state uint64) {
	m.Region.Begin()
	ok, err := m.Table.ReclaimIn(m.Region, key, state)
	if !ok {
		t.Fatal("a region that was alone aborted")
	}
	var want error
	switch {
	case !m.entries[key]:
		want = m.Errors.NoEntry
	case m.Live(key):
		want = m.Errors.Live
	case m.state[key] != state:
		want = m.Errors.State
	}
	if !errors.Is(err, want) {
		t.Fatalf("reclaiming key %d: %v, want %v", key, err, want)
	}
	if (m.commit(t) || m.atOnce()) && err == nil {
		delete(m.entries, key)
		delete(m.state, key)
	}
}

// Check compares the table with the map.
func (m *Model[T]) Check(t *rapid.T) {
	if err := m.Whole(m.Table); err != nil {
		t.Fatal(err)
	}
	records := 0
	m.Table.Each(func(int) bool { records++; return true })
	if records != len(m.entries) {
		t.Fatalf("%d records, want %d", records, len(m.entries))
	}
	for key := range m.Keys {
		off, ok := m.Table.Find(key)
		if ok != m.entries[key] {
			t.Fatalf("key %d: found %v", key, ok)
		}
		if ok {
			m.checkRecord(t, key, off)
		}
	}
}

func (m *Model[T]) checkRecord(t *rapid.T, key uint64, off int) {
	r, image, state := m.Table.Record(), imageAt(m.Table, off), m.state[key]
	head := layout.HeadOf(image)
	value, live := m.live[key]
	want := layout.Absent
	if live {
		want = layout.Live
	}
	if p := head.Match(key); p != want || head.State != state {
		t.Fatalf("key %d is %s with state %d, want %s with %d", key, p, head.State, want, state)
	}
	if b := valueOf(m.Table, image); live && !bytes.Equal(b, m.value(value)) {
		t.Fatalf("key %d has value %x, want %d", key, b, byte(value))
	}
	if live && r.Seal > 0 && !r.Whole(image) {
		t.Fatalf("key %d, version %s: the record has lost its seal", key, head.Version)
	}
	if live && r.Layout.Kind() == layout.KindLineVersions && r.Whole(image) == layout.Locked(state) {
		t.Fatalf("key %d, version %s, state %d: the lines of the record do not agree", key, head.Version, state)
	}
}
