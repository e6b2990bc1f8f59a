package verbstest

import (
	"slices"
	"syscall"
	"time"

	"drtmd/verbs"
)

// faultCases: every failure with the specification's status, and what follows from it.
func faultCases() []Case {
	var cases []Case
	for _, f := range faults() {
		cases = append(cases, Case{Name: "faults/" + f.name, Body: f.run})
		if f.near.MRAccess == 0 && (f.op == verbs.OpRead || f.op.IsAtomic()) {
			f.near.MRAccess = verbs.AccessLocalWrite // a provider may store there in another way
			cases = append(cases, Case{Name: "faults/" + f.name + ", result in private memory", Body: f.run})
		}
	}
	return append(cases,
		Case{Name: "faults/to error flushes what is posted, in order", Body: flushed},
		Case{Name: "faults/fencing a context ends every connection of it, both ways", Body: fenced},
		Case{Name: "faults/in error posts are taken and flushed", Body: postInError},
		Case{Name: "faults/a failure leaves the other connections alone", Body: otherConnections},
		Case{Name: "faults/a peer's QP that is destroyed is noticed in time", Body: peerGone},
		Case{Name: "faults/the default retries end in the stated time", Body: defaultRetriesEnd},
		Case{Name: "faults/a peer's QP destroyed under load is noticed", Body: peerGoneUnderLoad},
		Case{Name: "faults/a peer that closes everything under load is noticed",
			Body: peerDropsAll},
		Case{Name: "faults/an MR deregistered under load refuses from then on", Body: mrGone},
		Case{Name: "faults/max rd atomic is needed here", Body: noRdAtomicHere},
		Case{Name: "faults/max dest rd atomic is needed there", Body: noRdAtomicThere},
	)
}

// fenced: a context that is fenced neither reaches peers nor is reached by them.
func fenced(p *Proc) {
	x := p.pair(spec{}, spec{Connect: quick})
	y := p.pairWith(x.far.peer, spec{}, spec{Connect: quick})
	x.works()
	y.works()
	for range 2 {
		p.Must("fence", p.Context().Fence())
	}
	for _, z := range []*pair{x, y} {
		z.fail(z.target(verbs.OpWrite, 0, 8), verbs.WCWRFlushErr)
		if s := z.farDo(verbs.OpFAA, 8); s != verbs.WCRetryExcErr {
			p.Fatalf("a peer reaches the memory: %s", s)
		}
	}
	x.reconnect() // what is made later works
}

// fault is one way for a request to fail.
type fault struct {
	name   string
	near   spec
	far    spec
	op     verbs.Opcode
	change func(x *pair, wr *verbs.WR)
	status verbs.WCStatus
}

// faults lists the ways for a request to fail, each with the specification's status.
func faults() []fault {
	return []fault{
		{name: "bad lkey", op: verbs.OpWrite, status: verbs.WCLocProtErr,
			change: func(_ *pair, wr *verbs.WR) { wr.SGE[0].LKey ^= 0x5a5a00 }},
		{name: "local buffer one byte out of bounds", op: verbs.OpWrite, status: verbs.WCLocProtErr,
			change: func(x *pair, wr *verbs.WR) { wr.SGE = x.sge(x.spec.MRBytes-63, 64) }},
		{name: "local buffer one byte before the MR", op: verbs.OpSend, status: verbs.WCLocProtErr,
			change: func(x *pair, wr *verbs.WR) { wr.SGE = x.sge(-1, 64) }},
		{name: "local MR deregistered", op: verbs.OpWrite, status: verbs.WCLocProtErr,
			change: func(x *pair, wr *verbs.WR) {
				mr, err := x.pd.AllocMR(4096, verbs.AccessAll, verbs.MROptions{})
				x.p.Must("mr", err)
				wr.SGE[0] = mr.SGE(0, 64)
				x.p.Must("close mr", mr.Close())
			}},
		{name: "READ into memory without local write", op: verbs.OpRead, status: verbs.WCLocProtErr,
			near: spec{MRAccess: verbs.AccessRemoteRead}},
		{name: "lkey of another protection domain", op: verbs.OpWrite, status: verbs.WCLocProtErr,
			change: func(x *pair, wr *verbs.WR) { wr.SGE = x.p.newSide(spec{}).sge(0, 64) }},

		{name: "bad rkey", op: verbs.OpWrite, status: verbs.WCRemAccessErr,
			change: func(_ *pair, wr *verbs.WR) { wr.RKey ^= 0x5a5a00 }},
		{name: "bad rkey of a READ", op: verbs.OpRead, status: verbs.WCRemAccessErr,
			change: func(_ *pair, wr *verbs.WR) { wr.RKey ^= 0x5a5a00 }},
		{name: "bad rkey of an atomic", op: verbs.OpCAS, status: verbs.WCRemAccessErr,
			change: func(_ *pair, wr *verbs.WR) { wr.RKey ^= 0x5a5a00 }},
		{name: "remote address one byte out of bounds", op: verbs.OpWrite,
			status: verbs.WCRemAccessErr,
			change: func(x *pair, wr *verbs.WR) { wr.RemoteAddr = x.far.mr.Addr + x.far.mr.Length - 63 }},
		{name: "remote address one byte before the MR", op: verbs.OpRead, status: verbs.WCRemAccessErr,
			change: func(x *pair, wr *verbs.WR) { wr.RemoteAddr = x.far.mr.Addr - 1 }},
		{name: "remote address that overflows", op: verbs.OpWrite, status: verbs.WCRemAccessErr,
			change: func(_ *pair, wr *verbs.WR) { wr.RemoteAddr = 1<<64 - 32 }},
		{name: "atomic behind the MR", op: verbs.OpFAA, status: verbs.WCRemAccessErr,
			change: func(x *pair, wr *verbs.WR) { wr.RemoteAddr = x.far.mr.Addr + x.far.mr.Length }},
		{name: "remote MR deregistered", op: verbs.OpWrite, status: verbs.WCRemAccessErr,
			change: func(x *pair, wr *verbs.WR) {
				id, mr := x.far.newMR(4096, verbs.AccessAll)
				x.far.ask(request{Do: "close-mr", MR: id})
				wr.RemoteAddr, wr.RKey = mr.Addr, mr.RKey
			}},
		{name: "rkey of another protection domain", op: verbs.OpWrite, status: verbs.WCRemAccessErr,
			change: func(x *pair, wr *verbs.WR) {
				other := x.far.peer.newSide(spec{}).mr
				wr.RemoteAddr, wr.RKey = other.Addr, other.RKey
			}},
		{name: "WRITE without the MR's right", op: verbs.OpWrite, status: verbs.WCRemAccessErr,
			far: spec{MRAccess: verbs.AccessAll &^ verbs.AccessRemoteWrite}},
		{name: "READ without the MR's right", op: verbs.OpRead, status: verbs.WCRemAccessErr,
			far: spec{MRAccess: verbs.AccessAll &^ verbs.AccessRemoteRead}},
		{name: "CAS without the MR's right", op: verbs.OpCAS, status: verbs.WCRemAccessErr,
			far: spec{MRAccess: verbs.AccessAll &^ verbs.AccessRemoteAtomic}},
		{name: "FAA without the MR's right", op: verbs.OpFAA, status: verbs.WCRemAccessErr,
			far: spec{MRAccess: verbs.AccessAll &^ verbs.AccessRemoteAtomic}},
		{name: "WRITE without the QP's right", op: verbs.OpWrite, status: verbs.WCRemInvReqErr,
			far: spec{QPAccess: verbs.AccessAll &^ verbs.AccessRemoteWrite}},
		{name: "READ without the QP's right", op: verbs.OpRead, status: verbs.WCRemInvReqErr,
			far: spec{QPAccess: verbs.AccessAll &^ verbs.AccessRemoteRead}},
		{name: "CAS without the QP's right", op: verbs.OpCAS, status: verbs.WCRemInvReqErr,
			far: spec{QPAccess: verbs.AccessAll &^ verbs.AccessRemoteAtomic}},
		{name: "FAA without the QP's right", op: verbs.OpFAA, status: verbs.WCRemInvReqErr,
			far: spec{QPAccess: noAccess}},
	}
}

// run posts a good request, the bad one, and two more; and receives that nobody will fill.
func (f *fault) run(p *Proc) {
	x := p.pair(f.near, f.far)
	rest := testData(256, 3)
	x.far.poke(0, rest)
	wr := x.target(f.op, 64, 64)
	if f.op.IsAtomic() {
		wr.SGE[0].Length = 8
	}
	if f.change != nil {
		f.change(x, &wr)
	}
	wr.ID, wr.Flags = 2, 0 // a failure completes even if it was not to be signaled
	x.postRecv(7, 1024, 64)
	x.postRecv(8, 1024, 64)
	x.far.recv(1, 1, 512, 64)
	good := verbs.WR{ID: 1, Op: verbs.OpSend, Flags: verbs.FlagSignaled}
	x.post(good, wr, verbs.WR{ID: 3, Op: verbs.OpSend},
		verbs.WR{ID: 4, Op: verbs.OpSend, Flags: verbs.FlagSignaled})
	got := p.wait(x.scq, 4)
	if got[0].ID != 1 || got[0].Status != verbs.WCSuccess {
		p.Fatalf("the request before: %+v", got[0])
	}
	x.failed(got[1], 2, f.status)
	x.failed(got[2], 3, verbs.WCWRFlushErr)
	x.failed(got[3], 4, verbs.WCWRFlushErr)
	got = p.wait(x.rcq, 2)
	x.failed(got[0], 7, verbs.WCWRFlushErr)
	x.failed(got[1], 8, verbs.WCWRFlushErr)
	p.none("after all were flushed", x.scq, 0)
	p.equal("remote memory", x.far.peek(0, 256), rest)
	x.reconnect()
}

func flushed(p *Proc) {
	x := p.pair(spec{}, spec{})
	for i := range 5 {
		x.postRecv(uint64(i), 64*i, 64)
	}
	p.Must("to error", x.qp.ToError())
	p.Must("to error again", x.qp.ToError())
	for i, wc := range p.wait(x.rcq, 5) {
		x.failed(wc, uint64(i), verbs.WCWRFlushErr)
	}
	p.none("after all were flushed", x.rcq, p.quietTime()/10)
	x.reconnect()
}

func postInError(p *Proc) {
	x := p.pair(spec{}, spec{})
	p.Must("to error", x.qp.ToError())
	for round := range 3 {
		for i := range 16 { // the depth of the queue
			x.post(x.write(uint64(round*16+i), 0))
			x.postRecv(uint64(i), 0, 64)
		}
		x.refused()
		for i, wc := range p.wait(x.scq, 16) {
			x.failed(wc, uint64(round*16+i), verbs.WCWRFlushErr)
		}
		for i, wc := range p.wait(x.rcq, 16) {
			x.failed(wc, uint64(i), verbs.WCWRFlushErr)
		}
	}
	err := x.qp.ToRTS(verbs.RTSAttr{})
	p.MustBe("a way out of the error state", err, syscall.EINVAL)
}

func otherConnections(p *Proc) {
	q := p.Peer()
	x, y := p.pairWith(q, spec{}, spec{}), p.pairWith(q, spec{}, spec{})
	wr := x.target(verbs.OpWrite, 0, 64)
	wr.RKey ^= 0x5a5a00
	x.fail(wr, verbs.WCRemAccessErr)
	y.works()
	y.succeed(y.target(verbs.OpRead, 0, 64))
	x.reconnect()
}

func peerGone(p *Proc) {
	x := p.pair(spec{Connect: quick}, spec{})
	x.works()
	x.far.ask(request{Do: "close-qp"})
	before := p.Now()
	x.fail(x.target(verbs.OpRead, 0, 64), verbs.WCRetryExcErr)
	p.inRetryTime(before, quick.RTS)
	x.side.renew()
	y := &pair{side: x.side, far: x.far.peer.newSide(spec{})}
	y.connect(verbs.ConnectAttr{}, verbs.ConnectAttr{})
	y.works()
}

// defaultRetriesEnd: a program that says nothing of retries is told of a peer that does not answer,
// for each kind of request; and the largest count that can be asked for ends as well.
func defaultRetriesEnd(p *Proc) {
	for _, a := range []verbs.RTSAttr{{}, {Timeout: 12, RetryCount: 6}} {
		var all []*pair
		for range 3 {
			x := p.pair(spec{Connect: verbs.ConnectAttr{RTS: a}}, spec{})
			x.works()
			x.far.ask(request{Do: "close-qp"})
			all = append(all, x)
		}
		before := p.Now()
		for i, op := range []verbs.Opcode{verbs.OpRead, verbs.OpWrite, verbs.OpFAA} {
			wr := all[i].target(op, 0, 8)
			wr.ID, wr.Flags = 1, verbs.FlagSignaled
			all[i].post(wr)
		}
		for _, x := range all {
			x.failed(p.wait(x.scq, 1)[0], 1, verbs.WCRetryExcErr)
		}
		p.inRetryTime(before, a)
	}
}

// inRetryTime checks that a failure since then came within the stated time. The rest is for the
// machine's own delays.
func (p *Proc) inRetryTime(since time.Duration, a verbs.RTSAttr) {
	limit := a.GivesUpIn() + p.Patience/5
	took := p.Now() - since
	if took > limit {
		p.Fatalf("the failure came after %s, stated are %s", took, limit)
	}
	p.Logf("the failure came after %s, stated are %s", took, limit)
}

func peerGoneUnderLoad(p *Proc) {
	underLoad(p, request{Do: "close-qp"}, verbs.WCRetryExcErr)
}

// peerDropsAll: an operation that has found the QP may still find the MR gone.
func peerDropsAll(p *Proc) {
	underLoad(p, request{Do: "drop"}, verbs.WCRetryExcErr, verbs.WCRemAccessErr)
}

// mrGone: an operation that is caught in the middle may see the end of the MR as the end of the
// peer; whatever comes later is refused.
func mrGone(p *Proc) {
	x := underLoad(p, request{Do: "close-mr"}, verbs.WCRemAccessErr, verbs.WCRetryExcErr)
	x.side.renew()
	x.far.renew()
	x.connect(quick, verbs.ConnectAttr{})
	x.fail(x.target(verbs.OpRead, 0, 64), verbs.WCRemAccessErr)
}

// underLoad has the peer do something while this node WRITEs to it and READs from it, and checks
// the status of the first request that fails.
func underLoad(p *Proc, what request, either ...verbs.WCStatus) *pair {
	x := p.pair(spec{Connect: quick}, spec{})
	storm := p.Thread(func(p *Proc) {
		x := x.on(p)
		for i := uint64(0); ; i++ {
			if i%2 == 0 {
				x.post(x.write(i, verbs.FlagSignaled))
			} else {
				wr := x.target(verbs.OpRead, 0, 4096)
				wr.ID, wr.Flags = i, verbs.FlagSignaled
				x.post(wr)
			}
			wc := p.wait(x.scq, 1)[0]
			if wc.Status != verbs.WCSuccess {
				if !slices.Contains(either, wc.Status) {
					p.Fatalf("the first failure is %s, want one of %v", wc.Status, either)
				}
				x.failed(wc, i, wc.Status)
				return
			}
		}
	})
	p.Sleep(p.quietTime() / 10)
	x.far.ask(what)
	storm.Join()
	return x
}

func noRdAtomicHere(p *Proc) {
	x := p.pair(spec{Connect: verbs.ConnectAttr{RTS: verbs.RTSAttr{MaxRdAtomic: -1}}}, spec{})
	for _, op := range []verbs.Opcode{verbs.OpRead, verbs.OpCAS, verbs.OpFAA} {
		n, err := x.qp.PostSend([]verbs.WR{x.target(op, 0, 8)})
		p.MustBe(op.String(), err, syscall.EINVAL)
		if n != 0 {
			p.Fatalf("%s: posted %d", op, n)
		}
	}
	x.succeed(x.target(verbs.OpWrite, 0, 8))
	x.works()
}

func noRdAtomicThere(p *Proc) {
	for _, op := range []verbs.Opcode{verbs.OpRead, verbs.OpFAA} {
		none := verbs.ConnectAttr{RTR: verbs.RTRAttr{MaxDestRdAtomic: -1}}
		x := p.pair(spec{Connect: quick}, spec{Connect: none})
		x.succeed(x.target(verbs.OpWrite, 0, 8))
		x.fail(x.target(op, 0, 8), verbs.WCRemInvReqErr)
		x.reconnect()
	}
}
