package btree

import (
	"drtmd/htm"
	"drtmd/store/layout"
	"drtmd/store/words"
)

// Scan calls f with the entries of the keys from first to last, both included, in ascending order
// or, if first is above last, in descending order, until f returns false. Absent entries are among them. Their
// leaves join the read set up to where the scan ends, so that a key which comes into that range or leaves it
// is a conflict. f may read and write records in the region, and does not change the table's keys. ok is
// false if the region has aborted. It does not allocate.
//
// Where memory has no line words, what f has seen is of one moment if ok is true, and that moment may be
// over: whoever commits compares Changes, and the version of every entry.
func (t *Table) Scan(r *htm.Region, first, last uint64, f func(key uint64, place int) bool) (ok bool) {
	if t.lacks(NextLeafUnprotected) {
		if _, _, ok = t.FindIn(r, first); !ok {
			return false
		}
		return scan(t, outside{t}, first, last, f)
	}
	before, ok := t.Changes(r)
	if !ok || !scan(t, t.inside(r), first, last, f) {
		return false
	}
	after, ok := t.Changes(r)
	if ok && after != before {
		r.Abort(words.AbortBusy)
	}
	return ok && after == before
}

// Glance is Scan outside of any region, for whoever checks what it finds: while others change the table, keys may be
// missing, or come twice and in any order. ok is false if it has met what no table has. It does not allocate.
func (t *Table) Glance(first, last uint64, f func(key uint64, place int) bool) (ok bool) {
	return scan(t, outside{t}, first, last, f)
}

// Changes counts the changes of the table's keys where memory has no line words; elsewhere it is 0. The
// region is aborted if one is under way.
func (t *Table) Changes(r *htm.Region) (n uint64, ok bool) {
	if t.lineWords {
		return 0, r.Active()
	}
	n, ok = t.inside(r).Load(t.at + changesAt)
	if ok && n%2 == 1 {
		r.Abort(words.AbortBusy)
		return 0, false
	}
	return n, ok
}

// Next is the entry of the least key above key.
func (t *Table) Next(r *htm.Region, key uint64) (next uint64, place int, found, ok bool) {
	if key == layout.NoKey {
		return 0, 0, false, r.Active()
	}
	ok = t.Scan(r, key+1, layout.NoKey, func(k uint64, off int) bool {
		next, place, found = k, off, true
		return false
	})
	return next, place, found, ok
}

// Ends are the least and the greatest key from first to last, both included.
func (t *Table) Ends(r *htm.Region, first, last uint64) (least, greatest uint64, found, ok bool) {
	only := func(k uint64, _ int) bool {
		greatest, found = k, true
		return false
	}
	ok = t.Scan(r, first, last, only)
	if least = greatest; ok && found && first != last {
		ok = t.Scan(r, last, first, only)
	}
	return min(least, greatest), max(least, greatest), found, ok
}

// scan is Scan with any access.
func scan[A words.Access](t *Table, a A, first, last uint64, f func(key uint64, off int) bool) (ok bool) {
	down := first > last
	c, ok := begin(t, a, first, down)
	for ok && !c.over {
		key, off, ok := current(t, a, &c)
		if !ok {
			return false
		}
		if key < min(first, last) || key > max(first, last) {
			return true
		}
		if !f(key, off) {
			_, ok = a.Load(c.leaf)
			return ok
		}
		if !forward(t, a, &c, down) {
			return false
		}
	}
	return ok
}

// cursor stands at a pair of a leaf.
type cursor struct {
	leaf, pair, pairs int
	leaves            int // that it has gone to
	over              bool
}

// begin puts a cursor to the first key of a scan.
func begin[A words.Access](t *Table, a A, first uint64, down bool) (c cursor, ok bool) {
	var p path
	if !descend(t, a, first, &p) {
		return c, false
	}
	c = cursor{leaf: p.leaf, pair: p.pair, pairs: p.pairs}
	if down && p.entry == 0 {
		c.pair--
	}
	return c, settle(t, a, &c, down)
}

// forward moves a cursor to the next pair in a direction.
func forward[A words.Access](t *Table, a A, c *cursor, down bool) (ok bool) {
	if down {
		c.pair--
	} else {
		c.pair++
	}
	return settle(t, a, c, down)
}

// settle moves a cursor that is outside of its leaf to the leaf that follows.
func settle[A words.Access](t *Table, a A, c *cursor, down bool) (ok bool) {
	for c.pair < 0 || c.pair >= c.pairs {
		link := c.leaf + layout.LeafNextOffset
		if down {
			link = c.leaf + layout.LeafPrevOffset
		}
		next, ok := a.Load(link)
		if !ok {
			return false
		}
		if next == 0 {
			c.over = true
			return true
		}
		h, ok := headOf(t, a, next)
		if c.leaves++; !ok || !words.Checked(a, h.Level() == 0 && c.leaves < t.config.Nodes) {
			return false
		}
		c.leaf, c.pair, c.pairs = int(next), 0, h.Pairs()
		if down {
			c.pair = c.pairs - 1
		}
	}
	return true
}

// current is the pair of a cursor.
func current[A words.Access](t *Table, a A, c *cursor) (key uint64, off int, ok bool) {
	pair := c.leaf + layout.LeafPairOffset + c.pair*layout.PairBytes
	key, ok = a.Load(pair)
	if !ok {
		return 0, 0, false
	}
	place, ok := a.Load(pair + 8)
	return key, int(place), ok && words.Checked(a, t.isEntry(place))
}
