package layout

import "encoding/binary"

// LineVersions is a record with a version per cache line, as FaRM's objects have (HADES, Figure 1).
// The version word is that of the first line, and each further line begins with its own, which is bound to
// the key:
//
//	line 0    +0   key      8
//	          +8   version  8    incarnation and number, see Version
//	          +16  state    8    the lock
//	          +24  value   40    bytes 0 to 39
//	line i    +0   version  8    of line i, XOR the hash of the key
//	          +8   value   56    bytes 40 + 56 (i-1) and on
//
// So a line that was there for another key, at the same version, is none of this record: records move in
// hopscotch tables. Of an absent record only the header counts: it has no value, and the versions of its
// further lines are those of the last value. FaRM keeps a few bits of the version in each line, and bounds
// the time of a READ because they wrap; here are all 64.
//
// # What a READ proves
//
// A record that is unlocked and whose lines have one version is of that version. Every line was whole
// when it was read, a version has one value, and whoever writes the first line holds the lock, which
// is in it. That asks two things of memory: a line is read at one moment, and the version and the
// value of one of the further lines are written at one moment. Both are so on shm and sim, where
// READ and WRITE take the line's word, and with cache-coherent DMA of whole lines (assumed, as FaRM
// does). Soft-RoCE copies with the CPU, word by word: there a header that is as it was behind the
// READ is the proof, as for OneVersion.
type LineVersions struct{}

// Bytes of the value in the first line, and in each further one.
const (
	firstLineValue = LineBytes - ValueOffset
	lineValueAt    = LineVersionBytes
	lineValue      = LineBytes - lineValueAt
)

// Kind implements Layout.
func (LineVersions) Kind() Kind { return KindLineVersions }

// Bytes implements Layout.
func (LineVersions) Bytes(n int) int {
	if n <= firstLineValue {
		return HeaderBytes + n
	}
	n -= firstLineValue
	bytes := LineBytes + n/lineValue*LineBytes
	if rest := n % lineValue; rest > 0 {
		bytes += lineValueAt + rest
	}
	return bytes
}

// Room implements Layout.
func (LineVersions) Room(n int) int {
	if n <= firstLineValue {
		return 0
	}
	return n
}

// Value implements Layout.
func (LineVersions) Value(image, room []byte) []byte {
	if len(image) <= LineBytes {
		return image[ValueOffset:]
	}
	n := copy(room, image[ValueOffset:LineBytes])
	for at := LineBytes; at < len(image); at += LineBytes {
		n += copy(room[n:], image[at+lineValueAt:min(at+LineBytes, len(image))])
	}
	return room[:n]
}

// LineVersionBytes is the size of a LineVersion.
const LineVersionBytes = 8

// LineVersion is the word at the beginning of each further line of a record.
func LineVersion(key uint64, v Version) uint64 { return uint64(v) ^ Hash(key) }

// Put implements Layout.
func (LineVersions) Put(image []byte, v Version, value []byte) {
	setVersion(image, v)
	if !v.Live() {
		return
	}
	word := uint64(0)
	if len(image) > LineBytes {
		word = LineVersion(HeadOf(image).Key, v)
	}
	n := copy(image[ValueOffset:min(LineBytes, len(image))], value)
	for at := LineBytes; at < len(image); at += LineBytes {
		binary.LittleEndian.PutUint64(image[at:], word)
		n += copy(image[at+lineValueAt:min(at+LineBytes, len(image))], value[n:])
	}
}

// Update implements Layout. The versions of the further lines go with their values.
func (l LineVersions) Update(n int) (version, value Span) {
	return Span{VersionOffset, VersionOffset + 8}, Span{ValueOffset, l.Bytes(n)}
}

// Whole implements Layout.
func (LineVersions) Whole(image []byte) bool {
	h := HeadOf(image)
	if Locked(h.State) {
		return false
	}
	if !h.Version.Live() {
		return true
	}
	if len(image) <= LineBytes {
		return true
	}
	word := LineVersion(h.Key, h.Version)
	for at := LineBytes; at < len(image); at += LineBytes {
		if binary.LittleEndian.Uint64(image[at:]) != word {
			return false
		}
	}
	return true
}
