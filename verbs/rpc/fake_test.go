package rpc

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// fakeNet is a fabric of datagrams in virtual time, with one source of randomness: the same seed
// gives the same run. It implements fiber.Timeline, and verbs.Driver for each node. UD only.
type fakeNet struct {
	t      *testing.T
	now    int64 // ps
	seq    uint64
	events fakeEvents
	rng    *rand.Rand
	qps    map[uint32]*fakeQP
	next   uint32 // QPN
	nodes  []*fakeNode

	latency   time.Duration
	jitter    time.Duration // drawn uniformly, in addition: reorders
	drop, dup float64
	filter    func(from, to uint32, b []byte) bool // false: lost

	sent      int // datagrams that were posted
	starved   int // that found no receive buffer
	waiting   map[[2]uint32]int
	most      int // of waiting: on the way, or arrived and not polled, from one QP to another
	datagrams [][]byte
	keep      bool // in datagrams
}

type fakeEvent struct {
	at  int64
	seq uint64
	f   func()
}

type fakeEvents []fakeEvent

func (h fakeEvents) Len() int      { return len(h) }
func (h fakeEvents) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h fakeEvents) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h *fakeEvents) Push(x any) { *h = append(*h, x.(fakeEvent)) }
func (h *fakeEvents) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func newFakeNet(t *testing.T, seed uint64) *fakeNet {
	t.Logf("seed %d", seed)
	return &fakeNet{t: t, rng: rand.New(rand.NewPCG(seed, 1)), qps: map[uint32]*fakeQP{},
		next: 16, latency: 5 * time.Microsecond, waiting: map[[2]uint32]int{}}
}

// fiber.Timeline.

func (n *fakeNet) NowPs() int64 { return n.now }

func (n *fakeNet) AtPs(at int64, f func()) {
	n.seq++
	heap.Push(&n.events, fakeEvent{max(at, n.now), n.seq, f})
}
func (n *fakeNet) Step(string, string)    {}
func (n *fakeNet) PostCostPs(w int) int64 { return int64(w) * 50_000 }
func (n *fakeNet) PassCostPs() int64      { return 100_000 }
func (n *fakeNet) PollCostPs(int) int64   { return 0 }

func (n *fakeNet) RPCCostPs(_, _ int) int64 { return 0 }
func (n *fakeNet) MissCostPs(int) int64     { return 0 }
func (n *fakeNet) ThreadPs(ps int64) int64  { return ps }

// run lets time pass until done, or for at most limit.
func (n *fakeNet) run(limit time.Duration, done func() bool) bool {
	end := n.now + int64(limit)*1000
	for !done() {
		if len(n.events) == 0 || n.events[0].at > end {
			n.now = end
			return false
		}
		e := heap.Pop(&n.events).(fakeEvent)
		n.now = e.at
		e.f()
	}
	return true
}

// Now is the clock of every node.
func (n *fakeNet) Now() time.Duration { return time.Duration(n.now / 1000) }

// carry takes a datagram from a QP to another.
func (n *fakeNet) carry(from *fakeQP, wr *verbs.WR, b []byte) {
	n.sent++
	if n.keep {
		n.datagrams = append(n.datagrams, b)
	}
	copies := 1
	if n.drop > 0 && n.rng.Float64() < n.drop || n.filter != nil &&
		!n.filter(from.qpn, wr.RemoteQPN, b) {
		copies = 0
	} else if n.dup > 0 && n.rng.Float64() < n.dup {
		copies = 2
	}
	to := wr.RemoteQPN
	for range copies {
		delay := n.latency
		if n.jitter > 0 {
			delay += time.Duration(n.rng.Int64N(int64(n.jitter)))
		}
		key := [2]uint32{from.qpn, to}
		n.waiting[key]++
		n.most = max(n.most, n.waiting[key])
		n.AtPs(n.now+int64(delay)*1000, func() { n.deliver(key, wr.RemoteQKey, b) })
	}
}

func (n *fakeNet) deliver(key [2]uint32, qkey uint32, b []byte) {
	q := n.qps[key[1]]
	if q == nil || q.cfg.QKey != qkey {
		n.waiting[key]--
		return
	}
	if len(q.recvs) == 0 {
		n.starved++
		n.waiting[key]--
		return
	}
	wr := q.recvs[0]
	q.recvs = q.recvs[1:]
	buf := q.node.bytes(wr.SGE[0])
	clear(buf[:verbs.GRHBytes])
	if from := n.qps[key[0]]; from != nil {
		copy(buf[8:], from.node.gid[:]) // the GRH's source
	}
	copy(buf[verbs.GRHBytes:], b)
	q.recvCQ.push(fakeWC{verbs.WC{ID: wr.Token, QPN: q.qpn, SrcQPN: key[0],
		ByteLen: uint32(verbs.GRHBytes + len(b)), Flags: verbs.WCWithGRH},
		func() { n.waiting[key]-- }})
}

// fakeNode is a node with one port.
type fakeNode struct {
	net   *fakeNet
	gid   verbs.GID
	mrs   []*fakeMR
	ahs   uint32
	force uint32 // QPN of the next QP; 0 = a new one
	ctx   *verbs.Context
	pd    *verbs.PD
	core  *fiber.Core
	w     *fiber.Worker
	port  *Port
}

// node makes a node whose port has a configuration.
func (n *fakeNet) node(cfg Config) *fakeNode {
	n.t.Helper()
	return n.nodeAt(cfg, verbs.GID{0: 0xfd, 15: byte(len(n.nodes) + 1)}, 0)
}

// nodeAt makes one at a GID whose port has a QPN; 0 is a new one.
func (n *fakeNet) nodeAt(cfg Config, gid verbs.GID, qpn uint32) *fakeNode {
	n.t.Helper()
	x := &fakeNode{net: n, gid: gid, force: qpn}
	if cfg.Incarnation == 0 {
		cfg.Incarnation = n.rng.Uint64() | 1
	}
	var err error
	x.ctx, err = verbs.NewContext(x, verbs.ContextOptions{Clock: n,
		PSN: func() uint32 { return 0 }})
	n.must(err)
	x.pd, err = x.ctx.AllocPD()
	n.must(err)
	x.core = fiber.NewCore(n)
	x.w, err = x.core.NewWorker(fiber.WorkerConfig{Name: fmt.Sprint("node ", len(n.nodes)),
		PD: x.pd, Extra: cfg.Completions()})
	n.must(err)
	x.port, err = NewPort(x.w, cfg)
	n.must(err)
	n.nodes = append(n.nodes, x)
	n.t.Cleanup(func() {
		x.core.Kill()
		n.must(x.core.Close())
		n.must(x.ctx.Close())
	})
	return x
}

func (n *fakeNet) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

// live lists the sessions of the table.
func (p *Port) live() (list []*Session) {
	for _, s := range p.sessions {
		if s != nil {
			list = append(list, s)
		}
	}
	return list
}

// crash ends the node at once.
func (x *fakeNode) crash() {
	x.core.Kill()
	for _, qpn := range slices.Collect(mapsKeys(x.net.qps)) {
		if x.net.qps[qpn].node == x {
			delete(x.net.qps, qpn)
		}
	}
}

func mapsKeys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// do runs a fiber on the node to its end, for at most a virtual minute.
func (x *fakeNode) do(body func(*fiber.Fiber) error) error {
	x.net.t.Helper()
	ended, result := false, error(nil)
	x.w.Submit("test", body, func(err error) { ended, result = true, err })
	if !x.net.run(time.Minute, func() bool { return ended }) {
		x.net.t.Fatalf("nothing more happens at %v", x.net.Now())
	}
	return result
}

// run is do that fails the test on an error.
func (x *fakeNode) run(body func(*fiber.Fiber) error) {
	x.net.t.Helper()
	x.net.must(x.do(body))
}

// session connects to another node.
func (x *fakeNode) session(to *fakeNode) *Session {
	x.net.t.Helper()
	var s *Session
	x.run(func(f *fiber.Fiber) (err error) {
		s, err = x.port.Connect(f, to.port.Address(), 0)
		return err
	})
	return s
}

func (x *fakeNode) bytes(s verbs.SGE) []byte {
	b := x.mrs[s.LKey-1].b
	at := s.Addr - uint64(uintptr(unsafe.Pointer(&b[0])))
	return b[at : at+uint64(s.Length)]
}
