package sherman

import (
	"fmt"

	"drtmd/proto/rtx"
)

// Check looks at the whole tree: the order of keys, high keys and siblings of every level, and that each node but the
// first of a level is named by exactly one entry above. It returns all nodes. It reads node by node with get, which
// gives the value of an object at rest; nil: it has none.
func (t *Tree) Check(get func(rtx.Ptr) ([]byte, error)) (nodes []rtx.Ptr, err error) {
	b, err := get(t.root)
	if err != nil || b == nil {
		return nil, err
	}
	p, level := rtx.Ptr(word(b, 0)), int(word(b, 8))
	named := []rtx.Ptr{p} // of the level, in order
	lows := []uint64{0}
	for ; level >= 0; level-- {
		var below []rtx.Ptr
		var belowLows []uint64
		p, low := named[0], uint64(0)
		for i := 0; ; i++ {
			if p == 0 {
				return nil, fmt.Errorf("level %d ends below key %d", level, low)
			}
			n, err := get(p)
			if err != nil {
				return nil, err
			}
			if n == nil || levelOf(n) != level || count(n) > t.f.room(level) {
				return nil, fmt.Errorf("object %d is no node of level %d", p, level)
			}
			if i >= len(named) || named[i] != p || lows[i] != low {
				return nil, fmt.Errorf("node %d of level %d, object %d from key %d on, is not named so above", i, level, p, low)
			}
			nodes = append(nodes, p)
			if err := t.checkNode(n, low); err != nil {
				return nil, fmt.Errorf("object %d: %w", p, err)
			}
			for j := 0; level > 0 && j < count(n); j++ {
				below = append(below, rtx.Ptr(word(n, innerAt(j)+8)))
				belowLows = append(belowLows, word(n, innerAt(j)))
			}
			if high(n) == NoKey {
				if i+1 != len(named) {
					return nil, fmt.Errorf("level %d has %d nodes, and %d are named above", level, i+1, len(named))
				}
				break
			}
			p, low = right(n), high(n)
		}
		named, lows = below, belowLows
	}
	return nodes, nil
}

// checkNode looks at the keys of a node that begins at low.
func (t *Tree) checkNode(n []byte, low uint64) error {
	at := t.f.at
	if levelOf(n) > 0 {
		at = innerAt
		if count(n) == 0 || word(n, at(0)) != low {
			return fmt.Errorf("its first child does not begin at %d", low)
		}
	}
	for i := range count(n) {
		key := word(n, at(i))
		if key < low || key >= high(n) || i > 0 && key <= word(n, at(i-1)) {
			return fmt.Errorf("key %d out of order, in a node of %d..%d", key, low, high(n))
		}
	}
	return nil
}
