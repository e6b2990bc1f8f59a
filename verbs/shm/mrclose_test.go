//go:build linux && amd64

package shm

import (
	"cmp"
	"testing"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/lineword"
)

// awaitUnmapped waits until the MR's memory is given back.
func awaitUnmapped(t *testing.T, r *region) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); r.users.Load() != 0; {
		if time.Now().After(deadline) {
			t.Fatal("the memory is mapped 5 s after the last request on it")
		}
		time.Sleep(time.Millisecond)
	}
}

// holdLine locks the first line of an MR, as an HTM commit does, and gives what unlocks it.
func holdLine(t *testing.T, mr *verbs.MR) (release func()) {
	o, err := mr.ClaimLineOwner()
	check(t, err)
	p := &mr.Lines()[0]
	w := lineword.Load(p)
	if !lineword.TryLock(p, w, o.Slot) {
		t.Fatal("the line is locked")
	}
	return func() { lineword.Restore(p, w) }
}

// An MR that is closed in the middle of a request on it is mapped until the request lets go of it. What the request has not fetched by then it fetches
// from there, and what it would store it does not.
func TestMRClosedUnderARequest(t *testing.T) {
	cases := []struct {
		name  string
		op    verbs.Opcode
		tries int  // before: the close happens in a retry, by a poll or the ticker
		peers bool // the target's MR is closed
		want  verbs.WCStatus
		// short is how long the request is; 0: 256 KiB. private: the own MR is (doc.go).
		short   int
		private bool
	}{
		{"write", verbs.OpWrite, 0, false, verbs.WCSuccess, 0, false},
		{"retried write", verbs.OpWrite, 3, false, verbs.WCSuccess, 0, false},
		{"read", verbs.OpRead, 0, false, verbs.WCLocProtErr, 0, false},
		{"retried read", verbs.OpRead, 3, false, verbs.WCLocProtErr, 0, false},
		{"atomic", verbs.OpFAA, 0, false, verbs.WCLocProtErr, 8, false},
		{"write to the closed", verbs.OpWrite, 0, true, verbs.WCRemAccessErr, 0, false},
		{"read of the closed", verbs.OpRead, 0, true, verbs.WCRemAccessErr, 0, false},
		{"retried read of the closed", verbs.OpRead, 3, true, verbs.WCRemAccessErr, 0, false},
		{"read into private memory", verbs.OpRead, 0, false, verbs.WCLocProtErr, 0, true},
		{"short read into private memory", verbs.OpRead, 0, false, verbs.WCLocProtErr, 8, true},
		{"retried short read into private memory", verbs.OpRead, 3, false, verbs.WCLocProtErr, 8, true},
		{"short read of the closed into private memory", verbs.OpRead, 0, true, verbs.WCRemAccessErr, 8, true},
		{"atomic into private memory", verbs.OpFAA, 0, false, verbs.WCLocProtErr, 8, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a, b := newPair(t, nodeOptions{bytes: 1 << 20, lined: 1})
			if c.private {
				var err error
				a.mr, err = a.pd.AllocMR(1<<20, verbs.AccessLocalWrite, verbs.MROptions{})
				check(t, err)
			}
			mr, length := a.mr, cmp.Or(c.short, 1<<18)
			if c.peers {
				mr = b.mr
			}
			d, _ := a.inside(t)
			if c.peers {
				d, _ = b.inside(t)
			}
			r := d.mr(mr.LKey())
			release := func() {}
			if c.tries > 0 {
				release = holdLine(t, b.mr)
			}
			calls := 0 // by one goroutine at a time
			_, q := a.inside(t)
			q.send.inMiddle = func() {
				if calls++; calls != c.tries+1 {
					return
				}
				release()
				if err := mr.Close(); err != nil {
					t.Error(err)
				}
			}
			a.mr.Bytes()[length-1] = 77
			last := b.mr.Bytes()
			wc := a.do(t, verbs.WR{Op: c.op, NumSGE: 1,
				SGE:        [4]verbs.SGE{a.mr.SGE(0, length)},
				RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			if wc.Status != c.want {
				t.Fatalf("%v, not %v", wc.Status, c.want)
			}
			if c.op == verbs.OpWrite && !c.peers && last[length-1] != 77 {
				t.Error("the end of the data is missing")
			}
			awaitUnmapped(t, r)
		})
	}
}

// While the ticker retries a request that waits for a line, its MR is closed: the request ends
// as the contract says, and nothing faults.
func TestMRClosedUnderTheTicker(t *testing.T) {
	for range 20 {
		a, b := newPair(t, nodeOptions{bytes: 1 << 20, lined: 1})
		release := holdLine(t, b.mr)
		const requests = 16
		for range requests {
			_, err := a.qp.PostSend([]verbs.WR{{Op: verbs.OpWrite, Flags: verbs.FlagSignaled,
				NumSGE: 1, SGE: [4]verbs.SGE{a.mr.SGE(0, 1<<18)},
				RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}})
			check(t, err)
		}
		release() // from here on the ticker copies
		time.Sleep(200 * time.Microsecond)
		check(t, a.mr.Close())
		failed := verbs.WCSuccess
		for range requests {
			wc := a.poll(t)
			switch {
			case failed == 0 && (wc.Status == verbs.WCSuccess || wc.Status == verbs.WCLocProtErr):
			case failed != 0 && wc.Status == verbs.WCWRFlushErr:
			default:
				t.Fatal(wc.Status)
			}
			failed = wc.Status
		}
	}
}

// Datagrams that arrive while the MR of their receive buffers is closed end as LOC_PROT_ERR or
// are received; the copy into the buffers does not fault.
func TestMRClosedUnderADatagram(t *testing.T) {
	a, b := newPair(t, nodeOptions{kind: verbs.UD})
	const count, size = 16, mtuBytes
	for range 60 {
		mr, err := b.pd.AllocMR(count*8192, verbs.AccessAll, verbs.MROptions{})
		check(t, err)
		qp, err := b.pd.CreateQP(verbs.QPConfig{Type: verbs.UD, SendCQ: b.cq, RecvCQ: b.cq,
			SendDepth: 1, RecvDepth: count})
		check(t, err)
		check(t, qp.Connect(nil, verbs.ConnectAttr{}))
		ah, err := a.pd.CreateAHTo(qp.Endpoint())
		check(t, err)
		for i := range count {
			_, err := qp.PostRecv([]verbs.RecvWR{{NumSGE: 1,
				SGE: [4]verbs.SGE{mr.SGE(i*8192, size+verbs.GRHBytes)}}})
			check(t, err)
			wc := a.do(t, verbs.WR{Op: verbs.OpSend, AH: ah.Handle(), RemoteQPN: qp.QPN(),
				NumSGE: 1, SGE: [4]verbs.SGE{a.mr.SGE(0, size)}})
			if wc.Status != verbs.WCSuccess {
				t.Fatal(wc.Status)
			}
		}
		closed := make(chan error)
		go func() { closed <- mr.Close() }()
		for i := range count {
			switch wc := b.poll(t); wc.Status {
			case verbs.WCSuccess, verbs.WCLocProtErr, verbs.WCWRFlushErr:
			default:
				t.Fatal(i, wc.Status)
			}
		}
		check(t, <-closed)
		check(t, ah.Close())
		check(t, qp.Close())
	}
}

// Close keeps the memory for a lane that is inside, and gives it back when that has left.
func TestMRCloseWaitsForTheLanesInside(t *testing.T) {
	a, _ := newPair(t, nodeOptions{})
	d, q := a.inside(t)
	r := d.mr(a.mr.LKey())
	for _, late := range []bool{false, true} {
		q.recv.lane.enter()
		closed := make(chan error, 1)
		go func() { closed <- a.mr.Close() }()
		if late {
			check(t, <-closed)
		} else {
			time.Sleep(leaveWait / 10)
		}
		if r.users.Load() == 0 {
			t.Fatal("it is unmapped under a lane")
		}
		q.recv.lane.leave()
		q.recv.lane.enter() // and does not find it any more
		awaitUnmapped(t, r)
		q.recv.lane.leave()
		if !late {
			check(t, <-closed)
		}
		var err error
		a.mr, err = a.pd.AllocMR(4096, verbs.AccessAll, verbs.MROptions{})
		check(t, err)
		r = d.mr(a.mr.LKey())
	}
}
