package layout

import "fmt"

// A Robinhood table (Xenic §4.1.2; package robinhood) has slots in a row, each for the record of a key. The hash of
// a key gives its home, and the key stands in one of the slots from its home on, at most D_m further, or in an
// overflow block of its home's segment. A segment is SegmentHomes homes. Its displacement d is the largest distance
// of a record from its home, of the records with homes in the segment: so one read of d + 1 slots finds a key.
//
//	words    segment word 0 8 | segment word 1 8 | ...
//	slots    0 slot 0 | stride slot 1 | ... | the last home's slot, and more behind it
//	blocks   block 0: slots, link 8 | block 1: slots, link 8 | ...
//
// Records with values of at most MaxInlineBytes are inside of slots, which are whole lines. Of larger ones a slot
// has the key and the offset of the record from the start of the memory region:
//
//	slot     +0  key 8, NoKey: free | +8 offset 8
//
//	segment word   63      40 39            12 11       0
//	              +----------+----------------+----------+
//	              | count 24 | block + 1  28  |   d  12  |
//	              +----------+----------------+----------+
//
// The block is the first one of the segment's chain. The link of a block is the number of the next one and one;
// 0: it is the last. The count rises when a reader that looks at slots in ascending order, and then at blocks, could
// miss a record: when one moves towards its home or from a block to a slot, when a block leaves the chain, and when
// d falls.
const (
	SegmentHomes  = 4
	OverflowSlots = 4
	// MaxInlineBytes is the largest value inside of a slot (Xenic §4.1.2).
	MaxInlineBytes = 256
	// PointerSlotBytes is the size of a slot that leads to a record, and PointerOffset where it says so.
	PointerSlotBytes = 16
	PointerOffset    = 8
	// RobinhoodHeadBytes stand before the segment words.
	RobinhoodHeadBytes = 1152

	segmentBlockShift = 12
	segmentBlockBits  = 28
	segmentCountShift = segmentBlockShift + segmentBlockBits
	// MaxDisplacement is the largest D_m that a segment word can tell.
	MaxDisplacement = 1<<segmentBlockShift - 1
	// MaxOverflowBlocks is how many blocks it can tell apart.
	MaxOverflowBlocks = 1<<segmentBlockBits - 1
)

// Segment is a segment word.
type Segment uint64

// Displacement is d.
func (s Segment) Displacement() int { return int(s & MaxDisplacement) }

// Block is the first overflow block, if there is one. The number may be of no block, if the word came from memory.
func (s Segment) Block() (number int, ok bool) {
	return BlockLink(uint64(s >> segmentBlockShift & MaxOverflowBlocks))
}

// Count is the number of changes that a reader can miss a record by.
func (s Segment) Count() uint32 { return uint32(s >> segmentCountShift) }

// Counted is the word after such a change.
func (s Segment) Counted() Segment { return s + 1<<segmentCountShift } // what overflows falls off the top

// Displaced is the word with another d. One that falls is counted.
func (s Segment) Displaced(d int) Segment {
	if d < s.Displacement() {
		s = s.Counted()
	}
	return s&^MaxDisplacement | Segment(d)
}

// Linked is the word with a link, as MakeBlockLink gives it, to the first block.
func (s Segment) Linked(link uint64) Segment {
	return s&^(MaxOverflowBlocks<<segmentBlockShift) | Segment(link&MaxOverflowBlocks)<<segmentBlockShift
}

func (s Segment) String() string {
	b, ok := s.Block()
	if !ok {
		return fmt.Sprintf("displacement %d, no block, %d changes", s.Displacement(), s.Count())
	}
	return fmt.Sprintf("displacement %d, block %d, %d changes", s.Displacement(), b, s.Count())
}

// Robinhood is where everything of a Robinhood table is, in bytes from the start of the region.
type Robinhood struct {
	Words  int // offset of segment word 0
	Slots  int // of slot 0
	Blocks int // of block 0
	Homes  int
	Count  int // of blocks
	Limit  int // D_m
	Stride int // from slot to slot
}

// MakeRobinhood lays a table out whose segment words begin at an offset.
func MakeRobinhood(words, homes, limit, blocks, stride int) Robinhood {
	r := Robinhood{Words: words, Homes: homes, Count: blocks, Limit: limit, Stride: stride}
	r.Slots = lines(words + (homes+SegmentHomes-1)/SegmentHomes*8)
	r.Blocks = lines(r.Slots + r.SlotCount()*stride)
	return r
}

// lines rounds up to whole lines.
func lines(n int) int { return (n + LineBytes - 1) &^ (LineBytes - 1) }

// SlotCount is how many slots there are outside of blocks: those of homes, and behind them as many as D_m, but not
// more than there are homes.
func (r *Robinhood) SlotCount() int { return r.Homes + min(r.Limit, r.Homes) }

// Slot is the offset of a slot.
func (r *Robinhood) Slot(i int) int { return r.Slots + i*r.Stride }

// Home is the number of a key's home, and of its first slot.
func (r *Robinhood) Home(key uint64) int { return int(BucketIndex(key, uint64(r.Homes))) }

// Last is the number of the last slot in which a key with a home may stand.
func (r *Robinhood) Last(home int) int { return min(home+r.Limit, r.SlotCount()-1) }

// Word is the offset of the segment word of a home.
func (r *Robinhood) Word(home int) int { return r.Words + home/SegmentHomes*8 }

// Block is the offset of a block, and of its first slot.
func (r *Robinhood) Block(i int) int { return r.Blocks + i*r.BlockBytes() }

// BlockBytes is the size of a block.
func (r *Robinhood) BlockBytes() int { return lines(OverflowSlots*r.Stride + 8) }

// Link is the offset of the link of the block at an offset.
func (r *Robinhood) Link(block int) int { return block + OverflowSlots*r.Stride }

// End is the offset behind the last block.
func (r *Robinhood) End() int { return r.Block(r.Count) }

// IsSlot reports whether a slot outside of blocks can be at an offset, which came from memory.
func (r *Robinhood) IsSlot(offset int) bool {
	return offset >= r.Slots && offset < r.Slot(r.SlotCount()) && (offset-r.Slots)%r.Stride == 0
}
