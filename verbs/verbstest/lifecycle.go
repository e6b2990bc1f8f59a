package verbstest

import (
	"errors"
	"strings"
	"syscall"

	"drtmd/verbs"
)

// lifecycleCases: making, closing and limits.
func lifecycleCases() []Case {
	return []Case{
		{Name: "lifecycle/what is in use is not closed", Alone: true, Body: inUse},
		{Name: "lifecycle/closing twice is harmless", Alone: true, Body: closeTwice},
		{Name: "lifecycle/the context closes what is left", Alone: true, Body: contextCloses},
		{Name: "lifecycle/what is closed refuses", Alone: true, Body: closedRefuses},
		{Name: "lifecycle/memory is zeroed, aligned and its own", Alone: true, Body: memory},
		{Name: "lifecycle/sizes and depths out of range are refused", Alone: true, Body: limits},
		{Name: "lifecycle/rights that need local write are refused without", Alone: true,
			Body: rights},
		{Name: "lifecycle/a QP closes beside posts and polls", Body: closeBesidePosts},
		{Name: "lifecycle/to error comes beside posts and polls", Body: errorBesidePosts},
		{Name: "lifecycle/closing the context ends posts of other threads", Body: contextBesidePosts},
		{Name: "lifecycle/many QPs and MRs leave nothing behind", Alone: true, Body: noLeaks},
		{Name: "lifecycle/many connections leave nothing behind", Body: noLeaksConnected},
	}
}

func inUse(p *Proc) {
	x := p.newSide(spec{Channel: true})
	busy := func(what string, err error, word string) {
		p.MustBe(what, err, syscall.EBUSY)
		if !strings.Contains(err.Error(), word) {
			p.Fatalf("%s: %q does not name the %s", what, err, word)
		}
	}
	busy("a domain with a QP and an MR", x.pd.Close(), "1 MR, 1 QP")
	busy("a CQ with a QP", x.scq.Close(), "1 QP")
	busy("a channel with CQs", x.ch.Close(), "2 CQ")
	p.Must("qp", x.qp.Close())
	busy("a domain with an MR", x.pd.Close(), "1 MR")
	p.Must("cq", x.scq.Close())
	busy("a channel with a CQ", x.ch.Close(), "1 CQ")
	p.Must("cq", x.rcq.Close())
	p.Must("channel", x.ch.Close())
	p.Must("mr", x.mr.Close())
	p.Must("pd", x.pd.Close())
}

func closeTwice(p *Proc) {
	x := p.newSide(spec{Channel: true})
	for range 2 {
		p.Must("qp", x.qp.Close())
		p.Must("mr", x.mr.Close())
		p.Must("send cq", x.scq.Close())
		p.Must("receive cq", x.rcq.Close())
		p.Must("channel", x.ch.Close())
		p.Must("pd", x.pd.Close())
	}
	ctx, err := p.Open()
	p.Must("open", err)
	p.Must("close", ctx.Close())
	p.Must("close again", ctx.Close())
}

func contextCloses(p *Proc) {
	ctx, err := p.Open()
	p.Must("open", err)
	other := p.with(ctx)
	a, b := other.newSide(spec{Channel: true}), other.newSide(spec{})
	other.join(a, b)
	a.postRecv(1, 0, 64)
	p.Must("arm", a.rcq.Arm(false))
	p.Must("close", ctx.Close())
	other.cleanup()          // closes everything a second time
	for range ctx.Events() { // it is closed
	}
}

func closedRefuses(p *Proc) {
	x := p.newSide(spec{Channel: true})
	p.Must("qp", x.qp.Close())
	_, err := x.qp.PostSend([]verbs.WR{{Op: verbs.OpSend}})
	p.MustBe("post to a closed QP", err, verbs.ErrClosed)
	_, err = x.qp.PostRecv([]verbs.RecvWR{{}})
	p.MustBe("post of a receive to a closed QP", err, verbs.ErrClosed)
	p.MustBe("to error", x.qp.ToError(), verbs.ErrClosed)
	p.MustBe("to INIT", x.qp.ToInit(), verbs.ErrClosed)
	p.Must("cq", x.scq.Close())
	_, err = x.scq.Poll(make([]verbs.WC, 1))
	p.MustBe("poll of a closed CQ", err, verbs.ErrClosed)
	p.MustBe("arm of a closed CQ", x.scq.Arm(false), verbs.ErrClosed)
	_, err = x.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: x.scq, RecvCQ: x.rcq,
		SendDepth: 1, RecvDepth: 1})
	p.MustBe("a QP on a closed CQ", err, verbs.ErrClosed)
	p.Must("cq", x.rcq.Close())
	p.Must("channel", x.ch.Close())
	_, err = p.Context().CreateCQ(verbs.CQConfig{Depth: 1, Channel: x.ch})
	p.MustBe("a CQ on a closed channel", err, verbs.ErrClosed)
	p.MustBe("consume", x.ch.Consume(nil), verbs.ErrClosed)
	p.Must("mr", x.mr.Close())
	p.Must("pd", x.pd.Close())
	_, err = x.pd.AllocMR(64, 0, verbs.MROptions{})
	p.MustBe("an MR of a closed domain", err, verbs.ErrClosed)
	ctx, err := p.Open()
	p.Must("open", err)
	p.Must("close", ctx.Close())
	_, err = ctx.AllocPD()
	p.MustBe("a domain of a closed context", err, verbs.ErrClosed)
	_, err = ctx.CreateCQ(verbs.CQConfig{Depth: 1})
	p.MustBe("a CQ of a closed context", err, verbs.ErrClosed)
	_, err = ctx.CreateChannel()
	p.MustBe("a channel of a closed context", err, verbs.ErrClosed)
	_, err = ctx.Port(1)
	p.MustBe("a query of a closed context", err, verbs.ErrClosed)
}

func memory(p *Proc) {
	x := p.newSide(spec{})
	seen := map[uint32]bool{}
	var mrs []*verbs.MR
	for _, size := range []int{1, 63, 64, 4095, 4096, 4097, 1 << 20} {
		mr, err := x.pd.AllocMR(size, verbs.AccessAll, verbs.MROptions{})
		p.Must("mr", err)
		mrs = append(mrs, mr)
		if mr.Len() != size || len(mr.Bytes()) != size {
			p.Fatalf("an MR of %d bytes has %d and %d", size, mr.Len(), len(mr.Bytes()))
		}
		if mr.Addr()%verbs.LineBytes != 0 {
			p.Fatalf("an MR at %#x", mr.Addr())
		}
		p.equal("fresh memory", mr.Bytes(), make([]byte, size))
		pattern(mr.Bytes(), byte(size))
		if r := mr.Remote(); r.Addr != mr.Addr() || r.RKey != mr.RKey() || int(r.Length) != size {
			p.Fatalf("remote description %+v", r)
		}
		if seen[mr.RKey()] {
			p.Fatalf("two MRs have rkey %#x", mr.RKey())
		}
		seen[mr.RKey()] = true
	}
	for _, mr := range mrs {
		p.equal("memory beside others", mr.Bytes(), testData(mr.Len(), byte(mr.Len())))
		p.Must("close mr", mr.Close())
	}
}

func limits(p *Proc) {
	x := p.newSide(spec{})
	a := p.Context().Attr()
	invalid := func(what string, err error) { p.MustBe(what, err, syscall.EINVAL) }
	for _, size := range []int{0, -1, -1 << 40} {
		_, err := x.pd.AllocMR(size, 0, verbs.MROptions{})
		invalid("an MR of no size", err)
	}
	if a.MaxMRBytes < 1<<62 {
		_, err := x.pd.AllocMR(int(a.MaxMRBytes)+1, 0, verbs.MROptions{})
		invalid("an MR over the limit", err)
	}
	for _, depth := range []int{0, -1, a.MaxCQE + 1} {
		_, err := p.Context().CreateCQ(verbs.CQConfig{Depth: depth})
		invalid("the depth of a CQ", err)
	}
	good := verbs.QPConfig{Type: verbs.RC, SendCQ: x.scq, RecvCQ: x.rcq, SendDepth: 1,
		RecvDepth: 1}
	for what, change := range map[string]func(*verbs.QPConfig){
		"no type":             func(c *verbs.QPConfig) { c.Type = 0 },
		"no send CQ":          func(c *verbs.QPConfig) { c.SendCQ = nil },
		"no receive CQ":       func(c *verbs.QPConfig) { c.RecvCQ = nil },
		"send depth 0":        func(c *verbs.QPConfig) { c.SendDepth = 0 },
		"send depth too deep": func(c *verbs.QPConfig) { c.SendDepth = a.MaxQPWR + 1 },
		"receive depth -1":    func(c *verbs.QPConfig) { c.RecvDepth = -1 },
		"inline -1":           func(c *verbs.QPConfig) { c.MaxInline = -1 },
		"port 99":             func(c *verbs.QPConfig) { c.Port = 99 },
		"unknown access":      func(c *verbs.QPConfig) { c.Access = 1 << 20 },
	} {
		c := good
		change(&c)
		_, err := x.pd.CreateQP(c)
		invalid(what, err)
	}
	_, err := p.Context().Port(0)
	invalid("port 0", err)
	c := good
	c.GIDIndex = verbs.GIDAt(4000)
	_, err = x.pd.CreateQP(c)
	p.MustBe("GID index 4000", err, verbs.ErrNoGID)
	port, perr := p.Context().Port(1)
	p.Must("port", perr)
	for _, e := range port.GIDs {
		if !strings.Contains(err.Error(), e.GID.String()) {
			p.Fatalf("%q does not show the table", err)
		}
	}
}

func rights(p *Proc) {
	x := p.newSide(spec{})
	for _, a := range []verbs.Access{verbs.AccessRemoteWrite, verbs.AccessRemoteAtomic,
		verbs.AccessRemoteRead | verbs.AccessRemoteWrite, 1 << 20} {
		_, err := x.pd.AllocMR(64, a, verbs.MROptions{})
		p.MustBe(a.String(), err, syscall.EINVAL)
	}
}

// hammer posts and polls until the QP or the CQ is gone, and checks that the reason is one of
// those that the contract names.
func (x *pair) hammer(until func() bool) {
	p := x.p
	var buf [4]verbs.WC
	for i := uint64(0); !until(); i++ {
		_, err := x.qp.PostSend([]verbs.WR{x.write(i, verbs.FlagSignaled)})
		if err != nil && !errors.Is(err, verbs.ErrClosed) && !errors.Is(err, syscall.ENOMEM) {
			p.Fatalf("post: %v", err)
		}
		n, err := x.scq.Poll(buf[:])
		if err != nil && !errors.Is(err, verbs.ErrClosed) {
			p.Fatalf("poll: %v", err)
		}
		for _, wc := range buf[:n] {
			if wc.Status != verbs.WCSuccess && wc.Status != verbs.WCWRFlushErr {
				p.Fatalf("completion %+v", wc)
			}
		}
		p.Pause()
	}
}

// besidePosts runs f while a thread posts and polls.
func besidePosts(p *Proc, x *pair, f func(), done func() bool) {
	t := p.Thread(func(p *Proc) { x.on(p).hammer(done) })
	p.Sleep(p.quietTime() / 20)
	f()
	t.Join()
}

func closeBesidePosts(p *Proc) {
	q := p.Peer()
	for range p.Scaled(20) {
		x := p.pairWith(q, spec{}, spec{})
		besidePosts(p, x, func() { p.Must("close", x.qp.Close()) },
			func() bool { return x.qp.State() == verbs.StateClosed })
	}
}

func errorBesidePosts(p *Proc) {
	q := p.Peer()
	for range p.Scaled(20) {
		x := p.pairWith(q, spec{}, spec{})
		besidePosts(p, x, func() { p.Must("to error", x.qp.ToError()) },
			func() bool { return x.qp.State() == verbs.StateErr })
		x.reconnect()
	}
}

func contextBesidePosts(p *Proc) {
	q := p.Peer()
	for range p.Scaled(5) {
		ctx, err := p.Open()
		p.Must("open", err)
		other := p.with(ctx)
		x := other.pairWith(q, spec{}, spec{})
		besidePosts(other, x, func() { p.Must("close", ctx.Close()) },
			func() bool { return x.qp.State() == verbs.StateClosed })
	}
}
