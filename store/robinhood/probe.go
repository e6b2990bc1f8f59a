package robinhood

import (
	"encoding/binary"
	"errors"

	"drtmd/internal/invariant"
	"drtmd/store/layout"
)

// View is what a NIC knows of a table of its host, to look keys up by DMA.
type View struct {
	p       layout.Robinhood
	record  layout.Record
	outside bool
	first   int // offset of the first record outside of slots
	end     int // behind the last one

	mutation Mutation
}

// MakeView describes a table at an offset. The Config is one that Check accepts, and its records are of one line or of
// layout.LineVersions: one read proves others of no version.
func MakeView(c Config, at int) View {
	invariant.Assert(c.provesItself(), "robinhood: a NIC reads records of several lines without versions")
	p := c.places(at)
	return View{p: p, record: c.record(), outside: c.outside(), first: p.End(), end: c.end(at), mutation: c.Mutation}
}

// Offset is where the table is in its memory.
func (t *Table) Offset() int { return t.at }

// Record is how the table's records lie in memory.
func (v *View) Record() *layout.Record { return &v.record }

// Segments is how many segments the table has.
func (v *View) Segments() int { return (v.p.Homes + layout.SegmentHomes - 1) / layout.SegmentHomes }

// Segment is that of a key.
func (v *View) Segment(key uint64) int { return v.p.Home(key) / layout.SegmentHomes }

// Word is the offset of the word of a segment.
func (v *View) Word(segment int) int { return v.p.Words + segment*8 }

// What a look-up can end with.
var (
	// ErrNotFound: the table has no record of this key.
	ErrNotFound = errors.New("no record of this key")
	// ErrUnstable: the table changed each time that it was read. Try again later.
	ErrUnstable = errors.New("table kept changing while it was read")
)

// maxPasses bounds how often a look-up begins anew.
const maxPasses = 16

// piece is what a Probe reads next.
type piece uint8

const (
	pieceWord     piece = iota + 1 // the segment word, before a pass
	pieceSlots                     // from the home to d
	pieceAdjacent                  // from there to D_m
	pieceBlock                     // of the chain
	pieceProof                     // the segment word, behind a pass that has found nothing
	pieceRecord                    // outside of slots
)

// Probe is one look-up by DMA (§4.1.3), as a state machine: whoever runs it reads the piece that it names.
//
//	for p.Start(view, key, hint, known); !p.Done(); p.Feed(b) {
//		read p.Next() into b, in ascending order, each line at one moment
//	}
//
// The hint is the segment word as the NIC has seen it. The first piece has the slots from the key's home to the
// displacement of the hint; then come the chain that the hint names, the other slots to D_m, and the segment
// word. If that is still the hint, the key is absent; otherwise the look-up begins anew with it.
type Probe struct {
	view     *View
	key      uint64
	hint     layout.Segment
	next     piece
	at       int // offset of the piece
	bytes    int
	from     int // number of its first slot
	home     int
	passes   int
	depth    int // blocks read by this pass
	pieces   int
	slots    int // read, not in blocks
	found    int // offset of the record in the piece that was read last
	off      int // of the record in memory
	distance int // from the home; -1: in a block
	done     bool
	err      error
}

// Start begins to look up key. known says that the hint was seen once, at whatever time.
func (p *Probe) Start(v *View, key uint64, hint layout.Segment, known bool) {
	*p = Probe{view: v, key: key, hint: hint, home: v.p.Home(key)}
	switch {
	case key == layout.NoKey:
		p.finish(ErrNotFound)
	case known:
		p.pass()
	default:
		p.want(pieceWord, v.p.Word(p.home), 8)
	}
}

// Done reports whether the look-up has ended.
func (p *Probe) Done() bool { return p.done }

// Next is the offset of the piece to read, in the host's memory region, and its length.
func (p *Probe) Next() (off, bytes int) { return p.at, p.bytes }

// Err is nil if the record was found, ErrNotFound or ErrUnstable.
func (p *Probe) Err() error { return p.err }

// Found is the offset of the record in the piece that was fed last, and in the host's memory.
func (p *Probe) Found() (at, off int) { return p.found, p.off }

// Distance is how far from its home the record's slot is; -1: it is in a block.
func (p *Probe) Distance() int { return p.distance }

// Hint is the segment word that was seen last, or Start's.
func (p *Probe) Hint() layout.Segment { return p.hint }

// Cost is how many pieces were read, and how many slots outside of blocks.
func (p *Probe) Cost() (pieces, slots int) { return p.pieces, p.slots }

func (p *Probe) finish(err error) { p.done, p.err = true, err }

func (p *Probe) want(next piece, at, bytes int) { p.next, p.at, p.bytes = next, at, bytes }

// pass begins to look through the slots.
func (p *Probe) pass() {
	if p.passes++; p.passes > maxPasses {
		p.finish(ErrUnstable)
		return
	}
	p.depth = 0
	p.span(pieceSlots, p.home, min(p.home+p.hint.Displacement(), p.view.p.Last(p.home)))
}

// span asks for slots from one number to another.
func (p *Probe) span(next piece, from, to int) {
	p.from = from
	p.want(next, p.view.p.Slot(from), (to-from+1)*p.view.p.Stride)
}

// Feed takes the piece in that Next has asked for.
func (p *Probe) Feed(b []byte) {
	p.pieces++
	switch p.next {
	case pieceWord:
		p.hint = layout.Segment(binary.LittleEndian.Uint64(b))
		p.pass()
	case pieceProof:
		w := layout.Segment(binary.LittleEndian.Uint64(b))
		if w == p.hint || p.view.lacks(AbsenceUnproved) {
			p.finish(ErrNotFound)
			return
		}
		p.hint = w
		p.pass()
	case pieceRecord:
		p.take(b, 0)
	case pieceBlock:
		p.depth++
		if p.scan(b[:layout.OverflowSlots*p.view.p.Stride], -1) {
			return
		}
		p.chain(layout.BlockLink(binary.LittleEndian.Uint64(b[layout.OverflowSlots*p.view.p.Stride:])))
	default:
		p.slots += len(b) / p.view.p.Stride
		if p.scan(b, p.from-p.home) {
			return
		}
		if p.next == pieceAdjacent {
			p.prove()
			return
		}
		p.chain(p.hint.Block())
	}
}

// chain goes on to a block, or behind the last one to the other slots.
func (p *Probe) chain(number int, linked bool) {
	v := p.view
	if linked && number < v.p.Count && p.depth <= v.p.Count && !v.lacks(BlockSkipped) {
		p.want(pieceBlock, v.p.Block(number), layout.OverflowSlots*v.p.Stride+8)
		return
	}
	next := p.home + p.hint.Displacement() + 1
	if last := v.p.Last(p.home); next <= last && !v.lacks(NoSecondRead) {
		p.span(pieceAdjacent, next, last)
		return
	}
	p.prove()
}

// prove asks for the segment word.
func (p *Probe) prove() { p.want(pieceProof, p.view.p.Word(p.home), 8) }

// scan looks for the key in slots of which the first is so far from the home, and takes it; -1: they are in a block.
func (p *Probe) scan(b []byte, distance int) (taken bool) {
	v := p.view
	for at := 0; at < len(b); at += v.p.Stride {
		if binary.LittleEndian.Uint64(b[at+layout.KeyOffset:]) == p.key {
			if p.distance = distance; distance >= 0 {
				p.distance += at / v.p.Stride
			}
			if !v.outside {
				p.take(b, at)
				return true
			}
			off := int(binary.LittleEndian.Uint64(b[at+layout.PointerOffset:]))
			if off < v.first || off > v.end-v.record.Stride || (off-v.first)%v.record.Stride != 0 {
				p.again() // the slot is being changed
				return true
			}
			p.want(pieceRecord, off, v.record.Bytes)
			return true
		}
	}
	return false
}

// take ends the look-up with the record at an offset of a piece, if it is whole and the key's.
func (p *Probe) take(b []byte, at int) {
	v := p.view
	image := b[at : at+v.record.Bytes]
	if layout.HeadOf(image).Match(p.key) == layout.Stale && !v.lacks(KeyUnmatched) ||
		!v.record.Whole(image) && !v.lacks(TornTaken) {
		p.again()
		return
	}
	p.found, p.off = at, p.at+at
	p.finish(nil)
}

// again begins anew, with the segment word.
func (p *Probe) again() {
	if p.passes++; p.passes > maxPasses {
		p.finish(ErrUnstable)
		return
	}
	p.want(pieceWord, p.view.p.Word(p.home), 8)
}

func (v *View) lacks(m Mutation) bool { return v.mutation == m }
