//go:build !race

package ring

import (
	"sync/atomic"
	"unsafe"

	"drtmd/verbs"
)

const raceEnabled = false

// memory is own memory that peers WRITE.
type memory struct{ b []byte }

var memoryOptions verbs.MROptions

func memoryOf(mr *verbs.MR) (memory, error) { return memory{mr.Bytes()}, nil }

func (m memory) part(at, n int) memory { return memory{m.b[at : at+n : at+n]} }

func (m memory) word(at int) *uint64 { return (*uint64)(unsafe.Pointer(&m.b[at : at+8][0])) }

func (m memory) load(at int) uint64 { return atomic.LoadUint64(m.word(at)) }

func (m memory) store(at int, v uint64) { atomic.StoreUint64(m.word(at), v) }

// copyOut copies bytes of one line, which nobody writes.
func (m memory) copyOut(dst []byte, at int) { copy(dst, m.b[at:]) }
