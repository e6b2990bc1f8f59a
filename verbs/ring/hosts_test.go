package ring

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drtmd/internal/testkit/raceskip"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
	"drtmd/verbs/shm"
	"drtmd/verbs/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is one of a cluster.
type node struct {
	worker   *fiber.Worker
	pd       *verbs.PD
	rpc      *rpc.Port
	sessions []*rpc.Session // by node
	conns    []*fiber.Conn  // by node; nil: the own one
	port     *Port
}

// cluster is a few nodes with rings between each two.
type cluster struct {
	t       testing.TB
	threads []*fiber.Thread // of shared memory, one for each node
	world   *sim.World      // of the simulator
	nodes   []*node
}

// eachCluster runs a test on shared memory and in the simulator, with lines in order and with marks.
func eachCluster(t *testing.T, nodes int, cfg Config, test func(*testing.T, *cluster)) {
	t.Helper()
	for _, marks := range []bool{false, true} {
		name := map[bool]string{false: "", true: ", marks"}[marks]
		t.Run("shm"+name, func(t *testing.T) {
			c := newShmCluster(t, nodes, cfg)
			c.mark(marks)
			test(t, c)
		})
		t.Run("sim"+name, func(t *testing.T) {
			c := newSimCluster(t, 1, nodes, cfg)
			c.mark(marks)
			test(t, c)
		})
	}
}

// mark has each line carry a mark, as on devices that make lines visible in any order.
func (c *cluster) mark(marks bool) {
	for _, n := range c.nodes {
		n.port.marks = marks
	}
}

func newShmCluster(t testing.TB, nodes int, cfg Config) *cluster {
	t.Helper()
	c := &cluster{t: t}
	p := shm.New(shm.Options{Dir: filepath.Join(t.TempDir(), "fabric")})
	for range nodes {
		x, err := fiber.NewThread(fiber.ThreadConfig{Drain: 500 * time.Millisecond})
		c.must(err)
		c.threads = append(c.threads, x)
	}
	for i := range nodes {
		ctx, err := p.Open("")
		c.must(err)
		c.add(ctx, nodes, c.threads[i].NewWorker)
	}
	t.Cleanup(func() {
		for _, x := range c.threads {
			c.must(x.Close())
		}
	})
	c.connect(cfg)
	return c
}

func newSimCluster(t testing.TB, seed uint64, nodes int, cfg Config) *cluster {
	t.Helper()
	return newSimClusterOf(t, sim.Config{Seed: seed, EventLimit: 50_000_000}, nodes, cfg)
}

func newSimClusterOf(t testing.TB, x sim.Config, nodes int, cfg Config) *cluster {
	t.Helper()
	raceskip.Simulated(t)
	world, err := sim.New(x)
	c := &cluster{t: t, world: world}
	c.must(err)
	for range nodes {
		n, err := world.AddNode(sim.NodeConfig{})
		c.must(err)
		ctx, err := n.Open()
		c.must(err)
		core := fiber.NewCore(n.Timeline(0))
		c.add(ctx, nodes, core.NewWorker)
		t.Cleanup(func() { c.must(core.Close()) })
	}
	c.connect(cfg)
	return c
}

// add makes a node: its worker closes before its memory, and that before its context.
func (c *cluster) add(ctx *verbs.Context, nodes int,
	newWorker func(fiber.WorkerConfig) (*fiber.Worker, error)) {
	c.t.Helper()
	c.t.Cleanup(func() { c.must(ctx.Close()) })
	n := &node{sessions: make([]*rpc.Session, nodes), conns: make([]*fiber.Conn, nodes)}
	var err error
	n.pd, err = ctx.AllocPD()
	c.must(err)
	cfg := rpc.Config{Incarnation: uint64(len(c.nodes)) + 1, Self: rpc.Identity{Node: uint16(len(c.nodes))}}
	if c.world != nil {
		cfg.RTOMin, cfg.RTOFirst, cfg.RTOMax = time.Millisecond, time.Millisecond, 2*time.Millisecond
		cfg.PeerTimeout = 50 * time.Millisecond
	}
	n.worker, err = newWorker(fiber.WorkerConfig{Name: fmt.Sprint("node ", len(c.nodes)), PD: n.pd,
		Extra: cfg.Completions(), Conns: 8 * nodes})
	c.must(err)
	n.rpc, err = rpc.NewPort(n.worker, cfg)
	c.must(err)
	c.nodes = append(c.nodes, n)
	c.t.Cleanup(func() {
		if n.port != nil {
			c.must(n.port.Free())
		}
	})
}

// connect makes queue pairs between all nodes and a ring port on each.
func (c *cluster) connect(cfg Config) {
	c.t.Helper()
	for i := range c.nodes {
		for j := range i {
			c.join(i, j)
		}
	}
	for i, n := range c.nodes {
		cfg := cfg
		cfg.Node, cfg.Nodes = i, len(c.nodes)
		cfg.Conn = func(node int) *fiber.Conn { return n.conns[node] }
		cfg.Session = func(node int) *rpc.Session { return n.sessions[node] }
		var err error
		n.port, err = NewPort(n.worker, n.rpc, cfg)
		c.must(err)
	}
}

// join makes a queue pair between two nodes, in place of the one that there may be. Nothing runs on shared memory
// then.
func (c *cluster) join(i, j int) {
	c.t.Helper()
	a, err := c.nodes[i].worker.NewConn(verbs.AccessAll)
	c.must(err)
	b, err := c.nodes[j].worker.NewConn(verbs.AccessAll)
	c.must(err)
	attr := verbs.ConnectAttr{}
	if c.world != nil { // where time costs nothing, outages show soon
		attr.RTS = verbs.RTSAttr{Timeout: 8, RetryCount: 3}
	}
	c.must(a.Connect(b.Endpoint(), attr))
	c.must(b.Connect(a.Endpoint(), attr))
	c.nodes[i].conns[j], c.nodes[j].conns[i] = a, b
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// meet opens the sessions of a node.
func (c *cluster) meet(f *fiber.Fiber, i int) error {
	for j, n := range c.nodes {
		if j == i || c.nodes[i].sessions[j] != nil && c.nodes[i].sessions[j].Err() == nil {
			continue
		}
		s, err := c.nodes[i].rpc.Connect(f, n.rpc.Address(), f.Now()+10*time.Second)
		if err != nil {
			return err
		}
		c.nodes[i].sessions[j] = s
	}
	return nil
}

// run runs a fiber on each node that has a body; every node serves until the last has ended.
func (c *cluster) run(bodies ...func(*fiber.Fiber) error) {
	c.t.Helper()
	if err := c.try(bodies...); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) try(bodies ...func(*fiber.Fiber) error) error {
	c.t.Helper()
	ended := make(chan error, len(bodies))
	var met atomic.Int32
	for i, body := range bodies {
		c.nodes[i].worker.Submit("test", func(f *fiber.Fiber) error {
			err := c.meet(f, i)
			met.Add(1)
			// A call to a node that has not met the caller is refused. On threads a node may be late.
			for c.world == nil && int(met.Load()) < len(bodies) {
				err = errors.Join(err, f.Sleep(10*time.Microsecond))
			}
			return errors.Join(err, body(f))
		}, func(err error) { ended <- err })
	}
	var all error
	wait := func() {
		for range bodies {
			all = errors.Join(all, <-ended)
		}
	}
	if c.world != nil {
		if err := c.world.Run(); err != nil {
			return err
		}
		if len(ended) < len(bodies) {
			return fmt.Errorf("%d of %d fibers have not ended and nothing more happens", len(bodies)-len(ended),
				len(bodies))
		}
		wait()
		return all
	}
	done := make(chan struct{})
	go func() {
		wait()
		for _, x := range c.threads {
			x.Stop()
		}
		close(done)
	}()
	c.must(fiber.Threads(c.t.Context(), c.threads...))
	<-done
	return all
}
