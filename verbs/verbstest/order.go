package verbstest

import (
	"bytes"

	"drtmd/verbs"
)

// orderCases: what one QP's operations see of each other.
func orderCases() []Case {
	return []Case{
		{Name: "order/a READ sees the WRITE before it", Body: readAfterWrite},
		{Name: "order/WRITEs to one place land in order", Body: writeAfterWrite},
		{Name: "order/a WRITE is there before the atomic after it", Body: writeBeforeAtomic},
		{Name: "order/a fenced WRITE sends what the READ before it brought", Body: fence},
		{Name: "order/more READs than may be in flight wait their turn", Body: readsInTurn},
		{Name: "order/a line is read whole, never half old", Body: wholeLines},
		{Name: "order/the lines of a WRITE appear in ascending order", Body: ascending},
	}
}

func readAfterWrite(p *Proc) {
	const size = 200
	x := p.pair(spec{}, spec{})
	for round := range p.Scaled(300) {
		want := pattern(x.bytes(0, size), byte(round))
		r := x.target(verbs.OpRead, 32, size)
		r.ID, r.Flags, r.SGE = 1, verbs.FlagSignaled, x.sge(1000, size)
		x.post(x.target(verbs.OpWrite, 32, size), r)
		if wc := p.wait(x.scq, 1)[0]; wc.ID != 1 || wc.Status != verbs.WCSuccess {
			p.Fatalf("completion %+v", wc)
		}
		p.equal("read after the WRITE", x.bytes(1000, size), want)
	}
}

func writeAfterWrite(p *Proc) {
	const depth = 16
	x := p.pair(spec{SendDepth: depth}, spec{})
	for round := range p.Scaled(100) {
		wrs := make([]verbs.WR, depth)
		for i := range wrs {
			x.bytes(8*i, 8)[0], x.bytes(8*i, 8)[7] = byte(round), byte(i)
			wrs[i] = x.target(verbs.OpWrite, 64, 8)
			wrs[i].SGE = x.sge(8*i, 8)
		}
		wrs[depth-1].Flags = verbs.FlagSignaled
		x.post(wrs...)
		p.wait(x.scq, 1)
		x.succeed(x.target(verbs.OpRead, 64, 8))
		p.equal("the last WRITE", x.bytes(0, 8), x.bytes(8*(depth-1), 8))
	}
}

// writeBeforeAtomic: one thread writes i to two lines and then sets a word to i by an atomic;
// another that sees i in the word must see at least i in both lines.
func writeBeforeAtomic(p *Proc) {
	rounds := p.Scaled(1000)
	all := p.contenders(2)
	data, flag := all[0].far.mr, all[0].far.mr
	flag.Addr += 512
	writer := p.Thread(func(p *Proc) {
		x := all[0].on(p)
		for i := range rounds {
			setWord(x.bytes(0, 8), uint64(i+1))
			setWord(x.bytes(120, 8), uint64(i+1))
			w := x.target(verbs.OpWrite, 0, 128)
			a := x.target(verbs.OpFAA, 512, 8)
			a.CompareAdd, a.Flags, a.SGE = 1, verbs.FlagSignaled, x.sge(256, 8)
			x.post(w, a)
			p.Must("FAA", p.wait(x.scq, 1)[0].Err())
		}
	})
	x := all[1]
	for last := uint64(0); last < uint64(rounds); {
		last = x.readWord(flag, 0)
		for _, offset := range []uint64{0, 120} {
			if got := x.readWord(data, offset); got < last {
				p.Fatalf("the word says %d, the data %d", last, got)
			}
		}
		p.Pause()
	}
	writer.Join()
}

// readWord READs the 8 bytes at an offset of a remote MR.
func (x *pair) readWord(mr verbs.RemoteMR, offset uint64) uint64 {
	x.succeed(verbs.WR{ID: 1, Op: verbs.OpRead, RemoteAddr: mr.Addr + offset, RKey: mr.RKey,
		NumSGE: 1, SGE: x.sge(0, 8)})
	return word(x.bytes(0, 8))
}

func fence(p *Proc) {
	x := p.pair(spec{}, spec{})
	for round := range p.Scaled(300) {
		want := append([]byte(nil), pattern(x.bytes(0, 700), byte(round))...)
		w := x.target(verbs.OpWrite, 0, 700)
		r := x.target(verbs.OpRead, 0, 700)
		r.SGE = x.sge(1000, 700)
		f := x.target(verbs.OpWrite, 2000, 700)
		f.SGE, f.Flags = x.sge(1000, 700), verbs.FlagFence
		back := x.target(verbs.OpRead, 2000, 700)
		back.SGE, back.Flags = x.sge(4000, 700), verbs.FlagSignaled
		x.post(w, r, f, back)
		if wc := p.wait(x.scq, 1)[0]; wc.Status != verbs.WCSuccess {
			p.Fatalf("completion %+v", wc)
		}
		p.equal("what the fenced WRITE sent", x.bytes(4000, 700), want)
	}
}

func readsInTurn(p *Proc) {
	const depth = 16
	one := verbs.ConnectAttr{RTS: verbs.RTSAttr{MaxRdAtomic: 1}}
	x := p.pair(spec{SendDepth: depth, Connect: one},
		spec{Connect: verbs.ConnectAttr{RTR: verbs.RTRAttr{MaxDestRdAtomic: 1}}})
	all := testData(64*depth, 4)
	x.far.poke(0, all)
	for range p.Scaled(20) {
		clear(x.bytes(0, 64*depth))
		var wrs []verbs.WR
		for i := range depth {
			wr := x.target(verbs.OpRead, 64*i, 64)
			wr.SGE = x.sge(64*i, 64)
			wrs = append(wrs, wr)
		}
		wrs[depth-1].Flags = verbs.FlagSignaled
		x.post(wrs...)
		p.Must("READs", p.wait(x.scq, 1)[0].Err())
		p.equal("read", x.bytes(0, 64*depth), all)
	}
}

// wholeLines: where there are line words, a READ of a line is atomic against the WRITEs to it of
// other QPs and of the other node. Elsewhere only the end is certain.
func wholeLines(p *Proc) {
	rounds := p.Scaled(2000)
	all := p.contenders(2)
	line := all[0].far.mr
	q, loop := all[0].far.peer, all[0].far.loop()
	loop.poke(0, testData(verbs.LineBytes, 0x55))
	q.begin(request{Do: "storm", Side: loop.id, Count: rounds, WRs: []verbs.WR{{Op: verbs.OpWrite,
		RemoteAddr: line.Addr, RKey: line.RKey, NumSGE: 1, SGE: loop.sge(0, verbs.LineBytes)}}})
	near := p.Thread(func(p *Proc) {
		x := all[0].on(p)
		pattern(x.bytes(0, verbs.LineBytes), 0xaa)
		for range rounds {
			x.volleyed(x.target(verbs.OpWrite, 0, verbs.LineBytes), 0)
		}
	})
	whole := func(b []byte) bool {
		return bytes.Equal(b, testData(len(b), 0x55)) || bytes.Equal(b, testData(len(b), 0xaa)) ||
			bytes.Equal(b, make([]byte, len(b)))
	}
	x, promised := all[1], p.Context().Attr().Caps.LineWords
	for range rounds {
		x.volleyed(verbs.WR{Op: verbs.OpRead, RemoteAddr: line.Addr, RKey: line.RKey,
			NumSGE: 1, SGE: x.sge(0, verbs.LineBytes)}, verbs.LineBytes)
		for i := range volleySize {
			b := x.bytes(i*verbs.LineBytes, verbs.LineBytes)
			if promised && !whole(b) {
				p.Fatalf("a torn line: %x", b)
			}
		}
	}
	near.Join()
	if n := q.finish().Count; n != rounds {
		p.Fatalf("the peer did %d of %d", n, rounds)
	}
	if b := all[0].far.peek(0, verbs.LineBytes); promised && !whole(b) {
		p.Fatalf("at the end the line is torn: %x", b)
	}
}

// ascending: a reader that looks at a later line and then at an earlier one never finds the earlier
// one older. Pairs that lie apart show a wrong direction, neighbours a line out of turn. Without
// the capability only the end is certain.
func ascending(p *Proc) {
	const lines = 512
	rounds := p.Scaled(500)
	all := p.contenders(2)
	mr := all[0].far.mr
	writer := p.Thread(func(p *Proc) {
		x := all[0].on(p)
		for i := range rounds {
			for l := range lines {
				setWord(x.bytes(l*verbs.LineBytes, 8), uint64(i+1))
			}
			x.succeed(x.target(verbs.OpWrite, 0, lines*verbs.LineBytes))
		}
	})
	x := all[1]
	promised := p.Context().Attr().Caps.AscendingWrites
	pairs := [][2]int{{lines - 1, lines - 2}, {lines - 1, 0}, {lines / 2, lines/2 - 1},
		{lines / 2, 0}, {1, 0}, {lines - 1, lines / 2}}
	for i, later := 0, uint64(0); later < uint64(rounds); i++ {
		pair := pairs[i%len(pairs)]
		later = x.readWord(mr, uint64(pair[0]*verbs.LineBytes))
		earlier := x.readWord(mr, uint64(pair[1]*verbs.LineBytes))
		if promised && earlier < later {
			p.Fatalf("line %d holds %d after line %d held %d", pair[1], earlier, pair[0], later)
		}
		p.Pause()
	}
	writer.Join()
	for l := 0; l < lines; l += 7 {
		if got := x.readWord(mr, uint64(l*verbs.LineBytes)); got != uint64(rounds) {
			p.Fatalf("at the end line %d holds %d", l, got)
		}
	}
}
