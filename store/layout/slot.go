package layout

import "fmt"

// Sizes, in bytes unless said otherwise.
const (
	LineBytes      = 64
	SlotBytes      = 16
	BucketBytes    = 128
	BucketSlots    = BucketBytes / SlotBytes
	LinkSlot       = BucketSlots - 1 // index of the slot that can turn into a link
	SlotKeyOffset  = 8               // of the key word within a slot
	BucketWords    = BucketBytes / 8
	offsetBits     = 48
	lossyBits      = 14
	MaxOffset      = 1<<offsetBits - 1
	MaxLossy       = 1<<lossyBits - 1
	MaxValueBytes  = 4096
	KeyOffset      = 0
	VersionOffset  = 8
	StateOffset    = 16
	ValueOffset    = 24
	HeaderBytes    = ValueOffset // of an entry
	EntryAlignment = LineBytes
	// CounterOffset is where a table has its incarnation counter, in every index: 8 bytes, in bytes from
	// the start of the table.
	CounterOffset = LineBytes
	// HopscotchHeadBytes stand before the slots of a hopscotch table (package hopscotch).
	HopscotchHeadBytes = 4 * LineBytes
	// RecordsHeadBytes stand before the records of a table of index DLHT (package records).
	RecordsHeadBytes = 2 * LineBytes
	// TableHeadBytes stand before the main buckets of a table (package store).
	TableHeadBytes = 1152
)

// Type is what a slot leads to. The numbers are the two bits in memory.
type Type uint8

// Types of slots (§6.3).
const (
	Free   Type = 0
	Entry  Type = 1
	Header Type = 2 // the next bucket of the chain
	Cached Type = 3 // the copy of the next bucket; in a location cache only
)

var typeNames = [...]string{"free", "entry", "header", "cached"}

func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("type(%d)", uint8(t))
}

// Lossy is a lossy incarnation: 14 bits of a number that grows.
type Lossy uint16

// Slot is a slot word. The zero value is a free slot.
type Slot uint64

// MakeSlot joins the fields of a slot word; offset is at most MaxOffset.
func MakeSlot(t Type, l Lossy, offset uint64) Slot {
	return Slot(t)<<(offsetBits+lossyBits) | Slot(l&MaxLossy)<<offsetBits | Slot(offset&MaxOffset)
}

// Type of the slot.
func (s Slot) Type() Type { return Type(s >> (offsetBits + lossyBits)) }

// Lossy incarnation of what the slot leads to.
func (s Slot) Lossy() Lossy { return Lossy(s>>offsetBits) & MaxLossy }

// Offset of what the slot leads to, in bytes from the start of the memory region.
func (s Slot) Offset() uint64 { return uint64(s) & MaxOffset }

func (s Slot) String() string {
	if s.Type() == Free {
		return "free"
	}
	return fmt.Sprintf("%s at %d, lossy %d", s.Type(), s.Offset(), s.Lossy())
}

// Bucket is a copy of a bucket: slot word and key word of each slot in turn.
type Bucket [BucketWords]uint64

// Slot is the slot word of slot i.
func (b *Bucket) Slot(i int) Slot { return Slot(b[2*i]) }

// Find is the slot word of the entry that the bucket has for key, and false if it has none.
func (b *Bucket) Find(key uint64) (Slot, bool) {
	for i := range BucketSlots {
		if b[2*i+1] == key && Slot(b[2*i]).Type() == Entry {
			return Slot(b[2*i]), true
		}
	}
	return 0, false
}

// Link is the slot word of the link to the next bucket of the chain, as Header or Cached, and
// false at the end of the chain.
func (b *Bucket) Link() (Slot, bool) {
	s := b.Slot(LinkSlot)
	return s, s.Type() == Header || s.Type() == Cached
}
