package htm

import (
	"unsafe"

	"drtmd/verbs/lineword"
)

const (
	lineWords = LineBytes / 8

	// firstLines is the room of a new Region; it doubles when a transaction needs more.
	firstLines = 32
	// linearLines is up to how many lines are searched one by one, the newest first.
	linearLines = 16
)

// key names a line among all memories: its address. Nothing is decided by the order of keys.
type key uintptr

func (m *Memory) key(off int) key { return key(uintptr(m.base) + uintptr(off)&^(LineBytes-1)) }

// line is a region's copy of a line: of all of it, or, without line words, of the words that it
// has written.
type line struct {
	image  [lineWords]uint64
	number int
	dirty  uint8 // bit i: word i was written
}

func (l *line) bytes() *[LineBytes]byte { return (*[LineBytes]byte)(unsafe.Pointer(&l.image)) }

// position is the index of a line in at.
func (s *lineSet) position(l *line) int32 {
	return int32((uintptr(unsafe.Pointer(l)) - uintptr(unsafe.Pointer(&s.at[0]))) /
		unsafe.Sizeof(*l))
}

// check is a line word with the value that it must have.
type check struct {
	word *uint64
	seen lineword.Word
}

// lineSet holds the lines of a region in the order of their first touch. keys, checks and at run
// in parallel; a few lines are found by looking at all keys, more by an index.
type lineSet struct {
	last   key // the line touched last, 0 = none
	lastAt int
	n      int
	keys   []key
	checks []check
	at     []line

	index      []uint64 // open addressing: generation<<32 | position + 1; empty if of another
	generation uint32
	indexed    bool
	max        int
}

func (s *lineSet) init(limit int) {
	s.max = limit
	s.resize(min(firstLines, limit))
}

// grow makes room for more lines.
func (s *lineSet) grow() { s.resize(min(2*len(s.at), s.max)) }

func (s *lineSet) resize(n int) {
	keys, checks, at := make([]key, n), make([]check, n), make([]line, n)
	copy(keys, s.keys)
	copy(checks, s.checks)
	copy(at, s.at)
	s.keys, s.checks, s.at = keys, checks, at
	size := 4
	for size < 2*n {
		size *= 2
	}
	s.index = make([]uint64, size)
	if s.indexed {
		s.reindex()
	}
}

func (s *lineSet) reset() {
	s.n, s.last, s.indexed = 0, 0, false
}

// find gives the position of a line, -1 if it is new.
func (s *lineSet) find(k key) int {
	if k == s.last {
		return s.lastAt
	}
	if s.indexed {
		return s.lookUp(k)
	}
	for i := s.n - 1; i >= 0; i-- {
		if s.keys[i] == k {
			return i
		}
	}
	return -1
}

// add appends a line; its place in at and checks is filled in by the caller.
func (s *lineSet) add(k key) {
	s.keys[s.n] = k
	s.n++
	switch {
	case s.indexed:
		s.insert(s.n - 1)
	case s.n > linearLines:
		s.reindex()
	}
}

// reindex puts all lines into the index. A new generation empties it.
func (s *lineSet) reindex() {
	s.indexed = true
	s.generation++
	if s.generation == 0 {
		clear(s.index)
		s.generation = 1
	}
	for i := range s.n {
		s.insert(i)
	}
}

// hash spreads line addresses over the index (Fibonacci hashing).
func (s *lineSet) hash(k key) uint64 {
	return uint64(k) / LineBytes * 0x9e3779b97f4a7c15 >> 32 & uint64(len(s.index)-1)
}

func (s *lineSet) insert(i int) {
	h := s.hash(s.keys[i])
	for uint32(s.index[h]>>32) == s.generation {
		h = (h + 1) & uint64(len(s.index)-1)
	}
	s.index[h] = uint64(s.generation)<<32 | uint64(i+1)
}

func (s *lineSet) lookUp(k key) int {
	for h := s.hash(k); ; h = (h + 1) & uint64(len(s.index)-1) {
		e := s.index[h]
		if uint32(e>>32) != s.generation {
			return -1
		}
		if i := int(uint32(e)) - 1; s.keys[i] == k {
			return i
		}
	}
}
