package hopscotch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/layout"
)

// tableModel is what a table should hold.
type tableModel struct {
	live    map[uint64]uint64         // key to value
	entries map[uint64]bool           // keys with a record
	highest map[uint64]layout.Version // of what a key ever had
	state   map[uint64]uint64         // of keys with a record
}

// lonely is a commit on memory without line words whose records nobody else touches.
type lonely struct{}

func (lonely) Lock() bool     { return true }
func (lonely) Confirm() bool  { return true }
func (lonely) Validate() bool { return true }
func (lonely) Unlock(bool)    {}

// TestTableIsAMapWithVersionsThatGrow runs random insertions, writes, deletions and reclaims of a
// few keys, with line words some of them in regions that are aborted, against a map. The tables are so small
// that records move all the time, overflow, and fill the table; some records are locked.
func TestTableIsAMapWithVersionsThatGrow(t *testing.T) {
	moved, overflowed, full := 0, 0, 0
	check := func(t *rapid.T) {
		c := Config{ID: 1, Name: "model", ValueBytes: rapid.IntRange(1, 100).Draw(t, "value"),
			Layout: rapid.SampledFrom([]layout.Kind{0, layout.KindOneVersion,
				layout.KindLineVersions}).Draw(t, "layout"),
			Homes:    rapid.IntRange(1, 50).Draw(t, "homes"),
			Blocks:   rapid.IntRange(0, 6).Draw(t, "blocks"),
			CPULocks: rapid.Bool().Draw(t, "CPU locks")}
		worded := rapid.Bool().Draw(t, "line words")
		memory := memoryFor(c, worded)
		table, err := Format(c, memory, 0)
		if err != nil {
			t.Fatal(err)
		}
		m := &modelRun{table: table, region: htm.NewRegion(htm.Config{}), worded: worded, places: map[uint64]int{}, model: tableModel{
			live: map[uint64]uint64{}, entries: map[uint64]bool{},
			highest: map[uint64]layout.Version{}, state: map[uint64]uint64{}}}
		for key := range rapid.Uint64Range(0, modelKeys).Draw(t, "loaded") {
			err := table.Load(key, bytes.Repeat([]byte{1}, c.ValueBytes))
			if errors.Is(err, store.ErrFull) {
				break
			}
			m.last, m.model.entries[key], m.model.live[key] = 1, true, 1
			m.raise(t, key, layout.FirstVersion)
		}
		t.Repeat(map[string]func(*rapid.T){
			"insert":  m.insert,
			"write":   m.write,
			"delete":  m.delete,
			"reclaim": m.reclaim,
			"attach": func(t *rapid.T) {
				if m.table, err = Attach(c, memory, 0); err != nil {
					t.Fatal(err)
				}
			},
			"": m.check,
		})
		moved += m.moved
		overflowed += table.Occupancy().Overflowed
		full += m.full
	}
	// Few tables are such that records move: one run in 25 has none.
	for i := 0; i < 5 && (moved == 0 || overflowed == 0 || full == 0); i++ {
		rapid.Check(t, check)
	}
	if moved == 0 || overflowed == 0 || full == 0 {
		t.Errorf("not everything has happened: %d moves, %d overflowed, %d times full", moved, overflowed, full)
	}
}

// memoryFor is memory for one table.
func memoryFor(c Config, worded bool) *htm.Memory {
	if !worded {
		return htm.NewMemory(aligned(c.Bytes()), nil, 0, nil)
	}
	return htm.NewMemory(aligned(c.Bytes()), make([]uint64, c.Bytes()/layout.LineBytes), 1, nil)
}

// aligned is n bytes at a multiple of a page.
func aligned(n int) []byte {
	b := make([]byte, n+4096)
	return b[-uintptr(unsafe.Pointer(unsafe.SliceData(b)))&4095:][:n]
}

type modelRun struct {
	table  *Table
	region *htm.Region
	worded bool
	model  tableModel
	last   uint64
	places map[uint64]int // of records, at the last check
	moved  int
	full   int
}

const modelKeys = 64

func drawKey(t *rapid.T) uint64 { return rapid.Uint64Range(0, modelKeys-1).Draw(t, "key") }

// commit ends the region, or aborts it if so drawn, and reports whether it has committed.
func (m *modelRun) commit(t *rapid.T) bool {
	if m.worded && rapid.IntRange(0, 4).Draw(t, "abort") == 0 {
		m.region.Abort(1)
		return false
	}
	m.end(t)
	return true
}

// end commits the region.
func (m *modelRun) end(t *rapid.T) {
	var x htm.RecordCommitter
	if !m.worded {
		x = lonely{}
	}
	if !m.region.Commit(x) {
		code, n := m.region.Aborted()
		t.Fatalf("a region that was alone did not commit: %s %d", code, n)
	}
}

// raise takes down a version that key has got.
func (m *modelRun) raise(t *rapid.T, key uint64, v layout.Version) {
	if was := m.model.highest[key]; v <= was {
		t.Fatalf("version of key %d goes from %s to %s", key, was, v)
	}
	m.model.highest[key] = v
}

func (m *modelRun) insert(t *rapid.T) {
	// 1 is locked: such a record does not move.
	key, state := drawKey(t), rapid.Uint64Range(0, 2).Draw(t, "state")
	before := bytes.Clone(m.table.m.Bytes)
	m.region.Begin()
	off, v, ok, err := m.table.EnsureIn(m.region, key, state)
	if !ok {
		t.Fatal("a region that was alone aborted")
	}
	if err != nil {
		if m.full++; !errors.Is(err, store.ErrFull) || m.model.entries[key] {
			t.Fatalf("key %d, with a record %v: %v", key, m.model.entries[key], err)
		}
		m.end(t)
		if !bytes.Equal(before, m.table.m.Bytes) {
			t.Fatalf("%v, and the table has changed", err)
		}
		return
	}
	if _, live := m.model.live[key]; live != v.Live() {
		t.Fatalf("key %d is live: %v; its version is %s", key, live, v)
	}
	made := !m.model.entries[key]
	if made && (v.Live() || v.Trace() != 0 || v < m.model.highest[key]) {
		t.Fatalf("new record of key %d has version %s after %s", key, v, m.model.highest[key])
	}
	insert := !v.Live() && rapid.Bool().Draw(t, "make live")
	if insert {
		m.last++
		m.store(off, key, v.Inserted(), m.last)
	}
	if !m.worded && made { // whatever becomes of the region
		m.model.entries[key], m.model.state[key] = true, 0
	}
	if !m.commit(t) {
		return
	}
	if m.model.entries[key] = true; made && m.worded {
		m.model.state[key] = state
	}
	if insert {
		m.model.live[key] = m.last
		m.raise(t, key, v.Inserted())
	}
}

// store writes a record as a protocol does: its version, and all behind the header.
func (m *modelRun) store(off int, key uint64, v layout.Version, value uint64) {
	r := m.table.Record()
	image := make([]byte, r.Bytes)
	binary.LittleEndian.PutUint64(image, key)
	r.Put(image, v, m.value(value))
	m.region.Store64(m.table.m, off+layout.VersionOffset, uint64(v))
	m.region.Store(m.table.m, off+layout.ValueOffset, image[layout.ValueOffset:])
}

func (m *modelRun) value(v uint64) []byte {
	return bytes.Repeat([]byte{byte(v)}, m.table.config.ValueBytes)
}

// found begins a region and finds a key in it, or ends it.
func (m *modelRun) found(t *rapid.T) (key uint64, off int, v layout.Version, ok bool) {
	key = drawKey(t)
	m.region.Begin()
	off, ok, alive := m.table.FindIn(m.region, key)
	if !alive || ok != m.model.entries[key] {
		t.Fatalf("key %d: found %v, region runs %v", key, ok, alive)
	}
	if !ok {
		m.end(t)
		return key, 0, 0, false
	}
	w, _ := m.region.Load64(m.table.m, off+layout.VersionOffset)
	return key, off, layout.Version(w), true
}

func (m *modelRun) write(t *rapid.T) {
	key, off, v, ok := m.found(t)
	if !ok {
		return
	}
	if !v.Live() {
		m.end(t)
		return
	}
	if rapid.IntRange(0, 9).Draw(t, "wrap") == 0 {
		v |= 1<<32 - 1
	}
	m.last++
	m.store(off, key, v.Written(), m.last)
	if m.commit(t) {
		m.model.live[key] = m.last
		m.raise(t, key, v.Written())
	}
}

func (m *modelRun) delete(t *rapid.T) {
	key, off, v, ok := m.found(t)
	if !ok {
		return
	}
	if !v.Live() {
		m.end(t)
		return
	}
	m.region.Store64(m.table.m, off+layout.VersionOffset, uint64(v.Deleted()))
	if m.commit(t) {
		delete(m.model.live, key)
		m.raise(t, key, v.Deleted())
	}
}

func (m *modelRun) reclaim(t *rapid.T) {
	key, state := drawKey(t), rapid.Uint64Range(0, 2).Draw(t, "state")
	m.region.Begin()
	ok, err := m.table.ReclaimIn(m.region, key, state)
	if !ok {
		t.Fatal("a region that was alone aborted")
	}
	_, live := m.model.live[key]
	var want error
	switch {
	case !m.model.entries[key]:
		want = store.ErrNoEntry
	case live:
		want = store.ErrLive
	case m.model.state[key] != state:
		want = store.ErrState
	}
	if !errors.Is(err, want) {
		t.Fatalf("reclaiming key %d: %v, want %v", key, err, want)
	}
	if (m.commit(t) || !m.worded) && err == nil {
		delete(m.model.entries, key)
		delete(m.model.state, key)
	}
}

func (m *modelRun) check(t *rapid.T) {
	if err := checkTable(m.table); err != nil {
		t.Fatal(err)
	}
	records := 0
	m.table.Each(func(int) bool { records++; return true })
	if records != len(m.model.entries) {
		t.Fatalf("%d records, want %d", records, len(m.model.entries))
	}
	for key := range uint64(modelKeys) {
		off, ok := m.table.Find(key)
		if ok != m.model.entries[key] {
			t.Fatalf("key %d: found %v", key, ok)
		}
		if !ok {
			delete(m.places, key)
			continue
		}
		if was, there := m.places[key]; there && was != off {
			if m.moved++; layout.Locked(m.model.state[key]) {
				t.Fatalf("key %d moves while it is locked", key)
			}
		}
		m.places[key] = off
		r := m.table.Record()
		image := m.table.m.Bytes[off : off+r.Bytes]
		head := layout.HeadOf(image)
		value, live := m.model.live[key]
		want := layout.Absent
		if live {
			want = layout.Live
		}
		if p := head.Match(key); p != want || head.State != m.model.state[key] {
			t.Fatalf("key %d is %s with state %d, want %s with %d", key, p, head.State, want, m.model.state[key])
		}
		if b := r.Value(image, make([]byte, r.Room)); live && !bytes.Equal(b, m.value(value)) {
			t.Fatalf("key %d has value %x, want %d", key, b, byte(value))
		}
		if live && r.Layout.Kind() == layout.KindLineVersions && r.Whole(image) == layout.Locked(m.model.state[key]) {
			t.Fatalf("key %d, version %s, state %d: the lines of the record do not agree", key, head.Version,
				m.model.state[key])
		}
	}
}

func value(n int, v uint64) []byte {
	b := make([]byte, n)
	binary.LittleEndian.PutUint64(b, v)
	return b
}
