package verbstest

import (
	"strings"
	"syscall"
	"time"

	"drtmd/verbs"
)

// connectCases: states, attributes, endpoints.
func connectCases() []Case {
	return []Case{
		{Name: "connect/states come in order", Alone: true, Body: statesInOrder},
		{Name: "connect/posts in the wrong state are refused", Alone: true, Body: wrongStates},
		{Name: "connect/attributes out of range are refused", Alone: true, Body: badAttributes},
		{Name: "connect/every path MTU that the ports allow carries long messages",
			Body: pathMTUs},
		{Name: "connect/a QP in RTR receives", Alone: true, Body: receivesInRTR},
		{Name: "connect/a sender that is early is heard once the peer is there", Body: earlySender},
		{Name: "connect/an early sender need not poll", Body: earlyWithoutPolling},
		{Name: "connect/several connections between two nodes all work", Body: severalConnections},
		{Name: "connect/to a QP that does not exist ends in retry exceeded", Alone: true,
			Body: toNowhere},
		{Name: "connect/endpoints survive their encoding", Alone: true, Body: endpointBytes},
		{Name: "connect/a peer of another kind is refused", Alone: true, Body: foreignPeers},
		{Name: "connect/the device describes itself", Alone: true, Body: describes},
	}
}

func statesInOrder(p *Proc) {
	a, b := p.newSide(spec{}), p.newSide(spec{})
	peer := b.qp.Endpoint()
	is := func(want verbs.QPState) {
		if s := a.qp.State(); s != want {
			p.Fatalf("the QP is in %s, not %s", s, want)
		}
	}
	is(verbs.StateReset)
	p.MustBe("RESET to RTR", a.qp.ToRTR(&peer, verbs.RTRAttr{}), syscall.EINVAL)
	p.MustBe("RESET to RTS", a.qp.ToRTS(verbs.RTSAttr{}), syscall.EINVAL)
	p.Must("RESET to INIT", a.qp.ToInit())
	is(verbs.StateInit)
	p.MustBe("INIT to INIT", a.qp.ToInit(), syscall.EINVAL)
	p.MustBe("INIT to RTS", a.qp.ToRTS(verbs.RTSAttr{}), syscall.EINVAL)
	p.Must("INIT to RTR", a.qp.ToRTR(&peer, verbs.RTRAttr{}))
	is(verbs.StateRTR)
	err := a.qp.ToRTR(&peer, verbs.RTRAttr{})
	p.MustBe("RTR to RTR", err, syscall.EINVAL)
	if !strings.Contains(err.Error(), "RTR") {
		p.Fatalf("%q does not name the state", err)
	}
	p.Must("RTR to RTS", a.qp.ToRTS(verbs.RTSAttr{}))
	is(verbs.StateRTS)
	p.MustBe("RTS to INIT", a.qp.ToInit(), syscall.EINVAL)
	p.Must("RTS to ERR", a.qp.ToError())
	is(verbs.StateErr)
	p.Must("ERR to ERR", a.qp.ToError())
	p.MustBe("ERR to INIT", a.qp.ToInit(), syscall.EINVAL)
	p.Must("RESET to ERR", b.qp.ToError())
	p.Must("close", a.qp.Close())
	is(verbs.StateClosed)
}

func wrongStates(p *Proc) {
	a, b := p.newSide(spec{}), p.newSide(spec{})
	peer := b.qp.Endpoint()
	send := []verbs.WR{{Op: verbs.OpSend, Flags: verbs.FlagSignaled}}
	refused := func() {
		n, err := a.qp.PostSend(send)
		p.MustBe("SEND in "+a.qp.State().String(), err, syscall.EINVAL)
		if n != 0 {
			p.Fatalf("posted %d", n)
		}
	}
	refused()
	_, err := a.qp.PostRecv([]verbs.RecvWR{{}})
	p.MustBe("receive in RESET", err, syscall.EINVAL)
	p.Must("to INIT", a.qp.ToInit())
	refused()
	a.postRecv(1, 0, 64)
	p.Must("to RTR", a.qp.ToRTR(&peer, verbs.RTRAttr{}))
	refused()
	a.postRecv(2, 0, 64)
}

func badAttributes(p *Proc) {
	b := p.newSide(spec{})
	peer := b.qp.Endpoint()
	device := p.Context().Attr()
	for what, r := range map[string]verbs.RTRAttr{
		"path MTU of no kind":       {PathMTU: 1000},
		"path MTU 8192":             {PathMTU: 8192},
		"RNR timer 32":              {MinRNRTimer: 32},
		"RNR timer -1":              {MinRNRTimer: -1},
		"service level 16":          {ServiceLevel: 16},
		"max dest rd atomic -2":     {MaxDestRdAtomic: -2},
		"max dest rd atomic beyond": {MaxDestRdAtomic: device.MaxRdAtomic + 1},
	} {
		a := p.newSide(spec{})
		p.Must("to INIT", a.qp.ToInit())
		p.MustBe(what, a.qp.ToRTR(&peer, r), syscall.EINVAL)
		p.Must("to RTR after the refusal", a.qp.ToRTR(&peer, verbs.RTRAttr{}))
	}
	for what, s := range map[string]verbs.RTSAttr{
		"timeout 32":           {Timeout: 32},
		"timeout -1":           {Timeout: -1},
		"retry for ever":       {RetryCount: 7},
		"retry count 8":        {RetryCount: 8},
		"retry count -2":       {RetryCount: -2},
		"RNR retry for ever":   {RNRRetry: 7},
		"RNR retry 8":          {RNRRetry: 8},
		"max rd atomic -2":     {MaxRdAtomic: -2},
		"max rd atomic beyond": {MaxRdAtomic: device.MaxInitDepth + 1},
	} {
		a := p.newSide(spec{})
		p.Must("to INIT", a.qp.ToInit())
		p.Must("to RTR", a.qp.ToRTR(&peer, verbs.RTRAttr{}))
		p.MustBe(what, a.qp.ToRTS(s), syscall.EINVAL)
		p.Must("to RTS after the refusal", a.qp.ToRTS(verbs.RTSAttr{}))
	}
}

func pathMTUs(p *Proc) {
	port, err := p.Context().Port(1)
	p.Must("port", err)
	const size = 10000
	for mtu := 256; mtu <= port.ActiveMTU; mtu *= 2 {
		at := verbs.ConnectAttr{RTR: verbs.RTRAttr{PathMTU: mtu}}
		x := p.pair(spec{Connect: at}, spec{Connect: at})
		if x.qp.PathMTU() != mtu {
			p.Fatalf("the path MTU is %d, not %d", x.qp.PathMTU(), mtu)
		}
		msg := append([]byte(nil), pattern(x.bytes(0, size), byte(mtu>>8))...)
		x.succeed(x.target(verbs.OpWrite, 0, size))
		pattern(x.bytes(0, size), 99)
		x.succeed(x.target(verbs.OpRead, 0, size))
		p.equal("written and read back", x.bytes(0, size), msg)
	}
	if port.ActiveMTU < 4096 {
		a, b := p.newSide(spec{}), p.newSide(spec{})
		peer := b.qp.Endpoint()
		p.Must("to INIT", a.qp.ToInit())
		p.MustBe("a path MTU over the port's",
			a.qp.ToRTR(&peer, verbs.RTRAttr{PathMTU: 2 * port.ActiveMTU}), syscall.EINVAL)
		peer.ActiveMTU = 256
		p.Must("to RTR", a.qp.ToRTR(&peer, verbs.RTRAttr{}))
		if a.qp.PathMTU() != 256 {
			p.Fatalf("the path MTU is %d, the peer's port has 256", a.qp.PathMTU())
		}
	}
}

func receivesInRTR(p *Proc) {
	a, b := p.newSide(spec{}), p.newSide(spec{})
	ea, eb := a.qp.Endpoint(), b.qp.Endpoint()
	p.Must("to INIT", b.qp.ToInit())
	b.postRecv(5, 0, 64)
	p.Must("to RTR", b.qp.ToRTR(&ea, verbs.RTRAttr{}))
	p.Must("connect", a.qp.Connect(&eb, verbs.ConnectAttr{}))
	a.succeed(verbs.WR{ID: 1, Op: verbs.OpSend, NumSGE: 1, SGE: a.sge(0, 8)})
	a.succeed(verbs.WR{ID: 2, Op: verbs.OpWrite, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
		NumSGE: 1, SGE: a.sge(0, 8)})
	if wc := p.wait(b.rcq, 1)[0]; wc.ID != 5 || wc.Status != verbs.WCSuccess {
		p.Fatalf("receive completion %+v", wc)
	}
}

func earlySender(p *Proc) {
	near, q := p.newSide(spec{}), p.Peer()
	x := &pair{side: near, far: q.newSide(spec{})}
	p.Must("connect", x.qp.Connect(&x.far.endpoint, verbs.ConnectAttr{}))
	setWord(x.bytes(0, 8), 77)
	x.post(x.write(1, verbs.FlagSignaled))
	p.none("before the peer is there", x.scq, 20*time.Millisecond)
	x.far.connect(x.qp.Endpoint(), verbs.ConnectAttr{})
	if wc := p.wait(x.scq, 1)[0]; wc.Status != verbs.WCSuccess {
		p.Fatalf("completion %+v", wc)
	}
	if got := word(x.far.peek(0, 8)); got != 77 {
		p.Fatalf("the WRITE left %d", got)
	}
}

func earlyWithoutPolling(p *Proc) {
	near, q := p.newSide(spec{}), p.Peer()
	x := &pair{side: near, far: q.newSide(spec{})}
	p.Must("connect", x.qp.Connect(&x.far.endpoint, verbs.ConnectAttr{}))
	setWord(x.bytes(0, 8), 78)
	x.post(x.write(1, 0))
	p.Sleep(20 * time.Millisecond)
	x.far.connect(x.qp.Endpoint(), verbs.ConnectAttr{})
	x.far.await(0, 78)
}

func severalConnections(p *Proc) {
	q := p.Peer()
	var all []*pair
	for range 4 {
		all = append(all, p.pairWith(q, spec{}, spec{}))
	}
	for range 3 {
		for _, x := range all {
			x.works()
		}
	}
}

func toNowhere(p *Proc) {
	x := p.newSide(spec{Connect: quick})
	gone := p.newSide(spec{})
	peer := gone.qp.Endpoint()
	p.Must("close", gone.qp.Close())
	p.Must("connect", x.qp.Connect(&peer, quick))
	before := p.Now()
	x.fail(verbs.WR{ID: 1, Op: verbs.OpSend}, verbs.WCRetryExcErr)
	p.inRetryTime(before, quick.RTS)
}

func endpointBytes(p *Proc) {
	for _, s := range []spec{{}, udSpec()} {
		want := p.newSide(s).qp.Endpoint()
		b, err := want.MarshalBinary()
		p.Must("encode", err)
		var got verbs.Endpoint
		p.Must("decode", got.UnmarshalBinary(b))
		if got != want {
			p.Fatalf("%+v became %+v", want, got)
		}
		for i := range b {
			b[i] ^= 0x10
			p.MustBe("a changed byte", got.UnmarshalBinary(b), verbs.ErrBadEndpoint)
			b[i] ^= 0x10
		}
		p.MustBe("half of it", got.UnmarshalBinary(b[:32]), verbs.ErrBadEndpoint)
	}
}

func foreignPeers(p *Proc) {
	good := p.newSide(spec{}).qp.Endpoint()
	for what, change := range map[string]func(*verbs.Endpoint){
		"another provider":   func(e *verbs.Endpoint) { e.Provider = "other" },
		"a datagram QP":      func(e *verbs.Endpoint) { e.Type = verbs.UD },
		"another link layer": func(e *verbs.Endpoint) { e.Link = e.Link%3 + 1 },
	} {
		a := p.newSide(spec{})
		p.Must("to INIT", a.qp.ToInit())
		bad := good
		change(&bad)
		p.MustBe(what, a.qp.ToRTR(&bad, verbs.RTRAttr{}), syscall.EINVAL)
		p.MustBe("no peer", a.qp.ToRTR(nil, verbs.RTRAttr{}), syscall.EINVAL)
		bad = good
		bad.QPN = 1 << 24
		p.MustBe("a QPN of 25 bits", a.qp.ToRTR(&bad, verbs.RTRAttr{}), verbs.ErrBadEndpoint)
		p.Must("to RTR after the refusals", a.qp.ToRTR(&good, verbs.RTRAttr{}))
	}
}

func describes(p *Proc) {
	a := p.Context().Attr()
	if a.Provider != p.Provider || a.Name == "" || a.Driver == "" || a.Ports < 1 {
		p.Fatalf("device %+v", a)
	}
	if a.MaxQP < 1 || a.MaxQPWR < 16 || a.MaxCQE < 64 || a.MaxSGE < 1 || a.MaxMR < 1 ||
		a.MaxMRBytes < 1<<20 || a.MaxMsgBytes < 1<<20 || a.MaxPD < 1 {
		p.Fatalf("limits %+v", a)
	}
	port, err := p.Context().Port(1)
	p.Must("port", err)
	if port.State != verbs.PortActive || port.ActiveMTU > port.MaxMTU || len(port.GIDs) == 0 {
		p.Fatalf("port %+v", port)
	}
	if _, ok := verbs.ChooseGID(port.GIDs); !ok {
		p.Fatalf("no GID can be chosen of\n%s", verbs.GIDTable(port.GIDs))
	}
}
