package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/protocol"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
	"drtmd/verbs/smartnic"
)

// SimulatedConfig of NewSimulated.
type SimulatedConfig struct {
	Config
	Cost *sim.CostModel // nil is the preset of the protocol's chips (protocol.Chips), or the default one
	// PerNIC is how many nodes share a NIC, those with the lowest numbers the first: logical nodes of one machine
	// (DrTM §8.3). 0 = 1.
	PerNIC int
	// WithoutLineWords is that of MemberConfig.
	WithoutLineWords bool
	// Faults of the world, as sim.ParseSchedule reads them. The nodes are n0, n1 and so on.
	Faults string
	// OnEvent is that of sim.Config: the trace, line by line; nil: nobody reads it.
	OnEvent func(sim.Event)
	// OnStep is that of fiber.WorkerConfig, of all workers; nil: nobody looks.
	OnStep func(f *fiber.Fiber, name string)
	// OnAccess is that of sim.Config: remote accesses to memory; nil: nobody looks at them.
	OnAccess func(sim.Access)
}

// NewSimulated builds a cluster on a simulated world, each worker on a core of its own, starts it
// in virtual time, and makes the engines. It belongs to the calling goroutine.
func NewSimulated(ctx context.Context, cfg SimulatedConfig) (*Cluster, error) {
	if err := cfg.Complete(); err != nil {
		return nil, err
	}
	if cfg.Protocol.OneThread && cfg.Nodes > 1 {
		return nil, fmt.Errorf("protocol %s reaches other nodes by plain memory, which a simulated "+
			"network does not have: it runs on one node there, not on %d", cfg.Protocol.Name, cfg.Nodes)
	}
	if chips := cfg.Protocol.Chips; cfg.Cost == nil && chips != nil && chips.Preset != "" {
		var err error
		if cfg.Cost, err = sim.Preset(chips.Preset); err != nil {
			return nil, err
		}
	}
	world, err := sim.New(sim.Config{Seed: cfg.Seed, Cost: cfg.Cost, KeepEvents: -1, OnEvent: cfg.OnEvent,
		OnAccess: cfg.OnAccess})
	if err != nil {
		return nil, err
	}
	c := &Cluster{Config: cfg.Config}
	h := &cores{world: world}
	c.host = h
	if err := c.buildSimulated(ctx, &cfg, h); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	faults, err := sim.ParseSchedule(cfg.Faults)
	if err == nil {
		err = errors.Join(world.Install(faults), c.startWorkers(ctx))
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) buildSimulated(ctx context.Context, cfg *SimulatedConfig, h *cores) error {
	var first *sim.Node // of its machine
	for n := range c.Config.Nodes {
		if n%max(cfg.PerNIC, 1) == 0 {
			first = nil
		}
		node, err := h.world.AddNode(sim.NodeConfig{Beside: first})
		if err != nil {
			return err
		}
		if first == nil {
			first = node
		}
		dev, err := node.Open()
		if err != nil {
			return err
		}
		m, err := NewMember(&c.Config, MemberConfig{ID: proto.NodeID(n), Context: dev,
			NewWorker: func(i int, wc fiber.WorkerConfig) (*fiber.Worker, error) {
				core := fiber.NewCore(node.Timeline(i))
				h.cores = append(h.cores, core)
				wc.OnStep = cfg.OnStep
				return core.NewWorker(wc)
			},
			Clock: node.Clock(), RecorderClock: worldClock{h.world},
			Recorder:         history.Clock{Name: "simulator"},
			Simulated:        true,
			WithoutLineWords: cfg.WithoutLineWords,
			AttachNIC:        func(r smartnic.Receiver) (smartnic.NIC, error) { return node.Attach(r) },
			AttachBoard: func() (protocol.Board, error) {
				return Board(node, func(core *fiber.Core) { h.cores = append(h.cores, core) })
			},
			Incarnation: uint64(n+1) << 32,
			Published: func(mr *verbs.MR, line int) {
				node.Touch(mr, line*verbs.LineBytes, verbs.LineBytes)
			}})
		if err != nil {
			return fmt.Errorf("node %d: %w", n, err)
		}
		c.Members = append(c.Members, m)
	}
	if c.Config.Protocol.Chips != nil {
		ShareChips(c.Members)
	}
	return c.connectAll(ctx)
}

// Board is the NIC of a simulated node with its cores. made is told of each core that is made.
func Board(n *sim.Node, made func(*fiber.Core)) (protocol.Board, error) {
	b, err := n.AttachBoard()
	if err != nil {
		return protocol.Board{}, err
	}
	return protocol.Board{Board: b, NewWorker: func(i int, cfg fiber.WorkerConfig) (*fiber.Worker, error) {
		core := fiber.NewCore(b.Timeline(i))
		made(core)
		return core.NewWorker(cfg)
	}}, nil
}

// worldClock is true time.
type worldClock struct{ w *sim.World }

func (c worldClock) Now() time.Duration { return time.Duration(c.w.Now() / sim.Nanosecond) }

// cores is a host in virtual time.
type cores struct {
	world *sim.World
	cores []*fiber.Core
}

// simBatch is the number of events after which a run looks whether it should end.
const simBatch = 4096

// errIdle: tasks wait for what cannot come any more.
var errIdle = errors.New("deadlock: fibers are blocked and no event is pending in the simulated world")

func (c *cores) wait(ctx context.Context, t *Tasks) error {
	for {
		for range simBatch {
			select {
			case <-t.done:
				return t.err()
			default:
			}
			if !c.world.RunOne(sim.Forever) {
				return errors.Join(t.err(), errIdle)
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (c *cores) sleep(ctx context.Context, d time.Duration) error {
	end := c.world.Now() + sim.Of(d)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for {
		for range simBatch {
			if !c.world.RunOne(end) {
				return c.world.RunUntil(end) // moves the clock
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (c *cores) now() time.Duration { return worldClock{c.world}.Now() }

func (c *cores) inspect(_ context.Context, _ *Worker, f func()) error {
	f()
	return nil
}

// stop kills the cores: their fibers end where they are.
func (c *cores) stop() error {
	var errs []error
	for _, core := range c.cores {
		core.Kill()
		errs = append(errs, core.Close())
	}
	return errors.Join(errs...)
}
