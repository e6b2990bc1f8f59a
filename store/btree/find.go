package btree

import (
	"drtmd/htm"
	"drtmd/store/layout"
	"drtmd/store/words"
)

// maxHeight bounds the inner levels of a tree: nodes with minPairs children each are more than maxBytes by
// then.
const maxHeight = 16

// step is a way through an inner node.
type step struct {
	node  int
	pairs int
	child int // number of the child that the way takes
}

// path leads to where a key stands in the tree, or would.
type path struct {
	steps  [maxHeight]step // from the root on
	height int             // how many of them
	leaf   int
	pairs  int // of the leaf
	pair   int // number of the first pair whose key is not below the key
	entry  int // offset of the key's entry; 0: it has none
	// The leaf is that of the keys from low to high, both included.
	low, high uint64
}

// Find is the offset of the entry of key, outside of any region; there the caller checks it
// (layout.Match). A false proves nothing: see FindIn. It does not allocate.
func (t *Table) Find(key uint64) (off int, ok bool) {
	p, a := &t.found, outside{t}
	if p.leaf != 0 && p.low <= key && key <= p.high {
		// Another key of the leaf in which the last one was. If it is not there, the leaf may have been split meanwhile.
		if h, ok := peekHead(t, a, uint64(p.leaf)); ok && h.Level() == 0 {
			hint := p.pair
			p.pairs = h.Pairs()
			if at(t, a, key, p, hint) && p.entry != 0 {
				return p.entry, true
			}
		}
	}
	if ok = descend(t, a, key, p); !ok {
		p.leaf = 0
	}
	return p.entry, ok && p.entry != 0
}

// FindIn is Find inside a region. The nodes on the way to the key join the read set, so that found and not
// found are both protected; without line words nothing protects them, and a false proves as little as
// Find's. ok is false if the region has aborted. It does not allocate.
func (t *Table) FindIn(r *htm.Region, key uint64) (off int, found, ok bool) {
	if t.lacks(AbsenceOutside) {
		if _, found = t.Find(key); !found {
			return 0, false, r.Active()
		}
	}
	p, ok := t.descendIn(r, key)
	return p.entry, p.entry != 0, ok
}

// finger is the path that a region has taken last. Keys of the same leaf begin there: the way to it is in the region's
// read set, and is the same until the region itself splits or merges nodes.
type finger struct {
	region *htm.Region // nil: none
	run    uint64      // which of the region's runs
	path   path
}

// descendIn is descend in a region. The path is the table's, and good until its next use in a region.
func (t *Table) descendIn(r *htm.Region, key uint64) (p *path, ok bool) {
	f, a := &t.finger, t.inside(r)
	p = &f.path
	if f.region != r || f.run != r.Stats.Begun || key < p.low || key > p.high {
		f.region = nil
		if ok = descend(t, a, key, p); ok && t.lineWords {
			f.region, f.run = r, r.Stats.Begun
		}
		return p, ok
	}
	h, ok := peekHead(t, a, uint64(p.leaf))
	if !ok || !words.Checked(a, h.Level() == 0) {
		return p, false
	}
	hint := p.pair
	p.pairs = h.Pairs()
	return p, at(t, a, key, p, hint) && a.Validate()
}

// reshaped forgets the finger, since nodes are about to be split or merged.
func (t *Table) reshaped() {
	if !t.lacks(FingerKept) {
		t.finger.region = nil
	}
}

// descend goes from the root to the leaf that has a key or would have it. It checks every word on the way, so in a
// region the lines of all nodes are compared once, at the end.
func descend[A words.Access](t *Table, a A, key uint64, p *path) (ok bool) {
	node, ok := a.Peek(t.at + rootAt)
	if !ok {
		return false
	}
	h, ok := peekHead(t, a, node)
	if !ok || !words.Checked(a, h.Level() <= maxHeight) {
		return false
	}
	p.low, p.high = 0, layout.NoKey
	for p.height = 0; h.Level() > 0; p.height++ {
		s := step{node: int(node), pairs: h.Pairs()}
		s.child, p.low, p.high, ok = bounds(a, s.node+layout.InnerPairOffset, s.pairs, key, p.low, p.high)
		if !ok {
			return false
		}
		p.steps[p.height] = s
		if node, ok = a.Peek(s.childAt(s.child)); !ok {
			return false
		}
		below := h.Level() - 1
		if h, ok = peekHead(t, a, node); !ok || !words.Checked(a, h.Level() == below) {
			return false
		}
	}
	p.leaf, p.pairs = int(node), h.Pairs()
	return at(t, a, key, p, noHint) && a.Validate()
}

// noHint is no number of a pair.
const noHint = -1

// at looks a key up in the leaf of a path. It may be at the pair with a number, hint, or at the one behind that.
func at[A words.Access](t *Table, a A, key uint64, p *path, hint int) (ok bool) {
	first := p.leaf + layout.LeafPairOffset
	p.entry = 0
	k, there, ok := near(a, first, p, key, hint)
	if ok && !there {
		p.pair, ok = search(a, first, p.pairs, key)
		if ok && p.pair < p.pairs {
			k, ok = a.Peek(first + p.pair*layout.PairBytes)
		}
	}
	if !ok || p.pair == p.pairs || k != key {
		return ok
	}
	pair := first + p.pair*layout.PairBytes
	off, ok := a.Peek(pair + 8)
	if !ok || !words.Checked(a, t.isEntry(off)) {
		return false
	}
	p.entry = int(off)
	return true
}

// near tries a pair and the one behind it: where a key stands, or would, if it follows the one that was looked up
// before. It gives the key there, if there is one.
func near[A words.Access](a A, first int, p *path, key uint64, hint int) (k uint64, there, ok bool) {
	if hint < 0 || hint > p.pairs {
		return 0, false, true
	}
	if hint > 0 {
		if k, ok = a.Peek(first + (hint-1)*layout.PairBytes); !ok || k >= key {
			return 0, false, ok
		}
	}
	for p.pair = hint; p.pair < min(hint+2, p.pairs); p.pair++ {
		if k, ok = a.Peek(first + p.pair*layout.PairBytes); !ok || k >= key {
			return k, true, ok
		}
	}
	return 0, p.pair == p.pairs, true
}

// headOf is the head of the node at an offset that came from memory.
func headOf[A words.Access](t *Table, a A, node uint64) (h layout.NodeHead, ok bool) {
	h, ok = peekHead(t, a, node)
	return h, ok && a.Validate()
}

// peekHead is headOf for searches.
func peekHead[A words.Access](t *Table, a A, node uint64) (h layout.NodeHead, ok bool) {
	if !words.Checked(a, t.isNode(node)) {
		return 0, false
	}
	w, ok := a.Peek(int(node))
	h = layout.NodeHead(w)
	return h, ok && words.Checked(a, h.Possible())
}

// search is the number of pairs, of n from an offset on, whose key is below key.
func search[A words.Access](a A, first, n int, key uint64) (i int, ok bool) {
	low, high := 0, n
	for low < high {
		middle := (low + high) / 2
		k, ok := a.Peek(first + middle*layout.PairBytes)
		if !ok {
			return 0, false
		}
		if k < key {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, true
}

// bounds is search for the keys that are not above key, with the ends of the range that the child there has: within low
// to high, which are those of the node.
func bounds[A words.Access](a A, first, n int, key, low, high uint64) (i int, least, most uint64, ok bool) {
	from, to := 0, n
	for from < to {
		middle := (from + to) / 2
		k, ok := a.Peek(first + middle*layout.PairBytes)
		if !ok {
			return 0, 0, 0, false
		}
		if k <= key {
			from, low = middle+1, k
		} else {
			to, high = middle, k-1
		}
	}
	return from, low, high, true
}

// childAt is where child i of the node stands, and keyAt where key i does.
func (s *step) childAt(i int) int { return s.node + layout.ChildOffset + i*layout.PairBytes }
func (s *step) keyAt(i int) int   { return s.node + layout.InnerPairOffset + i*layout.PairBytes }
