package btree

import (
	"fmt"

	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
	"drtmd/store/pool"
)

// checkTable looks at every word of a table at rest and says what does not fit: each node and each entry is
// either in its pool or in the tree, once; keys ascend and are within the bounds that the nodes above give;
// no node but the root has too little; the leaves are linked in both directions, in order.
func checkTable(t *Table) error {
	c := &checker{t: t, seen: tabletest.Items{}}
	root := int(t.word(t.at + rootAt))
	h := layout.NodeHead(t.word(root))
	if err := c.node(root, h.Level(), 0, layout.NoKey, true); err != nil {
		return err
	}
	for i, leaf := range c.leaves {
		prev, next := 0, 0
		if i > 0 {
			prev = c.leaves[i-1]
		}
		if i+1 < len(c.leaves) {
			next = c.leaves[i+1]
		}
		if int(t.word(leaf+layout.LeafPrevOffset)) != prev || int(t.word(leaf+layout.LeafNextOffset)) != next {
			return fmt.Errorf("leaf %d of %d has other neighbours than its place in the tree", i, len(c.leaves))
		}
	}
	if o := t.Occupancy(); o.InTree != c.nodes || o.Bound != c.entries || o.Height != h.Level()+1 {
		return fmt.Errorf("%s, but %d nodes and %d entries were met", o, c.nodes, c.entries)
	}
	for _, p := range []pool.Pool{t.entryPool(), t.nodePool()} {
		if err := c.seen.Pool(t.word, p); err != nil {
			return err
		}
	}
	return nil
}

type checker struct {
	t              *Table
	seen           tabletest.Items
	leaves         []int
	nodes, entries int
}

// node checks a node and what is below it: keys are from low to high, both included.
func (c *checker) node(node, level int, low, high uint64, root bool) error {
	t := c.t
	c.nodes++
	if err := c.seen.Meet(node, "in the tree"); err != nil {
		return err
	}
	if !t.isNode(uint64(node)) {
		return fmt.Errorf("no node can be at %d", node)
	}
	h := layout.NodeHead(t.word(node))
	if h.Level() != level || !h.Possible() {
		return fmt.Errorf("at %d is a %v, expected at level %d", node, h, level)
	}
	least := minPairs
	if level > 0 {
		least = minPairs - 1
		if root {
			least = 1
		}
	}
	if h.Pairs() < least && (level > 0 || !root) {
		return fmt.Errorf("at %d is a %v, which has fewer than %d", node, h, least)
	}
	if level == 0 {
		c.leaves = append(c.leaves, node)
	}
	first, from := firstPair(node, level), low
	for i := range h.Pairs() {
		key, to := t.word(first+i*layout.PairBytes), t.word(first+i*layout.PairBytes+8)
		if key < from || key > high || i > 0 && key == from && level > 0 {
			return fmt.Errorf("key %d in the node at %d is not from %d to %d", key, node, from, high)
		}
		if level == 0 {
			if err := c.entry(int(to), key); err != nil {
				return err
			}
			from = key + 1
			continue
		}
		below := int(t.word(node + layout.ChildOffset + i*layout.PairBytes))
		if err := c.node(below, level-1, from, key-1, false); err != nil {
			return err
		}
		from = key
	}
	if level == 0 {
		return nil
	}
	return c.node(int(t.word(node+layout.ChildOffset+h.Pairs()*layout.PairBytes)), level-1, from, high, false)
}

func (c *checker) entry(off int, key uint64) error {
	c.entries++
	if !c.t.isEntry(uint64(off)) {
		return fmt.Errorf("key %d leads to %d", key, off)
	}
	v := layout.Version(c.t.word(off + layout.VersionOffset))
	if k := c.t.word(off + layout.KeyOffset); k != key || v.Unbound() {
		return fmt.Errorf("key %d leads to key %d at %s", key, k, v)
	}
	return c.seen.Meet(off, "bound")
}
