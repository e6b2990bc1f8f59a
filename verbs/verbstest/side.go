package verbstest

import (
	"time"

	"drtmd/verbs"
)

// noAccess asks for no right at all, where a spec's zero means every right.
const noAccess verbs.Access = 1 << 31

// spec describes one side of a connection; zero fields take defaults.
type spec struct {
	Type      verbs.QPType // RC
	SendDepth int          // 16
	RecvDepth int          // 16
	CQDepth   int          // as deep as the queue that reports to it
	SGE       int          // 1
	Inline    int
	SignalAll bool
	QKey      uint32
	QPAccess  verbs.Access // all; noAccess
	MRBytes   int          // 64 KiB
	MRAccess  verbs.Access // all; noAccess
	Channel   bool         // both CQs report to a channel of this side's
	OneCQ     bool         // one CQ for both queues
	Single    bool         // the CQs are single-threaded
	Connect   verbs.ConnectAttr
}

func (s spec) withDefaults() spec {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	right := func(a *verbs.Access) {
		switch *a {
		case 0:
			*a = verbs.AccessAll
		case noAccess:
			*a = 0
		}
	}
	if s.Type == 0 {
		s.Type = verbs.RC
	}
	set(&s.SendDepth, 16)
	set(&s.RecvDepth, 16)
	set(&s.SGE, 1)
	set(&s.MRBytes, 64<<10)
	right(&s.QPAccess)
	right(&s.MRAccess)
	return s
}

// quick makes failures of a peer show early: 4.096 us * 2^12 * (2+1) = 50 ms.
var quick = verbs.ConnectAttr{RTS: verbs.RTSAttr{Timeout: 12, RetryCount: 2, RNRRetry: 2}}

// side is a QP with the objects that belong to it.
type side struct {
	p        *Proc
	pd       *verbs.PD
	mr       *verbs.MR
	ch       *verbs.Channel // nil without spec.Channel
	scq, rcq *verbs.CQ
	qp       *verbs.QP
	spec     spec
}

// newSide makes a side in a protection domain of its own; the proc's clean-up closes it.
func (p *Proc) newSide(s spec) *side {
	ctx := p.Context()
	pd, err := ctx.AllocPD()
	p.Must("pd", err)
	p.Cleanup(func() { p.Must("close pd", pd.Close()) })
	d := s.withDefaults()
	x := &side{p: p, pd: pd, spec: d}
	x.mr, err = pd.AllocMR(d.MRBytes, d.MRAccess, verbs.MROptions{})
	p.Must("mr", err)
	p.Cleanup(func() { p.Must("close mr", x.mr.Close()) })
	if d.Channel {
		x.ch, err = ctx.CreateChannel()
		p.Must("channel", err)
		p.Cleanup(func() { p.Must("close channel", x.ch.Close()) })
	}
	x.renew()
	return x
}

// beside makes one more side on the same domain, memory and channel.
func (x *side) beside() *side {
	y := &side{p: x.p, pd: x.pd, mr: x.mr, ch: x.ch, spec: x.spec}
	y.renew()
	return y
}

// renew makes CQs and a QP, the first ones or new ones in place of those that failed.
func (x *side) renew() {
	p, d := x.p, x.spec
	if x.qp != nil {
		p.Must("close qp", x.qp.Close())
	}
	depth := func(queues ...int) int {
		n := d.CQDepth
		for _, q := range queues {
			if d.CQDepth == 0 {
				n += q
			}
		}
		return n
	}
	x.scq = x.newCQ(depth(d.SendDepth))
	x.rcq = x.scq
	if d.OneCQ {
		x.scq = x.newCQ(depth(d.SendDepth, d.RecvDepth))
		x.rcq = x.scq
	} else {
		x.rcq = x.newCQ(depth(d.RecvDepth))
	}
	x.qp = x.newQP(x.scq, x.rcq)
}

func (x *side) newCQ(depth int) *verbs.CQ {
	cq, err := x.p.Context().CreateCQ(verbs.CQConfig{Depth: depth, Channel: x.ch,
		SingleThreaded: x.spec.Single})
	x.p.Must("cq", err)
	x.p.Cleanup(func() { x.p.Must("close cq", cq.Close()) })
	return cq
}

// newQP makes one more QP of the side's description, in RESET.
func (x *side) newQP(scq, rcq *verbs.CQ) *verbs.QP {
	d := x.spec
	qp, err := x.pd.CreateQP(verbs.QPConfig{Type: d.Type, SendCQ: scq, RecvCQ: rcq,
		SendDepth: d.SendDepth, RecvDepth: d.RecvDepth, SendSGE: d.SGE, RecvSGE: d.SGE,
		MaxInline: d.Inline, SignalAll: d.SignalAll, QKey: d.QKey,
		Access: d.QPAccess})
	x.p.Must("qp", err)
	x.p.Cleanup(func() { x.p.Must("close qp", qp.Close()) })
	return qp
}

// sge names a piece of the side's MR.
func (x *side) sge(offset, length int) [verbs.MaxSGE]verbs.SGE {
	return [verbs.MaxSGE]verbs.SGE{x.mr.SGE(offset, length)}
}

// bytes is a piece of the side's MR.
func (x *side) bytes(offset, length int) []byte { return x.mr.Bytes()[offset : offset+length] }

// post posts requests, all of which must be taken.
func (x *side) post(wrs ...verbs.WR) {
	n, err := x.qp.PostSend(wrs)
	if err != nil || n != len(wrs) {
		x.p.Fatalf("post of %d requests took %d: %v", len(wrs), n, err)
	}
}

// postRecv posts one receive buffer in the side's MR.
func (x *side) postRecv(id uint64, offset, length int) {
	n, err := x.qp.PostRecv([]verbs.RecvWR{{ID: id, NumSGE: 1, SGE: x.sge(offset, length)}})
	if err != nil || n != 1 {
		x.p.Fatalf("post of a receive: %v", err)
	}
}

// wait takes exactly n completions of a CQ, in order. The fields of a WC that a provider does
// not set would keep what was there before, so that is made to be seen.
func (p *Proc) wait(cq *verbs.CQ, n int) []verbs.WC {
	var got []verbs.WC
	deadline := p.Deadline()
	for len(got) < n {
		buf := make([]verbs.WC, min(n-len(got), 64))
		for i := range buf {
			buf[i] = poison
		}
		k, err := p.WaitCQ(cq, buf, deadline)
		if err != nil || k == 0 {
			p.Fatalf("completion %d of %d: none within %s (%v)", len(got)+1, n, p.Patience, err)
		}
		got = append(got, buf[:k]...)
	}
	return got
}

var poison = verbs.WC{ID: 1<<64 - 1, Status: 77, Op: 77, ByteLen: 1 << 31, Imm: 0xdeadbeef,
	QPN: 1 << 31, SrcQPN: 1 << 31, VendorErr: 1 << 31, Flags: 1 << 31, Raw: 77}

// none checks that a CQ gives nothing for a while.
func (p *Proc) none(what string, cq *verbs.CQ, d time.Duration) {
	var buf [1]verbs.WC
	n, err := p.WaitCQ(cq, buf[:], p.Now()+d)
	if n > 0 || err != nil {
		p.Fatalf("%s: a completion came: %+v %v", what, buf[0], err)
	}
}

// do posts one signaled request and waits for its completion.
func (x *side) do(wr verbs.WR) verbs.WC {
	wr.Flags |= verbs.FlagSignaled
	x.post(wr)
	wc := x.p.wait(x.scq, 1)[0]
	if wc.ID != wr.ID {
		x.p.Fatalf("the completion names request %d, not %d", wc.ID, wr.ID)
	}
	return wc
}

// succeed is do for a request that must succeed; it checks every field of the completion.
func (x *side) succeed(wr verbs.WR) {
	wc := x.do(wr)
	x.p.Must(wr.Op.String(), wc.Err())
	want := verbs.WC{ID: wr.ID, Op: verbs.WCOpcode(wr.Op), QPN: x.qp.QPN()}
	if wc != want {
		x.p.Fatalf("completion %+v, want %+v", wc, want)
	}
}

// fail is do for a request that must fail with the status; it checks that the completion has
// only the fields that mean something then, and that the QP is in error.
func (x *side) fail(wr verbs.WR, status verbs.WCStatus) verbs.WC {
	wc := x.do(wr)
	x.failed(wc, wr.ID, status)
	return wc
}

func (x *side) failed(wc verbs.WC, id uint64, status verbs.WCStatus) {
	want := verbs.WC{ID: id, Status: status, QPN: x.qp.QPN(), VendorErr: wc.VendorErr,
		Raw: wc.Raw}
	if wc != want {
		x.p.Fatalf("completion %+v, want %+v", wc, want)
	}
	if s := x.qp.State(); s != verbs.StateErr {
		x.p.Fatalf("after an error completion the QP is in %s", s)
	}
}
