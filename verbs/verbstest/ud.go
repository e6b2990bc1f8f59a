package verbstest

import (
	"syscall"

	"drtmd/verbs"
)

// udCases: datagrams.
func udCases() []Case {
	return []Case{
		{Name: "ud/a datagram arrives behind 40 bytes for the GRH", Body: udArrives},
		{Name: "ud/a datagram with immediate gives it", Body: udImm},
		{Name: "ud/a wrong qkey is dropped", Body: udWrongQKey},
		{Name: "ud/without a buffer it is dropped", Body: udNoBuffer},
		{Name: "ud/up to the path MTU arrives, one byte more is refused", Body: udMTU},
		{Name: "ud/a buffer of two pieces parts GRH and payload", Body: udPieces},
		{Name: "ud/inline takes the payload at post", Body: udInline},
		{Name: "ud/many senders reach one QP and are told apart", Body: udManySenders},
		{Name: "ud/to a QP that is gone it is dropped", Body: udGone},
		{Name: "ud/a closed or foreign address handle is refused", Body: udHandles},
		{Name: "ud/a QP in error is reset and works under its number", Body: udReset},
		{Name: "ud/what only RC can do is refused", Alone: true, Body: udOpcodes},
	}
}

const testQKey = 0x11223344

// udPair is a datagram QP at each node and the way from the near one to the far one.
type udPair struct {
	*pair
	ah *verbs.AH
}

func (p *Proc) udPair() *udPair { return p.udPairWith(p.Peer(), p.newSide(udSpec())) }

func udSpec() spec { return spec{Type: verbs.UD, QKey: testQKey} }

func (p *Proc) udPairWith(q *Peer, near *side) *udPair {
	x := &udPair{pair: &pair{side: near, far: q.newSide(udSpec())}}
	if near.qp.State() == verbs.StateReset {
		p.Must("connect", near.qp.Connect(nil, verbs.ConnectAttr{}))
	}
	x.far.ask(request{Do: "connect-ud"})
	ah, err := near.pd.CreateAHTo(x.far.endpoint)
	p.Must("address handle", err)
	p.Cleanup(func() { p.Must("close ah", ah.Close()) })
	x.ah = ah
	return x
}

// datagram makes a request: length bytes from the near MR's start to the far QP.
func (x *udPair) datagram(id uint64, length int) verbs.WR {
	return verbs.WR{ID: id, Op: verbs.OpSend, NumSGE: 1, SGE: x.sge(0, length),
		RemoteQPN: x.far.endpoint.QPN, RemoteQKey: testQKey, AH: x.ah.Handle()}
}

// arrived waits for one datagram at the far side and checks its completion.
func (x *udPair) arrived(id uint64, length int, flags verbs.WCFlags, imm uint32) {
	want := verbs.WC{ID: id, Op: verbs.WCOpcode(verbs.OpRecv), Imm: imm,
		ByteLen: verbs.GRHBytes + uint32(length), QPN: x.far.endpoint.QPN, SrcQPN: x.qp.QPN()}
	wc := x.far.received(1)[0]
	want.Flags = flags | wc.Flags&verbs.WCWithGRH // may or may not be set
	if wc != want {
		x.p.Fatalf("receive completion %+v, want %+v", wc, want)
	}
}

func udArrives(p *Proc) {
	x := p.udPair()
	rest := testData(400, 7)
	x.far.poke(0, rest)
	x.far.recv(9, 1, 0, 300)
	msg := pattern(x.bytes(0, 200), 1)
	x.succeed(x.datagram(1, 200))
	x.arrived(9, 200, 0, 0)
	p.equal("payload", x.far.peek(verbs.GRHBytes, 200), msg)
	p.equal("behind it", x.far.peek(240, 160), rest[240:])
	x.far.recv(10, 1, 0, verbs.GRHBytes) // an empty one needs no more room than the GRH
	x.succeed(x.datagram(2, 0))
	x.arrived(10, 0, 0, 0)
}

func udImm(p *Proc) {
	x := p.udPair()
	x.far.recv(9, 1, 0, 100)
	wr := x.datagram(1, 60)
	wr.Op, wr.Imm = verbs.OpSendImm, 0x0a0b0c0d
	x.succeed(wr)
	x.arrived(9, 60, verbs.WCWithImm, 0x0a0b0c0d)
}

func udWrongQKey(p *Proc) {
	x := p.udPair()
	x.far.recv(1, 2, 0, 100)
	wr := x.datagram(1, 10)
	wr.RemoteQKey++
	x.succeed(wr)
	x.far.ask(request{Do: "none", Recv: true})
	x.succeed(x.datagram(2, 11))
	x.arrived(1, 11, 0, 0)
}

func udNoBuffer(p *Proc) {
	x := p.udPair()
	for i := range 3 {
		x.succeed(x.datagram(uint64(i), 10+i))
	}
	x.far.ask(request{Do: "none", Recv: true})
	x.far.recv(1, 1, 0, 100)
	x.succeed(x.datagram(5, 50))
	x.arrived(1, 50, 0, 0)
	x.far.ask(request{Do: "none", Recv: true})
}

func udMTU(p *Proc) {
	x := p.udPair()
	mtu := x.qp.PathMTU()
	x.far.recv(1, 1, 0, mtu+verbs.GRHBytes)
	msg := pattern(x.bytes(0, mtu), 3)
	x.succeed(x.datagram(1, mtu))
	x.arrived(1, mtu, 0, 0)
	p.equal("payload", x.far.peek(verbs.GRHBytes, mtu), msg)
	n, err := x.qp.PostSend([]verbs.WR{x.datagram(2, mtu+1)})
	p.MustBe("a datagram over the path MTU", err, syscall.EMSGSIZE)
	if n != 0 {
		p.Fatalf("posted %d", n)
	}
	p.none("of the refused datagram", x.scq, p.quietTime())
	x.far.recv(2, 1, 0, 100)
	x.succeed(x.datagram(3, 4))
	x.arrived(2, 4, 0, 0)
}

func udPieces(p *Proc) {
	if p.Context().Attr().MaxSGE < 2 {
		p.Logf("the device takes %d pieces", p.Context().Attr().MaxSGE)
		return
	}
	q := p.Peer()
	near := udSpec()
	near.SGE = 2
	x := p.udPairWith(q, p.newSide(near))
	me, err := x.qp.Endpoint().MarshalBinary()
	p.Must("encode an endpoint", err)
	handle := x.far.ask(request{Do: "ah", Endpoint: me}).ID
	buffer := verbs.RecvWR{ID: 3, NumSGE: 2, SGE: x.sge(2000, verbs.GRHBytes)}
	buffer.SGE[1] = x.mr.SGE(0, 500)
	if n, err := x.qp.PostRecv([]verbs.RecvWR{buffer}); n != 1 {
		p.Fatalf("post of a receive: %v", err)
	}
	msg := testData(333, 1)
	x.far.poke(0, msg)
	x.far.post(verbs.WR{ID: 1, Op: verbs.OpSend, Flags: verbs.FlagSignaled, NumSGE: 1,
		SGE: x.far.sge(0, 333), RemoteQPN: x.qp.QPN(), RemoteQKey: testQKey, AH: uint32(handle)})
	if wc := p.wait(x.rcq, 1)[0]; wc.ID != 3 || wc.ByteLen != verbs.GRHBytes+333 {
		p.Fatalf("receive completion %+v", wc)
	}
	p.equal("payload", x.bytes(0, 333), msg)
}

func udInline(p *Proc) {
	n := min(p.Context().Attr().MaxInline, 200)
	near := udSpec()
	near.Inline = n
	x := p.udPairWith(p.Peer(), p.newSide(near))
	x.far.recv(1, 1, 0, 300)
	want := append([]byte(nil), pattern(x.bytes(0, n), 1)...)
	wr := x.datagram(1, n)
	wr.Flags = verbs.FlagInline | verbs.FlagSignaled
	x.post(wr)
	pattern(x.bytes(0, n), 2)
	p.Must("inline datagram", p.wait(x.scq, 1)[0].Err())
	x.arrived(1, n, 0, 0)
	p.equal("payload", x.far.peek(verbs.GRHBytes, n), want)
}

func udManySenders(p *Proc) {
	q := p.Peer()
	sink := p.newSide(udSpec())
	p.Must("connect", sink.qp.Connect(nil, verbs.ConnectAttr{}))
	const senders = 4
	seen := map[uint32]int{}
	for range senders {
		x := p.udPairWith(q, sink)
		b, err := sink.qp.Endpoint().MarshalBinary()
		p.Must("encode an endpoint", err)
		handle := x.far.ask(request{Do: "ah", Endpoint: b}).ID
		for i := range 3 {
			sink.postRecv(uint64(i), 1000, 100)
			x.far.poke(0, []byte{byte(i)})
			x.far.post(verbs.WR{ID: 1, Op: verbs.OpSend, Flags: verbs.FlagSignaled, NumSGE: 1,
				SGE: x.far.sge(0, 1), RemoteQPN: sink.qp.QPN(), RemoteQKey: testQKey,
				AH: uint32(handle)})
			wc := p.wait(sink.rcq, 1)[0]
			if wc.SrcQPN != x.far.endpoint.QPN || wc.ByteLen != verbs.GRHBytes+1 {
				p.Fatalf("datagram of QP %d: %+v", x.far.endpoint.QPN, wc)
			}
			p.equal("payload", sink.bytes(1000+verbs.GRHBytes, 1), []byte{byte(i)})
			seen[wc.SrcQPN]++
			x.far.sent(1)
		}
	}
	if len(seen) != senders {
		p.Fatalf("datagrams of %d senders came from %v", senders, seen)
	}
}

func udGone(p *Proc) {
	x := p.udPair()
	x.far.ask(request{Do: "close-qp"})
	for i := range 3 {
		x.succeed(x.datagram(uint64(i), 10))
	}
	if s := x.qp.State(); s != verbs.StateRTS {
		p.Fatalf("the sender's QP is in %s", s)
	}
}

func udHandles(p *Proc) {
	x := p.udPair()
	refused := func(what string, handle uint32) {
		wr := x.datagram(1, 10)
		wr.AH = handle
		_, err := x.qp.PostSend([]verbs.WR{wr})
		p.MustBe(what, err, syscall.EINVAL)
	}
	refused("no handle", 0)
	refused("an unknown handle", 1<<20)
	pd, err := p.Context().AllocPD()
	p.Must("pd", err)
	other, err := pd.CreateAHTo(x.far.endpoint)
	p.Must("address handle", err)
	refused("a handle of another domain", other.Handle())
	p.Must("close", other.Close())
	refused("a closed handle", other.Handle())
	p.Must("close twice", other.Close())
	p.Must("close", pd.Close())
	wr := x.datagram(1, 10)
	wr.RemoteQPN = 0
	_, err = x.qp.PostSend([]verbs.WR{wr})
	p.MustBe("QPN 0", err, syscall.EINVAL)
	x.far.recv(2, 1, 0, 100)
	x.succeed(x.datagram(3, 4))
	x.arrived(2, 4, 0, 0)
}

func udOpcodes(p *Proc) {
	x := p.newSide(udSpec())
	p.Must("connect", x.qp.Connect(nil, verbs.ConnectAttr{}))
	for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead, verbs.OpCAS,
		verbs.OpFAA} {
		_, err := x.qp.PostSend([]verbs.WR{{Op: op, NumSGE: 1, SGE: x.sge(0, 8),
			RemoteAddr: x.mr.Addr(), RKey: x.mr.RKey()}})
		p.MustBe(op.String(), err, syscall.EINVAL)
	}
}

// udReset has a QP fail, and brings it back: its peers go on with the number that they know.
func udReset(p *Proc) {
	x := p.udPair()
	if p.lacks(p.Context().Attr().Caps.ResetUD, "reset", x.qp.ToReset) {
		return
	}
	number := x.qp.QPN()
	x.postRecv(5, 0, 300)
	p.Must("to error", x.qp.ToError())
	p.MustBe("reset before all is polled", x.qp.ToReset(), syscall.EBUSY)
	if wc := p.wait(x.qp.RecvCQ(), 1)[0]; wc.ID != 5 || wc.Status != verbs.WCWRFlushErr {
		p.Fatalf("receive completion %+v, want a flush", wc)
	}
	for range 3 { // as often as it fails
		p.Must("reset", x.qp.ToReset())
		p.Must("connect", x.qp.Connect(nil, verbs.ConnectAttr{}))
		if x.qp.QPN() != number {
			p.Fatalf("number %d, was %d", x.qp.QPN(), number)
		}
		x.far.recv(9, 1, 0, 300)
		x.succeed(x.datagram(1, 100))
		x.arrived(9, 100, 0, 0)
		p.Must("to error again", x.qp.ToError())
	}
	p.Must("last reset", x.qp.ToReset())
	near := p.pair(spec{}, spec{})
	p.Must("RC to error", near.qp.ToError())
	p.MustBe("reset of RC", near.qp.ToReset(), verbs.ErrUnsupported)
}
