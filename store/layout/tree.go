package layout

import "fmt"

// An ordered table is a B+ tree (package btree): nodes, and behind them the records, each of which a leaf
// names. Nodes are 256 bytes, four lines, at an address divisible by 64. A pair never lies in two lines.
//
//	inner node   +0    head 8
//	             +8    child 0 8
//	             +16   key 0 8, child 1 8 | +32 key 1, child 2 | ... | +240 key 14, child 15
//
//	leaf         +0    head 8
//	             +8    next leaf 8 | +16 previous leaf 8, 0: none | +24 zero 8
//	             +32   key 0 8, record 0 8 | +48 key 1, record 1 | ... | +240 key 13, record 13
//
//	head         63           32 31       16 15        0
//	            +---------------+-----------+-----------+
//	            |      zero     | level 16  | pairs 16  |
//	            +---------------+-----------+-----------+
//
// Leaves have level 0, an inner node one more than its children. Children, leaves and records are offsets from
// the start of the memory region. The keys of a node ascend. Child i has the keys below key i, and child i+1
// those from key i on; key i need not be in the table. A node that is in no tree has level FreeLevel.
const (
	NodeBytes  = 4 * LineBytes
	LeafPairs  = 14
	InnerPairs = 15

	FreeLevel = 1<<16 - 1
	// TreeHeadBytes stand before the nodes of a tree.
	TreeHeadBytes = 1280

	ChildOffset     = 8  // of child 0 in an inner node
	InnerPairOffset = 16 // of pair 0
	LeafNextOffset  = 8
	LeafPrevOffset  = 16
	LeafPairOffset  = 32
	PairBytes       = 16
)

// NodeHead is the first word of a node.
type NodeHead uint64

// MakeNodeHead joins both.
func MakeNodeHead(level, pairs int) NodeHead { return NodeHead(level)<<16 | NodeHead(pairs) }

// Level is 0 for a leaf.
func (h NodeHead) Level() int { return int(h >> 16 & FreeLevel) }

// Pairs is how many keys the node has.
func (h NodeHead) Pairs() int { return int(h & (1<<16 - 1)) }

// Possible reports whether a node of a tree can have this head, which came from memory.
func (h NodeHead) Possible() bool {
	most := InnerPairs
	if h.Level() == 0 {
		most = LeafPairs
	}
	return h>>32 == 0 && h.Level() != FreeLevel && h.Pairs() <= most
}

func (h NodeHead) String() string {
	if h.Level() == FreeLevel {
		return "free node"
	}
	return fmt.Sprintf("node of level %d with %d pairs", h.Level(), h.Pairs())
}
