package sim

import (
	"fmt"
	"testing"

	"drtmd/verbs"
)

// echo is one UD connection of a client to a server that answers each datagram with one of the
// same size, window datagrams under way.
type echo struct {
	s      *side
	qp     *verbs.QP
	rcq    *verbs.CQ
	wr     verbs.WR
	posted int
	woken  bool
	count  *uint64 // of datagrams received; nil at the client
}

const echoSlot = 2048

// newEcho makes one end; every completion is polled on its own CQ.
func newEcho(s *side, window int) *echo {
	s.t.Helper()
	e := &echo{s: s}
	var err error
	e.rcq, err = s.ctx.CreateCQ(verbs.CQConfig{Depth: 512})
	must(s.t, err)
	e.qp, err = s.pd.CreateQP(verbs.QPConfig{Type: verbs.UD, SendCQ: e.rcq, RecvCQ: e.rcq,
		SendDepth: 128, RecvDepth: 128, GIDIndex: -1, QKey: 7, MaxInline: s.ctx.Attr().MaxInline})
	must(s.t, err)
	must(s.t, e.qp.Connect(nil, verbs.ConnectAttr{}))
	must(s.t, e.rcq.OnArrival(func() {
		if !e.woken {
			e.woken = true
			s.w.After(0, e.work)
		}
	}))
	for range 2 * window {
		e.repost()
	}
	return e
}

func (e *echo) repost() {
	_, err := e.qp.PostRecv([]verbs.RecvWR{{ID: 1, NumSGE: 1,
		SGE: [4]verbs.SGE{e.s.mr.SGE(0, echoSlot)}}})
	must(e.s.t, err)
}

func (e *echo) aim(to *echo, bytes int) {
	ah, err := e.s.pd.CreateAHTo(to.qp.Endpoint())
	must(e.s.t, err)
	e.wr = send(e.s, echoSlot, bytes)
	e.wr.AH, e.wr.RemoteQPN, e.wr.RemoteQKey = ah.Handle(), to.qp.QPN(), 7
	if bytes <= e.s.ctx.Attr().MaxInline {
		e.wr.Flags = verbs.FlagInline
	}
}

func (e *echo) send() {
	wr := e.wr
	wr.ID = 2
	if e.posted++; e.posted%16 == 0 {
		wr.Flags |= verbs.FlagSignaled
	}
	_, err := e.qp.PostSend([]verbs.WR{wr})
	must(e.s.t, err)
}

func (e *echo) work() {
	e.woken = false
	var wcs [32]verbs.WC
	n, err := e.rcq.Poll(wcs[:])
	must(e.s.t, err)
	for _, wc := range wcs[:n] {
		if wc.Status != verbs.WCSuccess {
			e.s.t.Fatal(wc.Status)
		}
		if wc.ID == 1 {
			e.repost()
			e.send()
			if e.count != nil {
				*e.count++
			}
		}
	}
	if n == len(wcs) {
		e.woken = true
		e.s.w.After(0, e.work)
	}
}

// getRate is the Gets per second that a server answers with messages batched in datagrams.
func getRate(t *testing.T, cost *CostModel, batch int) float64 {
	t.Helper()
	const connections, window, messageBytes = 16, 8, 24
	w := worldOf(t, Config{Seed: 1, Cost: cost})
	server := addSide(t, w, "server")
	served := uint64(0)
	for c := range 2 {
		s := addSide(t, w, fmt.Sprintf("client%d", c))
		for range connections {
			near, far := newEcho(s, window), newEcho(server, window)
			near.aim(far, batch*messageBytes)
			far.aim(near, batch*messageBytes)
			far.count = &served
			for range window {
				near.send()
			}
		}
	}
	must(t, w.RunUntil(100*Microsecond)) // the windows have filled the slowest queue by then
	before := served
	must(t, w.RunUntil(200*Microsecond))
	if w.Stats().Dropped > 0 {
		t.Fatalf("%d datagrams dropped", w.Stats().Dropped)
	}
	return float64(served-before) * float64(batch) * 1e4
}

// Dandelion §5.3: two messages in a packet are almost twice the throughput of one, from four to
// eight is underwhelming because the payload passes the inline limit, and large batches give
// more than ten times. Messages of 24 B (Dandelion Tables 5 and 6); no CPU is modelled.
func TestBatchingInOnePacketPays(t *testing.T) {
	cost := preset(t, "cx5-100g")
	rate := map[int]float64{}
	for _, batch := range []int{1, 2, 4, 8, 64} {
		rate[batch] = getRate(t, cost, batch)
		t.Logf("batch %2d: %6.1f M Gets/s, %5.2fx", batch, rate[batch]/1e6, rate[batch]/rate[1])
	}
	if r := rate[2] / rate[1]; r < 1.9 || r > 2.1 {
		t.Errorf("from 1 to 2: %.2fx, want almost 2", r)
	}
	if r := rate[8] / rate[4]; r > 1.6 {
		t.Errorf("from 4 to 8: %.2fx, want less than 1.6", r)
	}
	if r := rate[64] / rate[1]; r < 10 {
		t.Errorf("from 1 to 64: %.2fx, want more than 10", r)
	}
}
