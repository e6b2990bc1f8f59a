package drtm

import (
	"encoding/binary"
	"fmt"

	"drtmd/proto"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// The chopping log (§5.6). A chain has a slot from its first piece that may change something until it ends:
//
//	 0  generation 8 | how many pieces have committed 8 | zero 48
//	64  two halves, for the even and for the odd pieces
//
// Before a piece takes a lock or begins its region, a record of what is left to do behind it is written into its half.
// Its head has the piece, the name of the chain, and as entries how many pieces there are. The body is
//
//	0  kind of the transaction 1 | zero 3 | bytes of the parameters 4
//	8  the parameters, zero padded to 8
//
// So the record of the piece before is whole while the next one is written. The piece commits with its write-ahead
// record, which names chain and piece, and is in the slot of the piece until the first line here tells the same.
//
// Recovery goes by the last piece that has committed, by either. What its record leaves to do is run by a fiber of the
// worker (proto.Runner.Resume), before there are clients. These pieces log like any, in the same slot: a second
// recovery goes on behind what the first has committed. A piece that was under way did not commit, and is one of those.

// A chain's name, which no other has in any life of the machine's memory:
//
//	node 8 | worker 10 | slot 12 | generation 34
const (
	chainGenerationBits = 34
	chainSlotBits       = 12
	chainWorkerBits     = 10

	committedOffset = 8
	chainHeadBytes  = 8
)

func (l *logs) nameOf(i int) uint64 {
	g := l.slots[i].generation & (1<<chainGenerationBits - 1)
	n := uint64(l.e.Env.Node)<<chainWorkerBits | uint64(l.e.Env.Index)
	return (n<<chainSlotBits|uint64(i))<<chainGenerationBits | g
}

// half is where the record of a piece is in its slot.
func (l *logs) half(piece int) int {
	bytes := (l.bytes - slotHeadBytes) / 2 &^ (layout.LineBytes - 1)
	return slotHeadBytes + piece%2*bytes
}

// logRest logs what is left to do behind the piece that is about to run, if it is to be done once that has committed.
func (t *tx) logRest(f *fiber.Fiber, changes bool) error {
	l, c := t.e.logs, &t.chain
	if l == nil || !c.Binding && !changes || t.e.lacks(ChoppingUnlogged) {
		return nil
	}
	if c.slot == noSlot {
		i, err := l.take(f, &l.chains)
		if err != nil {
			return err
		}
		l.setCommitted(i, 0)
		c.slot, c.Name = i, l.nameOf(i)
	}
	padded := (len(c.Rest) + 7) &^ 7
	if recordHeadBytes+chainHeadBytes+padded > l.half(1)-l.half(0) {
		return t.e.tooLong()
	}
	b := append(l.begin(), c.Kind, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(c.Rest)))
	b = append(b, c.Rest...)
	for range padded - len(c.Rest) {
		b = append(b, 0)
	}
	l.slots[c.slot].used = l.half(c.Piece)
	l.store(f, l.seal(c.slot, b, sealed{kind: chopping, entries: c.Pieces, chain: c.Name, piece: c.Piece}), b)
	f.Step("drtm: rest of the chain logged")
	return nil
}

// setCommitted takes down how many pieces of a chain have committed.
func (l *logs) setCommitted(i, pieces int) {
	binary.LittleEndian.PutUint64(l.slotBytes(i)[committedOffset:], uint64(pieces))
}

// logPiece takes down that the piece that runs has committed. Its own slot is given up after that.
func (t *tx) logPiece() {
	if c := &t.chain; c.slot != noSlot && c.Binding {
		t.e.logs.setCommitted(c.slot, c.Piece+1)
		t.F.Step("drtm: piece taken down")
	}
}

// leaveChain gives the chain's slot back, or leaves it to the next life if the chain is binding and was cut off. With
// outcome 0 the process is at its end: nobody knows how far the piece under way has come.
func (t *tx) leaveChain(o proto.Outcome) {
	c := &t.chain
	if c.slot == noSlot || o == 0 {
		return
	}
	l := t.e.logs
	if s := &l.slots[c.slot]; s.former && o == proto.Committed {
		l.recovering--
		l.stats.Resumed++
	}
	if o == proto.Committed || !c.Binding {
		l.release(c.slot)
	}
	c.slot, c.Name = noSlot, 0
}

// recoverChains finds what chains of an earlier life have left to do. committed is how many of their pieces the slots
// of these show to have committed, by the name of the chain.
func (l *logs) recoverChains(committed map[uint64]int) error {
	for i := l.pieces; i < len(l.slots); i++ {
		s := &l.slots[i]
		b := l.slotBytes(i)
		s.generation, s.used = binary.LittleEndian.Uint64(b), slotHeadBytes
		done := int(binary.LittleEndian.Uint64(b[committedOffset:]))
		if !l.e.lacks(PieceRunTwice) {
			done = max(done, committed[l.nameOf(i)])
		}
		c, found, err := l.readChain(i, done)
		l.stats.Found += uint64(found)
		if err != nil {
			return fmt.Errorf("%w: node %d, worker %d, slot %d: %w", ErrLog, l.e.Env.Node, l.e.Env.Index, i, err)
		}
		// The slots that show it are given up soon.
		if found > 0 && !l.e.lacks(CommittedForgotten) {
			l.setCommitted(i, done)
		}
		if c.From == c.Pieces { // also of none
			l.setGeneration(i, s.generation+1)
			continue
		}
		s.former = true
		l.cut = append(l.cut, c)
		if !l.e.lacks(ServedBeforeChains) {
			l.recovering++
		}
	}
	return nil
}

// readChain reads what is left of a chain of which so many pieces have committed. Without records there is none.
func (l *logs) readChain(i, done int) (c proto.Cut, found int, err error) {
	name, there := l.nameOf(i), false
	for half := range 2 {
		x, body, next := l.readRecord(l.slotBytes(i), l.half(half), l.slots[i].generation)
		if next == 0 {
			continue
		}
		found++
		n := 0
		if len(body) >= chainHeadBytes {
			n = int(binary.LittleEndian.Uint32(body[4:]))
		}
		if x.kind != chopping || x.chain != name || x.piece%2 != half || len(body) != chainHeadBytes+(n+7)&^7 ||
			x.piece >= x.entries || x.entries > proto.MaxPieces {
			return c, found, fmt.Errorf("a record of kind %d of piece %d of %d, with %d bytes, where that of a chain is", x.kind,
				x.piece, x.entries, len(body))
		}
		if x.piece == done-1 {
			there = true
			c = proto.Cut{Kind: body[0], From: done, Pieces: x.entries, Name: name, Slot: i,
				Parameters: append([]byte(nil), body[chainHeadBytes:chainHeadBytes+n]...)}
		}
	}
	if found > 0 && done > 0 && !there && l.e.cfg.Mutation == 0 {
		err = fmt.Errorf("%d pieces of a chain have committed, and what is left is not there", done)
	}
	return c, found, err
}

// Cut implements proto.Chainer.
func (e *Engine) Cut() (cut []proto.Cut) {
	if l := e.logs; l != nil {
		cut, l.cut = l.cut, nil
	}
	return cut
}

// ReopenChain implements proto.Chainer.
func (e *Engine) ReopenChain(c *proto.Cut) proto.ChainTx {
	t := e.openChain(c.Kind, c.Pieces)
	t.chain.Piece, t.chain.Binding, t.chain.Resumed = c.From, true, true
	t.chain.slot, t.chain.Name = c.Slot, c.Name
	return t
}
