// Package pool deals out items of one size from a stretch of a table's memory, such as entries, buckets or
// nodes, and takes them back. Tables of package store and of package btree have their items in pools.
//
// A pool has Stripes stripes, a line each, so that workers seldom meet: each begins with its own and goes on
// to the others when that is empty. A stripe:
//
//	 0  first free item, as offset from the start of the region, 0: none 8
//	 8  next item that was never used 8
//	16  end of those that were never used 8
//	24  number in the free list 8 | zero 32
//
// Free items are chained by a word of each (Pool.Next).
//
// Find changes nothing, so that a caller can look for all that it needs before it takes any of it. The code is
// generic over words.Access; nothing allocates.
package pool

import (
	"drtmd/store/layout"
	"drtmd/store/words"
)

// Stripes of a pool, and their size in bytes.
const (
	Stripes = 8
	Bytes   = Stripes * layout.LineBytes
)

// Offsets within a stripe.
const (
	StripeFree  = 0
	StripeNext  = 8
	StripeEnd   = 16
	StripeCount = 24
)

// Pool is where the items and the stripes of a pool are.
type Pool struct {
	At     int // offset of its first stripe
	First  int // offset of its first item
	End    int // offset behind its last item
	Size   int // bytes of an item
	Next   int // offset within a free item of the link to the next one
	State  int // offset within an item of a state word, 0: it has none
	Stripe int // in which this worker begins
	// TakeLocked is a deliberate bug: a free item is taken though it is locked.
	TakeLocked bool
}

// Holds reports whether an item can stand at an offset that came from memory.
func (p *Pool) Holds(off uint64) bool {
	return off >= uint64(p.First) && off < uint64(p.End) &&
		(off-uint64(p.First))%uint64(p.Size) == 0
}

// Spare is an item that can be taken, and how.
type Spare struct {
	Off    int // 0: there is none
	from   int // offset of the word that leads to it
	then   uint64
	listed bool // it is in a free list
	stripe int  // offset of its stripe
}

// LoadRun is how many records in a row are loaded into one stripe, so that they lie side by side.
const LoadRun = 64

// Loading is the stripe for a record that is loaded behind n others by a worker whose own stripe is own. They take turns,
// so that a table that was loaded has the same room left in each: workers would meet in one stripe if the others were
// used up.
func Loading(own, n int) int { return (own + n/LoadRun) % Stripes }

// maxStrays bounds how many locked entries of a free list are passed over: locked for a moment by
// someone with an out-of-date address, or for ever by one who died then.
const maxStrays = 64

// Find looks for an item, in the worker's own stripe first, and changes nothing.
func Find[A words.Access](a A, p Pool) (s Spare, ok bool) {
	for i := range Stripes {
		stripe := p.At + (p.Stripe+i)%Stripes*layout.LineBytes
		if s, ok = findListed(a, p, stripe); !ok || s.Off != 0 {
			return s, ok
		}
		next, ok := a.Load(stripe + StripeNext)
		if !ok {
			return Spare{}, false
		}
		end, ok := a.Load(stripe + StripeEnd)
		if !ok {
			return Spare{}, false
		}
		if next < end {
			return Spare{Off: int(next), from: stripe + StripeNext, then: next + uint64(p.Size),
				stripe: stripe}, words.Checked(a, p.Holds(next))
		}
	}
	return Spare{}, true
}

// findListed looks through the free list of a stripe.
func findListed[A words.Access](a A, p Pool, stripe int) (Spare, bool) {
	from := stripe + StripeFree
	for range maxStrays {
		off, ok := a.Load(from)
		if !ok || off == 0 {
			return Spare{}, ok
		}
		if !p.Holds(off) {
			return Spare{}, words.Checked(a, false)
		}
		locked := false
		if p.State != 0 {
			state, ok := a.Load(int(off) + p.State)
			if !ok {
				return Spare{}, false
			}
			locked = layout.Locked(state) && !p.TakeLocked
		}
		next, ok := a.Load(int(off) + p.Next)
		if !ok {
			return Spare{}, false
		}
		if !locked {
			return Spare{Off: int(off), from: from, then: next, listed: true,
				stripe: stripe}, true
		}
		from = int(off) + p.Next
	}
	return Spare{}, true
}

// Take takes what Find found.
func Take[A words.Access](a A, s Spare) bool {
	if s.listed {
		n, ok := a.Load(s.stripe + StripeCount)
		if !ok || !a.Store(s.stripe+StripeCount, n-1) {
			return false
		}
	}
	return a.Store(s.from, s.then)
}

// GiveBack puts an item into the free list of the worker's own stripe.
func GiveBack[A words.Access](a A, p Pool, off int) bool {
	stripe := p.At + p.Stripe*layout.LineBytes
	first, ok := a.Load(stripe + StripeFree)
	if !ok {
		return false
	}
	n, ok := a.Load(stripe + StripeCount)
	return ok && a.Store(off+p.Next, first) && a.Store(stripe+StripeFree, uint64(off)) &&
		a.Store(stripe+StripeCount, n+1)
}

// Has reports whether there are n items at least. It is exact for items without a state word.
func Has[A words.Access](a A, p Pool, n int) (has, ok bool) {
	found := 0
	for i := range Stripes {
		stripe := p.At + (p.Stripe+i)%Stripes*layout.LineBytes
		listed, ok := a.Load(stripe + StripeCount)
		if !ok {
			return false, false
		}
		next, ok := a.Load(stripe + StripeNext)
		if !ok {
			return false, false
		}
		end, ok := a.Load(stripe + StripeEnd)
		if !ok {
			return false, false
		}
		if found += int(listed) + int(end-next)/p.Size; found >= n {
			return true, true
		}
	}
	return false, true
}

// Format deals the items out to the stripes, of a table that nobody uses.
func (p *Pool) Format(set func(off int, v uint64)) {
	n := (p.End - p.First) / p.Size
	for i := range Stripes {
		s := p.At + i*layout.LineBytes
		set(s+StripeNext, uint64(p.First+i*n/Stripes*p.Size))
		set(s+StripeEnd, uint64(p.First+(i+1)*n/Stripes*p.Size))
	}
}

// Used counts the items that are in use, outside of regions.
func (p *Pool) Used(word func(off int) uint64) int {
	n := 0
	for i := range Stripes {
		stripe := p.At + i*layout.LineBytes
		never := word(stripe+StripeEnd) - word(stripe+StripeNext)
		n -= int(never)/p.Size + int(word(stripe+StripeCount))
	}
	return n + (p.End-p.First)/p.Size
}
