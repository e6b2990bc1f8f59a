package rpc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"drtmd/internal/testkit/raceskip"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/ibv"
	"drtmd/verbs/shm"
	"drtmd/verbs/sim"
)

// cluster is a few ports, one node each, on a transport.
type cluster struct {
	t       testing.TB
	threads []*fiber.Thread // of a real transport
	world   *sim.World      // of the simulator
	workers []*fiber.Worker
	ports   []*Port
}

// newCluster makes a port for each configuration; node i runs on thread i of as many threads.
func newCluster(t testing.TB, p verbs.Provider, threads int, cfgs ...Config) *cluster {
	t.Helper()
	return newSpinningCluster(t, p, threads, 0, cfgs...)
}

// newSpinningCluster is newCluster with threads that spin for a time before they sleep.
func newSpinningCluster(t testing.TB, p verbs.Provider, threads int, spin time.Duration,
	cfgs ...Config) *cluster {
	t.Helper()
	c := &cluster{t: t}
	for range threads {
		x, err := fiber.NewThread(fiber.ThreadConfig{Spin: spin})
		c.must(err)
		c.threads = append(c.threads, x)
	}
	for i, cfg := range cfgs {
		ctx, err := p.Open("")
		c.must(err)
		c.add(ctx, c.threads[i%threads].NewWorker, cfg)
	}
	t.Cleanup(func() {
		for _, x := range c.threads {
			c.must(x.Close())
		}
	})
	return c
}

// newSimCluster is newCluster in virtual time, with faults.
func newSimCluster(t testing.TB, seed uint64, faults sim.Schedule, cfgs ...Config) *cluster {
	t.Helper()
	raceskip.Simulated(t)
	world, err := sim.New(sim.Config{Seed: seed, EventLimit: 10_000_000})
	c := &cluster{t: t, world: world}
	c.must(err)
	for _, cfg := range cfgs {
		n, err := world.AddNode(sim.NodeConfig{})
		c.must(err)
		ctx, err := n.Open()
		c.must(err)
		core := fiber.NewCore(n.Timeline(0))
		c.add(ctx, core.NewWorker, cfg)
		t.Cleanup(func() { c.must(core.Close()) })
	}
	c.must(world.Install(faults))
	return c
}

// add makes a node: its worker closes before its context does.
func (c *cluster) add(ctx *verbs.Context, newWorker func(fiber.WorkerConfig) (*fiber.Worker, error),
	cfg Config) {
	c.t.Helper()
	c.t.Cleanup(func() { c.must(ctx.Close()) })
	cfg.Incarnation = uint64(len(c.ports)) + 1
	pd, err := ctx.AllocPD()
	c.must(err)
	w, err := newWorker(fiber.WorkerConfig{Name: fmt.Sprint("node ", len(c.ports)), PD: pd,
		Extra: cfg.Completions()})
	c.must(err)
	port, err := NewPort(w, cfg)
	c.must(err)
	c.workers, c.ports = append(c.workers, w), append(c.ports, port)
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// run runs a fiber on each node that has a body; every node serves until the last has ended.
func (c *cluster) run(bodies ...func(*fiber.Fiber) error) {
	c.t.Helper()
	ended := make(chan error, len(bodies))
	for i, body := range bodies {
		c.workers[i].Submit("test", body, func(err error) { ended <- err })
	}
	var first error
	wait := func() {
		for range bodies {
			if err := <-ended; first == nil {
				first = err
			}
		}
	}
	if c.world != nil {
		c.must(c.world.Run())
		if len(ended) < len(bodies) {
			c.t.Fatalf("%d of %d fibers have not ended and nothing more happens",
				len(bodies)-len(ended), len(bodies))
		}
		wait()
		c.must(first)
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait()
		for _, x := range c.threads {
			x.Stop()
		}
	}()
	err := fiber.Threads(c.t.Context(), c.threads...)
	<-done
	c.must(errors.Join(err, first))
}

// eachProvider runs a test on what this machine has.
func eachProvider(t *testing.T, test func(*testing.T, verbs.Provider)) {
	t.Run("shm", func(t *testing.T) {
		test(t, shm.New(shm.Options{Dir: filepath.Join(t.TempDir(), "run")}))
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
		test(t, p)
	})
}
