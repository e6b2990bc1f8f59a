package htm

import (
	"encoding/binary"
	"math/bits"
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

// PrefetchLine asks for a line and its word. It is inside.
func (m *Memory) PrefetchLine(line int) { lineword.Prefetch2(m.word(line), &m.line64(line)[0]) }

// Prefetch asks for lines from a number on, and the word of the first: eight words share a line of the cache. Bit i of set
// is line + i, and one is set. All are inside.
func (m *Memory) Prefetch(line int, set uint64) {
	first := line + bits.TrailingZeros64(set)
	lineword.Prefetch2(m.word(line), &m.line64(first)[0])
	for set &= set - 1; set != 0; set &= set - 1 {
		lineword.Prefetch(&m.line64(line + bits.TrailingZeros64(set))[0])
	}
}

// has reports whether n bytes at off are inside.
func (m *Memory) has(off, n int) bool {
	return uint(off) <= uint(len(m.Bytes)) && uint(n) <= uint(len(m.Bytes)-off)
}

// outside ends an access outside of memory: a bug, not a doomed view, where there are line words. Without them, and
// with Peek64, the caller checks what it computes from memory. In a hurry the view may be doomed.
//
//go:noinline
func (r *Region) outside(m *Memory, off, n int) bool {
	if r.doomedView() {
		return false
	}
	outside(off, n, len(m.Bytes))
	return false
}

// badWord is outside for a word, which may be misaligned, too.
//
//go:noinline
func (r *Region) badWord(m *Memory, off int) bool {
	if r.doomedView() {
		return false
	}
	invariant.Assertf(off%8 == 0, "htm access to a word at offset %d, which is not aligned", off)
	outside(off, 8, len(m.Bytes))
	return false
}

// doomedView reports whether the region hurries and its loads were of different moments, or it has aborted for that.
func (r *Region) doomedView() bool { return r.hurried && !r.Consistent() }

//go:noinline
func outside(off, n, size int) {
	invariant.Assertf(false, "htm access to %d bytes at offset %d of %d", n, off, size)
}

// Peek copies a line outside of any region, all of it at one moment, and reports false if it was
// being changed: look again. Without line words each of its words is whole, the line may not be.
func (m *Memory) Peek(line int, dst *[LineBytes]byte) bool {
	if !m.has(line*LineBytes, 1) {
		outside(line*LineBytes, 1, len(m.Bytes))
	}
	if m.words == nil {
		m.readPlain(line, dst)
		return true
	}
	_, ok := m.read(m.word(line), line, dst)
	return ok
}

// PeekPart is Peek for a part of a line: len(dst) bytes from the aligned word at off on. After false, dst may hold anything.
func (m *Memory) PeekPart(off int, dst []byte) bool {
	if raceEnabled || m.words == nil || off%8 != 0 || off%LineBytes+len(dst) > LineBytes || !m.has(off, len(dst)) {
		return m.peekPart(off, dst)
	}
	p, n := m.word(off/LineBytes), 0
	before := lineword.Load(p)
	for ; n+8 <= len(dst); n += 8 {
		binary.NativeEndian.PutUint64(dst[n:], atomic.LoadUint64(m.at(off+n)))
	}
	if n < len(dst) {
		b := bytesOf(atomic.LoadUint64(m.at(off + n)))
		copy(dst[n:], b[:])
	}
	return !before.Locked() && lineword.Load(p) == before
}

// peekPart is PeekPart by a copy of the line.
func (m *Memory) peekPart(off int, dst []byte) bool {
	var line image
	at := off % LineBytes
	if at+len(dst) > LineBytes {
		outside(off, len(dst), LineBytes)
	}
	if !m.Peek(off/LineBytes, line.bytes()) {
		return false
	}
	copy(dst, line.bytes()[at:])
	return true
}

// PeekWords is Peek for some aligned words of a line, from the one at off on.
func (m *Memory) PeekWords(off int, dst *[3]uint64) bool {
	if raceEnabled || m.words == nil || !m.has(off, 8*len(dst)) {
		return m.peekWords(off, dst)
	}
	p := m.word(off / LineBytes)
	before := lineword.Load(p)
	for i := range dst {
		dst[i] = atomic.LoadUint64(m.at(off + 8*i))
	}
	return !before.Locked() && lineword.Load(p) == before
}

// peekWords is PeekWords by a copy of the line.
func (m *Memory) peekWords(off int, dst *[3]uint64) bool {
	var line image
	if !m.Peek(off/LineBytes, line.bytes()) {
		return false
	}
	copy(dst[:], line[wordOf(off):])
	return true
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
