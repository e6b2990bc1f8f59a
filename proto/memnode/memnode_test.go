package memnode_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto/memnode"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/ibv"
	"drtmd/verbs/shm"
	"drtmd/verbs/sim"
)

func TestMain(m *testing.M) {
	if os.Getenv(nodeVariable) != "" {
		os.Exit(memoryProcess())
	}
	goleak.VerifyTestMain(m)
}

const memoryBytes = 1 << 16

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// host is a memory node and places for the workers of clients.
type host struct {
	t      *testing.T
	server *memnode.Server
	// client makes a worker of a new client and what drives it.
	client func() (w *fiber.Worker, drive func(body func(*fiber.Fiber) error) error)
}

// format marks the memory, so that a client sees whose it is.
func format(b []byte) error {
	copy(b, "marked")
	return nil
}

// eachHost runs a test on every provider; ibv where the machine has a device.
func eachHost(t *testing.T, test func(*testing.T, *host)) {
	t.Run("shm", func(t *testing.T) {
		test(t, newHost(t, shm.New(shm.Options{Dir: filepath.Join(t.TempDir(), "fabric")})))
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
		test(t, newHost(t, p))
	})
	t.Run("sim", func(t *testing.T) {
		h, _ := newSimHost(t, nil)
		test(t, h)
	})
}

func open(t *testing.T, p verbs.Provider) *verbs.Context {
	t.Helper()
	c, err := p.Open("")
	must(t, err)
	return c
}

func newServer(t *testing.T, c *verbs.Context) *memnode.Server {
	t.Helper()
	s, err := memnode.NewServer(c, memnode.Config{Bytes: memoryBytes, Clients: 2, QueuePairs: 2,
		Format: format})
	must(t, err)
	return s
}

func newHost(t *testing.T, p verbs.Provider) *host {
	node := open(t, p)
	h := &host{t: t, server: newServer(t, node)}
	t.Cleanup(func() {
		must(t, h.server.Close())
		must(t, node.Close())
	})
	h.client = func() (*fiber.Worker, func(func(*fiber.Fiber) error) error) { return newClient(t, open(t, p)) }
	return h
}

// newClient makes a worker on a thread, and what drives it. It closes c at the end of the test.
func newClient(t *testing.T, c *verbs.Context) (*fiber.Worker, func(func(*fiber.Fiber) error) error) {
	thread, err := fiber.NewThread(fiber.ThreadConfig{Drain: 500 * time.Millisecond})
	must(t, err)
	t.Cleanup(func() {
		must(t, thread.Close())
		must(t, c.Close())
	})
	pd, err := c.AllocPD()
	must(t, err)
	w, err := thread.NewWorker(fiber.WorkerConfig{Name: "client", PD: pd})
	must(t, err)
	return w, func(body func(*fiber.Fiber) error) error {
		var ended error
		w.Submit("test", body, func(err error) {
			ended = err
			thread.Stop()
		})
		return errors.Join(fiber.Threads(t.Context(), thread), ended)
	}
}

// newSimHost is the same in virtual time. The memory node n0 has no core.
func newSimHost(t *testing.T, onEvent func(sim.Event)) (*host, *sim.World) {
	raceskip.Simulated(t)
	world, err := sim.New(sim.Config{Seed: 1, EventLimit: 10_000_000, OnEvent: onEvent})
	must(t, err)
	machine := func() (*sim.Node, *verbs.Context) {
		n, err := world.AddNode(sim.NodeConfig{})
		must(t, err)
		c, err := n.Open()
		must(t, err)
		t.Cleanup(func() { must(t, c.Close()) })
		return n, c
	}
	_, c := machine()
	h := &host{t: t, server: newServer(t, c)}
	t.Cleanup(func() { must(t, h.server.Close()) })
	h.client = func() (*fiber.Worker, func(func(*fiber.Fiber) error) error) {
		n, c := machine()
		pd, err := c.AllocPD()
		must(t, err)
		core := fiber.NewCore(n.Timeline(0))
		t.Cleanup(func() { must(t, core.Close()) })
		w, err := core.NewWorker(fiber.WorkerConfig{Name: "client", PD: pd})
		must(t, err)
		return w, func(body func(*fiber.Fiber) error) error {
			var ended error
			w.Submit("test", body, func(err error) { ended = err })
			return errors.Join(world.Run(), ended)
		}
	}
	return h, world
}

// join opens a session that must come about.
func (h *host) join(id memnode.ClientID, w *fiber.Worker) *memnode.Way {
	h.t.Helper()
	way, err := memnode.Join(h.server.Admit, id, []*fiber.Worker{w}, verbs.ConnectAttr{})
	must(h.t, err)
	return way
}

// add has a fiber add to the second word of the memory, and look at the mark.
func add(way *memnode.Way, pd *verbs.PD, times int) func(*fiber.Fiber) error {
	return func(f *fiber.Fiber) error {
		b, err := pd.AllocMR(64, verbs.AccessAll, verbs.MROptions{})
		if err != nil {
			return err
		}
		defer b.Close()
		c, m := way.Conns[0], way.Memory
		if err := c.Read(f, b.SGE(0, 8), m.Addr, m.RKey); err != nil {
			return err
		}
		if mark := string(b.Bytes()[:6]); mark != "marked" {
			return errors.New("the memory begins with " + mark)
		}
		for range times {
			if _, err := c.FAA(f, m.Addr+8, m.RKey, 1); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestClientsComeAndGo(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		for i := range 3 {
			w, drive := h.client()
			way := h.join(0, w)
			if way.Client != 1 || h.server.Sessions() != 1 || way.Memory.Length != memoryBytes {
				t.Errorf("%d: client %d, %d sessions", i, way.Client, h.server.Sessions())
			}
			must(t, drive(add(way, w.PD(), 10)))
			must(t, h.server.Leave(way.Client))
			must(t, h.server.Leave(way.Client)) // may be said twice
		}
		if n := h.server.Memory().Bytes()[8]; n != 30 || h.server.Sessions() != 0 {
			t.Errorf("30 additions gave %d, %d sessions are left", n, h.server.Sessions())
		}
	})
}

// What a client has still to do when its session ends changes nothing any more.
func TestALeftSessionIsFenced(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		w, drive := h.client()
		way := h.join(2, w)
		must(t, h.server.Leave(2))
		again, driveAgain := h.client()
		must(t, driveAgain(add(h.join(2, again), again.PD(), 1)))
		err := drive(add(way, w.PD(), 1))
		var failed *verbs.Error
		if !errors.As(err, &failed) || failed.Status == verbs.WCSuccess {
			t.Errorf("a client without a session: %v", err)
		}
		if n := h.server.Memory().Bytes()[8]; n != 1 {
			t.Errorf("%d additions", n)
		}
	})
}

func TestRefusalsSayWhy(t *testing.T) {
	h := newHost(t, shm.New(shm.Options{Dir: filepath.Join(t.TempDir(), "fabric")}))
	w, _ := h.client()
	h.join(1, w)
	c, err := w.NewConn(0)
	must(t, err)
	one := []verbs.Endpoint{c.Endpoint()}
	for _, x := range []struct {
		name string
		r    memnode.Request
		want error
		text string
	}{
		{"version", memnode.Request{Version: 7, Endpoints: one}, memnode.ErrVersion, "client speaks 7"},
		{"in use", memnode.Request{Version: 1, Client: 1, Endpoints: one}, memnode.ErrInUse, "client 1 has a"},
		{"number", memnode.Request{Version: 1, Client: 3, Endpoints: one}, memnode.ErrRequest, "takes 1..2"},
		{"none", memnode.Request{Version: 1}, memnode.ErrRequest, "0 queue pairs"},
		{"many", memnode.Request{Version: 1, Endpoints: append(append(one, one...), one...)},
			memnode.ErrRequest, "3 queue pairs"},
		{"nonsense", memnode.Request{Version: 1, Endpoints: make([]verbs.Endpoint, 1)}, nil, "queue pair 1 of 1"},
	} {
		_, err := h.server.Admit(x.r)
		if err == nil || x.want != nil && !errors.Is(err, x.want) || !strings.Contains(err.Error(), x.text) {
			t.Errorf("%s: %v", x.name, err)
		}
	}
	again, _ := h.client()
	h.join(2, again)
	if _, err := h.server.Admit(memnode.Request{Version: 1, Endpoints: one}); !errors.Is(err, memnode.ErrFull) {
		t.Errorf("a third client of two: %v", err)
	}
	other := open(t, shm.New(shm.Options{Dir: filepath.Join(t.TempDir(), "other")}))
	t.Cleanup(func() { must(t, other.Close()) })
	_, err = memnode.NewServer(other, memnode.Config{Bytes: 1 << 12,
		Format: func([]byte) error { return errors.New("too small") }})
	if err == nil || !strings.Contains(err.Error(), "memory node: too small") {
		t.Errorf("memory that cannot be laid out: %v", err)
	}
}

// In a run nothing happens on the memory node's CPU, and its queues complete nothing.
func TestAMemoryNodesCPUIsIdle(t *testing.T) {
	byNode, operations := map[string]int{}, 0
	h, _ := newSimHost(t, func(e sim.Event) {
		if strings.HasPrefix(e.What, "worker") {
			byNode[e.Node]++
		}
		if e.Node == "n0" && strings.HasPrefix(e.What, verbs.OpFAA.String()) {
			operations++
		}
	})
	w, drive := h.client()
	must(t, drive(add(h.join(0, w), w.PD(), 1000)))
	if byNode["n0"] != 0 || byNode["n1"] < 1000 || operations < 1000 {
		t.Errorf("passes of CPUs: %v; %d events of operations at the memory node", byNode, operations)
	}
}
