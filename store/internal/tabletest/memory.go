package tabletest

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"drtmd/htm"
	"drtmd/store/layout"
)

// Aligned is n bytes at a multiple of a page.
func Aligned(n int) []byte {
	b := make([]byte, n+4096)
	return b[-uintptr(unsafe.Pointer(unsafe.SliceData(b)))&4095:][:n]
}

// Memory is n bytes of memory for one table, with line words or without.
func Memory(n int, worded bool) *htm.Memory {
	if !worded {
		return htm.NewMemory(Aligned(n), nil, 0, nil)
	}
	return htm.NewMemory(Aligned(n), make([]uint64, n/layout.LineBytes), 1, nil)
}

// Value is a value of n bytes that begins with v.
func Value(n int, v uint64) []byte {
	b := make([]byte, max(n, 8))
	binary.LittleEndian.PutUint64(b, v)
	return b[:n]
}

// Lonely is a commit on memory without line words whose records nobody else touches.
type Lonely struct{}

// Lock implements htm.RecordCommitter.
func (Lonely) Lock() bool { return true }

// Confirm implements htm.RecordCommitter.
func (Lonely) Confirm() bool { return true }

// Validate implements htm.RecordCommitter.
func (Lonely) Validate() bool { return true }

// Unlock implements htm.RecordCommitter.
func (Lonely) Unlock(bool) {}

// CommitterOf is what commits regions on a memory whose records nobody else touches.
func CommitterOf(m *htm.Memory) htm.RecordCommitter {
	if m.Words == nil {
		return Lonely{}
	}
	return nil
}

// New gives a table that was formatted, on memory with line words.
func New[C interface{ Bytes() int }, T any](t testing.TB, c C, format func(C, *htm.Memory, int) (T, error)) T {
	t.Helper()
	table, err := format(c, Memory(c.Bytes(), true), 0)
	if err != nil {
		t.Fatal(err)
	}
	return table
}
