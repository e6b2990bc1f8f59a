package verbstest

import (
	"time"

	"drtmd/verbs"
)

// Peer is an agent, as the case that started it sees it.
type Peer struct {
	p  *Proc
	id int
}

// Peer starts an agent where the case's placement says.
func (p *Proc) Peer() *Peer {
	id, err := p.host.Start("agent", p.Placement == Processes)
	p.Must("start a peer", err)
	return &Peer{p: p, id: id}
}

// begin gives the peer something to do, finish takes its answer.
func (q *Peer) begin(r request) { q.p.Must(r.Do, q.p.sendJSON(q.id, r)) }

func (q *Peer) finish() answer {
	var a answer
	q.p.Must("answer of the peer", q.p.recvJSON(q.id, &a, q.p.Deadline()+q.p.Patience))
	return a
}

func (q *Peer) ask(r request) answer {
	q.begin(r)
	a := q.finish()
	if a.Err != "" {
		q.p.Fatalf("%s at the peer: %s", r.Do, a.Err)
	}
	return a
}

// end ends the peer now and waits for that.
func (q *Peer) end() { q.p.Must("end the peer", q.p.host.End(q.id, q.p.Deadline())) }

func (q *Peer) signal(s Signal) { q.p.Must("signal the peer", q.p.host.Signal(q.id, s)) }

// far is a side at a peer.
type far struct {
	peer     *Peer
	id       int
	mr       verbs.RemoteMR
	lkey     uint32
	endpoint verbs.Endpoint
}

// newSide makes a side at the peer, not yet connected.
func (q *Peer) newSide(s spec) *far {
	return q.side(request{Do: "side", Spec: s})
}

// beside makes one more side at the peer, on the same domain and memory.
func (f *far) beside() *far { return f.peer.side(request{Do: "beside", Side: f.id}) }

func (q *Peer) side(r request) *far {
	a := q.ask(r)
	f := &far{peer: q, id: a.ID, mr: a.Remote, lkey: a.LKey}
	f.decode(a.Endpoint)
	return f
}

func (f *far) decode(b []byte) {
	f.peer.p.Must("endpoint of the peer", f.endpoint.UnmarshalBinary(b))
}

// ask fills in the side.
func (f *far) ask(r request) answer {
	r.Side = f.id
	return f.peer.ask(r)
}

func (f *far) connect(peer verbs.Endpoint, attr verbs.ConnectAttr) {
	b, err := peer.MarshalBinary()
	f.peer.p.Must("encode an endpoint", err)
	f.ask(request{Do: "connect", Endpoint: b, Connect: attr})
}

func (f *far) renew() { f.decode(f.ask(request{Do: "renew"}).Endpoint) }

func (f *far) peek(offset, length int) []byte {
	return f.ask(request{Do: "peek", Offset: offset, Length: length}).Data
}

func (f *far) poke(offset int, b []byte) { f.ask(request{Do: "poke", Offset: offset, Data: b}) }

// await has the peer wait, without this node's doing anything, until a word has the value.
func (f *far) await(offset int, value uint64) {
	f.ask(request{Do: "await", Offset: offset, ID: value})
}

// recv posts count receive buffers of length bytes, one after another from offset on, with the
// IDs id, id+1, ...
func (f *far) recv(id uint64, count, offset, length int) {
	f.ask(request{Do: "recv", ID: id, Count: count, Offset: offset, Length: length})
}

// received waits for receive completions.
func (f *far) received(count int) []verbs.WC {
	return f.ask(request{Do: "wait", Recv: true, Count: count}).WCs
}

func (f *far) sent(count int) []verbs.WC {
	return f.ask(request{Do: "wait", Count: count}).WCs
}

func (f *far) post(wrs ...verbs.WR) { f.ask(request{Do: "send", WRs: wrs}) }

// newMR makes one more MR at the peer and says its number.
func (f *far) newMR(size int, access verbs.Access) (int, verbs.RemoteMR) {
	a := f.ask(request{Do: "mr", Length: size, Access: access})
	return a.ID, a.Remote
}

// pair is a connection: this side and the one at a peer.
type pair struct {
	*side
	far *far
}

// pair connects two RC sides, the far one at a new peer.
func (p *Proc) pair(near, farther spec) *pair { return p.pairWith(p.Peer(), near, farther) }

// pairWith connects two RC sides, the far one at the peer.
func (p *Proc) pairWith(q *Peer, near, farther spec) *pair {
	x := &pair{side: p.newSide(near), far: q.newSide(farther)}
	x.connect(near.Connect, farther.Connect)
	return x
}

func (x *pair) connect(near, farther verbs.ConnectAttr) {
	x.far.connect(x.qp.Endpoint(), farther)
	x.p.Must("connect", x.qp.Connect(&x.far.endpoint, near))
}

// reconnect replaces both QPs and CQs and shows that they work: after any failure a fresh QP
// must.
func (x *pair) reconnect() {
	x.side.renew()
	x.far.renew()
	x.connect(verbs.ConnectAttr{}, verbs.ConnectAttr{})
	x.works()
}

// works shows that the connection carries a SEND, which needs no right.
func (x *pair) works() {
	copy(x.bytes(0, 8), "it works")
	x.far.recv(4711, 1, 0, 8)
	x.succeed(verbs.WR{ID: 4712, Op: verbs.OpSend, NumSGE: 1, SGE: x.sge(0, 8)})
	if wc := x.far.received(1)[0]; wc.ID != 4711 || wc.Status != verbs.WCSuccess {
		x.p.Fatalf("a fresh connection does not work: %+v", wc)
	}
}

// target makes a request of an operation on the far MR: length bytes at offset there, to or
// from the near MR's start.
func (x *pair) target(op verbs.Opcode, offset, length int) verbs.WR {
	return verbs.WR{ID: uint64(1000 + offset), Op: op, RemoteAddr: x.far.mr.Addr + uint64(offset),
		RKey: x.far.mr.RKey, NumSGE: 1, SGE: x.sge(0, length)}
}

// quietTime is how long the suite listens before it believes that nothing comes.
func (p *Proc) quietTime() time.Duration { return p.Patience / 100 }

// sge names a piece of the far MR, for a request that the peer posts.
func (f *far) sge(offset, length int) [verbs.MaxSGE]verbs.SGE {
	return [verbs.MaxSGE]verbs.SGE{{Addr: f.mr.Addr + uint64(offset), Length: uint32(length),
		LKey: f.lkey}}
}
