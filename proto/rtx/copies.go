package rtx

// Copies keep blocks of objects as they were read last, each with the metadata that it belongs to. The block of an object
// never changes: an update writes another one (section 4.2). And a lock word never comes again with another pointer. So
// when an object's metadata is that of a copy, the copy is its value, however old it is, and whoever has one reads the
// 16 bytes of the metadata instead of the block. This is ours: the paper reads blocks.
//
// A table has one block for each of its places; a newer one takes the place. The clients of a thread may share it. A nil
// *Copies keeps nothing.
type Copies struct {
	of     []hint // whose block a place has
	blocks []byte
	size   int // of a block
}

// NewCopies makes a table of so many blocks of a class; those of other sizes are not kept.
func NewCopies(blocks, size int) *Copies {
	return &Copies{of: make([]hint, max(1, blocks)), blocks: make([]byte, max(1, blocks)*size), size: size}
}

// Bytes is what a table of so many blocks takes.
func (c *Copies) Bytes() int { return len(c.blocks) + len(c.of)*hintBytes }

// get is the block of an object with some metadata; nil: there is no copy of it. It is valid until the fiber waits.
func (c *Copies) get(p Ptr, word, dptr uint64, b bug) []byte {
	if c == nil {
		return nil
	}
	i := placeOf(p, len(c.of))
	if x := &c.of[i]; x.ptr != p || (x.word != word || !sameUse(x.dptr, dptr)) && b != bugCopyTrusted {
		return nil
	}
	return c.blocks[i*c.size:][:c.size]
}

// put keeps the block of an object, which was unlocked, with its metadata.
func (c *Copies) put(p Ptr, word, dptr uint64, block []byte) {
	if c == nil || len(block) != c.size {
		return
	}
	i := placeOf(p, len(c.of))
	c.of[i] = hint{p, word, dptr}
	copy(c.blocks[i*c.size:], block)
}
