package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/memnode"
	"drtmd/proto/node/memory"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/engine"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// MemoryProtocols lists what transactions can run on where records lie on a memory node, and clients share
// nothing else. They run in the clusters that NewClients makes, and in no other.
func MemoryProtocols() []Protocol {
	var list []Protocol
	for _, x := range engine.Systems() {
		p := Protocol{Name: x.Name, Doc: x.Doc, Needs: protocol.Needs{Scans: true}, Optimistic: true, LocksLate: true,
			Mutations: x.Mutations}
		p.Unmutated = x.Unmutated
		for _, s := range engine.Indexes() {
			if p.Unmutated == "" {
				p.Mutations = append(p.Mutations, s.Mutations...)
			}
		}
		list = append(list, p)
	}
	return list
}

// FindMemoryProtocol finds one of MemoryProtocols by name.
func FindMemoryProtocol(name string) (Protocol, bool) {
	for _, p := range MemoryProtocols() {
		if p.Name == name {
			return p, true
		}
	}
	return Protocol{}, false
}

// ClientsConfig of NewClients. Config.Nodes is the number of clients, Config.Protocol one of MemoryProtocols; each
// client loads what the workload places on the node of its number, through the index.
type ClientsConfig struct {
	Config
	// Index that tables are: see engine.Indexes; "" is the first.
	Index string
	// Memory is the address of the memory node's set-up service; "": a memory node of their own in this process,
	// as large as the workload needs.
	Memory string
	// Client is the number of the first client, and the others have those behind it; 0: any that are free.
	Client int

	Provider verbs.Provider // nil is shared memory
	Device   string         // "" is the first one with an active port
	GID      verbs.GIDChoice
	Threads  int // 0 = 1
	// Part, if not nil, has only some of the clients live in this process; Memory names the memory node.
	Part *Part
}

// clients are what a Cluster of clients has beside its members.
type clients struct {
	system   engine.System
	index    string
	sessions []*memory.Session
	timing   rtx.Timing // zero: from the round trip

	own       *memnode.Server // a memory node of their own; nil: it is elsewhere
	ownDevice *verbs.Context
	ask       memnode.Ask // that of own

	wall   verbs.Clock // in real time; nil: that of each member's machine
	loaded []*history.Snapshot
	held   []*held // by member of this process, at the end
	ready  bool    // the tables are loaded
	failed error   // why the records cannot be read at the end
}

// timeOfDay is the wall clock of this machine, since 1970.
type timeOfDay struct{}

func (timeOfDay) Now() time.Duration { return time.Duration(time.Now().UnixNano()) }

// simulatedDay is the time of day at which simulated clocks begin: 2026.
const simulatedDay = 56 * 365 * 24 * time.Hour

// shifted is a simulated machine's clock as the time of day.
type shifted struct{ verbs.Clock }

func (c shifted) Now() time.Duration { return simulatedDay + c.Clock.Now() }

// NewClients builds clients of a memory node on threads of this process, connects them, and loads the tables.
func NewClients(ctx context.Context, cfg ClientsConfig) (*Cluster, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	place := LocalConfig{Config: cfg.Config, Provider: cfg.Provider, Device: cfg.Device, GID: cfg.GID, Threads: cfg.Threads,
		Part: cfg.Part}
	if err := place.completePlace(); err != nil {
		return nil, err
	}
	c := &Cluster{Config: cfg.Config, clients: &clients{system: cfg.system(), index: cfg.Index, wall: timeOfDay{}}}
	t := &threads{}
	c.host = t
	if err := c.buildClients(ctx, &cfg, &place, t); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	t.run()
	return c.startClients(ctx)
}

func (c *Cluster) startClients(ctx context.Context) (*Cluster, error) {
	err := c.Start("start", 1, c.startClient).Wait(ctx)
	if err == nil {
		err = c.fill(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.clients.ready = true
	return c, nil
}

// complete fills in the defaults and checks the configuration.
func (cfg *ClientsConfig) complete() error {
	if err := cfg.Complete(); err != nil {
		return err
	}
	if _, ok := engine.FindSystem(cfg.Protocol.Name); !ok {
		return fmt.Errorf("protocol %s does not run on memory nodes", cfg.Protocol.Name)
	}
	index, ok := engine.FindIndex(cfg.Index)
	if !ok {
		return &UnknownError{What: "index", Name: cfg.Index, Known: engine.IndexNames()}
	}
	if !index.On(cfg.Protocol.Name) {
		return fmt.Errorf("protocol %s has no index %s", cfg.Protocol.Name, index.Name)
	}
	for _, t := range cfg.Workload.Tables() {
		if err := index.Takes(t); err != nil {
			return err
		}
	}
	if first := memnode.MaxClient - cfg.Nodes + 1; cfg.Client < 0 || cfg.Client > first {
		return &RangeError{What: "number of the first client", Value: cfg.Client, High: first}
	}
	if cfg.Part != nil && cfg.Memory == "" {
		return errors.New("clients in several processes need a memory node that all of them reach: name one")
	}
	return nil
}

func (cfg *ClientsConfig) system() engine.System {
	s, _ := engine.FindSystem(cfg.Protocol.Name)
	return s
}

func (c *Cluster) buildClients(ctx context.Context, cfg *ClientsConfig, place *LocalConfig, t *threads) error {
	clockError, err := t.open(place)
	if err != nil {
		return err
	}
	if cfg.Memory == "" {
		device, err := place.open()
		if err == nil {
			err = c.serveOwn(device)
		}
		if err != nil {
			return err
		}
	}
	members := place.members()
	for i, n := range members {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		device, err := place.open()
		if err != nil {
			return fmt.Errorf("client %d: %w", n, err)
		}
		m, err := c.newClient(MemberConfig{ID: n, Context: device, RecorderClock: t.clock,
			Recorder: place.recorderClock(clockError), NewWorker: t.newWorker(i * cfg.Workers)})
		if err != nil {
			return err
		}
		if err := c.joinMemory(ctx, cfg, m); err != nil {
			return fmt.Errorf("client %d: %w", n, err)
		}
	}
	if p := cfg.Part; p != nil { // they have nothing to say to each other, but all begin together
		var own []Descriptor
		for _, n := range members {
			own = append(own, Descriptor{Node: n})
		}
		if _, err := p.Exchange(own); err != nil {
			return err
		}
		return p.Connected()
	}
	return nil
}

// serveOwn makes a memory node that is large enough for the workload. The cluster owns the device from then on.
func (c *Cluster) serveOwn(device *verbs.Context) (err error) {
	k := c.clients
	k.ownDevice = device
	index, _ := engine.FindIndex(k.index)
	bytes, owners := OwnMemoryBytes(&c.Config, &index)
	format, err := k.system.Format(bytes, owners, &index)
	if err != nil {
		return err
	}
	k.own, err = memnode.NewServer(device, memnode.Config{Bytes: bytes, Clients: c.Config.Nodes,
		QueuePairs: c.Config.Workers, Connect: c.Config.Connect, Format: format})
	if err == nil {
		k.ask = k.own.Admit
	}
	return err
}

// OwnMemoryBytes is the size of the memory node that clients of a complete Config have of their own: room for all
// records in an index, and for the owners.
func OwnMemoryBytes(c *Config, index *engine.IndexSpec) (bytes, owners int) {
	const (
		reserve  = 4 << 20
		perOwner = 96 << 10
	)
	owners = c.Nodes * c.Workers * c.Fibers
	bytes = reserve + owners*perOwner
	for _, t := range c.Workload.Tables() {
		bytes += t.Capacity * c.Nodes * index.BytesOf(t)
	}
	return bytes, owners
}

// newClient makes a client's workers, which are not connected. The cluster owns it, and its device, from then on.
func (c *Cluster) newClient(cfg MemberConfig) (*Member, error) {
	m := &Member{ID: cfg.ID, cluster: &c.Config, cfg: cfg}
	c.Members = append(c.Members, m)
	var err error
	if m.pd, err = cfg.Context.AllocPD(); err != nil {
		return nil, fmt.Errorf("client %d: %w", cfg.ID, err)
	}
	for i := range c.Config.Workers {
		w := &Worker{member: m}
		w.Env = Env{Node: m.ID, Index: i, Fibers: c.Config.Fibers, Specs: c.Config.Workload.Tables(),
			Placement: c.Config.Workload.Placement(), RecorderClock: cfg.RecorderClock, Simulated: cfg.Simulated,
			Scope: cfg.Context.Attr().Atomic, Mutation: c.Config.Mutation, Options: option.Values{},
			Rand: rand.New(rand.NewPCG(c.Config.Seed, uint64(m.worker(i))))}
		if err := m.makeRecorder(&w.Env); err != nil {
			return nil, err
		}
		m.Workers = append(m.Workers, w)
		w.Worker, err = cfg.NewWorker(i, fiber.WorkerConfig{Name: fmt.Sprintf("n%d/%d", m.ID, i), PD: m.pd,
			Depth: c.Config.depth()})
		if err != nil {
			return nil, fmt.Errorf("client %d: %w", cfg.ID, err)
		}
	}
	return m, nil
}

// joinMemory opens the session of a client.
func (c *Cluster) joinMemory(ctx context.Context, cfg *ClientsConfig, m *Member) error {
	var workers []*fiber.Worker
	for _, w := range m.Workers {
		workers = append(workers, w.Worker)
	}
	id := memnode.ClientID(0)
	if cfg.Client > 0 {
		id = memnode.ClientID(cfg.Client + int(m.ID))
	}
	var way *memnode.Way
	var err error
	if k := c.clients; k.ask != nil {
		way, err = memnode.Join(k.ask, id, workers, c.Config.Connect)
	} else {
		var s *memory.Session
		if way, s, err = memory.Join(ctx, cfg.Memory, id, workers, c.Config.Connect); err == nil {
			k.sessions = append(k.sessions, s)
		}
	}
	if err != nil {
		return err
	}
	for i, w := range m.Workers {
		w.conns = way.Conns[i : i+1]
		w.way = way
	}
	return nil
}

// startClient makes the engine of a worker, on its fiber.
func (c *Cluster) startClient(f *fiber.Fiber, w *Worker, _ int) error {
	k := c.clients
	owners, err := k.system.Owners(f, w.conns[0], w.Worker.PD(), w.way.Memory)
	if err != nil {
		return err
	}
	each := owners / w.way.Clients
	if need := c.Config.Workers * c.Config.Fibers; need > each {
		return fmt.Errorf("%w: a client needs %d owners, for %d workers of %d fibers, and the memory node has %d for each: "+
			"use fewer fibers, or start it with more", rtx.ErrShape, need, c.Config.Workers, c.Config.Fibers, each)
	}
	timing := k.timing
	if timing == (rtx.Timing{}) {
		trip, err := rtx.RoundTrip(f, w.conns[0], w.Worker.PD(), w.way.Memory)
		if err != nil {
			return err
		}
		w.RoundTrip, timing = trip, rtx.TimingFor(trip)
	}
	wall := k.wall
	if wall == nil {
		wall = shifted{w.member.cfg.Clock}
	}
	e, err := engine.New(f, engine.Config{Worker: w.Worker, Conn: w.conns[0], Memory: w.way.Memory,
		Owner: (int(w.way.Client)-1)*each + w.Index*c.Config.Fibers, Fibers: c.Config.Fibers, Clock: wall, Timing: timing,
		Rand: w.Rand, System: k.system.Name, Index: k.index, Specs: w.Specs, Placement: w.Placement, Nodes: c.Config.Nodes,
		Recorder: w.Recorder, RecorderClock: w.RecorderClock, Mutation: w.Mutation})
	if err != nil {
		return err
	}
	w.Engine = e
	return nil
}

// NewSimulatedClients builds clients of a simulated memory node, each worker on a core of its own, starts them in
// virtual time, and loads the tables. It belongs to the calling goroutine.
func NewSimulatedClients(ctx context.Context, cfg ClientsConfig, cost *sim.CostModel) (*Cluster, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	world, err := sim.New(sim.Config{Seed: cfg.Seed, Cost: cost, KeepEvents: -1})
	if err != nil {
		return nil, err
	}
	c := &Cluster{Config: cfg.Config, clients: &clients{system: cfg.system(), index: cfg.Index, timing: rtx.DefaultTiming()}}
	h := &cores{world: world}
	c.host = h
	if err := c.buildSimulatedClients(ctx, &cfg, h); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c.startClients(ctx)
}

func (c *Cluster) buildSimulatedClients(ctx context.Context, cfg *ClientsConfig, h *cores) error {
	for n := range c.Config.Nodes + 1 {
		machine, err := h.world.AddNode(sim.NodeConfig{})
		if err != nil {
			return err
		}
		device, err := machine.Open()
		if err != nil {
			return err
		}
		if n == 0 {
			if err := c.serveOwn(device); err != nil {
				return err
			}
			continue
		}
		m, err := c.newClient(MemberConfig{ID: proto.NodeID(n - 1), Context: device, Clock: machine.Clock(),
			RecorderClock: worldClock{h.world}, Recorder: history.Clock{Name: "simulator"}, Simulated: true,
			NewWorker: func(i int, wc fiber.WorkerConfig) (*fiber.Worker, error) {
				core := fiber.NewCore(machine.Timeline(i))
				h.cores = append(h.cores, core)
				return core.NewWorker(wc)
			}})
		if err != nil {
			return err
		}
		if err := c.joinMemory(ctx, cfg, m); err != nil {
			return fmt.Errorf("client %d: %w", n-1, err)
		}
	}
	return nil
}

// close ends the sessions, and the memory node if it is the clients' own. The workers are closed.
func (k *clients) close() error {
	var errs []error
	for _, s := range k.sessions {
		errs = append(errs, s.Close())
	}
	if k.own != nil {
		errs = append(errs, k.own.Close())
	}
	if k.ownDevice != nil {
		errs = append(errs, k.ownDevice.Close())
	}
	return errors.Join(errs...)
}
