package btree

import (
	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/layout"
	"drtmd/store/pool"
	"drtmd/store/words"
)

// ReclaimIn gives the entry of an absent key back, inside a region, if its state word is exactly
// state: what the caller put there or saw there, and knows to hold nobody's lock or lease but its
// own. The key leaves the tree, the state word becomes zero. The table keeps the incarnation, so that the
// key's versions go on growing. With an error, one of store.ErrNoEntry, store.ErrLive and store.ErrState,
// nothing was stored and the region runs on. ok is false if the region has aborted. It does not allocate.
//
// Where memory has no line words the entry is given back at once, under the table's lock, and its
// state word is left alone: the caller holds it locked, and unlocks it afterwards.
func (t *Table) ReclaimIn(r *htm.Region, key, state uint64) (ok bool, err error) {
	if t.lineWords {
		return reclaim(t, t.inside(r), key, state)
	}
	if !r.Active() || !t.lock(r) {
		return false, nil
	}
	ok, err = reclaim(t, t.direct(r), key, state)
	t.unlock() // not if it panics: see words.Undo
	return ok, err
}

func reclaim[A words.Access](t *Table, a A, key, state uint64) (ok bool, err error) {
	var p path
	if !descend(t, a, key, &p) {
		return false, nil
	}
	if p.entry == 0 {
		return true, store.ErrNoEntry
	}
	w, ok := a.Load(p.entry + layout.VersionOffset)
	if !ok {
		return false, nil
	}
	seen, ok := a.Load(p.entry + layout.StateOffset)
	if !ok {
		return false, nil
	}
	v := layout.Version(w)
	switch {
	case v.Live() && !t.lacks(ReclaimLive):
		return true, store.ErrLive
	case seen != state && !t.lacks(ReclaimAnyState):
		return true, store.ErrState
	}
	return raise(t, a, v.Incarnation()) && change(t, a, false) && remove(t, a, &p) && change(t, a, false) &&
		release(t, a, p.entry, v), nil
}

// raise has the counter be n at least. Whoever gives an entry back keeps its incarnation so before anything else: who
// sees that the key is absent, and then the counter as it was before, knows that no version was given back.
func raise[A words.Access](t *Table, a A, n uint32) (ok bool) {
	counter, ok := a.Load(t.at + countersAt)
	if !ok {
		return false
	}
	return uint64(n) <= counter || t.lacks(NoCounter) || a.Store(t.at+countersAt, uint64(n))
}

// RaiseIn has the table go on from an incarnation at least, for keys that it does not know, inside a region: the
// keys were given back in another replica. Other workers may use the table. ok is false if the region has aborted.
//
// Where memory has no line words that is so at once, under the table's lock.
func (t *Table) RaiseIn(r *htm.Region, n uint32) (ok bool) {
	if t.lineWords {
		return raise(t, t.inside(r), n)
	}
	if !r.Active() || !t.lock(r) {
		return false
	}
	ok = raise(t, t.direct(r), n)
	t.unlock()
	return ok
}

// AbsentIn is the version that a key without an entry has, inside a region: Fresh, with the table's counter.
// While it stays the same, no key has been inserted, deleted and given back. ok is false if the region has
// aborted.
func (t *Table) AbsentIn(r *htm.Region) (v layout.Version, ok bool) {
	if t.lineWords {
		return absent(t, t.inside(r))
	}
	return absent(t, t.direct(r))
}

func absent[A words.Access](t *Table, a A) (v layout.Version, ok bool) {
	counter, ok := a.Load(t.at + countersAt)
	return layout.Fresh(uint32(counter)), ok
}

// release puts an entry that no leaf names any more into the pool. The key goes first: from here on nobody
// with an out-of-date address takes the entry for the key's, whatever comes next.
func release[A words.Access](t *Table, a A, off int, v layout.Version) (ok bool) {
	return (!t.lineWords || a.Store(off+layout.StateOffset, 0)) &&
		a.Store(off+layout.KeyOffset, layout.NoKey) &&
		a.Store(off+layout.VersionOffset, uint64(v.Unbind())) &&
		pool.GiveBack(a, t.entryPool(), off)
}

// remove takes the key at the end of a path out of the tree.
func remove[A words.Access](t *Table, a A, p *path) (ok bool) {
	t.reshaped()
	if !dropPair(a, p.leaf, 0, p.pairs, p.pair) {
		return false
	}
	if p.height == 0 || p.pairs-1 >= minPairs {
		return true
	}
	return refill(t, a, p, p.height-1)
}

// siblings are two children of an inner node, next to each other.
type siblings struct {
	step        *step
	key         int // number of the key between them
	level       int
	left, right int // offsets
	n, m        int // pairs of the left and of the right one
}

// refill makes one of two nodes, or evens them out: the child that step i of a path takes, which has too
// little, and the one beside it.
func refill[A words.Access](t *Table, a A, p *path, i int) (ok bool) {
	x := siblings{step: &p.steps[i], level: p.height - i - 1}
	x.key = max(x.step.child-1, 0)
	if x.left, x.n, ok = child(t, a, &x, x.key); !ok {
		return false
	}
	if x.right, x.m, ok = child(t, a, &x, x.key+1); !ok {
		return false
	}
	merged, ok := join(t, a, &x)
	if !ok || !merged {
		return ok
	}
	if !giveNode(t, a, x.right) || !dropPair(a, x.step.node, x.level+1, x.step.pairs, x.key) {
		return false
	}
	switch x.step.pairs--; {
	case i > 0 && x.step.pairs+1 < minPairs:
		return refill(t, a, p, i-1)
	case i > 0 || x.step.pairs > 0:
		return true
	}
	return a.Store(t.at+rootAt, uint64(x.left)) && giveNode(t, a, x.step.node)
}

func child[A words.Access](t *Table, a A, x *siblings, i int) (node, pairs int, ok bool) {
	w, ok := a.Load(x.step.childAt(i))
	if !ok {
		return 0, 0, false
	}
	h, ok := headOf(t, a, w)
	return int(w), h.Pairs(), ok && words.Checked(a, h.Level() == x.level)
}

// join puts all pairs of two nodes into the left one, if there are few, and evens them out otherwise.
func join[A words.Access](t *Table, a A, x *siblings) (merged, ok bool) {
	var room [2*layout.InnerPairs + 1]pair
	leaf := x.level == 0
	all := room[:x.n+x.m]
	middle := x.n // where the pairs of the right one begin
	if !leaf {
		// Between the pairs of inner nodes comes the key above them, with the first child of the right one.
		all, middle = room[:x.n+1+x.m], x.n+1
		if room[x.n].key, ok = a.Load(x.step.keyAt(x.key)); !ok {
			return false, false
		}
		if room[x.n].to, ok = a.Load(x.right + layout.ChildOffset); !ok {
			return false, false
		}
	}
	left, right := firstPair(x.left, x.level), firstPair(x.right, x.level)
	if !loadPairs(a, left, all[:x.n]) || !loadPairs(a, right, all[middle:]) {
		return false, false
	}
	n := len(all) / 2
	if merged = len(all) <= mergePairs; merged {
		n = len(all)
	}
	if !storePairs(a, left, min(n, x.n), all[:n]) ||
		!a.Store(x.left, uint64(layout.MakeNodeHead(x.level, n))) {
		return false, false
	}
	switch {
	case merged && leaf:
		next, ok := a.Load(x.right + layout.LeafNextOffset)
		return true, ok && a.Store(x.left+layout.LeafNextOffset, next) &&
			(next == 0 || a.Store(int(next)+layout.LeafPrevOffset, uint64(x.left)))
	case merged:
		return true, true
	}
	if !a.Store(x.step.keyAt(x.key), all[n].key) {
		return false, false
	}
	if leaf {
		return false, fill(a, x.right, 0, 0, all[n:])
	}
	return false, fill(a, x.right, x.level, all[n].to, all[n+1:])
}
