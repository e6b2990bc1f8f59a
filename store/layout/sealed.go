package layout

import "encoding/binary"

// Sealed is OneVersion with a seal behind the value, for memory without line words:
//
//	+0   key      8
//	+8   version  8
//	+16  state    8
//	+24  value    n, and up to 7 bytes that fill the last word
//	...  seal     8    SealOf the record while it is live and unlocked, else 0
//
// # What a READ proves
//
// If the seal in a copy is SealOf the copy, then at the moment when the seal was read the record was unlocked, and
// its key, version and value were those of the copy: whatever the order in which the words were read, and whatever
// was written meanwhile. No two versions of a record have one seal, but for one chance in 2^63. The state word in the
// copy says nothing more. If a later READ of the seal alone gives the same, the record is unlocked at the same version
// again.
//
// That asks three things of whoever locks a record, all of them CPUs:
//
//   - The seal is 0 before the lock counts: a lock is taken by a compare-and-swap of the state, and then stores 0.
//   - Nothing of the record changes while it is sealed.
//   - The seal is stored behind all changes, just before the state word is unlocked.
//
// A record without its seal is no error. It only takes READs of its header to prove a copy, as with OneVersion. So
// records that are absent have none, and a NIC may not lock or write sealed records.
type Sealed struct{}

const sealBytes = 8

// Kind implements Layout.
func (Sealed) Kind() Kind { return KindSealed }

// Bytes implements Layout.
func (Sealed) Bytes(n int) int { return (HeaderBytes+n+7)&^7 + sealBytes }

// Room implements Layout.
func (Sealed) Room(int) int { return 0 }

// Value implements Layout. What fills the last word counts as part of it: Record.Value leaves that out.
func (Sealed) Value(image, _ []byte) []byte { return image[ValueOffset : len(image)-sealBytes] }

// Put implements Layout. The image must not be of a record that is locked.
func (Sealed) Put(image []byte, v Version, value []byte) {
	setVersion(image, v)
	at, seal := len(image)-sealBytes, uint64(0)
	if v.Live() {
		copy(image[ValueOffset:at], value)
		seal = SealOf(image)
	}
	binary.LittleEndian.PutUint64(image[at:], seal)
}

// Update implements Layout.
func (l Sealed) Update(n int) (version, value Span) {
	return Span{VersionOffset, VersionOffset + 8}, Span{ValueOffset, l.Bytes(n)}
}

// Whole implements Layout: the seal is that of the image. No READ has to be atomic for that, but in words.
func (Sealed) Whole(image []byte) bool { return SealIn(image) == SealOf(image) }

// SealIn is the seal in the image of a sealed record.
func SealIn(image []byte) uint64 { return binary.LittleEndian.Uint64(image[len(image)-sealBytes:]) }

// SealOf is the seal of the image of a sealed record: a hash of all words but the state and the seal. It is not 0.
func SealOf(image []byte) uint64 {
	var h Sealing
	for at := 0; at < len(image)-sealBytes; at += 8 {
		if at != StateOffset {
			h.Add(binary.LittleEndian.Uint64(image[at:]))
		}
	}
	return h.Seal()
}

// Sealing makes a seal of words, one after the other. Images that differ in one word have different hashes.
type Sealing uint64

// Add takes the next word.
func (h *Sealing) Add(word uint64) {
	x := (uint64(*h) ^ word) * 0x9e3779b97f4a7c15 // 2^64 over the golden ratio
	*h = Sealing(x ^ x>>32)
}

// Seal is the seal of the words so far.
func (h Sealing) Seal() uint64 { return uint64(h) | 1 }
