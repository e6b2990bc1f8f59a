package rtx_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto/memnode"
	"drtmd/proto/rtx"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/shm"
	"drtmd/verbs/sim"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wall is a clock that counts from 1970.
type wall struct{ verbs.Clock }

func (w wall) Now() time.Duration { return 56*365*24*time.Hour + w.Clock.Now() }

// testShape has small blocks, and blocks of 1 KB as the tree of the paper.
var testShape = rtx.Shape{Owners: 4, Slots: 12, Roots: 4, Objects: 200,
	Classes: []rtx.Class{{Bytes: 64, Blocks: 128}, {Bytes: 1024, Blocks: 128}}}

// bed is a memory node with one client.
type bed struct {
	t      testing.TB
	server *memnode.Server
	worker *fiber.Worker
	way    *memnode.Way
	clock  verbs.Clock
	drive  func(body func(*fiber.Fiber) error)
	early  bool // clients lock early and have hints
}

// attach makes a client of an owner.
func (b *bed) attach(f *fiber.Fiber, owner int) (*rtx.Client, error) {
	cfg := rtx.Config{Conn: b.way.Conns[0], PD: b.worker.PD(), Memory: b.way.Memory, Owner: owner,
		Clock: b.clock, Rand: rand.New(rand.NewPCG(1, uint64(owner)))}
	if b.early {
		cfg.EarlyLocks, cfg.Hints = true, rtx.NewHints(1<<10)
	}
	return rtx.Attach(f, cfg)
}

// run has a fiber run a body with a client, which must succeed.
func (b *bed) run(body func(*rtx.Client, *fiber.Fiber) error) {
	b.t.Helper()
	b.drive(func(f *fiber.Fiber) error {
		c, err := b.attach(f, 0)
		if err != nil {
			return err
		}
		return body(c, f)
	})
}

func newBed(t testing.TB, shape rtx.Shape, memory, client *verbs.Context, format func([]byte) error,
	newWorker func(fiber.WorkerConfig) (*fiber.Worker, error)) *bed {
	b := &bed{t: t, clock: wall{client.Clock()}}
	bytes, err := shape.Bytes()
	must(t, err)
	b.server, err = memnode.NewServer(memory, memnode.Config{Bytes: bytes, Format: format})
	must(t, err)
	pd, err := client.AllocPD()
	must(t, err)
	b.worker, err = newWorker(fiber.WorkerConfig{Name: "client", PD: pd})
	must(t, err)
	b.way, err = memnode.Join(b.server.Admit, 1, []*fiber.Worker{b.worker}, verbs.ConnectAttr{})
	must(t, err)
	return b
}

// newSimBed is in virtual time. n0 is the memory node.
func newSimBed(t testing.TB, onEvent func(sim.Event), format func([]byte) error) *bed {
	return newSimBedOf(t, testShape, onEvent, format)
}

// newShapedBed is in virtual time, with memory of a shape.
func newShapedBed(t testing.TB, shape rtx.Shape) *bed {
	return newSimBedOf(t, shape, nil, shape.Format)
}

func newSimBedOf(t testing.TB, shape rtx.Shape, onEvent func(sim.Event), format func([]byte) error) *bed {
	raceskip.Simulated(t)
	world, err := sim.New(sim.Config{Seed: 1, EventLimit: 10_000_000, OnEvent: onEvent})
	must(t, err)
	var contexts []*verbs.Context
	var nodes []*sim.Node
	for range 2 {
		n, err := world.AddNode(sim.NodeConfig{})
		must(t, err)
		c, err := n.Open()
		must(t, err)
		t.Cleanup(func() { must(t, c.Close()) })
		nodes, contexts = append(nodes, n), append(contexts, c)
	}
	core := fiber.NewCore(nodes[1].Timeline(0))
	t.Cleanup(func() { must(t, core.Close()) })
	b := newBed(t, shape, contexts[0], contexts[1], format, core.NewWorker)
	b.drive = func(body func(*fiber.Fiber) error) {
		t.Helper()
		var ended error
		b.worker.Submit("test", body, func(err error) { ended = err })
		must(t, world.Run())
		must(t, ended)
	}
	return b
}

// newShmBed is on shared memory.
func newShmBed(t testing.TB) *bed {
	p := shm.New(shm.Options{Dir: filepath.Join(t.TempDir(), "fabric")})
	var contexts []*verbs.Context
	for range 2 {
		c, err := p.Open("")
		must(t, err)
		t.Cleanup(func() { must(t, c.Close()) })
		contexts = append(contexts, c)
	}
	thread, err := fiber.NewThread(fiber.ThreadConfig{Drain: 500 * time.Millisecond})
	must(t, err)
	t.Cleanup(func() { must(t, thread.Close()) })
	b := newBed(t, testShape, contexts[0], contexts[1], testShape.Format, thread.NewWorker)
	b.drive = func(body func(*fiber.Fiber) error) {
		t.Helper()
		var ended error
		b.worker.Submit("test", body, func(err error) { ended = err; thread.Stop() })
		must(t, fiber.Threads(t.Context(), thread))
		must(t, ended)
	}
	return b
}

func TestMain(m *testing.M) {
	if os.Getenv(clientVariable) != "" {
		os.Exit(clientProcess())
	}
	goleak.VerifyTestMain(m)
}
