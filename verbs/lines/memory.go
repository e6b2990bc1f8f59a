//go:build !race

package lines

import (
	"sync/atomic"
	"unsafe"

	"drtmd/verbs"
)

// Memory is own memory, of whole lines, that peers WRITE and that is looked at meanwhile. The methods are of one
// line each. Any thread may look.
type Memory struct{ b []byte }

// Options have memory registered so that MemoryOf can give it.
var Options verbs.MROptions

// MemoryOf is that of a region, once. The region frees it.
func MemoryOf(mr *verbs.MR) (Memory, error) { return Plain(mr.Bytes()), nil }

// Plain is memory that nobody else uses.
func Plain(b []byte) Memory { return Memory{b} }

// Part is n bytes from an offset on.
func (m Memory) Part(at, n int) Memory { return Memory{m.b[at : at+n : at+n]} }

// Bytes are the memory itself, for as long as nobody else uses it.
func (m Memory) Bytes() []byte { return m.b }

func (m Memory) word(at int) *uint64 { return (*uint64)(unsafe.Pointer(&m.b[at : at+8][0])) }

// Load is the word at an offset.
func (m Memory) Load(at int) uint64 { return atomic.LoadUint64(m.word(at)) }

// Store stores the word at an offset.
func (m Memory) Store(at int, v uint64) { atomic.StoreUint64(m.word(at), v) }

// CopyOut copies bytes of a line.
func (m Memory) CopyOut(dst []byte, at int) { copy(dst, m.b[at:]) }

// CopyIn copies bytes into a line.
func (m Memory) CopyIn(at int, src []byte) { copy(m.b[at:], src) }

// Line is the line at an offset, for looking: itself, or a copy in scratch.
func (m Memory) Line(at int, _ *[Bytes]byte) []byte { return m.b[at : at+Bytes : at+Bytes] }
