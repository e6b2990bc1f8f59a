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
	// Options switch off what makes system rtx faster.
	Options engine.Options
	// Memory are the addresses of the memory nodes' set-up services, in the order of their numbers; none: MemoryNodes
	// of their own in this process, as large as the workload needs.
	Memory []string
	// MemoryNodes is how many they have of their own; 0: one.
	MemoryNodes int
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
	options  engine.Options
	sessions []*memory.Session
	timing   rtx.Timing // zero: from the round trip

	own        []*memnode.Server // memory nodes of their own; none: they are elsewhere
	ownDevices []*verbs.Context

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
	c := &Cluster{Config: cfg.Config, clients: &clients{system: cfg.system(), index: cfg.Index, options: cfg.Options,
		wall: timeOfDay{}}}
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
	for _, t := range cfg.Workload.Tables() {
		if err := index.Takes(t); err != nil {
			return err
		}
	}
	if first := memnode.MaxClient - cfg.Nodes + 1; cfg.Client < 0 || cfg.Client > first {
		return &RangeError{What: "number of the first client", Value: cfg.Client, High: first}
	}
	cfg.MemoryNodes = max(cfg.MemoryNodes, len(cfg.Memory), 1)
	switch system := cfg.system(); {
	case cfg.MemoryNodes > 1 && !system.Spread:
		return fmt.Errorf("protocol %s runs on one memory node, not on %d", system.Name, cfg.MemoryNodes)
	case cfg.MemoryNodes > rtx.MaxNodes:
		return &RangeError{What: "memory nodes", Value: cfg.MemoryNodes, High: rtx.MaxNodes}
	}
	if cfg.Part != nil && len(cfg.Memory) == 0 {
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
	for i := 0; len(cfg.Memory) == 0 && i < cfg.MemoryNodes; i++ {
		device, err := place.open()
		if err == nil {
			err = c.serveOwn(device, cfg)
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
			Recorder: place.recorderClock(clockError), NewWorker: t.newWorker(i, &cfg.Config)})
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

// serveOwn makes the next memory node, large enough for its share of the workload. The cluster owns the device from
// then on.
func (c *Cluster) serveOwn(device *verbs.Context, cfg *ClientsConfig) error {
	k := c.clients
	k.ownDevices = append(k.ownDevices, device)
	index, _ := engine.FindIndex(k.index)
	bytes, owners := OwnMemoryBytes(&c.Config, &index, cfg.MemoryNodes)
	format, err := k.system.Format(bytes, owners, &index, engine.Number{Node: len(k.own), Nodes: cfg.MemoryNodes})
	if err != nil {
		return err
	}
	server, err := memnode.NewServer(device, memnode.Config{Bytes: bytes, Clients: c.Config.Nodes,
		QueuePairs: c.Config.Workers, Connect: c.Config.Connect, Format: format})
	if err == nil {
		k.own = append(k.own, server)
	}
	return err
}

// OwnMemoryBytes is the size of each of the memory nodes that clients of a complete Config have of their own: room for
// its share of all records in an index, and for the owners.
func OwnMemoryBytes(c *Config, index *engine.IndexSpec, nodes int) (bytes, owners int) {
	const (
		reserve  = 4 << 20
		perOwner = 96 << 10
	)
	owners = c.Nodes * c.Workers * c.Fibers
	bytes = reserve + owners*perOwner
	for _, t := range c.Workload.Tables() {
		bytes += (t.Capacity*c.Nodes*index.BytesOf(t) + nodes - 1) / nodes
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
		w.Env = Env{Node: m.ID, Index: i, Roles: protocol.Application, Fibers: c.Config.Fibers, Specs: c.Config.Workload.Tables(),
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

// joinMemory opens the sessions of a client: it has the same number with all memory nodes.
func (c *Cluster) joinMemory(ctx context.Context, cfg *ClientsConfig, m *Member) error {
	var workers []*fiber.Worker
	for _, w := range m.Workers {
		workers = append(workers, w.Worker)
	}
	id := memnode.ClientID(0)
	if cfg.Client > 0 {
		id = memnode.ClientID(cfg.Client + int(m.ID))
	}
	k := c.clients
	for n := range cfg.MemoryNodes {
		var way *memnode.Way
		var err error
		if len(cfg.Memory) == 0 {
			way, err = memnode.Join(k.own[n].Admit, id, workers, c.Config.Connect)
		} else {
			var s *memory.Session
			if way, s, err = memory.Join(ctx, cfg.Memory[n], id, workers, c.Config.Connect); err == nil {
				k.sessions = append(k.sessions, s)
			}
		}
		if err != nil {
			return cfg.of(n, err)
		}
		id = way.Client
		for i, w := range m.Workers {
			w.conns = append(w.conns, way.Conns[i])
			w.ways = append(w.ways, way)
		}
	}
	return nil
}

// of says which of several memory nodes an error is of.
func (cfg *ClientsConfig) of(n int, err error) error {
	switch {
	case cfg.MemoryNodes == 1:
		return err
	case len(cfg.Memory) > 0:
		return fmt.Errorf("memory node %d of %d, %s: %w", n+1, cfg.MemoryNodes, cfg.Memory[n], err)
	}
	return fmt.Errorf("memory node %d of %d: %w", n+1, cfg.MemoryNodes, err)
}

// startClient makes the engine of a worker, on its fiber.
func (c *Cluster) startClient(f *fiber.Fiber, w *Worker, _ int) error {
	k := c.clients
	way := w.ways[0]
	owners, err := k.system.Owners(f, w.conns[0], w.Worker.PD(), way.Memory)
	if err != nil {
		return err
	}
	each := owners / way.Clients
	if need := c.Config.Workers * c.Config.Fibers; need > each {
		return fmt.Errorf("%w: a client needs %d owners, for %d workers of %d fibers, and the memory node has %d for each: "+
			"use fewer fibers, or start it with more", rtx.ErrShape, need, c.Config.Workers, c.Config.Fibers, each)
	}
	timing := k.timing
	if timing == (rtx.Timing{}) {
		trip, err := rtx.RoundTrip(f, w.conns[0], w.Worker.PD(), way.Memory)
		if err != nil {
			return err
		}
		w.RoundTrip, timing = trip, rtx.TimingFor(trip)
	}
	wall := k.wall
	if wall == nil {
		wall = shifted{w.member.cfg.Clock}
	}
	var more []rtx.Remote
	for i := 1; i < len(w.ways); i++ {
		more = append(more, rtx.Remote{Conn: w.conns[i], Memory: w.ways[i].Memory})
	}
	e, err := engine.New(f, engine.Config{Worker: w.Worker, Conn: w.conns[0], Memory: way.Memory, More: more,
		Owner: (int(way.Client)-1)*each + w.Index*c.Config.Fibers, Fibers: c.Config.Fibers, Clock: wall, Timing: timing,
		Rand: w.Rand, System: k.system.Name, Index: k.index, Specs: w.Specs, Placement: w.Placement, Nodes: c.Config.Nodes,
		Recorder: w.Recorder, RecorderClock: w.RecorderClock, Options: k.options, Mutation: w.Mutation})
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
	c := &Cluster{Config: cfg.Config, clients: &clients{system: cfg.system(), index: cfg.Index, options: cfg.Options,
		timing: rtx.DefaultTiming()}}
	h := &cores{world: world}
	c.host = h
	if err := c.buildSimulatedClients(ctx, &cfg, h); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c.startClients(ctx)
}

func (c *Cluster) buildSimulatedClients(ctx context.Context, cfg *ClientsConfig, h *cores) error {
	memories := cfg.MemoryNodes
	for n := range c.Config.Nodes + memories {
		machine, err := h.world.AddNode(sim.NodeConfig{})
		if err != nil {
			return err
		}
		device, err := machine.Open()
		if err != nil {
			return err
		}
		if n < memories {
			if err := c.serveOwn(device, cfg); err != nil {
				return err
			}
			continue
		}
		m, err := c.newClient(MemberConfig{ID: proto.NodeID(n - memories), Context: device, Clock: machine.Clock(),
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
			return fmt.Errorf("client %d: %w", n-memories, err)
		}
	}
	return nil
}

// close ends the sessions, and the memory nodes if they are the clients' own. The workers are closed.
func (k *clients) close() error {
	var errs []error
	for _, s := range k.sessions {
		errs = append(errs, s.Close())
	}
	for _, s := range k.own {
		errs = append(errs, s.Close())
	}
	for _, d := range k.ownDevices {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}
