package verbs

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestDefaultsOfTheTransitions(t *testing.T) {
	r := newRig(t, rigConfig{})
	rtr, rts := r.fq.rtr, r.fq.rts
	if rtr.PathMTU != 1024 || rtr.MaxDestRdAtomic != 16 || rtr.MinRNRTimer != 12 ||
		rtr.HopLimit != 64 {
		t.Errorf("RTR got %+v", rtr)
	}
	if rts.Timeout != 15 || rts.RetryCount != 6 || rts.RNRRetry != 6 || rts.MaxRdAtomic != 16 {
		t.Errorf("RTS got %+v", rts)
	}
	if r.qp.PathMTU() != 1024 || r.qp.MaxRdAtomic() != 16 || r.qp.State() != StateRTS {
		t.Errorf("the QP says %d, %d, %s", r.qp.PathMTU(), r.qp.MaxRdAtomic(), r.qp.State())
	}
	if e := r.qp.Endpoint(); e.PSN != 0x123456 || e.MaxRdAtomic != 64 || e.ActiveMTU != 1024 {
		t.Errorf("endpoint %+v", e)
	}
}

func TestNoneIsPassedOnAsZero(t *testing.T) {
	r := newRig(t, rigConfig{attr: ConnectAttr{
		RTR: RTRAttr{MaxDestRdAtomic: -1},
		RTS: RTSAttr{RetryCount: -1, RNRRetry: -1, MaxRdAtomic: -1}}})
	rts := r.fq.rts
	if r.fq.rtr.MaxDestRdAtomic != 0 || rts.RetryCount != 0 || rts.RNRRetry != 0 ||
		rts.MaxRdAtomic != 0 {
		t.Fatalf("RTR %+v, RTS %+v", r.fq.rtr, rts)
	}
	_, err := r.qp.PostSend([]WR{{Op: OpRead}})
	wantErr(t, "READ with max rd atomic 0", err, syscall.EINVAL)
	if !strings.Contains(err.Error(), "MaxDestRdAtomic") {
		t.Errorf("%q does not say what to set", err)
	}
}

func TestPathMTUIsTheSmallerOne(t *testing.T) {
	for _, c := range []struct{ port, peer, ask, want int }{
		{1024, 4096, 0, 1024}, {4096, 1024, 0, 1024}, {4096, 4096, 0, 4096},
		{4096, 2048, 512, 512}, {4096, 1024, 2048, -1}, {1024, 4096, 4096, -1},
		{4096, 4096, 1000, -1}, {4096, 4096, -256, -1}, {4096, 4096, 8192, -1},
	} {
		r := newRig(t, rigConfig{reset: true,
			change: func(d *fakeDriver) { d.port.ActiveMTU = c.port }})
		peer := goodEndpoint()
		peer.ActiveMTU = c.peer
		err := r.qp.Connect(&peer, ConnectAttr{RTR: RTRAttr{PathMTU: c.ask}})
		if c.want < 0 {
			wantErr(t, "path MTU", err, syscall.EINVAL)
			continue
		}
		check(t, err)
		if r.qp.PathMTU() != c.want || r.fq.rtr.PathMTU != c.want {
			t.Errorf("%+v: path MTU %d", c, r.qp.PathMTU())
		}
	}
}

func TestRdAtomicIsBoundedByBothSides(t *testing.T) {
	for _, c := range []struct{ peer, ask, want int }{
		{20, 0, 16}, {8, 0, 8}, {0, 0, 0}, {20, 20, 20}, {20, 21, -1}, {255, 32, 32}, {255, 33, -1},
		{20, -2, -1},
	} {
		r := newRig(t, rigConfig{reset: true})
		peer := goodEndpoint()
		peer.MaxRdAtomic = c.peer
		err := r.qp.Connect(&peer, ConnectAttr{RTS: RTSAttr{MaxRdAtomic: c.ask}})
		if c.want < 0 {
			wantErr(t, "max rd atomic", err, syscall.EINVAL)
			continue
		}
		check(t, err)
		if r.qp.MaxRdAtomic() != c.want {
			t.Errorf("%+v: %d", c, r.qp.MaxRdAtomic())
		}
	}
}

func TestAttributesOutOfRange(t *testing.T) {
	for _, a := range []ConnectAttr{
		{RTR: RTRAttr{MinRNRTimer: 32}}, {RTR: RTRAttr{MinRNRTimer: -1}},
		{RTR: RTRAttr{ServiceLevel: 16}}, {RTR: RTRAttr{MaxDestRdAtomic: 65}},
		{RTS: RTSAttr{Timeout: 32}}, {RTS: RTSAttr{Timeout: -1}},
		{RTS: RTSAttr{RetryCount: 7}}, {RTS: RTSAttr{RetryCount: 8}}, {RTS: RTSAttr{RetryCount: -2}},
		{RTS: RTSAttr{RNRRetry: 7}}, {RTS: RTSAttr{RNRRetry: 8}}, {RTS: RTSAttr{RNRRetry: -2}},
	} {
		r := newRig(t, rigConfig{reset: true})
		peer := goodEndpoint()
		wantErr(t, "connect", r.qp.Connect(&peer, a), syscall.EINVAL)
	}
}

func TestTransitionsInOrderOnly(t *testing.T) {
	peer := goodEndpoint()
	steps := []func(*QP) error{
		func(q *QP) error { return q.ToInit() },
		func(q *QP) error { return q.ToRTR(&peer, RTRAttr{}) },
		func(q *QP) error { return q.ToRTS(RTSAttr{}) },
	}
	for done := range steps {
		for try := range steps {
			r := newRig(t, rigConfig{reset: true})
			for _, f := range steps[:done] {
				check(t, f(r.qp))
			}
			err := steps[try](r.qp)
			if try == done {
				check(t, err)
				continue
			}
			wantErr(t, "a step out of order", err, syscall.EINVAL)
		}
	}
}

func TestAFailedTransitionSaysWhy(t *testing.T) {
	for errno, words := range map[syscall.Errno]string{
		syscall.EINVAL: "wrong GID index", syscall.ETIMEDOUT: "does not resolve",
		syscall.EHOSTUNREACH: "does not resolve"} {
		r := newRig(t, rigConfig{reset: true})
		r.d.fails["to rtr"] = &Error{Op: "ibv_modify_qp", Errno: errno}
		peer := goodEndpoint()
		err := r.qp.Connect(&peer, ConnectAttr{})
		wantErr(t, "to RTR", err, errno)
		var e *Error
		if !errors.As(err, &e) || e.QPN != r.qp.QPN() || e.Device != "fake0" ||
			!strings.Contains(e.Hint, words) {
			t.Errorf("%v", err)
		}
		if r.qp.State() != StateInit {
			t.Errorf("the QP is in %s", r.qp.State())
		}
	}
}

func TestPeersThatDoNotFit(t *testing.T) {
	for name, change := range map[string]func(*Endpoint){
		"provider": func(e *Endpoint) { e.Provider = "shm" },
		"type":     func(e *Endpoint) { e.Type = UD },
		"link":     func(e *Endpoint) { e.Link = LinkInfiniBand },
	} {
		r := newRig(t, rigConfig{reset: true})
		peer := goodEndpoint()
		change(&peer)
		wantErr(t, name, r.qp.Connect(&peer, ConnectAttr{}), syscall.EINVAL)
	}
	r := newRig(t, rigConfig{reset: true})
	wantErr(t, "no peer", r.qp.Connect(nil, ConnectAttr{}), syscall.EINVAL)
	peer := goodEndpoint()
	peer.QPN = 0
	wantErr(t, "a peer of zeros", r.qp.ToRTR(&peer, RTRAttr{}), ErrBadEndpoint)
}

func TestDatagramsNeedNoPeer(t *testing.T) {
	r := newRig(t, rigConfig{config: QPConfig{Type: UD}, reset: true})
	peer := goodEndpoint()
	check(t, r.qp.Connect(&peer, ConnectAttr{})) // it is left out
	if r.fq.rtrPeer != nil || r.qp.PathMTU() != 1024 {
		t.Fatalf("peer %+v, path MTU %d", r.fq.rtrPeer, r.qp.PathMTU())
	}
}

func TestErrorFromEveryState(t *testing.T) {
	peer := goodEndpoint()
	for _, c := range []struct {
		reach func(*QP)
		calls []string // from RESET the driver has to pass INIT
	}{
		{func(*QP) {}, []string{"to init"}},
		{func(q *QP) { check(t, q.ToInit()) }, []string{"to init"}},
		{func(q *QP) { check(t, q.Connect(&peer, ConnectAttr{})) },
			[]string{"to init", "to rtr", "to rts"}},
	} {
		r := newRig(t, rigConfig{reset: true})
		c.reach(r.qp)
		for range 2 {
			check(t, r.qp.ToError())
			if r.qp.State() != StateErr || !r.fq.inErr {
				t.Fatalf("the QP is in %s", r.qp.State())
			}
		}
		got := slices.DeleteFunc(slices.Clone(r.d.calls),
			func(s string) bool { return !strings.HasPrefix(s, "to ") })
		if !slices.Equal(got, c.calls) {
			t.Errorf("the driver was asked %v, want %v", got, c.calls)
		}
		wantErr(t, "out of ERR", r.qp.ToInit(), syscall.EINVAL)
	}
}

func TestPostsThatAreRefused(t *testing.T) {
	r := newRig(t, rigConfig{config: QPConfig{SendSGE: 2, MaxInline: 16}})
	eight := [MaxSGE]SGE{{Length: 8}}
	long := [MaxSGE]SGE{{Length: 1 << 20}, {Length: 1}}
	for _, c := range []struct {
		name string
		wr   WR
		want error
	}{
		{"no opcode", WR{}, syscall.EINVAL},
		{"RECV", WR{Op: OpRecv}, syscall.EINVAL},
		{"three pieces", WR{Op: OpSend, NumSGE: 3}, syscall.EINVAL},
		{"over the message limit", WR{Op: OpSend, NumSGE: 2, SGE: long}, syscall.EMSGSIZE},
		{"inline over the limit", WR{Op: OpSend, Flags: FlagInline, NumSGE: 1,
			SGE: [MaxSGE]SGE{{Length: 17}}}, syscall.EMSGSIZE},
		{"inline READ", WR{Op: OpRead, Flags: FlagInline}, syscall.EINVAL},
		{"inline CAS", WR{Op: OpCAS, Flags: FlagInline, NumSGE: 1, SGE: eight}, syscall.EINVAL},
		{"unaligned CAS", WR{Op: OpCAS, RemoteAddr: 12, NumSGE: 1, SGE: eight}, syscall.EINVAL},
		{"CAS of 4 bytes", WR{Op: OpCAS, NumSGE: 1, SGE: [MaxSGE]SGE{{Length: 4}}},
			syscall.EINVAL},
		{"CAS of two pieces", WR{Op: OpCAS, NumSGE: 2, SGE: eight}, syscall.EINVAL},
	} {
		n, err := r.qp.PostSend([]WR{c.wr})
		wantErr(t, c.name, err, c.want)
		var e *Error
		if n != 0 || !errors.As(err, &e) || e.QPN != r.qp.QPN() || e.Device != "fake0" {
			t.Errorf("%s: posted %d, %v", c.name, n, err)
		}
	}
	if r.scq.due != 0 || len(r.fq.sends) != 0 {
		t.Fatalf("due %d", r.scq.due)
	}
	none := newRig(t, rigConfig{change: func(d *fakeDriver) { d.attr.Atomic = AtomicNone }})
	_, err := none.qp.PostSend([]WR{{Op: OpFAA, NumSGE: 1, SGE: eight}})
	wantErr(t, "an atomic on a device without", err, syscall.EOPNOTSUPP)
}

func TestDatagramsThatAreRefused(t *testing.T) {
	r := newRig(t, rigConfig{config: QPConfig{Type: UD}})
	ah, err := r.pd.CreateAHTo(goodEndpoint())
	check(t, err)
	good := WR{Op: OpSend, NumSGE: 1, SGE: [MaxSGE]SGE{{Length: 1024}}, RemoteQPN: 5,
		AH: ah.Handle()}
	for _, c := range []struct {
		name   string
		change func(*WR)
		want   error
	}{
		{"over the path MTU", func(w *WR) { w.SGE[0].Length++ }, syscall.EMSGSIZE},
		{"WRITE", func(w *WR) { w.Op = OpWrite }, syscall.EINVAL},
		{"QPN 0", func(w *WR) { w.RemoteQPN = 0 }, syscall.EINVAL},
		{"QPN of 25 bits", func(w *WR) { w.RemoteQPN = 1 << 24 }, syscall.EINVAL},
		{"no handle", func(w *WR) { w.AH = 0 }, syscall.EINVAL},
		{"unknown handle", func(w *WR) { w.AH = 1 << 30 }, syscall.EINVAL},
	} {
		wr := good
		c.change(&wr)
		_, err := r.qp.PostSend([]WR{wr})
		wantErr(t, c.name, err, c.want)
	}
	if n, err := r.qp.PostSend([]WR{good}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	check(t, ah.Close())
	check(t, ah.Close())
	_, err = r.qp.PostSend([]WR{good})
	wantErr(t, "a closed handle", err, syscall.EINVAL)
}
