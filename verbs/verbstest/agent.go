package verbstest

import (
	"errors"

	"drtmd/verbs"
)

// role finds what a node that was started can be, by name.
func role(name string) func(*Proc) {
	switch name {
	case "agent":
		return agentRole
	}
	return func(p *Proc) { p.Fatalf("unknown role %q", name) }
}

// request is what a case asks of an agent; answer is what it gets. Which fields matter depends
// on Do.
type request struct {
	Do       string
	Side, MR int
	Spec     spec
	Offset   int
	Length   int
	Count    int
	Access   verbs.Access
	Recv     bool // the receive queue's CQ, not the send queue's
	ID       uint64
	Keep     string
	Data     []byte
	WRs      []verbs.WR
	Endpoint []byte
	Connect  verbs.ConnectAttr
}

type answer struct {
	Err      string // "" = done
	ID       int
	Count    int
	State    verbs.QPState
	Remote   verbs.RemoteMR
	LKey     uint32
	Endpoint []byte
	Data     []byte
	WCs      []verbs.WC
}

// agent is a node that does verbs on request, until its parent ends it.
type agent struct {
	p     *Proc
	sides []*side
	mrs   []*verbs.MR
}

func agentRole(p *Proc) {
	a := &agent{p: p}
	for {
		var r request
		err := p.recvJSON(0, &r, p.Now()+p.CaseLimit)
		if errors.Is(err, errEnded) {
			return
		}
		p.Must("next request", err)
		reply := a.do(r)
		p.Must("answer", p.sendJSON(0, reply))
	}
}

// do does one request. What must not fail ends the case by Fatalf; what may is in Err.
func (a *agent) do(r request) (out answer) {
	p := a.p
	var x *side
	if r.Side > 0 {
		x = a.sides[r.Side-1]
	}
	switch r.Do {
	case "side":
		x = p.newSide(r.Spec)
		a.sides = append(a.sides, x)
		out.ID = len(a.sides)
		out.Remote, out.LKey = x.mr.Remote(), x.mr.LKey()
		out.Endpoint = a.endpoint(x)
	case "beside":
		x = x.beside()
		a.sides = append(a.sides, x)
		out.ID = len(a.sides)
		out.Remote, out.LKey = x.mr.Remote(), x.mr.LKey()
		out.Endpoint = a.endpoint(x)
	case "renew":
		x.renew()
		out.Endpoint = a.endpoint(x)
	case "connect":
		var peer verbs.Endpoint
		p.Must("endpoint of the peer", peer.UnmarshalBinary(r.Endpoint))
		out.Err = text(x.qp.Connect(&peer, r.Connect))
	case "connect-ud":
		p.Must("connect", x.qp.Connect(nil, r.Connect))
	case "mr":
		mr, err := x.pd.AllocMR(r.Length, r.Access, verbs.MROptions{Keep: r.Keep})
		p.Must("mr", err)
		p.Cleanup(func() { p.Must("close mr", mr.Close()) })
		a.mrs = append(a.mrs, mr)
		out.ID, out.Remote = len(a.mrs), mr.Remote()
	case "close-mr":
		p.Must("close mr", a.mr(r, x).Close())
	case "peek":
		out.Data = append(out.Data, a.mr(r, x).Bytes()[r.Offset:r.Offset+r.Length]...)
	case "poke":
		copy(a.mr(r, x).Bytes()[r.Offset:], r.Data)
	case "recv":
		for i := range r.Count {
			x.postRecv(r.ID+uint64(i), r.Offset+i*r.Length, r.Length)
		}
	case "send":
		n, err := x.qp.PostSend(r.WRs)
		out.Count, out.Err = n, text(err)
	case "wait":
		out.WCs = p.wait(x.cq(r.Recv), r.Count)
	case "none":
		p.none("at the peer", x.cq(r.Recv), p.quietTime())
	case "state":
		out.State = x.qp.State()
	case "to-error":
		p.Must("to error", x.qp.ToError())
	case "close-qp":
		p.Must("close qp", x.qp.Close())
	case "storm":
		out.Count = x.storm(r.WRs[0], r.Count)
	case "increment":
		x.increment(r.WRs[0].RemoteAddr, r.WRs[0].RKey, r.Count)
	case "await":
		watch := x.watcher(r.Offset)
		p.WaitFor("a word to be written", func() bool { return watch() == r.ID })
	case "pings":
		x.pings(r.Count)
	case "bursts":
		x.burst(r.Count)
	case "drop":
		p.cleanup()
		a.sides, a.mrs = nil, nil
	case "ah":
		out.ID = a.handle(r, x)
	default:
		p.Fatalf("unknown request %q", r.Do)
	}
	return out
}

func (a *agent) endpoint(x *side) []byte {
	b, err := x.qp.Endpoint().MarshalBinary()
	a.p.Must("encode the endpoint", err)
	return b
}

// handle makes an address handle to the endpoint and gives its number.
func (a *agent) handle(r request, x *side) int {
	var peer verbs.Endpoint
	a.p.Must("endpoint of the peer", peer.UnmarshalBinary(r.Endpoint))
	ah, err := x.pd.CreateAHTo(peer)
	a.p.Must("address handle", err)
	a.p.Cleanup(func() { a.p.Must("close ah", ah.Close()) })
	return int(ah.Handle())
}

// mr is an MR by its number, or that of the side.
func (a *agent) mr(r request, x *side) *verbs.MR {
	if r.MR > 0 {
		return a.mrs[r.MR-1]
	}
	return x.mr
}

func (x *side) cq(recv bool) *verbs.CQ {
	if recv {
		return x.rcq
	}
	return x.scq
}

// storm runs volleys of a request, and says how many succeeded before the first that did not.
func (x *side) storm(wr verbs.WR, volleys int) int {
	for i := range volleys {
		if x.volley(wr, 0) != verbs.WCSuccess {
			return i
		}
	}
	return volleys
}

// volleySize is the number of requests in a volley: so many together meet those of others more
// often than one at a time would.
const volleySize = 8

// volley posts a request volleySize times at once, each with its buffer stride bytes behind the one
// before, waits until all are done, and gives the status of the first that failed.
func (x *side) volley(wr verbs.WR, stride int) verbs.WCStatus {
	var wrs [volleySize]verbs.WR
	for i := range wrs {
		wrs[i] = wr
		wrs[i].ID, wrs[i].Flags = uint64(i), wr.Flags&^verbs.FlagSignaled
		wrs[i].SGE[0].Addr += uint64(i * stride)
	}
	wrs[volleySize-1].Flags |= verbs.FlagSignaled
	x.post(wrs[:]...)
	wc := x.p.wait(x.scq, 1)[0]
	if wc.Status == verbs.WCSuccess && wc.ID != volleySize-1 {
		x.p.Fatalf("an unsignaled request completed: %+v", wc)
	}
	return wc.Status
}

// volleyed is volley for requests that must succeed.
func (x *side) volleyed(wr verbs.WR, stride int) {
	if s := x.volley(wr, stride); s != verbs.WCSuccess {
		x.p.Fatalf("%s: %s", wr.Op, s)
	}
}

// burst SENDs count empty messages at once.
func (x *side) burst(count int) {
	list := make([]verbs.WR, count)
	for i := range list {
		list[i] = verbs.WR{ID: uint64(i), Op: verbs.OpSend}
	}
	list[count-1].Flags = verbs.FlagSignaled
	x.post(list...)
	x.p.Must("SEND", x.p.wait(x.scq, 1)[0].Err())
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
