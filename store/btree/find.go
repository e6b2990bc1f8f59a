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
}

// Find is the offset of the entry of key, outside of any region; there the caller checks it
// (layout.Match). A false proves nothing: see FindIn. It does not allocate.
func (t *Table) Find(key uint64) (off int, ok bool) {
	var p path
	ok = descend(t, outside{t}, key, &p)
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
	var p path
	ok = descend(t, t.inside(r), key, &p)
	return p.entry, p.entry != 0, ok
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
	for p.height = 0; h.Level() > 0; p.height++ {
		s := step{node: int(node), pairs: h.Pairs()}
		s.child, ok = search(a, s.node+layout.InnerPairOffset, s.pairs, key, true)
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
	return at(t, a, key, p) && a.Validate()
}

// at looks a key up in the leaf of a path.
func at[A words.Access](t *Table, a A, key uint64, p *path) (ok bool) {
	first := p.leaf + layout.LeafPairOffset
	p.entry = 0
	if p.pair, ok = search(a, first, p.pairs, key, false); !ok || p.pair == p.pairs {
		return ok
	}
	pair := first + p.pair*layout.PairBytes
	k, ok := a.Peek(pair)
	if !ok || k != key {
		return ok
	}
	off, ok := a.Peek(pair + 8)
	if !ok || !words.Checked(a, t.isEntry(off)) {
		return false
	}
	p.entry = int(off)
	return true
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

// search is the number of pairs, of n from an offset on, whose key is below key, or not above it if equal.
func search[A words.Access](a A, first, n int, key uint64, equal bool) (i int, ok bool) {
	low, high := 0, n
	for low < high {
		middle := (low + high) / 2
		k, ok := a.Peek(first + middle*layout.PairBytes)
		if !ok {
			return 0, false
		}
		if k < key || equal && k == key {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, true
}

// childAt is where child i of the node stands, and keyAt where key i does.
func (s *step) childAt(i int) int { return s.node + layout.ChildOffset + i*layout.PairBytes }
func (s *step) keyAt(i int) int   { return s.node + layout.InnerPairOffset + i*layout.PairBytes }
