package layout

import "fmt"

// A hopscotch table (FaRM; package hopscotch) has its records inside of its slots, so that the READ that
// finds a record fetches it. A key has a home, which its hash gives, and stands in one of the Neighbours
// slots from there on, which one READ fetches; or, when these are full, in a chain of overflow blocks of
// its home.
//
//	slots    0 slot 0 | stride slot 1 | ... | slot homes + Neighbours - 2
//	blocks   block 0: slot, slot | block 1: slot, slot | ...
//
//	slot     +0           the record, as its layout has it
//	         stride - 8   trailer 8
//
// The stride is whole lines. The trailer of slot i is the hop word of home i; that of the first slot of a
// block is the number of the next block of the chain and one, 0: it is the last. Other trailers are 0.
//
//	hop word   63      40 39            8 7       0
//	          +----------+---------------+---------+
//	          | count 24 | block + 1  32 |  map 8  |
//	          +----------+---------------+---------+
//
// Bit i of the map says that slot home + i holds a record of this home; block is the first one of its chain.
// The count rises with every change, so that a reader who finds nothing knows whether a record has moved
// while it looked. It is odd while a record of the home moves, where memory has no line words.
const (
	// Neighbours is H: how many slots may hold a key's record.
	Neighbours = 8
	// BlockSlots is how many records an overflow block holds.
	BlockSlots   = 2
	trailerBytes = 8

	hopBlockShift = Neighbours
	hopBlockBits  = 32
	hopCountShift = hopBlockShift + hopBlockBits
	// MaxBlocks is how many blocks a hop word can tell apart.
	MaxBlocks = 1<<hopBlockBits - 1
)

// Hop is a hop word.
type Hop uint64

// Has reports whether slot i of the neighbourhood holds a record of the home.
func (h Hop) Has(i int) bool { return h>>i&1 == 1 }

// Map is which slots of the neighbourhood hold records of the home.
func (h Hop) Map() uint8 { return uint8(h) }

// Block is the first overflow block, if there is one.
func (h Hop) Block() (number int, ok bool) { return BlockLink(uint64(uint32(h >> hopBlockShift))) }

// Moving reports whether a record of the home is being moved.
func (h Hop) Moving() bool { return h>>hopCountShift&1 == 1 }

// Count is the number of changes.
func (h Hop) Count() uint32 { return uint32(h >> hopCountShift) }

// counted raises the count.
func (h Hop) counted(by uint64) Hop {
	return h + Hop(by)<<hopCountShift // what overflows falls off the top
}

// With is the word after slot i has got a record of the home.
func (h Hop) With(i int) Hop { return (h | 1<<i).counted(2) }

// Without is the word after slot i has lost one.
func (h Hop) Without(i int) Hop { return (h &^ (1 << i)).counted(2) }

// Begun is the word while a record moves, and Moved that after it has moved from slot i to slot j.
func (h Hop) Begun() Hop { return h.counted(1) }

// Moved ends what Begun has begun.
func (h Hop) Moved(i, j int) Hop { return (h&^(1<<i) | 1<<j).counted(1) }

// Linked is the word with a link, as MakeBlockLink gives it, to the first block.
func (h Hop) Linked(link uint64) Hop {
	const mask = 1<<hopBlockBits - 1
	return (h&^(mask<<hopBlockShift) | Hop(link&mask)<<hopBlockShift).counted(2)
}

func (h Hop) String() string {
	b, ok := h.Block()
	if !ok {
		return fmt.Sprintf("%08b, no block, %d changes", h.Map(), h.Count())
	}
	return fmt.Sprintf("%08b, block %d, %d changes", h.Map(), b, h.Count())
}

// MakeBlockLink is the word that leads to a block.
func MakeBlockLink(number int) uint64 { return uint64(number) + 1 }

// BlockLink is the block that a word leads to, if it leads to one. The number may be of no block, if the word
// came from memory, but is not negative.
func BlockLink(link uint64) (number int, ok bool) {
	return int(min(link, MaxBlocks+1)) - 1, link != 0
}

// HopscotchStride is the distance of slots with such records.
func HopscotchStride(r *Record) int {
	return (r.Bytes + trailerBytes + LineBytes - 1) &^ (LineBytes - 1)
}

// Hopscotch is where everything of a hopscotch table is, in bytes from the start of the region.
type Hopscotch struct {
	Slots  int // offset of slot 0
	Homes  int
	Blocks int
	Stride int
}

// SlotCount is how many slots there are outside of blocks.
func (h *Hopscotch) SlotCount() int { return h.Homes + Neighbours - 1 }

// Slot is the offset of a slot.
func (h *Hopscotch) Slot(i int) int { return h.Slots + i*h.Stride }

// Home is the number of a key's home, which is that of the first slot of its neighbourhood.
func (h *Hopscotch) Home(key uint64) int { return int(BucketIndex(key, uint64(h.Homes))) }

// Trailer is the offset of the trailer of the slot at an offset.
func (h *Hopscotch) Trailer(slot int) int { return slot + h.Stride - trailerBytes }

// Block is the offset of a block, and of its first slot.
func (h *Hopscotch) Block(i int) int {
	return h.Slot(h.SlotCount()) + i*h.BlockBytes()
}

// BlockBytes is the size of a block.
func (h *Hopscotch) BlockBytes() int { return BlockSlots * h.Stride }

// NeighbourhoodBytes is the size of a neighbourhood.
func (h *Hopscotch) NeighbourhoodBytes() int { return Neighbours * h.Stride }

// End is the offset behind the last block.
func (h *Hopscotch) End() int { return h.Block(h.Blocks) }

// IsSlot reports whether a slot can be at an offset, which came from memory.
func (h *Hopscotch) IsSlot(offset int) bool {
	return offset >= h.Slots && offset < h.End() && (offset-h.Slots)%h.Stride == 0
}

// Hopscotch is where everything of the table is, of which the index is HopscotchInline.
func (d *Descriptor) Hopscotch() Hopscotch {
	r := d.Record()
	h := Hopscotch{Slots: int(d.MainOffset), Homes: int(d.MainBuckets), Stride: HopscotchStride(&r)}
	h.Blocks = (int(d.End) - h.Block(0)) / h.BlockBytes()
	return h
}

// checkHopscotch is check for a hopscotch table.
func (d *Descriptor) checkHopscotch() error {
	r := d.Record()
	stride := uint64(HopscotchStride(&r))
	slots := (d.End - d.MainOffset) / stride
	if d.MainBuckets == 0 || d.MainBuckets > slots || slots-d.MainBuckets < Neighbours-1 {
		return fmt.Errorf("%w: %d homes do not fit in %d bytes", ErrDescriptor, d.MainBuckets,
			d.End-d.MainOffset)
	}
	if h := d.Hopscotch(); uint64(h.End()) != d.End || h.Blocks > MaxBlocks {
		return fmt.Errorf("%w: %d homes and %d overflow blocks do not end at offset %d", ErrDescriptor,
			d.MainBuckets, h.Blocks, d.End)
	}
	return nil
}
