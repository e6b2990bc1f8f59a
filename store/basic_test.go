package store

import (
	"encoding/binary"
	"errors"
	"testing"
	"unsafe"

	"drtmd/htm"
	"drtmd/store/layout"
)

// newMemory is memory with line words on the Go heap, as a provider would give.
func newMemory(t testing.TB, c Config) *htm.Memory {
	t.Helper()
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	words := make([]uint64, c.Bytes()/layout.LineBytes)
	return htm.NewMemory(aligned(c.Bytes()), words, 1, nil)
}

// aligned is n bytes at a multiple of a line.
func aligned(n int) []byte {
	b := make([]byte, n+4096)
	return b[-uintptr(unsafe.Pointer(unsafe.SliceData(b)))&4095:][:n]
}

func newTable(t testing.TB, c Config) *Table {
	t.Helper()
	table, err := Format(c, newMemory(t, c), 0)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func value(n int, v uint64) []byte {
	b := make([]byte, n)
	binary.LittleEndian.PutUint64(b, v)
	return b
}

// do runs f in a region until it commits.
func do(t testing.TB, r *htm.Region, f func()) {
	t.Helper()
	for range 1000 {
		if !r.Begin() {
			t.Fatal("nested")
		}
		if f(); r.Commit(nil) {
			return
		}
	}
	code, n := r.Aborted()
	t.Fatalf("region does not commit: %s %d", code, n)
}

func TestLoadedKeysAreFoundAndOthersAreNot(t *testing.T) {
	table := newTable(t, For(1, "t", 8, 1000))
	for k := range uint64(1000) {
		if err := table.Load(k*7, value(8, k)); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.Load(7, value(8, 0)); !errors.Is(err, ErrExists) {
		t.Errorf("loading a key twice: %v", err)
	}
	r := htm.NewRegion(htm.Config{})
	for k := range uint64(7000) {
		off, ok := table.Find(k)
		if want := k%7 == 0; ok != want {
			t.Fatalf("key %d: found %v", k, ok)
		}
		do(t, r, func() {
			in, found, alive := table.FindIn(r, k)
			if !alive || found != ok || in != off {
				t.Fatalf("key %d: %d %v %v inside, %d %v outside", k, in, found, alive, off, ok)
			}
		})
		if !ok {
			continue
		}
		v := layout.Version(table.word(table.VersionOffset(off)))
		if layout.Match(k, table.KeyAt(off), v) != layout.Live || v != layout.FirstVersion {
			t.Fatalf("key %d: entry of %d at version %s", k, table.KeyAt(off), v)
		}
		if got := binary.LittleEndian.Uint64(table.m.Bytes[table.ValueOffset(off):]); got != k/7 {
			t.Fatalf("key %d has value %d", k, got)
		}
	}
}
