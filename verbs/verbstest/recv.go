package verbstest

import (
	"time"

	"drtmd/verbs"
)

// recvCases: two-sided operations on RC.
func recvCases() []Case {
	return []Case{
		{Name: "recv/messages take the buffers in order", Body: recvOrder},
		{Name: "recv/a buffer posted in INIT is used", Body: recvInInit},
		{Name: "recv/without a buffer the sender ends in RNR retry exceeded", Body: rnrExceeded},
		{Name: "recv/a WRITE with immediate needs a buffer as well", Body: writeImmExceeded},
		{Name: "recv/a buffer posted while the sender retries is used", Body: rnrInTime},
		{Name: "recv/a sender that polls nothing retries all the same", Body: rnrWithoutPolling},
		{Name: "recv/a buffer too small fails both sides", Body: recvTooSmall},
		{Name: "recv/a buffer with a bad lkey fails both sides", Body: recvBadLKey},
		{Name: "recv/a WRITE is there when the SEND after it is", Body: writeThenSend},
	}
}

func recvOrder(p *Proc) {
	const depth, size = 8, 100
	x := p.pair(spec{SendDepth: depth}, spec{RecvDepth: depth})
	for round := range p.Scaled(20) {
		x.far.recv(uint64(round*depth), depth, 0, size)
		pattern(x.bytes(0, depth*size), byte(round))
		for i := range depth {
			x.post(verbs.WR{ID: uint64(i), Op: verbs.OpSend, Flags: verbs.FlagSignaled, NumSGE: 1,
				SGE: x.sge(i*size, size-i)})
		}
		for i, wc := range p.wait(x.scq, depth) {
			if wc.ID != uint64(i) || wc.Status != verbs.WCSuccess {
				p.Fatalf("send completion %d: %+v", i, wc)
			}
		}
		for i, wc := range x.far.received(depth) {
			if wc.ID != uint64(round*depth+i) || int(wc.ByteLen) != size-i {
				p.Fatalf("receive completion %d: %+v", i, wc)
			}
		}
		got := x.far.peek(0, depth*size)
		for i := range depth {
			p.equal("message", got[i*size:][:size-i], x.bytes(i*size, size-i))
		}
	}
}

func recvInInit(p *Proc) {
	a, b := p.newSide(spec{}), p.newSide(spec{})
	p.Must("to INIT", b.qp.ToInit())
	b.postRecv(3, 0, 64)
	p.join(a, b)
	a.succeed(verbs.WR{ID: 1, Op: verbs.OpSend, NumSGE: 1, SGE: a.sge(0, 64)})
	if wc := p.wait(b.rcq, 1)[0]; wc.ID != 3 || wc.Status != verbs.WCSuccess {
		p.Fatalf("receive completion %+v", wc)
	}
}

func rnrExceeded(p *Proc) {
	x := p.pair(spec{Connect: quick}, spec{})
	before := p.Now()
	x.fail(verbs.WR{ID: 1, Op: verbs.OpSend, NumSGE: 1, SGE: x.sge(0, 10)},
		verbs.WCRNRRetryExcErr)
	p.Logf("RNR retries took %s", p.Now()-before)
	x.reconnect()
}

func writeImmExceeded(p *Proc) {
	x := p.pair(spec{Connect: quick}, spec{})
	x.fail(x.target(verbs.OpWriteImm, 0, 10), verbs.WCRNRRetryExcErr)
	x.reconnect()
}

func rnrInTime(p *Proc) {
	slow := verbs.ConnectAttr{RTR: verbs.RTRAttr{MinRNRTimer: 28}} // 164 ms, six times
	x := p.pair(spec{}, spec{Connect: slow})
	pattern(x.bytes(0, 10), 5)
	x.post(verbs.WR{ID: 1, Op: verbs.OpSend, Flags: verbs.FlagSignaled, NumSGE: 1,
		SGE: x.sge(0, 10)})
	p.none("before there is a buffer", x.scq, 20*time.Millisecond)
	x.far.recv(2, 1, 0, 10)
	if wc := p.wait(x.scq, 1)[0]; wc.ID != 1 || wc.Status != verbs.WCSuccess {
		p.Fatalf("send completion %+v", wc)
	}
	if wc := x.far.received(1)[0]; wc.ID != 2 {
		p.Fatalf("receive completion %+v", wc)
	}
	p.equal("received", x.far.peek(0, 10), x.bytes(0, 10))
}

func rnrWithoutPolling(p *Proc) {
	slow := verbs.ConnectAttr{RTR: verbs.RTRAttr{MinRNRTimer: 28}}
	x := p.pair(spec{}, spec{Connect: slow})
	pattern(x.bytes(0, 300), 5)
	x.post(verbs.WR{ID: 1, Op: verbs.OpSend, Flags: verbs.FlagSignaled, NumSGE: 1,
		SGE: x.sge(0, 300)}, x.write(2, verbs.FlagSignaled))
	p.Sleep(20 * time.Millisecond)
	x.far.recv(2, 1, 1000, 300)
	if wc := x.far.received(1)[0]; wc.ID != 2 || wc.Status != verbs.WCSuccess {
		p.Fatalf("receive completion %+v", wc)
	}
	p.equal("received", x.far.peek(1000, 300), x.bytes(0, 300))
	x.far.await(0, word(x.bytes(0, 8))) // the WRITE behind it
	p.wait(x.scq, 2)
}

func recvTooSmall(p *Proc) {
	for _, size := range []int{65, 5000} {
		x := p.pair(spec{}, spec{})
		x.far.poke(0, make([]byte, 6000))
		x.far.recv(8, 2, 0, 64)
		wc := x.fail(verbs.WR{ID: 1, Op: verbs.OpSend, NumSGE: 1, SGE: x.sge(0, size)},
			verbs.WCRemInvReqErr)
		if wc.Raw == verbs.WCSuccess {
			p.Fatalf("the provider's own status is missing: %+v", wc)
		}
		got := x.far.received(2)
		x.far.failed(got[0], 8, verbs.WCLocLenErr)
		x.far.failed(got[1], 9, verbs.WCWRFlushErr)
		p.equal("behind the buffers", x.far.peek(128, 5872), make([]byte, 5872))
		x.reconnect()
	}
}

// failed checks an error completion at the peer, and that the QP there is in error.
func (f *far) failed(wc verbs.WC, id uint64, status verbs.WCStatus) {
	p := f.peer.p
	want := verbs.WC{ID: id, Status: status, QPN: f.endpoint.QPN, VendorErr: wc.VendorErr,
		Raw: wc.Raw}
	if wc != want {
		p.Fatalf("completion at the peer %+v, want %+v", wc, want)
	}
	if s := f.ask(request{Do: "state"}).State; s != verbs.StateErr {
		p.Fatalf("after an error completion the peer's QP is in %s", s)
	}
}

func recvBadLKey(p *Proc) {
	x := p.pair(spec{}, spec{})
	n, err := x.qp.PostRecv([]verbs.RecvWR{{ID: 1, NumSGE: 1, SGE: x.sge(0, 64)}})
	if n != 1 {
		p.Fatalf("post of a receive: %v", err)
	}
	bad := verbs.RecvWR{ID: 2, NumSGE: 1, SGE: x.sge(0, 64)}
	bad.SGE[0].Addr += uint64(x.spec.MRBytes) - 63
	if n, err = x.qp.PostRecv([]verbs.RecvWR{bad}); n != 1 {
		p.Fatalf("post of a receive: %v", err)
	}
	send := verbs.WR{ID: 5, Op: verbs.OpSend, Flags: verbs.FlagSignaled, NumSGE: 1,
		SGE: x.far.sge(0, 64)}
	x.far.post(send)
	if wc := x.far.sent(1)[0]; wc.Status != verbs.WCSuccess {
		p.Fatalf("the good buffer: %+v", wc)
	}
	x.far.post(send)
	// The sender is not told by every provider whether the buffer was bad or too small.
	sent := x.far.sent(1)[0]
	if sent.Status != verbs.WCRemInvReqErr {
		x.far.failed(sent, 5, verbs.WCRemOpErr)
	}
	got := p.wait(x.rcq, 2)
	if got[0].ID != 1 || got[0].Status != verbs.WCSuccess {
		p.Fatalf("the good buffer: %+v", got[0])
	}
	x.failed(got[1], 2, verbs.WCLocProtErr)
	x.reconnect()
}

func writeThenSend(p *Proc) {
	x := p.pair(spec{}, spec{})
	for round := range p.Scaled(100) {
		msg := pattern(x.bytes(0, 3000), byte(round))
		x.far.recv(1, 1, 8000, 0)
		w := x.target(verbs.OpWrite, 0, 3000)
		x.post(w, verbs.WR{ID: 9, Op: verbs.OpSend, Flags: verbs.FlagSignaled})
		x.far.received(1)
		p.equal("written before the SEND", x.far.peek(0, 3000), msg)
		p.wait(x.scq, 1)
	}
}
