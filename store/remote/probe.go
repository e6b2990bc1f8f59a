package remote

import (
	"encoding/binary"

	"drtmd/store/layout"
)

// Probe is one look-up in a hopscotch table, as a state machine: whoever runs it reads the piece that it
// names, a neighbourhood or an overflow block, and in a second pass the hop word behind it.
//
//	for p.Start(t, key); !p.Done(); p.Feed(b, guard) {
//		if it says so, read p.Before() and give it to p.Began(); read p.Next() into b, behind that; if it says so,
//		read p.Guard() into guard, behind that
//	}
//
// Client and Batch do so over a conn.
//
// The first pass finds most keys that are there, with one READ. An absence is proved by a second one: the
// hop word that was read before it, that of its neighbourhood, and that behind its last piece are the same,
// so no record of the home has moved in between and no block has left the chain. READs of one queue pair are
// carried out in order. With ProvedAtOnce the first pass is such a one, with a READ of the hop word before.
type Probe struct {
	table   *Table
	key     uint64
	hop     layout.Hop // that the pass must see
	at      int        // offset of the piece to read
	bytes   int        // of it
	second  bool       // pass, which proves an absence
	begins  bool       // the hop word is to be read before the piece
	absence Absence
	done    bool
	tries   int // passes
	depth   int // blocks read by this pass
	reads   int
	found   int // offset of the record in the piece that was read last
	result  Entry
	err     error
}

// Absence is how a look-up in a hopscotch table treats a key that it does not find. Other tables prove absences.
type Absence uint8

// Absences.
const (
	// Proved: a second pass proves it, with two READs.
	Proved Absence = iota
	// Unproved: nobody has to know for sure.
	Unproved
	// ProvedAtOnce: the first pass proves it, with three READs: for keys that are likely to be absent.
	ProvedAtOnce
)

// Start begins to look up key in t.
func (p *Probe) Start(t *Table, key uint64) { p.StartFor(t, key, Proved) }

// StartFor begins to look up key in t, and says what has to be proved if it is absent.
func (p *Probe) StartFor(t *Table, key uint64, a Absence) {
	*p = Probe{table: t, key: key, absence: a, second: a == ProvedAtOnce, begins: a == ProvedAtOnce}
	if t.err != nil {
		p.finish(Entry{}, t.err)
		return
	}
	p.neighbourhood()
}

// neighbourhood begins a pass.
func (p *Probe) neighbourhood() {
	h := &p.table.places
	p.at, p.bytes, p.depth = h.Slot(h.Home(p.key)), h.NeighbourhoodBytes(), 0
}

// Done reports whether the look-up has ended.
func (p *Probe) Done() bool { return p.done }

// Next is the offset of the piece to read, in the peer's memory region, and its length.
func (p *Probe) Next() (off, bytes int) { return p.at, p.bytes }

// Before is the offset of the hop word, if that is to be read before the piece.
func (p *Probe) Before() (off int, ok bool) {
	h := &p.table.places
	return h.Trailer(h.Slot(h.Home(p.key))), p.begins
}

// Began gives what was read Before.
func (p *Probe) Began(hop layout.Hop) { p.hop, p.begins, p.reads = hop, false, p.reads+1 }

// Guard is the offset of the hop word, if that is to be read behind the piece.
func (p *Probe) Guard() (off int, ok bool) {
	h := &p.table.places
	return h.Trailer(h.Slot(h.Home(p.key))), p.second
}

// Feed gives the piece, and the hop word if it was read.
func (p *Probe) Feed(b []byte, guard layout.Hop) {
	h := &p.table.places
	if p.reads++; p.second {
		p.reads++
	}
	for i := 0; i < p.bytes; i += h.Stride {
		if layout.HeadOf(b[i:]).Match(p.key) != layout.Stale {
			off := uint64(p.at + i)
			p.found = i
			p.finish(Entry{Addr: p.table.Addr(off), RKey: p.table.rkey, Off: off}, nil)
			return
		}
	}
	trailer := binary.LittleEndian.Uint64(b[h.Trailer(0):])
	if p.depth == 0 {
		hop := layout.Hop(trailer)
		if p.second && hop != p.hop {
			p.again(hop)
			return
		}
		p.hop = hop
		link, ok := hop.Block()
		p.follow(link, ok, guard)
		return
	}
	link, ok := layout.BlockLink(trailer)
	p.follow(link, ok, guard)
}

// Result is what the look-up ended with: the record's place, or ErrNotFound, ErrUnstable or ErrBounds.
func (p *Probe) Result() (Entry, error) { return p.result, p.err }

// Found is the offset of the record in the piece that was fed last.
func (p *Probe) Found() int { return p.found }

// Reads is the number of READs.
func (p *Probe) Reads() int { return p.reads }

// follow goes on with the next block of the chain, or ends the pass.
func (p *Probe) follow(link int, ok bool, guard layout.Hop) {
	h, lacks := &p.table.places, p.table.mutation
	switch {
	case !ok || lacks == OverflowUnread:
		p.absent(guard)
	case link >= h.Blocks || p.depth == maxPath: // torn
		p.again(p.hop)
	default:
		p.at, p.bytes = h.Block(link), h.BlockBytes()
		p.depth++
	}
}

// absent is reached where a pass ends without the key.
func (p *Probe) absent(guard layout.Hop) {
	switch {
	case p.table.mutation == NoVerify, p.absence == Unproved:
		p.finish(Entry{}, ErrNotFound)
	case !p.second:
		p.again(p.hop)
	case guard != p.hop || guard.Moving():
		p.again(guard)
	default:
		p.finish(Entry{}, ErrNotFound)
	}
}

// again begins a pass that proves an absence if the hop word is the one given, from before it.
func (p *Probe) again(hop layout.Hop) {
	if p.tries++; p.tries > maxRestarts {
		p.finish(Entry{}, ErrUnstable)
		return
	}
	p.second, p.hop = true, hop
	p.neighbourhood()
}

func (p *Probe) finish(e Entry, err error) { p.done, p.result, p.err = true, e, err }
