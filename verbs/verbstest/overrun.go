package verbstest

import (
	"errors"

	"drtmd/verbs"
)

// overrunCases: a CQ must hold whatever may complete on it.
func overrunCases() []Case {
	return []Case{
		{Name: "overrun/a post that could overrun the CQ breaks it and its QPs", Body: overrun},
		{Name: "overrun/receives count as well", Alone: true, Body: overrunByReceives},
		{Name: "overrun/a CQ as deep as its queues never overruns", Body: deepEnough},
		{Name: "overrun/a closed QP gives its room back", Body: roomBack},
	}
}

// event waits for an asynchronous event of a type and gives it.
func (p *Proc) event(t verbs.EventType) (found verbs.Event) {
	p.WaitFor(t.String(), func() bool {
		for {
			select {
			case e, open := <-p.Context().Events():
				if !open {
					p.Fatalf("the channel of events is closed")
				}
				if e.Type == t {
					found = e
					return true
				}
			default:
				return false
			}
		}
	})
	return found
}

// drained polls until the CQ says that it is broken and gives nothing more.
func (p *Proc) drained(cq *verbs.CQ) (got []verbs.WC) {
	quiet := 0
	for deadline := p.Deadline(); ; {
		var buf [8]verbs.WC
		n, err := p.WaitCQ(cq, buf[:], deadline)
		got = append(got, buf[:n]...)
		if errors.Is(err, verbs.ErrCQOverrun) {
			if quiet++; quiet == 20 {
				return got
			}
			p.Sleep(p.quietTime() / 100)
			continue
		}
		if quiet = 0; n == 0 {
			p.Fatalf("a broken CQ gave %d completions and then %v", len(got), err)
		}
	}
}

func overrun(p *Proc) {
	x := p.pair(spec{SendDepth: 8, CQDepth: 3}, spec{})
	other := x.newQP(x.scq, x.rcq)
	x.post(x.write(1, verbs.FlagSignaled), x.write(2, 0), x.write(3, verbs.FlagSignaled))
	n, err := x.qp.PostSend([]verbs.WR{x.write(4, verbs.FlagSignaled)})
	p.MustBe("the fourth request towards a CQ of 3", err, verbs.ErrCQOverrun)
	if n != 0 {
		p.Fatalf("posted %d", n)
	}
	if e := p.event(verbs.EventCQErr); e.CQ != x.scq {
		p.Fatalf("the event names another CQ: %+v", e)
	}
	for _, qp := range []*verbs.QP{x.qp, other} {
		if s := qp.State(); s != verbs.StateErr {
			p.Fatalf("a QP on the broken CQ is in %s", s)
		}
	}
	// What was posted before is not lost.
	last := uint64(0)
	for _, wc := range p.drained(x.scq) {
		if wc.ID <= last || wc.ID > 3 {
			p.Fatalf("completion of request %d after %d", wc.ID, last)
		}
		last = wc.ID
	}
	if last != 3 {
		p.Fatalf("the last completion before the CQ's end is of request %d, not 3", last)
	}
	_, err = x.qp.PostSend([]verbs.WR{x.write(5, 0)})
	p.MustBe("a post towards a broken CQ", err, verbs.ErrCQOverrun)
	p.Must("close", other.Close())
	x.spec.CQDepth = 0
	x.reconnect()
}

func overrunByReceives(p *Proc) {
	x := p.newSide(spec{RecvDepth: 8, CQDepth: 4, OneCQ: true})
	p.Must("to INIT", x.qp.ToInit())
	for i := range 4 {
		x.postRecv(uint64(i), 0, 64)
	}
	n, err := x.qp.PostRecv([]verbs.RecvWR{{ID: 4, NumSGE: 1, SGE: x.sge(0, 64)}})
	p.MustBe("the fifth buffer towards a CQ of 4", err, verbs.ErrCQOverrun)
	if n != 0 {
		p.Fatalf("posted %d", n)
	}
	if e := p.event(verbs.EventCQErr); e.CQ != x.scq {
		p.Fatalf("the event names another CQ: %+v", e)
	}
	got := p.drained(x.rcq)
	if len(got) != 4 {
		p.Fatalf("%d of 4 buffers were flushed", len(got))
	}
	for i, wc := range got {
		x.failed(wc, uint64(i), verbs.WCWRFlushErr)
	}
}

func deepEnough(p *Proc) {
	const depth = 4
	q := p.Peer()
	near := spec{SendDepth: depth, RecvDepth: depth, CQDepth: 2 * (depth + depth), OneCQ: true}
	x := p.pairWith(q, near, spec{})
	y := &pair{side: &side{p: p, pd: x.pd, mr: x.mr, scq: x.scq, rcq: x.rcq, spec: x.spec},
		far: q.newSide(spec{})}
	y.qp = y.newQP(x.scq, x.rcq)
	y.connect(verbs.ConnectAttr{}, verbs.ConnectAttr{})
	for range 3 {
		for _, c := range []*pair{x, y} {
			for i := range depth {
				c.postRecv(uint64(100+i), 0, 64)
				c.post(c.write(uint64(i), verbs.FlagSignaled))
			}
		}
		p.wait(x.scq, 2*depth)
		send := verbs.WR{ID: 1, Op: verbs.OpSend, NumSGE: 1}
		for _, c := range []*pair{x, y} {
			send.SGE = c.far.sge(0, 64)
			list := []verbs.WR{send, send, send, send}
			list[depth-1].Flags = verbs.FlagSignaled
			c.far.post(list...)
			c.far.sent(1)
		}
		for _, wc := range p.wait(x.scq, 2*depth) {
			p.Must("receive", wc.Err())
		}
	}
}

func roomBack(p *Proc) {
	const depth = 8
	x := p.pair(spec{SendDepth: depth, CQDepth: depth}, spec{})
	scq, rcq := x.scq, x.rcq
	for range 4 {
		x.post(x.writes(0, depth)...) // not polled
		p.Must("close", x.qp.Close())
		x.qp = x.newQP(scq, rcq)
		x.far.renew()
		x.connect(verbs.ConnectAttr{}, verbs.ConnectAttr{})
	}
	x.post(x.writes(50, depth)...)
	if wc := p.wait(scq, 1)[0]; wc.ID != 50+depth-1 || wc.QPN != x.qp.QPN() {
		p.Fatalf("completion %+v, want the last one of QP %d", wc, x.qp.QPN())
	}
}
