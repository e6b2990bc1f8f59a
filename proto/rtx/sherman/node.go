package sherman

import (
	"encoding/binary"

	"drtmd/proto/rtx"
)

func word(b []byte, at int) uint64       { return binary.LittleEndian.Uint64(b[at:]) }
func setWord(b []byte, at int, v uint64) { binary.LittleEndian.PutUint64(b[at:], v) }

// The header of a node.
const (
	ptrMask    = 1<<44 - 1
	countShift = 44
	levelShift = 52
	headBytes  = 16
)

func right(n []byte) rtx.Ptr { return rtx.Ptr(word(n, 0) & ptrMask) }
func count(n []byte) int     { return int(word(n, 0) >> countShift & 0xFF) }
func levelOf(n []byte) int   { return int(word(n, 0) >> levelShift & 0xFF) }
func high(n []byte) uint64   { return word(n, 8) }

func setHead(n []byte, right rtx.Ptr, count, level int, high uint64) {
	setWord(n, 0, uint64(right)|uint64(count)<<countShift|uint64(level)<<levelShift)
	setWord(n, 8, high)
}

func setCount(n []byte, c int) { setHead(n, right(n), c, levelOf(n), high(n)) }

// format is how nodes lie in their blocks.
type format struct {
	versions    bool
	first       int // of the entries of a leaf
	bytes       int // of an entry of a leaf
	leaf, inner int // most entries
}

const innerBytes = 16 // key 8, child 8

func newFormat(payload int, versions bool) format {
	f := format{versions: versions, first: headBytes, bytes: 16}
	if versions {
		f.first, f.bytes = headBytes+8, 24 // newest incarnation that was deleted 8; key 8, value 8, version 8
	}
	f.leaf, f.inner = (payload-f.first)/f.bytes, min((payload-headBytes)/innerBytes, 255)
	return f
}

// room is how many entries a node of a level has at most.
func (f *format) room(level int) int {
	if level == 0 {
		return f.leaf
	}
	return f.inner
}

// step is what an update adds to a version.
func (f *format) step() uint64 {
	if f.versions {
		return 1
	}
	return 0
}

func (f *format) at(i int) int { return f.first + f.bytes*i }

// search is the index of a key in a leaf, or of the first one above it.
func (f *format) search(n []byte, key uint64) (int, bool) {
	low, end := 0, count(n)
	for low < end {
		mid := (low + end) / 2
		if word(n, f.at(mid)) < key {
			low = mid + 1
		} else {
			end = mid
		}
	}
	return low, low < count(n) && word(n, f.at(low)) == key
}

func (f *format) entry(n []byte, i int) Entry {
	e := Entry{Key: word(n, f.at(i)), Value: word(n, f.at(i)+8)}
	if f.versions {
		e.Version = word(n, f.at(i)+16)
	}
	return e
}

func (f *format) set(n []byte, i int, e Entry) {
	setWord(n, f.at(i), e.Key)
	setWord(n, f.at(i)+8, e.Value)
	if f.versions {
		setWord(n, f.at(i)+16, e.Version)
	}
}

// put makes room for an entry that is new and sets it.
func (f *format) put(n []byte, i int, e Entry) {
	copy(n[f.at(i+1):f.at(count(n)+1)], n[f.at(i):f.at(count(n))])
	f.set(n, i, e)
	setCount(n, count(n)+1)
}

// A version is an incarnation, odd while the key is there, in the high 32 bits, and a count of its updates.

// fresh is the version of a key that is inserted into a leaf.
func (f *format) fresh(n []byte) uint64 {
	if !f.versions {
		return 0
	}
	return (word(n, headBytes)/2*2 + 1) << 32
}

// remove removes an entry and returns the version of its absence.
func (f *format) remove(n []byte, i int) (absent uint64) {
	if f.versions {
		incarnation := f.entry(n, i).Version>>32 + 1
		absent = incarnation << 32
		setWord(n, headBytes, max(word(n, headBytes), incarnation))
	}
	last := count(n) - 1
	copy(n[f.at(i):f.at(last)], n[f.at(i+1):f.at(last+1)])
	setCount(n, last)
	return absent
}

// Entries of internal nodes. That of index i has the keys from its own to the next one's.

func innerAt(i int) int { return headBytes + innerBytes*i }

// slot is the index of the entry of an internal node that has the key; -1: none.
func (f *format) slot(n []byte, key uint64) int {
	low, end := 0, count(n)
	for low < end {
		mid := (low + end) / 2
		if word(n, innerAt(mid)) <= key {
			low = mid + 1
		} else {
			end = mid
		}
	}
	return low - 1
}

// child is the child of an internal node that has the key; 0: none.
func (f *format) child(n []byte, key uint64) rtx.Ptr {
	i := f.slot(n, key)
	if i < 0 {
		return 0
	}
	return rtx.Ptr(word(n, innerAt(i)+8))
}

// putChild adds a child behind the entry that had its keys.
func (f *format) putChild(n []byte, key uint64, p rtx.Ptr) {
	i := f.slot(n, key) + 1
	copy(n[innerAt(i+1):innerAt(count(n)+1)], n[innerAt(i):innerAt(count(n))])
	setWord(n, innerAt(i), key)
	setWord(n, innerAt(i)+8, uint64(p))
	setCount(n, count(n)+1)
}
