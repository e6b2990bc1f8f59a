package fiber_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drtmd/internal/testkit/raceskip"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/ibv"
	"drtmd/verbs/shm"
	"drtmd/verbs/sim"
)

func TestMain(m *testing.M) {
	if os.Getenv(peerVariable) != "" {
		os.Exit(passivePeer())
	}
	goleak.VerifyTestMain(m)
}

// host is a place where fibers run: a worker of one node with a conn to a passive second node.
type host struct {
	t       *testing.T
	virtual bool
	unit    time.Duration // a short time on this host
	conn    *fiber.Conn
	worker  *fiber.Worker
	memory  *verbs.MR      // 4 KiB of the passive node, every right; nil in another process
	passive *verbs.QP      // the conn's other end; nil in another process
	remote  verbs.RemoteMR // the same
	buffer  *verbs.MR      // 4 KiB of the worker's node

	passiveContext *verbs.Context // nil in another process
	drive          func() error
	stop           func()
	beside         func() // adds a worker to the thread; nil in virtual time
}

// start runs a fiber to its end and gives the first error of fiber and thread.
func (h *host) start(body func(*fiber.Fiber) error) error {
	h.t.Helper()
	var ended error
	h.worker.Submit("test", body, func(err error) {
		ended = err
		h.stop()
	})
	return errors.Join(h.drive(), ended)
}

// run is start that fails the test on an error.
func (h *host) run(body func(*fiber.Fiber) error) {
	h.t.Helper()
	if err := h.start(body); err != nil {
		h.t.Fatal(err)
	}
}

// eachHost runs a test on every provider; ibv where the machine has a device.
func eachHost(t *testing.T, test func(*testing.T, *host)) {
	t.Helper()
	t.Run("shm", func(t *testing.T) {
		p := shm.New(shm.Options{Dir: filepath.Join(t.TempDir(), "fabric")})
		test(t, newRealHost(t, p))
	})
	t.Run("ibv", func(t *testing.T) {
		p := ibv.New()
		devices, err := p.Devices()
		if err != nil || len(devices) == 0 {
			if os.Getenv("DRTMD_REQUIRE") == "ibv" {
				t.Fatalf("DRTMD_REQUIRE=ibv, but: %d devices, %v", len(devices), err)
			}
			t.Skipf("no RDMA device: %d devices, %v", len(devices), err)
		}
		test(t, newRealHost(t, p))
	})
	t.Run("sim", func(t *testing.T) { test(t, newSimHost(t)) })
}

// newSimHost is the same pair of nodes in virtual time.
func newSimHost(t *testing.T) *host {
	raceskip.Simulated(t)
	h := &host{t: t, unit: 20 * time.Microsecond, virtual: true}
	world, err := sim.New(sim.Config{Seed: 1, EventLimit: 10_000_000})
	h.must(err)
	var contexts []*verbs.Context
	var nodes []*sim.Node
	for range 2 {
		n, err := world.AddNode(sim.NodeConfig{})
		h.must(err)
		c, err := n.Open()
		h.must(err)
		nodes, contexts = append(nodes, n), append(contexts, c)
	}
	core := fiber.NewCore(nodes[0].Timeline(0))
	h.connect(contexts[0], contexts[1], core.NewWorker)
	h.drive = func() error { return errors.Join(world.Run(), h.worker.Fenced()) }
	h.stop = func() {}
	t.Cleanup(func() {
		h.must(core.Close())
		for _, c := range contexts {
			h.must(c.Close())
		}
	})
	return h
}

func newRealHost(t *testing.T, p verbs.Provider) *host {
	return newHostOn(t, p, fiber.ThreadConfig{})
}

func newHostOn(t *testing.T, p verbs.Provider, cfg fiber.ThreadConfig) *host {
	h := &host{t: t, unit: 2 * time.Millisecond}
	if cfg.Drain == 0 {
		cfg.Drain = 500 * time.Millisecond
	}
	thread, err := fiber.NewThread(cfg)
	h.must(err)
	active, passive := h.open(p), h.open(p)
	h.connect(active, passive, thread.NewWorker)
	h.drive = func() error {
		// The contexts outlive the thread: its workers close what they made of them.
		return fiber.Threads(t.Context(), thread)
	}
	h.stop = thread.Stop
	h.beside = func() {
		_, err := thread.NewWorker(fiber.WorkerConfig{Name: "beside", PD: h.worker.PD()})
		h.must(err)
	}
	t.Cleanup(func() {
		h.must(thread.Close())
		h.must(active.Close())
		h.must(passive.Close())
	})
	return h
}

// connect makes a worker on the active node and gives it a conn to the passive one.
func (h *host) connect(active, passive *verbs.Context,
	newWorker func(fiber.WorkerConfig) (*fiber.Worker, error)) {
	h.t.Helper()
	h.makeConn(active, newWorker)
	memory, peer, err := passiveSide(passive, h.conn.Endpoint())
	h.must(err)
	h.memory, h.remote, h.passive = memory, memory.Remote(), peer
	h.passiveContext = passive
	h.must(h.conn.Connect(peer.Endpoint(), verbs.ConnectAttr{}))
}

// receive posts a receive at the passive node.
func (h *host) receive(id uint64, offset, length int) {
	h.t.Helper()
	_, err := h.passive.PostRecv([]verbs.RecvWR{{ID: id, NumSGE: 1,
		SGE: [verbs.MaxSGE]verbs.SGE{h.memory.SGE(offset, length)}}})
	h.must(err)
}

// makeConn makes the worker, its buffer, and a conn in INIT.
func (h *host) makeConn(active *verbs.Context,
	newWorker func(fiber.WorkerConfig) (*fiber.Worker, error)) {
	h.t.Helper()
	pd, err := active.AllocPD()
	h.must(err)
	h.worker, err = newWorker(fiber.WorkerConfig{Name: "node 0", PD: pd, Conns: 1})
	h.must(err)
	h.conn, err = h.worker.NewConn(0)
	h.must(err)
	h.buffer, err = pd.AllocMR(4096, verbs.AccessAll, verbs.MROptions{})
	h.must(err)
}

// rnrTimer stands for 491.52 ms: a SEND without a receive is in flight for several of these.
const rnrTimer = 31

// passiveSide makes the passive node's memory, and a QP that is connected to peer.
func passiveSide(c *verbs.Context, peer verbs.Endpoint) (*verbs.MR, *verbs.QP, error) {
	pd, err := c.AllocPD()
	if err != nil {
		return nil, nil, err
	}
	mr, err := pd.AllocMR(4096, verbs.AccessAll, verbs.MROptions{})
	if err != nil {
		return nil, nil, err
	}
	cq, err := c.CreateCQ(verbs.CQConfig{Depth: 16})
	if err != nil {
		return nil, nil, err
	}
	qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, SendDepth: 1,
		RecvDepth: 8, Access: verbs.AccessAll})
	if err != nil {
		return nil, nil, err
	}
	return mr, qp, qp.Connect(&peer, verbs.ConnectAttr{RTR: verbs.RTRAttr{MinRNRTimer: rnrTimer}})
}

func (h *host) open(p verbs.Provider) *verbs.Context {
	h.t.Helper()
	c, err := p.Open("")
	h.must(err)
	return c
}

func (h *host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}
