package inplace

import (
	"fmt"

	"drtmd/proto/rtx"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// What an index uses that has operations of its own: race.Client.

// Extent says where buffers are registered, how many memory nodes there are, and how much memory one has.
func (c *Client) Extent() (pd *verbs.PD, nodes, bytes int) { return c.PD, 1, int(c.Memory.Length) }

// Target is the way to an offset, its address and key.
func (c *Client) Target(off int) (*fiber.Conn, uint64, uint32) {
	return c.Conn, c.Memory.Addr + uint64(off), c.Memory.RKey
}

// Holds reports whether so many bytes are at an offset.
func (c *Client) Holds(off, bytes int) bool { return off+bytes <= int(c.Memory.Length) }

// GivesUp is false: nothing ends waits early.
func (c *Client) GivesUp() bool { return false }

// Place is where an object is.
func (c *Client) Place(p rtx.Ptr) int {
	at, _ := c.Shape.Place(p)
	return at
}

// Blocks of records are cut from nodes. Those that were replaced are used again by the client that has replaced them.
// A data pointer has a version of 16 bits above its offset, as those of package rtx.
const (
	versionShift = 48
	offsetMask   = 1<<versionShift - 1
	// fewest is how many free blocks a client has at least, so that none is soon used again.
	fewest = 8
)

// Spare gives a block of a class. It stays the client's until Keep.
func (c *Client) Spare(f *fiber.Fiber, class int, _ rtx.Ptr, _ bool) (rtx.Spare, error) {
	if class != c.blockClass && len(c.blocks) > 0 {
		return rtx.Spare{}, fmt.Errorf("%w: a client has records of one class", rtx.ErrUsage)
	}
	c.blockClass = class
	for len(c.blocks) < fewest {
		p, err := c.Take(f)
		if err != nil {
			return rtx.Spare{}, err
		}
		for off := 0; off < NodeBytes; off += c.ClassBytes(class) {
			c.blocks = append(c.blocks, uint64(c.Place(p)+off))
		}
	}
	c.nextBlock = (c.nextBlock + 1) % len(c.blocks)
	return rtx.Spare{Block: c.blocks[c.nextBlock]}, nil
}

// Keep has the block of a Spare be used, and one that it has replaced be free; a pointer to none: nothing is.
func (c *Client) Keep(s rtx.Spare, d uint64) {
	last := len(c.blocks) - 1
	if c.blocks[c.nextBlock] != s.Block {
		return
	}
	if d&offsetMask == 0 {
		c.blocks[c.nextBlock], c.blocks = c.blocks[last], c.blocks[:last]
		c.nextBlock = 0
		return
	}
	c.blocks[c.nextBlock] = d
}

// Retired is the pointer with which a block is used next.
func (c *Client) Retired(d uint64) uint64 {
	if d == 0 {
		return 0
	}
	return d + 1<<versionShift
}

// BlockAt is the class and the offset of a block.
func (c *Client) BlockAt(d uint64) (class, off int) { return c.blockClass, int(d & offsetMask) }
