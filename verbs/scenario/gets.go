package scenario

import (
	"fmt"

	"drtmd/verbs"
	"drtmd/verbs/sim"
)

// Gets over datagrams: clients send requests to one server, which answers each datagram with one
// of the same size. No CPU is modelled. A message is of 24 B, as in Dandelion Tables 5 and 6.
const (
	getClients     = 2
	getConnections = 16 // of each client, with a QP on either side
	getWindow      = 8  // datagrams under way on each
	getBytes       = 24
	getSlot        = 2048 // of the buffers in a party's memory: receive, then send
	getQKey        = 7
	getRecvID      = 1
	getSendID      = 2
	getSignal      = 16 // one send in so many is signaled
)

// getEnd is one end of a connection.
type getEnd struct {
	p      *party
	qp     *verbs.QP
	cq     *verbs.CQ
	wr     verbs.WR
	posted int
	woken  bool
	count  *uint64 // of datagrams received; nil at the client
	err    *error
}

func newGetEnd(p *party, failed *error) (*getEnd, error) {
	e := &getEnd{p: p, err: failed}
	var err error
	if e.cq, err = p.ctx.CreateCQ(verbs.CQConfig{Depth: 512}); err != nil {
		return nil, err
	}
	e.qp, err = p.pd.CreateQP(verbs.QPConfig{Type: verbs.UD, SendCQ: e.cq, RecvCQ: e.cq,
		SendDepth: 128, RecvDepth: 128, QKey: getQKey,
		MaxInline: p.ctx.Attr().MaxInline})
	if err != nil {
		return nil, err
	}
	if err = e.qp.Connect(nil, verbs.ConnectAttr{}); err != nil {
		return nil, err
	}
	for range 2 * getWindow {
		if err = e.repost(); err != nil {
			return nil, err
		}
	}
	return e, e.cq.OnArrival(e.wake)
}

func (e *getEnd) repost() error {
	wr := verbs.RecvWR{ID: getRecvID, NumSGE: 1}
	wr.SGE[0] = e.p.mr.SGE(0, getSlot)
	_, err := e.qp.PostRecv([]verbs.RecvWR{wr})
	return err
}

// aim prepares the datagram to the other end.
func (e *getEnd) aim(to *getEnd, bytes int) error {
	ah, err := e.p.pd.CreateAHTo(to.qp.Endpoint())
	if err != nil {
		return err
	}
	e.wr = verbs.WR{ID: getSendID, Op: verbs.OpSend, NumSGE: 1, AH: ah.Handle(),
		RemoteQPN: to.qp.QPN(), RemoteQKey: getQKey}
	e.wr.SGE[0] = e.p.mr.SGE(getSlot, bytes)
	if bytes <= e.p.ctx.Attr().MaxInline {
		e.wr.Flags = verbs.FlagInline
	}
	return nil
}

func (e *getEnd) send() error {
	wr := e.wr
	if e.posted++; e.posted%getSignal == 0 {
		wr.Flags |= verbs.FlagSignaled
	}
	_, err := e.qp.PostSend([]verbs.WR{wr})
	return err
}

func (e *getEnd) wake() {
	if !e.woken {
		e.woken = true
		e.p.node.World().After(0, e.work)
	}
}

// work answers what came.
func (e *getEnd) work() {
	e.woken = false
	var wcs [32]verbs.WC
	n, err := e.cq.Poll(wcs[:])
	for i := 0; i < n && err == nil; i++ {
		if err = wcs[i].Err(); err != nil || wcs[i].ID != getRecvID {
			continue
		}
		if e.count != nil {
			*e.count++
		}
		if err = e.repost(); err == nil {
			err = e.send()
		}
	}
	if err != nil {
		*e.err = err
		e.p.node.World().Stop()
	} else if n == len(wcs) {
		e.wake()
	}
}

// getRate is what a server answers with so many messages in a datagram; its Speedup is 0.
func getRate(cost *sim.CostModel, batch int) (BatchRate, error) {
	r := BatchRate{Batch: batch, Payload: batch * getBytes}
	w, err := sim.New(sim.Config{Seed: 1, Cost: cost, KeepEvents: -1})
	if err != nil {
		return r, err
	}
	server, err := addParty(w, "server")
	if err != nil {
		return r, err
	}
	served := uint64(0)
	var failed error
	for c := range getClients {
		p, err := addParty(w, fmt.Sprintf("client%d", c))
		if err != nil {
			return r, err
		}
		for range getConnections {
			if err := connectGets(p, server, r.Payload, &served, &failed); err != nil {
				return r, err
			}
		}
	}
	const warmup, measured = 100 * sim.Microsecond, 100 * sim.Microsecond
	if err := w.RunUntil(warmup); err != nil { // the windows have filled the slowest queue
		return r, err
	}
	before, sent := served, w.Stats()
	if err := w.RunUntil(warmup + measured); err != nil {
		return r, err
	}
	now := w.Stats()
	if now.Dropped > 0 && failed == nil {
		failed = fmt.Errorf("%d datagrams were dropped", now.Dropped)
	}
	r.Mops = float64(served-before) * float64(batch) / (float64(measured) / float64(sim.Second)) / 1e6
	r.Wire = float64(now.Bytes-sent.Bytes) / float64(now.Messages-sent.Messages)
	return r, failed
}

func connectGets(p, server *party, bytes int, served *uint64, failed *error) error {
	near, err := newGetEnd(p, failed)
	if err != nil {
		return err
	}
	far, err := newGetEnd(server, failed)
	if err != nil {
		return err
	}
	if err := near.aim(far, bytes); err != nil {
		return err
	}
	if err := far.aim(near, bytes); err != nil {
		return err
	}
	far.count = served
	for range getWindow {
		if err := near.send(); err != nil {
			return err
		}
	}
	return nil
}
