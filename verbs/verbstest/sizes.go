package verbstest

import (
	"syscall"

	"drtmd/verbs"
)

// sizeCases: how long messages may be, and of how many pieces.
func sizeCases() []Case {
	return []Case{
		{Name: "sizes/zero bytes complete and change nothing", Body: zeroBytes},
		{Name: "sizes/around the path MTU and up to the largest", Body: largeMessages},
		{Name: "sizes/over the device's limit is refused at post", Alone: true, Body: overLimit},
		{Name: "sizes/several pieces are gathered and scattered", Body: pieces},
		{Name: "sizes/more pieces than the QP takes are refused", Alone: true, Body: tooManyPieces},
		{Name: "sizes/inline takes the payload at post, up to the limit", Body: inlineUpTo},
		{Name: "sizes/inline over the limit is refused", Alone: true, Body: inlineOver},
	}
}

func zeroBytes(p *Proc) {
	x := p.pair(spec{}, spec{})
	rest := testData(256, 1)
	x.far.poke(0, rest)
	for _, pieces := range []uint8{0, 1} {
		for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead, verbs.OpSend,
			verbs.OpSendImm, verbs.OpWriteImm} {
			wr := x.target(op, 64, 0)
			wr.NumSGE, wr.Imm = pieces, 17
			receives := op != verbs.OpWrite && op != verbs.OpRead
			if receives {
				x.far.recv(3, 1, 128, 64)
			}
			x.succeed(wr)
			if !receives {
				continue
			}
			wc := x.far.received(1)[0]
			if wc.Status != verbs.WCSuccess || wc.ByteLen != 0 || wc.ID != 3 {
				p.Fatalf("receive of an empty %s: %+v", op, wc)
			}
		}
	}
	p.equal("remote memory", x.far.peek(0, 256), rest)
}

func largeMessages(p *Proc) {
	size := min(p.MaxBytes, int(p.Context().Attr().MaxMsgBytes))
	x := p.pair(spec{MRBytes: size}, spec{MRBytes: size})
	mtu := x.qp.PathMTU()
	for i, n := range []int{mtu - 1, mtu, mtu + 1, 3*mtu + 5, size} {
		msg := pattern(x.bytes(0, n), byte(i))
		want := append([]byte(nil), msg...)
		x.succeed(x.target(verbs.OpWrite, 0, n))
		p.equal("written", x.far.peek(0, n), want)
		pattern(x.bytes(0, n), byte(i+100))
		x.succeed(x.target(verbs.OpRead, 0, n))
		p.equal("read back", x.bytes(0, n), want)
		x.far.poke(0, make([]byte, n))
		x.far.recv(7, 1, 0, n)
		x.succeed(verbs.WR{ID: 2, Op: verbs.OpSend, NumSGE: 1, SGE: x.sge(0, n)})
		if wc := x.far.received(1)[0]; int(wc.ByteLen) != n {
			p.Fatalf("a SEND of %d bytes: %+v", n, wc)
		}
		p.equal("sent", x.far.peek(0, n), want)
	}
}

func overLimit(p *Proc) {
	a, b := p.newSide(spec{SGE: 2}), p.newSide(spec{})
	p.join(a, b)
	half := p.Context().Attr().MaxMsgBytes/2 + 1
	for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpWrite, verbs.OpRead} {
		wr := verbs.WR{Op: op, Flags: verbs.FlagSignaled, RemoteAddr: b.mr.Addr(),
			RKey: b.mr.RKey(), NumSGE: 2, SGE: a.sge(0, 0)}
		wr.SGE[0].Length, wr.SGE[1] = half, wr.SGE[0]
		wr.SGE[1].Length = half
		n, err := a.qp.PostSend([]verbs.WR{wr})
		p.MustBe(op.String(), err, syscall.EMSGSIZE)
		if n != 0 {
			p.Fatalf("%s: posted %d", op, n)
		}
	}
	a.succeed(verbs.WR{ID: 1, Op: verbs.OpWrite, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
		NumSGE: 1, SGE: a.sge(0, 1)})
}

func pieces(p *Proc) {
	if p.Context().Attr().MaxSGE < 3 {
		p.Logf("the device takes %d pieces", p.Context().Attr().MaxSGE)
		return
	}
	x := p.pair(spec{SGE: 3}, spec{SGE: 3})
	scatter := func(at int) (s [verbs.MaxSGE]verbs.SGE) {
		s[0], s[1], s[2] = x.mr.SGE(at+100, 7), x.mr.SGE(at, 64), x.mr.SGE(at+300, 129)
		return s
	}
	gathered := func(at int) []byte {
		b := append([]byte(nil), x.bytes(at+100, 7)...)
		b = append(b, x.bytes(at, 64)...)
		return append(b, x.bytes(at+300, 129)...)
	}
	pattern(x.bytes(0, 1000), 1)
	wr := x.target(verbs.OpWrite, 11, 0)
	wr.NumSGE, wr.SGE = 3, scatter(0)
	x.succeed(wr)
	p.equal("gathered by WRITE", x.far.peek(11, 200), gathered(0))

	wr = x.target(verbs.OpRead, 11, 0)
	wr.NumSGE, wr.SGE = 3, scatter(2000)
	x.succeed(wr)
	p.equal("scattered by READ", gathered(2000), gathered(0))

	x.far.recv(1, 1, 4000, 200)
	x.succeed(verbs.WR{ID: 5, Op: verbs.OpSend, NumSGE: 3, SGE: scatter(0)})
	x.far.received(1)
	p.equal("gathered by SEND", x.far.peek(4000, 200), gathered(0))

	n, err := x.qp.PostRecv([]verbs.RecvWR{{ID: 6, NumSGE: 3, SGE: scatter(3000)}})
	if n != 1 {
		p.Fatalf("post of a receive with 3 pieces: %v", err)
	}
	x.far.post(verbs.WR{ID: 1, Op: verbs.OpSend, Flags: verbs.FlagSignaled, NumSGE: 1,
		SGE: x.far.sge(4000, 200)})
	if wc := p.wait(x.rcq, 1)[0]; wc.ID != 6 || wc.ByteLen != 200 {
		p.Fatalf("receive into 3 pieces: %+v", wc)
	}
	p.equal("scattered by RECV", gathered(3000), gathered(0))
}

func tooManyPieces(p *Proc) {
	a, b := p.newSide(spec{}), p.newSide(spec{})
	p.join(a, b)
	_, err := a.qp.PostSend([]verbs.WR{{Op: verbs.OpSend, NumSGE: 2}})
	p.MustBe("SEND of 2 pieces", err, syscall.EINVAL)
	_, err = a.qp.PostRecv([]verbs.RecvWR{{NumSGE: 2}})
	p.MustBe("receive of 2 pieces", err, syscall.EINVAL)
	_, err = a.qp.PostSend([]verbs.WR{{Op: verbs.OpSend, NumSGE: 255}})
	p.MustBe("SEND of 255 pieces", err, syscall.EINVAL)
	most := p.Context().Attr().MaxSGE
	_, err = a.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: a.scq, RecvCQ: a.rcq,
		SendDepth: 1, RecvDepth: 1, SendSGE: most + 1})
	p.MustBe("a QP of more pieces than the device takes", err, syscall.EINVAL)
}

func inlineUpTo(p *Proc) {
	limit := min(p.Context().Attr().MaxInline, 4096)
	x := p.pair(spec{Inline: limit}, spec{})
	for _, n := range []int{0, min(1, limit), limit} {
		for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpSend} {
			want := append([]byte(nil), pattern(x.bytes(0, n), byte(n))...)
			wr := x.target(op, 0, n)
			wr.Flags, wr.SGE[0].LKey = verbs.FlagInline|verbs.FlagSignaled, 0xffffffff
			if op == verbs.OpSend {
				x.far.recv(1, 1, 0, max(n, 1))
			}
			x.post(wr)
			pattern(x.bytes(0, n), byte(n+50)) // the buffer is free at once
			wc := p.wait(x.scq, 1)[0]
			p.Must("inline "+op.String(), wc.Err())
			if op == verbs.OpSend {
				x.far.received(1)
			}
			p.equal("inline "+op.String(), x.far.peek(0, n), want)
			x.far.poke(0, make([]byte, n))
		}
	}
}

func inlineOver(p *Proc) {
	limit := p.Context().Attr().MaxInline
	few := min(limit, 16)
	a, b := p.newSide(spec{Inline: few}), p.newSide(spec{})
	p.join(a, b)
	wr := verbs.WR{ID: 1, Op: verbs.OpWrite, Flags: verbs.FlagInline | verbs.FlagSignaled,
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), NumSGE: 1, SGE: a.sge(0, few+1)}
	n, err := a.qp.PostSend([]verbs.WR{wr})
	p.MustBe("inline, one byte over", err, syscall.EMSGSIZE)
	if n != 0 {
		p.Fatalf("posted %d", n)
	}
	wr.Op = verbs.OpRead
	wr.SGE = a.sge(0, 0)
	_, err = a.qp.PostSend([]verbs.WR{wr})
	p.MustBe("an inline READ", err, syscall.EINVAL)
	_, err = a.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: a.scq, RecvCQ: a.rcq,
		SendDepth: 1, RecvDepth: 1, MaxInline: limit + 1})
	p.MustBe("a QP of more inline than the device takes", err, syscall.EINVAL)
}
