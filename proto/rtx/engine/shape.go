package engine

import (
	"fmt"

	"drtmd/proto/rtx"
	"drtmd/proto/rtx/sherman"
)

// Parts of a shape that every memory node has.
const (
	shapeSlots = 32
	// shapeRoots is how many indexes there may be.
	shapeRoots = 16
	smallBytes = 64
)

// Shape is that of a memory node of some bytes, for an index, with a number of owners: one for each fiber of each
// client. Memory that is too small for them is refused. Where records are small blocks, these have half of it.
func Shape(bytes, owners int, index *IndexSpec) (rtx.Shape, error) {
	s := rtx.Shape{Owners: owners, Slots: shapeSlots, Roots: shapeRoots, Classes: []rtx.Class{
		{Bytes: smallBytes, Blocks: (2*owners + 32) * rtx.ChunkBlocks}, {Bytes: sherman.NodeBytes}}}
	nodes := &s.Classes[1].Blocks
	const chunk = rtx.ChunkBlocks * (sherman.NodeBytes + 16) // an object for each block
	*nodes, s.Objects = rtx.ChunkBlocks, rtx.ChunkBlocks
	least, err := s.Bytes()
	if err != nil {
		return s, err
	}
	if index.Small {
		s.Classes[0].Blocks += max(0, bytes-least) / 2 / (smallBytes*rtx.ChunkBlocks + 8) * rtx.ChunkBlocks
		if least, err = s.Bytes(); err != nil {
			return s, err
		}
	}
	*nodes += max(0, bytes-least) / (chunk + 8) * rtx.ChunkBlocks
	s.Objects = *nodes
	// Each owner takes a chunk, and one is left for each as the index grows.
	share := 1
	if index.Small {
		share = 2
	}
	if need := 2 * owners * rtx.ChunkBlocks; *nodes < need {
		return s, fmt.Errorf("%w: %d bytes are too few for %d owners: take %d or more, or fewer clients or fibers",
			rtx.ErrShape, bytes, owners, share*(least+need/rtx.ChunkBlocks*(chunk+8)))
	}
	return s, nil
}
