//go:build cgo && linux

package ibv

import (
	"fmt"
	"os"
	"testing"
	"time"

	"drtmd/verbs"
)

// raw is the driver without the layer above it: two QPs of one device with a CQ, a region and
// the events that came.
type raw struct {
	t      testing.TB
	dev    *device
	pd     *pd
	mr     verbs.DriverMR
	events chan verbs.DriverEvent
	a, b   *rawQP
}

type rawQP struct {
	*qp
	r  *raw
	cq *cq
}

type rawConfig struct {
	Type          verbs.QPType
	Depth         int
	CQDepth       int
	MinRNR        int
	Unconnected   bool
	MaxDestAtomic int
	RTS           verbs.RTSAttr // the zero value: a timeout of 67 ms, 6 retries
}

// pinned reports whether the kernel is the one that the table speaks of.
func pinned() bool { return os.Getenv("DRTMD_GUEST_PINNED") == "1" }

func newRaw(t testing.TB, o rawConfig) *raw {
	t.Helper()
	check(t, requireDevice(t).Close())
	p := New().(*provider)
	list, err := listDevices()
	check(t, err)
	defer list.free()
	r := &raw{t: t, events: make(chan verbs.DriverEvent, 64)}
	r.dev, err = p.openDevice(list, 0)
	check(t, err)
	t.Cleanup(func() { check(t, r.dev.Close()) })
	check(t, r.dev.Start(func(e verbs.DriverEvent) { r.events <- e }))
	domain, err := r.dev.AllocPD()
	check(t, err)
	t.Cleanup(func() { check(t, domain.Close()) })
	r.pd = domain.(*pd)
	r.mr, err = r.pd.AllocMR(1<<20, verbs.AccessAll, verbs.MROptions{})
	check(t, err)
	t.Cleanup(func() { check(t, r.mr.Close()) })
	r.a, r.b = r.newQP(1, o), r.newQP(2, o)
	r.connect(r.a, r.b, o)
	r.connect(r.b, r.a, o)
	return r
}

func (r *raw) newQP(id uint32, o rawConfig) *rawQP {
	r.t.Helper()
	if o.Depth == 0 {
		o.Depth = 16
	}
	if o.CQDepth == 0 {
		o.CQDepth = 4 * o.Depth
	}
	queue, err := r.dev.CreateCQ(o.CQDepth, id, nil, false)
	check(r.t, err)
	r.t.Cleanup(func() { check(r.t, queue.Close()) })
	q, err := r.pd.CreateQP(verbs.DriverQPConfig{DriverSendCQ: queue, DriverRecvCQ: queue,
		QPConfig: verbs.QPConfig{Type: o.Type, SendDepth: o.Depth, RecvDepth: o.Depth, SendSGE: 1,
			RecvSGE: 1, Port: 1, GIDIndex: verbs.GIDAt(r.gid().Index), QKey: testQKey, Access: verbs.AccessAll}})
	check(r.t, err)
	r.t.Cleanup(func() { check(r.t, q.Close()) })
	return &rawQP{qp: q.(*qp), r: r, cq: queue.(*cq)}
}

func (r *raw) port() verbs.PortAttr {
	p, err := r.dev.QueryPort(1)
	check(r.t, err)
	return p
}

func (r *raw) gid() verbs.GIDEntry {
	e, ok := verbs.ChooseGID(r.port().GIDs)
	if !ok {
		r.t.Fatal("no GID")
	}
	return e
}

func (r *raw) connect(q, peer *rawQP, o rawConfig) {
	r.t.Helper()
	check(r.t, q.ToInit())
	if o.MinRNR == 0 {
		o.MinRNR = 12
	}
	rtr := verbs.RTRAttr{PathMTU: r.port().ActiveMTU, MaxDestRdAtomic: 16, MinRNRTimer: o.MinRNR,
		HopLimit: 64}
	var e *verbs.Endpoint
	if o.Type == verbs.RC {
		e = &verbs.Endpoint{GID: r.gid().GID, QPN: peer.qpn, PSN: 100}
	}
	check(r.t, q.ToRTR(e, rtr))
	rts := o.RTS
	if rts == (verbs.RTSAttr{}) {
		rts = verbs.RTSAttr{Timeout: 14, RetryCount: 6}
	}
	rts.RNRRetry, rts.MaxRdAtomic = 6, 16
	check(r.t, q.ToRTS(100, rts))
}

// sge is a piece of the one region.
func (r *raw) sge(offset, length int) [verbs.MaxSGE]verbs.SGE {
	return [verbs.MaxSGE]verbs.SGE{{Addr: r.addr(offset), Length: uint32(length),
		LKey: r.mr.LKey()}}
}

func (r *raw) addr(offset int) uint64 { return addressOf(r.mr.Bytes()) + uint64(offset) }

func (r *raw) wr(op verbs.Opcode, token uint64, offset, length, remote int) verbs.WR {
	return verbs.WR{Op: op, Token: token, Flags: verbs.FlagSignaled, NumSGE: 1,
		SGE: r.sge(offset, length), RemoteAddr: r.addr(remote), RKey: r.mr.RKey()}
}

func (q *rawQP) send(wrs ...verbs.WR) {
	q.r.t.Helper()
	_, err := q.PostSend(wrs)
	check(q.r.t, err)
}

func (q *rawQP) recv(token uint64, offset, length int) {
	q.r.t.Helper()
	_, err := q.PostRecv([]verbs.RecvWR{{Token: token, NumSGE: 1, SGE: q.r.sge(offset, length)}})
	check(q.r.t, err)
}

// take polls until n completions came or the time is over.
func (q *rawQP) take(n int, limit time.Duration) []verbs.WC {
	q.r.t.Helper()
	var all []verbs.WC
	buf := make([]verbs.WC, 16)
	for end := time.Now().Add(limit); len(all) < n && time.Now().Before(end); {
		k, err := q.cq.Poll(buf)
		check(q.r.t, err)
		all = append(all, buf[:k]...)
		if k == 0 {
			time.Sleep(20 * time.Microsecond)
		}
	}
	return all
}

// one wants the next completion.
func (q *rawQP) one() (verbs.WC, error) {
	q.r.t.Helper()
	wcs := q.take(1, patience)
	if len(wcs) != 1 {
		return verbs.WC{}, fmt.Errorf("%d completions, want 1", len(wcs))
	}
	return wcs[0], nil
}
