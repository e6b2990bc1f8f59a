package htm

import (
	"sync/atomic"
	"unsafe"

	"drtmd/internal/invariant"
	"drtmd/verbs/lineword"
)

// Memory is a memory region as one worker's transactions see it. It refers to the region's bytes
// and owns the owner slot and the journal: one commit at a time.
type Memory struct {
	Bytes []byte   // the registered memory; 64-byte aligned
	Words []uint64 // one per line; nil where the device keeps none
	Slot  uint16   // in line words that the worker locks

	// Journal lies beside the memory (verbs.LineOwner); nil: a death in the middle of a commit
	// cannot be undone.
	Journal []uint64

	// Rescue, if not nil, is called outside of any commit with a line that stayed locked for
	// long: the provider looks whether its owner is dead and, if so, recovers it.
	Rescue func(line int)

	journal lineword.Journal
	base    unsafe.Pointer // of Bytes
	words   unsafe.Pointer // of Words
}

// NewMemory describes memory with its line words, and the slot and journal that the worker has
// claimed there. words and journal may be nil, slot is then 0. Bytes behind the last whole line
// are left out.
func NewMemory(bytes []byte, words []uint64, slot uint16, journal []uint64) *Memory {
	bytes = bytes[:len(bytes)&^(LineBytes-1)]
	m := &Memory{Bytes: bytes, Words: words, Slot: slot, Journal: journal,
		journal: lineword.MakeJournal(journal),
		base:    unsafe.Pointer(unsafe.SliceData(bytes)),
		words:   unsafe.Pointer(unsafe.SliceData(words))}
	invariant.Assert(uintptr(m.base)%LineBytes == 0, "htm memory is not aligned to a line")
	invariant.Assert(words == nil || len(words) >= m.Lines(), "htm memory has too few line words")
	invariant.Assert(words == nil || slot != 0, "htm memory with line words needs an owner slot")
	return m
}

// Lines is the number of lines.
func (m *Memory) Lines() int { return len(m.Bytes) / LineBytes }

func (m *Memory) word(line int) *uint64 {
	return (*uint64)(unsafe.Add(m.words, line*8))
}

func (m *Memory) line(line int) *[LineBytes]byte {
	return (*[LineBytes]byte)(unsafe.Add(m.base, line*LineBytes))
}

func (m *Memory) line64(line int) *image {
	return (*image)(unsafe.Add(m.base, line*LineBytes))
}

// check panics if n bytes at off are not inside: a bug, not a doomed view, where there are line
// words. Without them the caller checks what it computes from memory.
func (m *Memory) check(off, n int) {
	if uint(off) > uint(len(m.Bytes)) || uint(n) > uint(len(m.Bytes)-off) {
		outside(off, n, len(m.Bytes))
	}
}

// badWord panics for a word that is misaligned or outside.
//
//go:noinline
func (m *Memory) badWord(off int) {
	invariant.Assertf(off%8 == 0, "htm access to a word at offset %d, which is not aligned", off)
	outside(off, 8, len(m.Bytes))
}

//go:noinline
func outside(off, n, size int) {
	invariant.Assertf(false, "htm access to %d bytes at offset %d of %d", n, off, size)
}

// Peek copies a line outside of any region, all of it at one moment, and reports false if it was
// being changed: look again. Without line words each of its words is whole, the line may not be.
func (m *Memory) Peek(line int, dst *[LineBytes]byte) bool {
	m.check(line*LineBytes, 1)
	if m.words == nil {
		m.readPlain(line, dst)
		return true
	}
	_, ok := m.read(m.word(line), line, dst)
	return ok
}

// read copies a line, whose word is at p, and gives the value that the word had; false if the line
// was locked or changed meanwhile.
func (m *Memory) read(p *uint64, line int, dst *[LineBytes]byte) (lineword.Word, bool) {
	if raceEnabled {
		return m.readLocked(p, line, dst)
	}
	return lineword.Read(dst, m.line(line), p)
}

func (m *Memory) readLocked(p *uint64, line int, dst *[LineBytes]byte) (lineword.Word, bool) {
	w := lineword.Load(p)
	if !lineword.TryLock(p, w, m.Slot) {
		return 0, false
	}
	lineword.CopyLine(dst, m.line(line))
	lineword.Restore(p, w)
	return w, true
}

func (m *Memory) readPlain(line int, dst *[LineBytes]byte) {
	to := (*image)(unsafe.Pointer(dst))
	for i := range to {
		to[i] = atomic.LoadUint64(m.at(line*LineBytes + i*8))
	}
}

// at is the aligned word that contains the byte at off.
func (m *Memory) at(off int) *uint64 { return (*uint64)(unsafe.Add(m.base, off&^7)) }
