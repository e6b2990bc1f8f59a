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

func (m *Memory) key(off int) key {
	return key((uintptr(m.base) + uintptr(off)) &^ (LineBytes - 1))
}

// wordKey is the key of the line of an aligned word, and no key of any other.
func (m *Memory) wordKey(off int) key {
	return key((uintptr(m.base) + uintptr(off)) &^ (LineBytes - 8))
}

// image is a region's copy of a line: of all of it, or, without line words, of the words that it
// has written.
type image [lineWords]uint64

func (p *image) bytes() *[LineBytes]byte { return (*[LineBytes]byte)(unsafe.Pointer(p)) }

// wordOf is the place of the word at off in its line.
func wordOf(off int) uint { return uint(off) / 8 % lineWords }

// check is a line word with the value that it must have.
type check struct {
	word *uint64
	seen lineword.Word
}

// meta is what a commit needs to know of a line.
type meta struct {
	number int
	image  *image // the region's copy: its own, or the caller's (Region.LoadLines)
	dirty  uint8  // bit i: word i was written
}

// lineSet holds the lines of a region in the order of their first touch. keys, checks, images and
// metas run in parallel; a few lines are found by looking at all keys, more by an index.
type lineSet struct {
	last      key    // the line touched last, 0 = none
	opaque    key    // last, or 0 while unchecked
	at        int    // its position
	image     *image // its copy
	meta      *meta
	n         int
	unchecked bool // the copies were not yet compared with the line words after the last was made
	keys      []key
	checks    []check
	images    []image
	metas     []meta

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
func (s *lineSet) grow() { s.resize(min(2*len(s.keys), s.max)) }

func (s *lineSet) resize(n int) {
	s.forget() // image and meta move
	s.keys = resized(s.keys, n)
	s.checks = resized(s.checks, n)
	old := s.images
	s.images = resized(s.images, n)
	s.metas = resized(s.metas, n)
	for i := range old {
		if l := &s.metas[i]; l.image == &old[i] {
			l.image = &s.images[i]
		}
	}
	size := 4
	for size < 2*n {
		size *= 2
	}
	s.index = make([]uint64, size)
	if s.indexed {
		s.reindex()
	}
}

func resized[T any](old []T, n int) []T {
	s := make([]T, n)
	copy(s, old)
	return s
}

func (s *lineSet) reset() {
	s.n, s.indexed, s.unchecked = 0, false, false
	s.forget()
}

// forget makes the next access look for its line.
func (s *lineSet) forget() { s.last, s.opaque = 0, 0 }

// use makes line i the one touched last.
func (s *lineSet) use(k key, i int) {
	l := &s.metas[i]
	s.last, s.at, s.image, s.meta = k, i, l.image, l
	if s.opaque = k; s.unchecked {
		s.opaque = 0
	}
}

// find gives the position of a line, -1 if it is new.
func (s *lineSet) find(k key) int {
	if s.indexed {
		return s.lookUp(k)
	}
	return s.search(k)
}

// search is find for a few lines: those touched last come first.
func (s *lineSet) search(k key) int {
	keys := s.keys[:s.n]
	for i := len(keys) - 1; i >= 0; i-- {
		if keys[i] == k {
			return i
		}
	}
	return -1
}

// addToIndex follows the addition of a line, from the first one on that is too many to search.
func (s *lineSet) addToIndex() {
	if s.indexed {
		s.insert(s.n - 1)
	} else {
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

// lookUp is find in the index.
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
