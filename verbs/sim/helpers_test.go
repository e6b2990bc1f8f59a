package sim

import (
	"testing"

	"drtmd/verbs"
)

// side is one end of a connection: a node with everything opened on it.
type side struct {
	t    testing.TB
	w    *World
	node *Node
	ctx  *verbs.Context
	pd   *verbs.PD
	cq   *verbs.CQ
	rcq  *verbs.CQ
	mr   *verbs.MR
	qp   *verbs.QP
}

const testBytes = 64 << 10

// newWorld makes a world on the default preset.
func newWorld(t testing.TB, seed uint64) *World {
	t.Helper()
	return worldOf(t, Config{Seed: seed, EventLimit: 50e6})
}

func worldOf(t testing.TB, cfg Config) *World {
	t.Helper()
	w, err := New(cfg)
	must(t, err)
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// addSide adds a node with an MR of every right and two CQs.
func addSide(t testing.TB, w *World, name string) *side {
	t.Helper()
	n, err := w.AddNode(NodeConfig{Name: name})
	must(t, err)
	s := &side{t: t, w: w, node: n}
	s.open(testBytes)
	return s
}

// open opens the node's NIC, also after a restart.
func (s *side) open(size int) {
	s.t.Helper()
	var err error
	s.ctx, err = s.node.Open()
	must(s.t, err)
	s.pd, err = s.ctx.AllocPD()
	must(s.t, err)
	s.mr, err = s.pd.AllocMR(size, verbs.AccessAll, verbs.MROptions{Keep: "main"})
	must(s.t, err)
	s.cq, err = s.ctx.CreateCQ(verbs.CQConfig{Depth: 4096})
	must(s.t, err)
	s.rcq, err = s.ctx.CreateCQ(verbs.CQConfig{Depth: 4096})
	must(s.t, err)
}

// newQP makes a QP of the side in INIT.
func (s *side) newQP(typ verbs.QPType) *verbs.QP {
	s.t.Helper()
	qp, err := s.pd.CreateQP(verbs.QPConfig{Type: typ, SendCQ: s.cq, RecvCQ: s.rcq, SendDepth: 128,
		RecvDepth: 128, SendSGE: verbs.MaxSGE, RecvSGE: verbs.MaxSGE, QKey: 7,
		MaxInline: s.ctx.Attr().MaxInline, Access: verbs.AccessAll})
	must(s.t, err)
	must(s.t, qp.ToInit())
	return qp
}

// fast are attributes with timeouts that tests can wait for: 4 retries of 131 us.
var fast = verbs.ConnectAttr{RTR: verbs.RTRAttr{MinRNRTimer: 1},
	RTS: verbs.RTSAttr{Timeout: 5, RetryCount: 4, RNRRetry: 3}}

// connect makes an RC connection with a QP on each side.
func connect(a, b *side, attr verbs.ConnectAttr) {
	a.t.Helper()
	a.qp, b.qp = a.newQP(verbs.RC), b.newQP(verbs.RC)
	ae, be := a.qp.Endpoint(), b.qp.Endpoint()
	must(a.t, a.qp.Connect(&be, attr))
	must(a.t, b.qp.Connect(&ae, attr))
}

// newPair is a world of two connected nodes.
func newPair(t testing.TB, seed uint64) (a, b *side) {
	t.Helper()
	w := newWorld(t, seed)
	a, b = addSide(t, w, "a"), addSide(t, w, "b")
	connect(a, b, fast)
	return a, b
}

// next runs the world until cq has a completion, or for a second of virtual time.
func next(t testing.TB, w *World, cq *verbs.CQ) verbs.WC {
	t.Helper()
	wc, ok := nextWithin(t, w, cq, Second)
	if !ok {
		t.Fatalf("no completion by %s", w.Now())
	}
	return wc
}

func nextWithin(t testing.TB, w *World, cq *verbs.CQ, d Time) (verbs.WC, bool) {
	t.Helper()
	var wc [1]verbs.WC
	limit := w.Now().add(d)
	for {
		n, err := cq.Poll(wc[:])
		must(t, err)
		if n == 1 {
			return wc[0], true
		}
		if !w.RunOne(limit) {
			return wc[0], false
		}
	}
}

// post posts one request.
func (s *side) post(wr verbs.WR) {
	s.t.Helper()
	_, err := s.qp.PostSend([]verbs.WR{wr})
	must(s.t, err)
}

// do posts one signaled request and waits for its completion.
func (s *side) do(wr verbs.WR) verbs.WC {
	s.t.Helper()
	wr.Flags |= verbs.FlagSignaled
	s.post(wr)
	return next(s.t, s.w, s.cq)
}

// want does a request and checks its status.
func (s *side) want(wr verbs.WR, status verbs.WCStatus) {
	s.t.Helper()
	if wc := s.do(wr); wc.Status != status {
		s.t.Fatalf("%s: %s, want %s", wr.Op, wc.Status, status)
	}
}

// oneSided is a READ or WRITE of n bytes between the two MRs.
func oneSided(op verbs.Opcode, a *side, aOff int, b *side, bOff, n int) verbs.WR {
	return verbs.WR{ID: 1, Op: op, NumSGE: 1, SGE: [4]verbs.SGE{a.mr.SGE(aOff, n)},
		RemoteAddr: b.mr.Addr() + uint64(bOff), RKey: b.mr.RKey()}
}

// send is a SEND of n bytes.
func send(s *side, off, n int) verbs.WR {
	return verbs.WR{ID: 2, Op: verbs.OpSend, NumSGE: 1, SGE: [4]verbs.SGE{s.mr.SGE(off, n)}}
}

// recv posts a receive.
func (s *side) recv(id uint64, off, n int) {
	s.t.Helper()
	_, err := s.qp.PostRecv([]verbs.RecvWR{{ID: id, NumSGE: 1,
		SGE: [4]verbs.SGE{s.mr.SGE(off, n)}}})
	must(s.t, err)
}

func preset(t testing.TB, name string) *CostModel {
	t.Helper()
	c, err := Preset(name)
	must(t, err)
	return c
}
