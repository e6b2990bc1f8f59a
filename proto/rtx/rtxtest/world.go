package rtxtest

import (
	"errors"
	"math/rand/v2"
	"time"

	"drtmd/proto/memnode"
	"drtmd/proto/rtx"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// World is a simulated memory node n0 with clients on machines n1, n2 and so on.
type World struct {
	world  *sim.World
	server *memnode.Server
	cores  []*fiber.Core
	failed error
}

// NewWorld makes the memory node.
func NewWorld(shape rtx.Shape) (*World, error) {
	bytes, err := shape.Bytes()
	if err != nil {
		return nil, err
	}
	return NewWorldOf(1, bytes, shape.Format)
}

// NewWorldOf makes a memory node with memory of a format, in a simulation with a seed.
func NewWorldOf(seed uint64, bytes int, format func([]byte) error) (*World, error) {
	x := &World{}
	var err error
	if x.world, err = sim.New(sim.Config{Seed: seed}); err != nil {
		return nil, err
	}
	_, device, err := x.machine()
	if err != nil {
		return nil, err
	}
	x.server, err = memnode.NewServer(device, memnode.Config{Bytes: bytes, Format: format})
	return x, err
}

func (x *World) machine() (*sim.Node, *verbs.Context, error) {
	n, err := x.world.AddNode(sim.NodeConfig{ClockOffset: 56 * 365 * 24 * time.Hour}) // since 1970
	if err != nil {
		return nil, nil, err
	}
	c, err := n.Open()
	return n, c, err
}

// Client runs a fiber with a client on a machine of its own, under the next number.
func (x *World) Client(body func(*rtx.Client, *fiber.Fiber) error) error {
	return x.client(false, body)
}

// ClientAwaited is Client, which awaits each phase of a commit: all marked steps are there.
func (x *World) ClientAwaited(body func(*rtx.Client, *fiber.Fiber) error) error {
	return x.client(true, body)
}

func (x *World) client(awaited bool, body func(*rtx.Client, *fiber.Fiber) error) error {
	return x.Machine(func(f *fiber.Fiber, m Seat) error {
		c, err := rtx.Attach(f, rtx.Config{Conn: m.Way.Conns[0], PD: m.Worker.PD(), Memory: m.Way.Memory, Awaited: awaited,
			Owner: int(m.Way.Client) - 1, Clock: m.Clock, Rand: rand.New(rand.NewPCG(1, uint64(m.Way.Client)))})
		if err != nil {
			return err
		}
		return body(c, f)
	})
}

// Seat is a machine's worker with its way to the memory node.
type Seat struct {
	Worker *fiber.Worker
	Way    *memnode.Way
	Clock  verbs.Clock // the time of day
}

// Machine runs a fiber on a machine of its own, with a session under the next number.
func (x *World) Machine(body func(*fiber.Fiber, Seat) error) error {
	machine, device, err := x.machine()
	if err != nil {
		return err
	}
	pd, err := device.AllocPD()
	if err != nil {
		return err
	}
	core := fiber.NewCore(machine.Timeline(0))
	x.cores = append(x.cores, core)
	machine.OnCrash(core.Kill)
	w, err := core.NewWorker(fiber.WorkerConfig{PD: pd})
	if err != nil {
		return err
	}
	way, err := memnode.Join(x.server.Admit, 0, []*fiber.Worker{w}, verbs.ConnectAttr{})
	if err != nil {
		return err
	}
	w.Submit("client", func(f *fiber.Fiber) error { return body(f, Seat{w, way, machine.Clock()}) },
		func(err error) { x.failed = errors.Join(x.failed, err) })
	return nil
}

// Run runs all clients to their end. The machine of that name dies when the marked step is taken so many times.
func (x *World) Run(dies, step string, count int) error {
	return x.RunUnder(sim.Schedule{{Kind: sim.CrashNode, Node: dies, Step: step, Count: count}})
}

// RunUnder runs all clients to their end, under faults.
func (x *World) RunUnder(faults sim.Schedule) error {
	err := x.world.Install(faults)
	if err == nil {
		err = x.world.Run()
	}
	for _, core := range x.cores {
		core.Kill()
	}
	return errors.Join(err, x.failed)
}
