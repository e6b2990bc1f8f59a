package rpc

import (
	"slices"

	"drtmd/verbs"
)

// verbs.Driver.

func (x *fakeNode) Attr() verbs.DeviceAttr {
	return verbs.DeviceAttr{Name: "fake0", Provider: "fake", Ports: 1, Atomic: verbs.AtomicGlob,
		MaxQP: 8, MaxQPWR: 1 << 16, MaxSGE: 1, MaxCQ: 8, MaxCQE: 1 << 18, MaxMR: 64,
		MaxMRBytes: 1 << 28, MaxPD: 8, MaxAH: 1 << 16, MaxMsgBytes: 4096}
}
func (x *fakeNode) Quirks() verbs.Quirks { return verbs.Quirks{} }
func (x *fakeNode) QueryPort(port int) (verbs.PortAttr, error) {
	return verbs.PortAttr{Port: port, State: verbs.PortActive, Link: verbs.LinkMemory,
		MaxMTU: 1024, ActiveMTU: 1024, GIDs: []verbs.GIDEntry{{Index: 0,
			Type: verbs.GIDTypeMemory, GID: x.gid}}}, nil
}
func (x *fakeNode) AllocPD() (verbs.DriverPD, error)            { return fakePD{x}, nil }
func (x *fakeNode) CreateChannel() (verbs.DriverChannel, error) { return nil, verbs.ErrUnsupported }
func (x *fakeNode) CreateCQ(int, uint32, verbs.DriverChannel, bool) (verbs.DriverCQ, error) {
	return &fakeCQ{}, nil
}
func (x *fakeNode) Start(func(verbs.DriverEvent)) error { return nil }
func (x *fakeNode) Close() error                        { return nil }

type fakePD struct{ *fakeNode }

func (p fakePD) AllocMR(n int, _ verbs.Access, _ verbs.MROptions) (verbs.DriverMR, error) {
	mr := &fakeMR{b: make([]byte, n), key: uint32(len(p.mrs) + 1)}
	p.mrs = append(p.mrs, mr)
	return mr, nil
}
func (p fakePD) CreateAH(verbs.AHAttr) (verbs.DriverAH, error) {
	p.ahs++
	return fakeAH(p.ahs), nil
}
func (p fakePD) CreateQP(c verbs.DriverQPConfig) (verbs.DriverQP, error) {
	qpn := p.force
	if qpn == 0 {
		p.net.next++
		qpn = p.net.next
	}
	q := &fakeQP{node: p.fakeNode, qpn: qpn, cfg: c, sendCQ: c.DriverSendCQ.(*fakeCQ),
		recvCQ: c.DriverRecvCQ.(*fakeCQ)}
	p.net.qps[qpn] = q
	return q, nil
}
func (p fakePD) Close() error { return nil }

type fakeMR struct {
	b   []byte
	key uint32
}

func (m *fakeMR) Bytes() []byte   { return m.b }
func (m *fakeMR) LKey() uint32    { return m.key }
func (m *fakeMR) RKey() uint32    { return m.key }
func (m *fakeMR) Lines() []uint64 { return nil }
func (m *fakeMR) Close() error    { return nil }

type fakeAH uint32

func (a fakeAH) Handle() uint32 { return uint32(a) }
func (a fakeAH) Close() error   { return nil }

type fakeWC struct {
	verbs.WC
	polled func()
}

type fakeCQ struct {
	wcs     []fakeWC
	arrived func()
}

func (c *fakeCQ) push(wc fakeWC) {
	c.wcs = append(c.wcs, wc)
	if c.arrived != nil {
		c.arrived()
	}
}
func (c *fakeCQ) Poll(wcs []verbs.WC) (int, error) {
	n := min(len(wcs), len(c.wcs))
	for i := range n {
		wcs[i] = c.wcs[i].WC
		if f := c.wcs[i].polled; f != nil {
			f()
		}
	}
	c.wcs = c.wcs[n:]
	return n, nil
}
func (c *fakeCQ) Arm(bool) error     { return nil }
func (c *fakeCQ) OnArrival(f func()) { c.arrived = f }
func (c *fakeCQ) Close() error       { return nil }

type fakeQP struct {
	node           *fakeNode
	qpn            uint32
	cfg            verbs.DriverQPConfig
	sendCQ, recvCQ *fakeCQ
	recvs          []verbs.RecvWR
	recvPosts      int // lists
	failed         bool
}

func (q *fakeQP) QPN() uint32                                { return q.qpn }
func (q *fakeQP) ToInit() error                              { return nil }
func (q *fakeQP) ToRTR(*verbs.Endpoint, verbs.RTRAttr) error { return nil }
func (q *fakeQP) ToRTS(uint32, verbs.RTSAttr) error          { return nil }
func (q *fakeQP) ToError() error {
	q.failed = true
	for _, wr := range q.recvs {
		q.recvCQ.push(fakeWC{WC: verbs.WC{ID: wr.Token, QPN: q.qpn,
			Status: verbs.WCWRFlushErr}})
	}
	q.recvs = nil
	return nil
}
func (q *fakeQP) PostSend(wrs []verbs.WR) (int, error) {
	for i := range wrs {
		wr := wrs[i]
		if q.failed {
			q.sendCQ.push(fakeWC{WC: verbs.WC{ID: wr.Token, QPN: q.qpn,
				Status: verbs.WCWRFlushErr}})
			continue
		}
		q.node.net.carry(q, &wr, slices.Clone(q.node.bytes(wr.SGE[0])))
		if wr.Flags&verbs.FlagSignaled != 0 {
			q.node.net.AtPs(q.node.net.now+1_000_000, func() { // 1 us: slots are in use a while
				q.sendCQ.push(fakeWC{WC: verbs.WC{ID: wr.Token, QPN: q.qpn}})
			})
		}
	}
	return len(wrs), nil
}
func (q *fakeQP) PostRecv(wrs []verbs.RecvWR) (int, error) {
	q.recvs = append(q.recvs, wrs...)
	q.recvPosts++
	return len(wrs), nil
}
func (q *fakeQP) Close() error {
	if q.node.net.qps[q.qpn] == q {
		delete(q.node.net.qps, q.qpn)
	}
	return nil
}
