package btree

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
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
	entries map[uint64]bool           // keys with an entry
	highest map[uint64]layout.Version // of what a key ever had
	state   map[uint64]uint64         // of keys with an entry
}

// lonely is a commit on memory without line words whose records nobody else touches.
type lonely struct{}

func (lonely) Lock() bool     { return true }
func (lonely) Confirm() bool  { return true }
func (lonely) Validate() bool { return true }
func (lonely) Unlock(bool)    {}

// TestTableIsASortedMapWithVersionsThatGrow runs random insertions, writes, deletions, reclaims and scans,
// with line words some of them in regions that are aborted, against a sorted map. After each step every word
// of the tree is checked. The tables are so small that nodes are split and merged all the time, and full.
func TestTableIsASortedMapWithVersionsThatGrow(t *testing.T) {
	height, shrunk, entriesFull, nodesFull := 0, 0, 0, 0
	sizes := []struct{ nodes, entries int }{{1, 10}, {2, 50}, {20, 50}, {60, 256}, {60, 256}}
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom(sizes).Draw(t, "size")
		c := Config{ID: 1, Name: "model", ValueBytes: rapid.IntRange(1, 60).Draw(t, "value"),
			Layout: rapid.SampledFrom([]layout.Kind{0, layout.KindOneVersion,
				layout.KindLineVersions}).Draw(t, "layout"),
			Nodes: size.nodes, Entries: size.entries}
		worded := rapid.Bool().Draw(t, "line words")
		memory := memoryFor(c, worded)
		table, err := Format(c, memory, 0)
		if err != nil {
			t.Fatal(err)
		}
		m := &modelRun{table: table, region: htm.NewRegion(htm.Config{}), worded: worded, model: tableModel{
			live: map[uint64]uint64{}, entries: map[uint64]bool{},
			highest: map[uint64]layout.Version{}, state: map[uint64]uint64{}}}
		m.load(t)
		t.Repeat(map[string]func(*rapid.T){
			"insert":       m.insert,
			"insert some":  m.insertSome,
			"write":        m.write,
			"delete":       m.delete,
			"reclaim":      m.reclaim,
			"reclaim some": m.reclaimSome,
			"scan":         m.scan,
			"next":         m.next,
			"attach": func(t *rapid.T) {
				if m.table, err = Attach(c, memory, 0); err != nil {
					t.Fatal(err)
				}
			},
			"": m.check,
		})
		height = max(height, m.height)
		shrunk += m.shrunk
		entriesFull += m.entriesFull
		nodesFull += m.nodesFull
	})
	if height < 3 || shrunk == 0 || entriesFull == 0 || nodesFull == 0 {
		t.Errorf("not everything has happened: %d levels, %d times fewer, %d times without entries, %d without "+
			"nodes", height, shrunk, entriesFull, nodesFull)
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

	steps                          int
	height                         int // most levels so far
	levels                         int // at the last check
	shrunk, entriesFull, nodesFull int
}

const modelKeys = 256

func drawKey(t *rapid.T, what string) uint64 { return rapid.Uint64Range(0, modelKeys-1).Draw(t, what) }

// load loads keys in ascending, descending or some order.
func (m *modelRun) load(t *rapid.T) {
	keys := make([]uint64, rapid.SampledFrom([]int{0, 40, modelKeys}).Draw(t, "loaded"))
	step := rapid.SampledFrom([]uint64{1, modelKeys - 1, 37}).Draw(t, "step")
	for i := range keys {
		keys[i] = uint64(i+1) * step % modelKeys
	}
	for _, key := range keys {
		err := m.table.Load(key, bytes.Repeat([]byte{1}, m.table.config.ValueBytes))
		if errors.Is(err, store.ErrFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		m.last, m.model.entries[key], m.model.live[key] = 1, true, 1
		m.raise(t, key, layout.FirstVersion)
	}
}

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

func (m *modelRun) insert(t *rapid.T) { m.insertKey(t, drawKey(t, "key")) }

func (m *modelRun) insertSome(t *rapid.T) {
	from, n := drawKey(t, "key"), rapid.Uint64Range(1, 40).Draw(t, "keys")
	for key := from; key < min(from+n, modelKeys); key++ {
		m.insertKey(t, key)
	}
}

func (m *modelRun) insertKey(t *rapid.T, key uint64) {
	state := rapid.Uint64Range(0, 2).Draw(t, "state")
	before := bytes.Clone(m.table.m.Bytes)
	m.region.Begin()
	off, v, ok, err := m.table.EnsureIn(m.region, key, state)
	if !ok {
		t.Fatal("a region that was alone aborted")
	}
	if err != nil {
		switch {
		case !errors.Is(err, store.ErrFull) || m.model.entries[key]:
			t.Fatalf("key %d, with an entry %v: %v", key, m.model.entries[key], err)
		case errors.Is(err, ErrNodesFull):
			m.nodesFull++
		default:
			m.entriesFull++
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
		t.Fatalf("new entry of key %d has version %s after %s", key, v, m.model.highest[key])
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
	key = drawKey(t, "key")
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
	m.reclaimKey(t, drawKey(t, "key"), rapid.Uint64Range(0, 2).Draw(t, "state"))
}

// reclaimSome deletes and gives back many keys, so that nodes are merged.
func (m *modelRun) reclaimSome(t *rapid.T) {
	from, n := drawKey(t, "key"), rapid.Uint64Range(1, 100).Draw(t, "keys")
	for key := from; key < min(from+n, modelKeys); key++ {
		if _, live := m.model.live[key]; live {
			m.region.Begin()
			off, _, _ := m.table.FindIn(m.region, key)
			w, _ := m.region.Load64(m.table.m, off+layout.VersionOffset)
			v := layout.Version(w).Deleted()
			m.region.Store64(m.table.m, off+layout.VersionOffset, uint64(v))
			m.end(t)
			delete(m.model.live, key)
			m.raise(t, key, v)
		}
		m.reclaimKey(t, key, m.model.state[key])
	}
}

func (m *modelRun) reclaimKey(t *rapid.T, key, state uint64) {
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

// keys are those from first to last, in the order of a scan.
func (m *modelRun) keys(first, last uint64) (keys []uint64) {
	for _, k := range slices.Sorted(maps.Keys(m.model.entries)) {
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
	first, last := drawKey(t, "first"), drawKey(t, "last")
	limit := rapid.IntRange(1, modelKeys).Draw(t, "limit")
	want := m.keys(first, last)
	least, greatest := uint64(0), uint64(0)
	if len(want) > 0 {
		least, greatest = slices.Min(want), slices.Max(want)
	}
	var got []uint64
	m.region.Begin()
	ok := m.table.Scan(m.region, first, last, func(key uint64, place int) bool {
		if off, ok := m.table.Find(key); !ok || off != place {
			t.Fatalf("key %d is at %d, the scan says %d", key, off, place)
		}
		got = append(got, key)
		return len(got) < limit
	})
	l, g, found, alive := m.table.Ends(m.region, min(first, last), max(first, last))
	if !ok || !alive {
		t.Fatal("a region that was alone aborted")
	}
	m.end(t)
	if found != (len(want) > 0) || found && (l != least || g != greatest) {
		t.Fatalf("the ends of %d to %d are %d and %d, %v; want %d and %d", first, last, l, g, found, least, greatest)
	}
	if want = want[:min(limit, len(want))]; !slices.Equal(got, want) {
		t.Fatalf("from %d to %d at most %d: %d, want %d", first, last, limit, got, want)
	}
}

func (m *modelRun) next(t *rapid.T) {
	key := drawKey(t, "key")
	m.region.Begin()
	next, place, found, ok := m.table.Next(m.region, key)
	if !ok {
		t.Fatal("a region that was alone aborted")
	}
	m.end(t)
	want := m.keys(key+1, modelKeys)
	if found != (len(want) > 0) || found && next != want[0] {
		t.Fatalf("after %d comes %d, %v", key, next, found)
	}
	if off, _ := m.table.Find(next); found && off != place {
		t.Fatalf("key %d is at %d, not %d", next, off, place)
	}
}

func (m *modelRun) check(t *rapid.T) {
	levels := m.table.Occupancy().Height
	if levels < m.levels {
		m.shrunk++
	}
	m.levels, m.height = levels, max(m.height, levels)
	if m.steps++; raceEnabled && m.steps%16 != 0 {
		return // it reads every word, which is slow there
	}
	if err := checkTable(m.table); err != nil {
		t.Fatal(err)
	}
	var each []uint64
	m.table.Each(func(off int) bool {
		each = append(each, m.table.word(off+layout.KeyOffset))
		return true
	})
	if want := m.keys(0, modelKeys); !slices.Equal(each, want) {
		t.Fatalf("keys %d, want %d", each, want)
	}
	for key := range uint64(modelKeys) {
		off, ok := m.table.Find(key)
		if ok != m.model.entries[key] {
			t.Fatalf("key %d: found %v", key, ok)
		}
		if ok {
			m.checkRecord(t, key, off)
		}
	}
}

func (m *modelRun) checkRecord(t *rapid.T, key uint64, off int) {
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
}

func value(n int, v uint64) []byte {
	b := make([]byte, max(n, 8))
	binary.LittleEndian.PutUint64(b, v)
	return b[:n]
}
