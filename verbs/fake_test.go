package verbs

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// fakeDriver is a device whose completions the tests write themselves. It notes the order of
// calls, and fails the calls that it is told to.
type fakeDriver struct {
	mu      sync.Mutex
	attr    DeviceAttr
	port    PortAttr
	quirks  Quirks
	sink    func(DriverEvent)
	calls   []string         // of objects made and closed
	fails   map[string]error // by the same words
	nextQPN uint32
	nextKey uint32
	closed  bool
	cqIDs   []uint32
	qpCfg   DriverQPConfig // of the last QP
	ahAttr  AHAttr
}

func newFakeDriver() *fakeDriver {
	gid := GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}
	return &fakeDriver{
		attr: DeviceAttr{Name: "fake0", Provider: "fake", Driver: "fake", Ports: 1,
			Atomic: AtomicGlob, MaxQP: 100, MaxQPWR: 1024, MaxSGE: 4, MaxCQ: 100, MaxCQE: 4096,
			MaxMR: 100, MaxMRBytes: 1 << 30, MaxPD: 10, MaxAH: 10, MaxRdAtomic: 64,
			MaxInitDepth: 32, MaxMsgBytes: 1 << 20, MaxInline: 64},
		port: PortAttr{Port: 1, State: PortActive, Link: LinkEthernet, MaxMTU: 4096,
			ActiveMTU: 1024, GRH: true, GIDs: []GIDEntry{
				{Index: 0, Type: GIDTypeRoCEv2, GID: GID{0: 0xfe, 1: 0x80, 15: 9}},
				{Index: 1, Type: GIDTypeRoCEv2, GID: gid, NetDev: "eth7"}}},
		fails: map[string]error{}, nextQPN: 100,
	}
}

// note records a call and gives the error that it shall have.
func (d *fakeDriver) note(format string, args ...any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := fmt.Sprintf(format, args...)
	d.calls = append(d.calls, s)
	return d.fails[s]
}

func (d *fakeDriver) Attr() DeviceAttr                     { return d.attr }
func (d *fakeDriver) Quirks() Quirks                       { return d.quirks }
func (d *fakeDriver) QueryPort(port int) (PortAttr, error) { return d.port, d.note("query port") }

func (d *fakeDriver) AllocPD() (DriverPD, error) {
	if err := d.note("alloc pd"); err != nil {
		return nil, err
	}
	return &fakePD{d}, nil
}

func (d *fakeDriver) CreateChannel() (DriverChannel, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	return &fakeChannel{d: d, fd: fd}, errors.Join(err, d.note("create channel"))
}

func (d *fakeDriver) CreateCQ(depth int, id uint32, ch DriverChannel, _ bool) (DriverCQ, error) {
	if err := d.note("create cq"); err != nil {
		return nil, err
	}
	cq := &fakeCQ{d: d, id: id, wcs: make([]WC, 0, 4*depth)}
	if ch != nil {
		cq.ch = ch.(*fakeChannel)
	}
	d.cqIDs = append(d.cqIDs, id)
	return cq, nil
}

func (d *fakeDriver) Start(sink func(DriverEvent)) error {
	d.sink = sink
	return d.note("start")
}

func (d *fakeDriver) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	return d.note("close device")
}

type fakePD struct{ d *fakeDriver }

func (p *fakePD) AllocMR(size int, _ Access, _ MROptions) (DriverMR, error) {
	if err := p.d.note("alloc mr"); err != nil {
		return nil, err
	}
	p.d.nextKey++
	return &fakeMR{d: p.d, b: make([]byte, size), key: p.d.nextKey}, nil
}

func (p *fakePD) CreateQP(c DriverQPConfig) (DriverQP, error) {
	if err := p.d.note("create qp"); err != nil {
		return nil, err
	}
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	p.d.qpCfg = c
	p.d.nextQPN++
	return &fakeQP{d: p.d, qpn: p.d.nextQPN, scq: c.DriverSendCQ.(*fakeCQ),
		rcq: c.DriverRecvCQ.(*fakeCQ), takes: -1}, nil
}

func (p *fakePD) CreateAH(a AHAttr) (DriverAH, error) {
	if err := p.d.note("create ah"); err != nil {
		return nil, err
	}
	p.d.nextKey++
	p.d.ahAttr = a
	return &fakeAH{p.d, p.d.nextKey}, nil
}

func (p *fakePD) Close() error { return p.d.note("close pd") }

type fakeMR struct {
	d   *fakeDriver
	b   []byte
	key uint32
}

func (m *fakeMR) Bytes() []byte   { return m.b }
func (m *fakeMR) LKey() uint32    { return m.key }
func (m *fakeMR) RKey() uint32    { return m.key }
func (m *fakeMR) Lines() []uint64 { return nil }
func (m *fakeMR) Close() error    { return m.d.note("close mr") }

type fakeAH struct {
	d *fakeDriver
	h uint32
}

func (a *fakeAH) Handle() uint32 { return a.h }
func (a *fakeAH) Close() error   { return a.d.note("close ah") }

type fakeChannel struct {
	d       *fakeDriver
	fd      int
	mu      sync.Mutex
	waiting []uint32
}

func (c *fakeChannel) FD() int { return c.fd }

// event announces a CQ.
func (c *fakeChannel) event(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, id)
	_, _ = unix.Write(c.fd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

func (c *fakeChannel) Consume(each func(uint32)) error {
	c.mu.Lock()
	ids := c.waiting
	c.waiting = nil
	var b [8]byte
	_, _ = unix.Read(c.fd, b[:])
	c.mu.Unlock()
	for _, id := range ids {
		each(id)
	}
	return nil
}

func (c *fakeChannel) Close() error {
	return errors.Join(unix.Close(c.fd), c.d.note("close channel"))
}

// fakeCQ gives what the tests put into it.
type fakeCQ struct {
	d    *fakeDriver
	id   uint32
	ch   *fakeChannel
	mu   sync.Mutex
	wcs  []WC
	fail error
}

func (c *fakeCQ) put(wcs ...WC) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wcs = append(c.wcs, wcs...)
}

func (c *fakeCQ) Poll(wcs []WC) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := copy(wcs, c.wcs)
	c.wcs = c.wcs[:copy(c.wcs, c.wcs[n:])]
	return n, c.fail
}

func (c *fakeCQ) Arm(bool) error { return c.d.note("arm") }
func (c *fakeCQ) Close() error   { return c.d.note("close cq") }

// fakeQP keeps the tokens of what was posted. After an error it flushes.
type fakeQP struct {
	d        *fakeDriver
	qpn      uint32
	scq, rcq *fakeCQ
	takes    int // how many requests a post takes at most; -1 all
	postErr  error
	rtr      RTRAttr
	rts      RTSAttr
	rtrPeer  *Endpoint

	mu     sync.Mutex
	sends  []uint64
	recvs  []uint64
	inErr  bool
	closed bool
	misuse string // a call that the layer must not make
}

func (q *fakeQP) QPN() uint32 { return q.qpn }

func (q *fakeQP) ToInit() error { return q.d.note("to init") }

func (q *fakeQP) ToRTR(peer *Endpoint, a RTRAttr) error {
	q.rtrPeer, q.rtr = peer, a
	return q.d.note("to rtr")
}

func (q *fakeQP) ToRTS(_ uint32, a RTSAttr) error {
	q.rts = a
	return q.d.note("to rts")
}

func (q *fakeQP) ToError() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.use("ToError")
	q.inErr = true
	q.flush()
	return nil
}

// use notes a call on what is closed.
func (q *fakeQP) use(call string) {
	if q.closed {
		q.misuse = call + " after Close"
	}
}

func (q *fakeQP) flush() {
	for _, t := range q.sends {
		q.scq.put(WC{ID: t, Status: WCWRFlushErr, QPN: q.qpn})
	}
	for _, t := range q.recvs {
		q.rcq.put(WC{ID: t, Status: WCWRFlushErr, QPN: q.qpn})
	}
	q.sends, q.recvs = q.sends[:0], q.recvs[:0]
}

func (q *fakeQP) PostSend(wrs []WR) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.use("PostSend")
	n := len(wrs)
	if q.takes >= 0 {
		n = min(n, q.takes)
	}
	for i := range wrs[:n] {
		q.sends = append(q.sends, wrs[i].Token)
	}
	if q.inErr {
		q.flush()
	}
	return n, q.postErr
}

func (q *fakeQP) PostRecv(wrs []RecvWR) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.use("PostRecv")
	n := len(wrs)
	if q.takes >= 0 {
		n = min(n, q.takes)
	}
	for i := range wrs[:n] {
		q.recvs = append(q.recvs, wrs[i].Token)
	}
	if q.inErr {
		q.flush()
	}
	return n, q.postErr
}

func (q *fakeQP) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	err := q.d.note("close qp")
	q.closed = q.closed || err == nil
	return err
}

// complete finishes the i-th request that was posted and not completed, as success or failure.
func (q *fakeQP) complete(i int, wc WC) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wc.ID, wc.QPN = q.sends[i], q.qpn
	q.sends = slices.Delete(q.sends, 0, i+1)
	q.scq.put(wc)
}

func (q *fakeQP) receive(wc WC) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wc.ID, wc.QPN = q.recvs[0], q.qpn
	q.recvs = q.recvs[1:]
	q.rcq.put(wc)
}

// rig is a context on a fake device with one connected QP.
type rig struct {
	t        *testing.T
	d        *fakeDriver
	ctx      *Context
	pd       *PD
	scq, rcq *CQ
	qp       *QP
	fq       *fakeQP
	fs, fr   *fakeCQ
}

type rigConfig struct {
	cqDepth int // 64
	config  QPConfig
	change  func(*fakeDriver)
	attr    ConnectAttr
	reset   bool // leave the QP in RESET
	single  bool
}

func newRig(t *testing.T, c rigConfig) *rig {
	t.Helper()
	d := newFakeDriver()
	if c.change != nil {
		c.change(d)
	}
	ctx, err := NewContext(d, ContextOptions{PSN: func() uint32 { return 0xff123456 }})
	check(t, err)
	r := &rig{t: t, d: d, ctx: ctx}
	r.pd, err = ctx.AllocPD()
	check(t, err)
	depth := c.cqDepth
	if depth == 0 {
		depth = 64
	}
	r.scq, err = ctx.CreateCQ(CQConfig{Depth: depth, SingleThreaded: c.single})
	check(t, err)
	r.rcq, err = ctx.CreateCQ(CQConfig{Depth: depth, SingleThreaded: c.single})
	check(t, err)
	r.fs, r.fr = r.scq.drv.(*fakeCQ), r.rcq.drv.(*fakeCQ)
	r.qp = r.newQP(c.config)
	r.fq = r.qp.drv.(*fakeQP)
	if !c.reset {
		r.connect(r.qp, c.attr)
	}
	t.Cleanup(func() {
		check(t, ctx.Close())
		if r.fq.misuse != "" {
			t.Errorf("the driver's QP got %s", r.fq.misuse)
		}
	})
	return r
}

func (r *rig) newQP(c QPConfig) *QP {
	r.t.Helper()
	if c.Type == 0 {
		c.Type = RC
	}
	if c.SendDepth == 0 {
		c.SendDepth = 8
	}
	if c.RecvDepth == 0 {
		c.RecvDepth = 8
	}
	c.SendCQ, c.RecvCQ = r.scq, r.rcq
	qp, err := r.pd.CreateQP(c)
	check(r.t, err)
	return qp
}

func (r *rig) connect(qp *QP, a ConnectAttr) {
	r.t.Helper()
	peer := goodEndpoint()
	check(r.t, qp.Connect(&peer, a))
}

func goodEndpoint() Endpoint {
	return Endpoint{Provider: "fake", Type: RC, Link: LinkEthernet, ActiveMTU: 4096,
		GID: GID{15: 3}, QPN: 77, PSN: 5, MaxRdAtomic: 20}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: %v; want %v", what, err, want)
	}
}

// post posts WRITEs with the IDs first, first+1, ..., the last one signaled.
func (r *rig) post(first uint64, n int) {
	r.t.Helper()
	got, err := r.qp.PostSend(writes(first, n))
	if err != nil || got != n {
		r.t.Fatalf("posted %d of %d: %v", got, n, err)
	}
}

func writes(first uint64, n int) []WR {
	wrs := make([]WR, n)
	for i := range wrs {
		wrs[i] = WR{ID: first + uint64(i), Op: OpWrite}
	}
	if n > 0 {
		wrs[n-1].Flags = FlagSignaled
	}
	return wrs
}

// poll takes all completions that there are.
func (r *rig) poll(cq *CQ) []WC {
	r.t.Helper()
	buf := make([]WC, 100)
	n, err := cq.Poll(buf)
	check(r.t, err)
	return buf[:n]
}
