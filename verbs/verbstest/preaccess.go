package verbstest

import (
	"sync"

	"drtmd/verbs"
)

// judge is a pre-access hook that notes what it saw.
type judge struct {
	mu      sync.Mutex
	verdict func(verbs.AccessRequest) verbs.Verdict
	seen    []verbs.AccessRequest
}

func (j *judge) hook(r verbs.AccessRequest) verbs.Verdict {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen = append(j.seen, r)
	return j.verdict(r)
}

func (j *judge) take() []verbs.AccessRequest {
	j.mu.Lock()
	defer j.mu.Unlock()
	seen := j.seen
	j.seen = nil
	return seen
}

// judged installs a hook on the near MR, or checks the refusal and gives nil.
func (x *pair) judged(verdict func(verbs.AccessRequest) verbs.Verdict) *judge {
	j := &judge{verdict: verdict}
	if x.p.lacks(x.p.Context().Attr().Caps.PreAccess, "set a pre-access hook",
		func() error { return x.mr.SetPreAccess(j.hook) }) {
		return nil
	}
	x.p.Must("set a pre-access hook", x.mr.SetPreAccess(j.hook))
	return j
}

func preAccessDenies(p *Proc) {
	x := p.pair(spec{}, spec{})
	j := x.judged(func(r verbs.AccessRequest) verbs.Verdict {
		if r.Offset >= 1024 {
			return verbs.Deny
		}
		return verbs.Allow
	})
	if j == nil {
		return
	}
	from := verbs.AccessRequest{Initiator: x.far.endpoint.GID, QPN: x.far.endpoint.QPN}
	expect := func(what string, status verbs.WCStatus, kind verbs.AccessKind, offset, n int) {
		if status != verbs.WCSuccess {
			p.Fatalf("%s: %s", what, status)
		}
		from.Kind, from.Offset, from.Length = kind, offset, n
		if seen := j.take(); len(seen) != 1 || seen[0] != from {
			p.Fatalf("%s: the hook saw %+v, want %+v", what, seen, from)
		}
	}
	expect("WRITE", x.farWrite(100, 300), verbs.AccessKindWrite, 100, 300)
	expect("READ", x.farDo(verbs.OpRead, 64), verbs.AccessKindRead, 64, 8)
	expect("FAA", x.farDo(verbs.OpFAA, 72), verbs.AccessKindAtomic, 72, 8)
	expect("CAS", x.farDo(verbs.OpCAS, 80), verbs.AccessKindAtomic, 80, 8)
	rest := append([]byte(nil), x.bytes(1024, 8)...)
	if s := x.farWrite(1024, 8); s != verbs.WCRemAccessErr {
		p.Fatalf("a denied WRITE: %s", s)
	}
	p.equal("memory after a denied WRITE", x.bytes(1024, 8), rest)
	p.Must("remove the hook", x.mr.SetPreAccess(nil))
	x.reconnect()
	j.take()
	if s := x.farWrite(1024, 8); s != verbs.WCSuccess || len(j.take()) != 0 {
		p.Fatalf("a WRITE after the hook was removed: %s", s)
	}
}

func preAccessStalls(p *Proc) {
	x := p.pair(spec{}, spec{})
	left := 3
	j := x.judged(func(verbs.AccessRequest) verbs.Verdict {
		left--
		if left >= 0 {
			return verbs.Stall
		}
		return verbs.Allow
	})
	if j == nil {
		return
	}
	if s := x.farWrite(0, 8); s != verbs.WCSuccess {
		p.Fatalf("a WRITE that was stalled: %s", s)
	}
	if n := len(j.take()); n != 4 {
		p.Fatalf("the hook was asked %d times, want 4", n)
	}
}

func preAccessStallsOn(p *Proc) {
	x := p.pair(spec{}, spec{Connect: quick})
	j := x.judged(func(verbs.AccessRequest) verbs.Verdict { return verbs.Stall })
	if j == nil {
		return
	}
	before := p.Now()
	if s := x.farWrite(0, 8); s != verbs.WCRetryExcErr {
		p.Fatalf("a WRITE that is stalled on: %s", s)
	}
	p.inRetryTime(before, quick.RTS)
	p.Must("remove the hook", x.mr.SetPreAccess(nil))
	x.reconnect()
}
