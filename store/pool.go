package store

import "drtmd/store/layout"

// pool is one of the two pools of a table.
type pool struct {
	at    int // offset of its first stripe
	first int // offset of its first item
	end   int
	size  int // bytes of an item
	next  int // offset within a free item of the link to the next one
	state int // offset within an item of a state word, 0: it has none
}

func (t *Table) entryPool() pool {
	return pool{at: t.at + entryPoolAt, first: t.entriesAt,
		end: t.entriesAt + t.config.Entries*t.stride, size: t.stride, next: layout.ValueOffset,
		state: layout.StateOffset}
}

func (t *Table) bucketPool() pool {
	return pool{at: t.at + bucketPoolAt, first: t.indirectAt, end: t.entriesAt,
		size: layout.BucketBytes, next: layout.SlotKeyOffset}
}

// holds reports whether an item can stand at an offset that came from memory.
func (p *pool) holds(off uint64) bool {
	return off >= uint64(p.first) && off < uint64(p.end) &&
		(off-uint64(p.first))%uint64(p.size) == 0
}

// spare is an item that can be taken, and how.
type spare struct {
	off    int // 0: there is none
	from   int // offset of the word that leads to it
	then   uint64
	listed bool // it is in a free list
	stripe int  // offset of its stripe
}

// maxStrays bounds how many locked entries of a free list are passed over: locked for a moment by
// someone with an out-of-date address, or for ever by one who died then.
const maxStrays = 64

// find looks for an item, in the worker's own stripe first, and changes nothing.
func find[A access](t *Table, a A, p pool) (s spare, ok bool) {
	for i := range stripes {
		stripe := p.at + (t.stripe+i)%stripes*layout.LineBytes
		if s, ok = findListed(t, a, p, stripe); !ok || s.off != 0 {
			return s, ok
		}
		next, ok := a.Load(stripe + stripeNext)
		if !ok {
			return spare{}, false
		}
		end, ok := a.Load(stripe + stripeEnd)
		if !ok {
			return spare{}, false
		}
		if next < end {
			return spare{off: int(next), from: stripe + stripeNext, then: next + uint64(p.size),
				stripe: stripe}, checked(a, p.holds(next))
		}
	}
	return spare{}, true
}

// findListed looks through the free list of a stripe.
func findListed[A access](t *Table, a A, p pool, stripe int) (spare, bool) {
	from := stripe + stripeFree
	for range maxStrays {
		off, ok := a.Load(from)
		if !ok || off == 0 {
			return spare{}, ok
		}
		if !p.holds(off) {
			return spare{}, checked(a, false)
		}
		locked := false
		if p.state != 0 {
			state, ok := a.Load(int(off) + p.state)
			if !ok {
				return spare{}, false
			}
			locked = layout.Locked(state) && !t.lacks(TakeLocked)
		}
		next, ok := a.Load(int(off) + p.next)
		if !ok {
			return spare{}, false
		}
		if !locked {
			return spare{off: int(off), from: from, then: next, listed: true,
				stripe: stripe}, true
		}
		from = int(off) + p.next
	}
	return spare{}, true
}

// take takes what find found.
func take[A access](a A, s spare) bool {
	if s.listed {
		n, ok := a.Load(s.stripe + stripeCount)
		if !ok || !a.Store(s.stripe+stripeCount, n-1) {
			return false
		}
	}
	return a.Store(s.from, s.then)
}

// giveBack puts an item into the free list of the worker's own stripe.
func giveBack[A access](t *Table, a A, p pool, off int) bool {
	stripe := p.at + t.stripe*layout.LineBytes
	first, ok := a.Load(stripe + stripeFree)
	if !ok {
		return false
	}
	n, ok := a.Load(stripe + stripeCount)
	return ok && a.Store(off+p.next, first) && a.Store(stripe+stripeFree, uint64(off)) &&
		a.Store(stripe+stripeCount, n+1)
}

// used counts the items that are in use, outside of regions.
func (t *Table) used(p pool) int {
	n := 0
	for i := range stripes {
		stripe := p.at + i*layout.LineBytes
		never := t.word(stripe+stripeEnd) - t.word(stripe+stripeNext)
		n -= int(never)/p.size + int(t.word(stripe+stripeCount))
	}
	return n + (p.end-p.first)/p.size
}
