package race

import (
	"bytes"
	"encoding/binary"

	"drtmd/proto/rtx"
)

func word(b []byte, at int) uint64       { return binary.LittleEndian.Uint64(b[at:]) }
func setWord(b []byte, at int, v uint64) { binary.LittleEndian.PutUint64(b[at:], v) }

// Sizes in bytes.
const (
	lineBytes     = 64
	bucketBytes   = 64
	bucketSlots   = 7
	groupBytes    = 3 * bucketBytes
	combinedBytes = 2 * bucketBytes
	// groupsAt is where groups begin in a subtable's block, valueAt where an object's value does.
	groupsAt = 64
	valueAt  = 16
	inValue  = groupsAt - valueAt
)

// A slot:
//
//	63       56 55         54      48 47       32 31        0
//	+----------+-----------+---------+-----------+----------+
//	| hash 8   | tentative | lines 7 | version 16| line 32  |
//	+----------+-----------+---------+-----------+----------+
//
// Lines of 64 bytes are the record's length and place. The version is that of its data pointer. With several memory
// nodes, the highest bits of the line are the node's number.
const (
	tentativeBit = 1 << 55
	linesShift   = 48
	maxLines     = 1<<7 - 1
	versionShift = 32
	lineMask     = 1<<32 - 1
)

func fingerprint(h uint64) uint64 { return h >> 56 << 56 }

// spread is how lines name places of several memory nodes: bits are those of a node's number.
type spread struct{ bits int }

func (s spread) line(place int) uint64 {
	return uint64(rtx.PlaceNode(place))<<(32-s.bits) | uint64(rtx.PlaceOffset(place)/lineBytes)
}

// offset is the place of a slot's record.
func (s spread) offset(w uint64) int {
	line := w & lineMask
	return rtx.PlaceAt(int(line>>(32-s.bits)), int(line&(1<<(32-s.bits)-1))*lineBytes)
}

// pointer are the 48 bits of a slot that name the block of a data pointer.
func (s spread) pointer(d uint64, place int) uint64 { return d>>48<<versionShift | s.line(place) }

func (s spread) slotWord(h, d uint64, place, lines int) uint64 {
	return fingerprint(h) | uint64(lines)<<linesShift | s.pointer(d, place)
}

func tentative(w uint64) bool { return w&tentativeBit != 0 }
func lines(w uint64) int      { return int(w >> linesShift & maxLines) }

// A record:
//
//	 0 reference of its slot 8 | data pointer of the record that it replaced 8 | its own data pointer 8
//	24 its own data pointer 8, when it is settled
//	32 hash of the record 32, length of the value 16, of the key 8, 1 if it is deleted 8
//	40 version 8, if versions are on | key, up to a whole word | value, up to a whole word
const (
	recordRef     = 0
	recordOld     = 8
	recordSelf    = 16
	recordSettled = 24
	recordHead    = 32
	recordBody    = 40

	maxKey   = 1<<8 - 1
	maxValue = 1<<16 - 1
)

func align(n, to int) int { return (n + to - 1) / to * to }

// format is how records lie in their blocks.
type format struct{ versions bool }

func (f format) keyAt() int {
	if f.versions {
		return recordBody + 8
	}
	return recordBody
}

func (f format) bytes(key, value int) int { return f.keyAt() + align(key, 8) + align(value, 8) }

// RecordBytes is the size of a record with a key and a value of some bytes.
func RecordBytes(key, value int, versions bool) int { return format{versions}.bytes(key, value) }

// record is what a block says.
type record struct {
	key, value []byte
	version    uint64
	deleted    bool
}

// encode makes a block, and returns its lines.
func (f format) encode(b []byte, ref, old, self uint64, r *record) int {
	n := f.bytes(len(r.key), len(r.value))
	setWord(b, recordRef, ref)
	setWord(b, recordOld, old)
	setWord(b, recordSelf, self)
	setWord(b, recordSettled, 0)
	clear(b[recordBody:n])
	if f.versions {
		setWord(b, recordBody, r.version)
	}
	at := f.keyAt()
	copy(b[at:], r.key)
	copy(b[at+align(len(r.key), 8):], r.value)
	head := uint64(len(r.value))<<16 | uint64(len(r.key))<<8
	if r.deleted {
		head |= 1
	}
	setWord(b, recordHead, head)
	setWord(b, recordHead, head|sum(b, n)<<32)
	return align(n, lineBytes) / lineBytes
}

// sum is a hash of 32 bits of all but the settled word.
func sum(b []byte, n int) uint64 {
	head := word(b, recordHead) & (1<<32 - 1)
	return (rtx.Hash(b[:recordSettled]) ^ rtx.Hash(b[recordBody:n]) ^ mix(head)) & (1<<32 - 1)
}

// decode reads a block of which so many bytes were read; false: it is torn, or no record.
func (f format) decode(b []byte) (r record, ok bool) {
	head := word(b, recordHead)
	values, keys := int(head>>16&maxValue), int(head>>8&maxKey)
	n := f.bytes(keys, values)
	if n > len(b) || head>>32 != sum(b, n) {
		return record{}, false
	}
	at := f.keyAt()
	r = record{key: b[at : at+keys], deleted: head&1 == 1}
	r.value = b[at+align(keys, 8):][:values]
	if f.versions {
		r.version = word(b, recordBody)
	}
	return r, true
}

// mix spreads the bits of a word (the end of splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// hashOf is the hash of a key: its low bits find the subtable, its high ones are in the slot.
func hashOf(key []byte) uint64 {
	h := uint64(len(key))
	for ; len(key) >= 8; key = key[8:] {
		h = mix(h ^ word(key, 0))
	}
	if len(key) > 0 {
		var rest [8]byte
		copy(rest[:], key)
		h = mix(h ^ word(rest[:], 0))
	}
	return mix(h + 0x9E3779B97F4A7C15)
}

// combined are the offsets of a key's two combined buckets in a subtable's block, in two groups.
func combined(h uint64, groups int) [2]int {
	x := mix(h ^ 0xD6E8FEB86659FD93)
	a := int(x >> 32 % uint64(groups))
	b := (a + 1 + int(x>>16&0xFFFF)%(groups-1)) % groups
	return [2]int{groupsAt + a*groupBytes + int(x&1)*bucketBytes, groupsAt + b*groupBytes + int(x>>1&1)*bucketBytes}
}

// slotAt is the offset of slot i in a combined bucket: 0..6 of the bucket at its beginning, then those of the other.
func slotAt(i int) int { return i/bucketSlots*bucketBytes + 8 + i%bucketSlots*8 }

// A bucket's header: the depth of its subtable, and as many low bits of the hashes in it.
func header(depth int, suffix uint64) uint64 {
	return uint64(depth)<<32 | suffix&(1<<depth-1)
}

// setHeaders writes the headers of all buckets of a subtable's value.
func setHeaders(value []byte, groups, depth int, suffix uint64) {
	for i := range 3 * groups {
		setWord(value, inValue+i*bucketBytes, header(depth, suffix))
	}
}

// Entries of the directory:
//
//	63     62     50 49    44 43       0
//	+------+----+---+--------+---------+
//	| 1    | page 1 | depth 6| object  |
//	+------+----+---+--------+---------+
const (
	entryBit   = 1 << 63
	pageBit    = 1 << 62
	depthShift = 44
	objectMask = 1<<44 - 1

	levelBits   = 6
	pageEntries = 1 << levelBits
	maxDepth    = 30
)

func entryWord(p rtx.Ptr, depth int, page bool) uint64 {
	w := uint64(entryBit) | uint64(depth)<<depthShift | uint64(p)
	if page {
		w |= pageBit
	}
	return w
}

func entryPtr(w uint64) rtx.Ptr { return rtx.Ptr(w & objectMask) }
func entryDepth(w uint64) int   { return int(w >> depthShift & 0x3F) }
func entryPage(w uint64) bool   { return w&pageBit != 0 }

func equal(a, b []byte) bool { return bytes.Equal(a, b) }
