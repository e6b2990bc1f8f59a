//go:build race

package lines

import (
	"encoding/binary"

	"drtmd/verbs"
	"drtmd/verbs/lineword"
)

// Memory is own memory that peers WRITE, under the lines' words, as the race detector wants it: polling memory is
// a race in the terms of Go's memory model.
type Memory struct {
	b     []byte
	words []uint64 // nil: nobody else uses the memory
	slot  uint16
}

// Options have memory registered so that MemoryOf can give it.
var Options = verbs.MROptions{LineOwners: 1}

// MemoryOf is that of a region, once. The region frees it.
func MemoryOf(mr *verbs.MR) (Memory, error) {
	o, err := mr.ClaimLineOwner()
	if err != nil {
		return Memory{}, err
	}
	return Memory{mr.Bytes(), mr.Lines(), o.Slot}, nil
}

// Plain is memory that nobody else uses.
func Plain(b []byte) Memory { return Memory{b: b} }

// Part is n bytes from an offset on.
func (m Memory) Part(at, n int) Memory {
	p := Memory{b: m.b[at : at+n : at+n], slot: m.slot}
	if m.words != nil {
		p.words = m.words[at/Bytes : (at+n)/Bytes]
	}
	return p
}

// Bytes are the memory itself, for as long as nobody else uses it.
func (m Memory) Bytes() []byte { return m.b }

// held runs f with the line of an offset locked.
func (m Memory) held(at int, f func()) {
	if m.words == nil {
		f()
		return
	}
	p := &m.words[at/Bytes]
	w := lineword.Load(p)
	for !lineword.TryLock(p, w, m.slot) {
		w = lineword.Load(p)
	}
	f()
	lineword.Restore(p, w)
}

// Load is the word at an offset.
func (m Memory) Load(at int) (v uint64) {
	m.held(at, func() { v = binary.NativeEndian.Uint64(m.b[at:]) })
	return v
}

// Store stores the word at an offset.
func (m Memory) Store(at int, v uint64) {
	m.held(at, func() { binary.NativeEndian.PutUint64(m.b[at:], v) })
}

// CopyOut copies bytes of a line.
func (m Memory) CopyOut(dst []byte, at int) {
	if len(dst) > 0 {
		m.held(at, func() { copy(dst, m.b[at:]) })
	}
}

// CopyIn copies bytes into a line.
func (m Memory) CopyIn(at int, src []byte) {
	if len(src) > 0 {
		m.held(at, func() { copy(m.b[at:], src) })
	}
}

// Line is the line at an offset, for looking: itself, or a copy in scratch.
func (m Memory) Line(at int, scratch *[Bytes]byte) []byte {
	m.CopyOut(scratch[:], at)
	return scratch[:]
}
