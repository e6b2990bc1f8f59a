package bench

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"drtmd/verbs"
	"drtmd/verbs/lineword"
)

// landing watches a side's target for WRITEs of the other side. Each carries its number in the
// last byte, as perftest's do; bytes of one WRITE become visible in ascending order on every
// device that perftest works on, so the last byte stands for all.
//
// Where there are line words (shm) the word of the last line is watched instead of the memory,
// and the memory is read once the word says that the WRITE is through.
type landing struct {
	last *byte
	word *uint32 // the aligned 4 bytes around last; nil with line words
	line *uint64
	seen uint64
}

// newLanding is called before the other side can write.
func newLanding(s *side) *landing {
	t := s.target()
	l := &landing{last: &t[len(t)-1]}
	at := s.slot + len(t) - 1
	if words := s.mr.Lines(); words != nil {
		l.line = &words[at/verbs.LineBytes]
		l.seen = atomic.LoadUint64(l.line)
		return l
	}
	l.word = (*uint32)(unsafe.Pointer(&s.mr.Bytes()[at&^3]))
	return l
}

// landingLooks is how often soon looks. One look is far cheaper than a poll of a CQ, after which
// waiters count when to give the CPU away.
const landingLooks = 32

// soon is arrived, looking a few times.
func (l *landing) soon(number byte) bool {
	for range landingLooks {
		if l.arrived(number) {
			return true
		}
	}
	return false
}

// arrived reports whether the WRITE with this number is there.
func (l *landing) arrived(number byte) bool {
	if l.line != nil {
		w := atomic.LoadUint64(l.line)
		if w == l.seen || lineword.Word(w).Locked() || *l.last != number {
			return false
		}
		l.seen = w
		return true
	}
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], atomic.LoadUint32(l.word))
	return b[uintptr(unsafe.Pointer(l.last))&3] == number
}
