package btree

import (
	"drtmd/store/layout"
	"drtmd/store/pool"
	"drtmd/store/words"
)

// pair is a key with what it leads to: in a leaf its entry, in an inner node the child with the keys from it on.
type pair struct{ key, to uint64 }

// minPairs is the least number of pairs in a leaf, and of children in an inner node, unless that is the root.
const minPairs = 5

// mergePairs is up to how many pairs two nodes are made one: fewer than a node holds, so that the next
// insertion does not split it again.
const mergePairs = 2 * minPairs

// newNodes is how many nodes it takes to insert a key at the end of the path.
func (p *path) newNodes() int {
	if p.pairs < layout.LeafPairs {
		return 0
	}
	for i := p.height - 1; i >= 0; i-- {
		if p.steps[i].pairs < layout.InnerPairs {
			return p.height - i
		}
	}
	return p.height + 2 // a new root, too
}

// insert puts a key that the tree does not have into the leaf of a path. There are nodes enough.
func insert[A words.Access](t *Table, a A, p *path, x pair) (ok bool) {
	if p.pairs < layout.LeafPairs {
		return addPair(a, p.leaf, 0, p.pairs, p.pair, x)
	}
	t.reshaped()
	var all [layout.LeafPairs + 1]pair
	if !loadWith(a, p.leaf+layout.LeafPairOffset, all[:], p.pair, x) {
		return false
	}
	next, ok := a.Load(p.leaf + layout.LeafNextOffset)
	if !ok {
		return false
	}
	left := cut(len(all), p.pair)
	right, ok := takeNode(t, a)
	if !ok {
		return false
	}
	ok = a.Store(right+layout.LeafNextOffset, next) && a.Store(right+layout.LeafPrevOffset, uint64(p.leaf)) &&
		fill(a, right, 0, 0, all[left:]) &&
		(t.lacks(SplitUnlinked) || link(a, p.leaf, uint64(right), next)) &&
		(p.pair >= left || storePairs(a, p.leaf+layout.LeafPairOffset, p.pair, all[:left])) &&
		a.Store(p.leaf, uint64(layout.MakeNodeHead(0, left)))
	return ok && addChild(t, a, p, pair{all[left].key, uint64(right)})
}

// link puts a leaf between another one and what came next to that.
func link[A words.Access](a A, leaf int, right, next uint64) (ok bool) {
	return (next == 0 || a.Store(int(next)+layout.LeafPrevOffset, right)) &&
		a.Store(leaf+layout.LeafNextOffset, right)
}

// cut is how many of some pairs stay in a node that is split: those up to the one that was added. Keys that follow it
// in ascending order, at the end of all or in the middle of others, then move no pair, and fill the node.
func cut(all, at int) int { return min(max(at+1, minPairs), all-minPairs) }

// addChild puts a new node into the inner nodes of a path, beside the one that was split.
func addChild[A words.Access](t *Table, a A, p *path, x pair) (ok bool) {
	for i := p.height - 1; i >= 0; i-- {
		s := &p.steps[i]
		level := p.height - i
		if s.pairs < layout.InnerPairs {
			return addPair(a, s.node, level, s.pairs, s.child, x)
		}
		var all [layout.InnerPairs + 1]pair
		if !loadWith(a, s.node+layout.InnerPairOffset, all[:], s.child, x) {
			return false
		}
		left := cut(len(all), s.child)
		right, ok := takeNode(t, a)
		if !ok || !fill(a, right, level, all[left].to, all[left+1:]) ||
			s.child < left && !storePairs(a, s.node+layout.InnerPairOffset, s.child, all[:left]) ||
			!a.Store(s.node, uint64(layout.MakeNodeHead(level, left))) {
			return false
		}
		x = pair{all[left].key, uint64(right)}
	}
	old, ok := a.Load(t.at + rootAt)
	if !ok {
		return false
	}
	root, ok := takeNode(t, a)
	return ok && fill(a, root, p.height+1, old, []pair{x}) && a.Store(t.at+rootAt, uint64(root))
}

// firstPair is where the pairs of a node begin.
func firstPair(node, level int) int {
	if level == 0 {
		return node + layout.LeafPairOffset
	}
	return node + layout.InnerPairOffset
}

// fill makes a node what it is to be: its first child, if it is no leaf, its pairs and its head.
func fill[A words.Access](a A, node, level int, child uint64, pairs []pair) (ok bool) {
	return (level == 0 || a.Store(node+layout.ChildOffset, child)) &&
		storePairs(a, firstPair(node, level), 0, pairs) &&
		a.Store(node, uint64(layout.MakeNodeHead(level, len(pairs))))
}

// addPair makes room among n pairs of a node and puts one there, as number i.
func addPair[A words.Access](a A, node, level, n, i int, x pair) (ok bool) {
	first := firstPair(node, level)
	for ; n > i; n-- {
		y, ok := loadPair(a, first, n-1)
		if !ok || !storePair(a, first, n, y) {
			return false
		}
	}
	h, ok := a.Load(node)
	return ok && storePair(a, first, i, x) && a.Store(node, h+1)
}

// dropPair takes pair i out of n pairs of a node.
func dropPair[A words.Access](a A, node, level, n, i int) (ok bool) {
	first := firstPair(node, level)
	for ; i < n-1; i++ {
		y, ok := loadPair(a, first, i+1)
		if !ok || !storePair(a, first, i, y) {
			return false
		}
	}
	return a.Store(node, uint64(layout.MakeNodeHead(level, n-1)))
}

func loadPair[A words.Access](a A, first, i int) (x pair, ok bool) {
	at := first + i*layout.PairBytes
	if x.key, ok = a.Load(at); !ok {
		return x, false
	}
	x.to, ok = a.Load(at + 8)
	return x, ok
}

func storePair[A words.Access](a A, first, i int, x pair) (ok bool) {
	at := first + i*layout.PairBytes
	return a.Store(at+8, x.to) && a.Store(at, x.key)
}

// loadPairs loads all of to.
func loadPairs[A words.Access](a A, first int, to []pair) (ok bool) {
	for i := range to {
		if to[i], ok = loadPair(a, first, i); !ok {
			return false
		}
	}
	return true
}

// storePairs stores pairs, from number i on.
func storePairs[A words.Access](a A, first, i int, pairs []pair) (ok bool) {
	for ; i < len(pairs); i++ {
		if !storePair(a, first, i, pairs[i]) {
			return false
		}
	}
	return true
}

// loadWith loads pairs with another one among them, as number i.
func loadWith[A words.Access](a A, first int, to []pair, i int, x pair) (ok bool) {
	if !loadPairs(a, first, to[:len(to)-1]) {
		return false
	}
	copy(to[i+1:], to[i:])
	to[i] = x
	return true
}

// takeNode takes a node of which the caller knows that there is one.
func takeNode[A words.Access](t *Table, a A) (node int, ok bool) {
	s, ok := pool.Find(a, t.nodePool())
	return s.Off, ok && words.Checked(a, s.Off != 0) && pool.Take(a, s)
}

// giveNode gives a node back that is in no tree any more.
func giveNode[A words.Access](t *Table, a A, node int) (ok bool) {
	return a.Store(node, uint64(layout.MakeNodeHead(layout.FreeLevel, 0))) && pool.GiveBack(a, t.nodePool(), node)
}
