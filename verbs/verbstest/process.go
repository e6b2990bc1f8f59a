package verbstest

import (
	"time"

	"drtmd/verbs"
)

// processCases: what only a second process can do: be killed, or stopped.
func processCases() []Case {
	kill := func(name string, storm func(x *pair)) Case {
		return Case{Name: "process/" + name, Apart: true,
			Body: func(p *Proc) { killed(p, storm) }}
	}
	return []Case{
		kill("a killed peer is noticed, and the rest works", nil),
		kill("killed in the middle of CAS", func(x *pair) { x.farStorm(verbs.OpCAS, 8) }),
		kill("killed in the middle of FAA", func(x *pair) { x.farStorm(verbs.OpFAA, 8) }),
		kill("killed in the middle of WRITE", func(x *pair) { x.farStorm(verbs.OpWrite, 4096) }),
		kill("killed in the middle of READ", func(x *pair) { x.farStorm(verbs.OpRead, 4096) }),
		kill("killed in the middle of SEND", func(x *pair) {
			for i := range uint64(16) {
				x.postRecv(i, 32768, 4096)
			}
			x.farStorm(verbs.OpSend, 4096)
		}),
		{Name: "process/killed in the middle of datagrams", Apart: true, Body: killedDatagrams},
		{Name: "process/a stopped peer's memory can be read and written", Apart: true,
			Body: stoppedPeer},
	}
}

// endless is more rounds than a peer can do before it is killed.
const endless = 1 << 40

// farStorm has the peer run an operation on the near MR again and again.
func (x *pair) farStorm(op verbs.Opcode, n int) {
	x.far.peer.begin(request{Do: "storm", Side: x.far.id, Count: endless, WRs: []verbs.WR{{
		Op: op, RemoteAddr: x.mr.Addr(), RKey: x.mr.RKey(), Swap: 1, CompareAdd: 1, NumSGE: 1,
		SGE: x.far.sge(0, n)}}})
}

// killed kills a peer in the middle of a storm on the near memory, at another point each round.
// The near node must be able to use that memory, notice the death in time, and work with others.
func killed(p *Proc, storm func(x *pair)) {
	for round := range p.Scaled(10) {
		x := p.pair(spec{Connect: quick}, spec{})
		a := p.newSide(spec{})
		p.join(a, x.beside())
		x.works()
		if storm != nil {
			storm(x)
			p.Sleep(p.quietTime()/20 + p.quietTime()/1000*time.Duration(round))
		}
		x.far.peer.signal(Kill)
		before := p.Now()
		for i := range uint64(20) { // no line of this node's memory stays locked
			a.succeed(verbs.WR{ID: i, Op: verbs.OpFAA, RemoteAddr: x.mr.Addr(), RKey: x.mr.RKey(),
				CompareAdd: 1, NumSGE: 1, SGE: a.sge(0, 8)})
			a.succeed(verbs.WR{ID: i, Op: verbs.OpRead, RemoteAddr: x.mr.Addr(),
				RKey: x.mr.RKey(), NumSGE: 1, SGE: a.sge(0, 4096)})
			a.succeed(verbs.WR{ID: i, Op: verbs.OpWrite, RemoteAddr: x.mr.Addr(),
				RKey: x.mr.RKey(), NumSGE: 1, SGE: a.sge(0, 4096)})
		}
		x.failsSoon(before)
		p.Must("close", x.qp.Close())
		y := p.pair(spec{}, spec{})
		y.works()
		y.far.peer.end()
	}
}

// failsSoon posts until the peer's death shows, which must be within the stated time after it.
// Until then a WRITE may still reach the memory that the dead left behind.
func (x *pair) failsSoon(since time.Duration) {
	for i := uint64(0); ; i++ {
		wr := x.target(verbs.OpWrite, 8192, 8)
		wr.ID = i
		wc := x.do(wr)
		if wc.Status != verbs.WCSuccess {
			x.failed(wc, i, verbs.WCRetryExcErr)
			x.p.inRetryTime(since, quick.RTS)
			return
		}
		x.p.Pause()
		if x.p.Now() > since+x.p.Patience {
			x.p.Fatalf("%d WRITEs to a dead peer succeeded", i)
		}
	}
}

func killedDatagrams(p *Proc) {
	sink := p.newSide(udSpec())
	p.Must("connect", sink.qp.Connect(nil, verbs.ConnectAttr{}))
	me, err := sink.qp.Endpoint().MarshalBinary()
	p.Must("encode an endpoint", err)
	aim := func(x *udPair) verbs.WR {
		return verbs.WR{ID: 1, Op: verbs.OpSend, Flags: verbs.FlagSignaled, NumSGE: 1,
			SGE: x.far.sge(0, 200), RemoteQPN: sink.qp.QPN(), RemoteQKey: testQKey,
			AH: uint32(x.far.ask(request{Do: "ah", Endpoint: me}).ID)}
	}
	for round := range p.Scaled(10) {
		x := p.udPairWith(p.Peer(), sink)
		x.far.peer.begin(request{Do: "storm", Side: x.far.id, Count: endless,
			WRs: []verbs.WR{aim(x)}})
		for i := range 5 + round { // some arrive
			sink.postRecv(uint64(i), 1000, 300)
			p.Must("datagram", p.wait(sink.rcq, 1)[0].Err())
		}
		x.far.peer.signal(Kill)
		y := p.udPairWith(p.Peer(), sink)
		wr := aim(y)
		for i := range uint64(10) {
			// What the dead sent may still come.
			for from := uint32(0); from != y.far.endpoint.QPN; {
				sink.postRecv(i, 1000, 300)
				y.far.post(wr)
				y.far.sent(1)
				wc := p.wait(sink.rcq, 1)[0]
				p.Must("datagram", wc.Err())
				from = wc.SrcQPN
			}
		}
		y.far.peer.end()
	}
}

func stoppedPeer(p *Proc) {
	x := p.pair(spec{}, spec{})
	x.works()
	x.far.peer.signal(Stop)
	for i := range uint64(10) {
		msg := append([]byte(nil), pattern(x.bytes(0, 500), byte(i))...)
		x.succeed(x.target(verbs.OpWrite, 64, 500))
		pattern(x.bytes(0, 500), byte(i+100))
		x.succeed(x.target(verbs.OpRead, 64, 500))
		p.equal("read back", x.bytes(0, 500), msg)
		x.atomic(verbs.OpFAA, 1024, 1, 0)
	}
	x.far.peer.signal(Continue)
	x.works()
}
