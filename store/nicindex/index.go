package nicindex

import (
	"drtmd/store/layout"
)

// position is where an object is. The layout is in the package comment.
type position struct {
	key     uint64
	version layout.Version
	owner   Owner
	value   int32 // slot and one
	pins    uint16
	reads   uint8
	flags   uint8
}

const (
	flagKnown uint8 = 1 << iota // the version is known
	flagUsed                    // lately
	flagValue                   // the value slot has the version's value; otherwise it is reserved
)

// maxReads bounds the reads that one object waits for, and maxPins the commits that the host has not applied.
const (
	maxReads = 254
	maxPins  = 1<<16 - 1
)

type page struct {
	hint    layout.Segment
	next    int32 // page and one
	segment int32
	known   bool // the hint was seen once
	_       [15]byte
	at      [pagePositions]position
}

// Owner is who holds a lock: a transaction. 0 is nobody.
type Owner uint64

// Index is the index of one table. See the package comment.
type Index struct {
	Stats Stats

	config   Config
	pages    []page // those of segments, then those of chains
	values   []byte
	owners   []int32 // of a value slot: position and one
	stride   int     // of values
	free     int32   // first free page and one, of chains
	freeVal  int32   // first free value slot and one; owners chain them
	pageHand int     // where the next eviction of a page begins
	valHand  int
}

// Stats counts what an index did.
type Stats struct {
	Hits, Misses    uint64 // reads that the cache served; those that it did not
	Evicted         uint64 // objects
	Full            uint64 // refusals for want of room
	Stale           uint64 // values that a DMA brought and a commit had overtaken
	Objects, Pinned int    // now; pinned ones among them
	Locked, Chained int    // objects; pages in chains
	ValuesHeld      int    // value slots in use
}

// New makes an index with nothing in it.
func New(c Config) (*Index, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	n := c.sizes()
	x := &Index{config: c, pages: make([]page, n.pages), stride: (c.ValueBytes + 7) &^ 7,
		owners: make([]int32, n.values)}
	x.values = make([]byte, n.values*x.stride)
	for i := range x.pages {
		p := &x.pages[i]
		for j := range p.at {
			p.at[j].key = layout.NoKey
		}
		if i < c.Segments {
			p.segment = int32(i)
		}
	}
	for i := n.pages - 1; i >= c.Segments; i-- {
		x.pages[i].next, x.free = x.free, int32(i)+1
	}
	for i := n.values - 1; i >= 0; i-- {
		x.owners[i], x.freeVal = -x.freeVal, int32(i)+1
	}
	return x, nil
}

// Bytes is the NIC memory that the index takes, at most the budget.
func (x *Index) Bytes() int {
	return len(x.pages)*pageBytes + len(x.owners)*x.config.valueStride()
}

// Hint is the segment word as the NIC knows it, for a robinhood.Probe.
func (x *Index) Hint(segment int) (word layout.Segment, known bool) {
	p := &x.pages[segment]
	return p.hint, p.known
}

// LearnHint takes down the segment word that a look-up has seen, and how far from home it found the key (-1: in a
// block, or not at all). A displacement is never lowered but by a word of the host's.
func (x *Index) LearnHint(segment int, word layout.Segment, distance int) {
	p := &x.pages[segment]
	if distance > word.Displacement() {
		word = word.Displaced(distance)
	}
	if p.known && word.Count() == p.hint.Count() && word.Displacement() < p.hint.Displacement() &&
		!x.lacks(HintLowered) {
		return // a look-up that began earlier has ended later
	}
	p.hint, p.known = word, true
}

// object is the position with a number.
func (x *Index) object(n int32) *position { return &x.pages[n/pagePositions].at[n%pagePositions] }

// find is the number of a key's object; false: it has none.
func (x *Index) find(segment int, key uint64) (n int32, ok bool) {
	for i := int32(segment); ; {
		p := &x.pages[i]
		for j := range p.at {
			if p.at[j].key == key {
				return i*pagePositions + int32(j), true
			}
		}
		if p.next == 0 {
			return 0, false
		}
		i = p.next - 1
	}
}

// admit gives a key that has none an object; false: there is no room.
func (x *Index) admit(segment int, key uint64) (n int32, ok bool) {
	n, ok = x.place(segment)
	if !ok {
		x.Stats.Full++
		return 0, false
	}
	*x.object(n) = position{key: key}
	x.Stats.Objects++
	return n, true
}

// place is a free position of a segment's chain, if need be of another page or of an object that is evicted.
func (x *Index) place(segment int) (n int32, ok bool) {
	evictable := int32(-1)
	last := int32(segment)
	for i := last; ; {
		p := &x.pages[i]
		for j := range p.at {
			n = i*pagePositions + int32(j)
			if p.at[j].key == layout.NoKey {
				return n, true
			}
			if evictable < 0 && x.mayGo(&p.at[j]) && p.at[j].flags&flagUsed == 0 {
				evictable = n
			}
		}
		if last = i; p.next == 0 {
			break
		}
		i = p.next - 1
	}
	if evictable >= 0 {
		x.empty(evictable)
		return evictable, true
	}
	if x.free == 0 && !x.sweepPages(segment) {
		return 0, false
	}
	fresh := x.free - 1
	p := &x.pages[fresh]
	x.free = p.next
	// Behind the segment's own page.
	own := &x.pages[segment]
	p.next, p.segment, own.next = own.next, int32(segment), fresh+1
	x.Stats.Chained++
	return fresh * pagePositions, true
}

// value is the bytes of an object's value.
func (x *Index) value(p *position) []byte {
	at := int(p.value-1) * x.stride
	return x.values[at : at+x.config.ValueBytes : at+x.config.ValueBytes]
}

// reserve gives an object a value slot; false: there is none.
func (x *Index) reserve(n int32) bool {
	p := x.object(n)
	if p.value != 0 {
		return true
	}
	if x.freeVal == 0 {
		p.reads++ // it stays while others go
		swept := x.sweepValues()
		p.reads--
		if !swept {
			x.Stats.Full++
			return false
		}
	}
	slot := x.freeVal - 1
	x.freeVal = -x.owners[slot]
	x.owners[slot], p.value = n+1, slot+1
	x.Stats.ValuesHeld++
	return true
}
