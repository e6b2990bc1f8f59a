package node

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/memnode"
	"drtmd/proto/placement"
	"drtmd/proto/protocol"
	"drtmd/store"
	"drtmd/store/remote"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
	"drtmd/verbs/smartnic"
)

// MemberConfig describes one machine of a cluster.
type MemberConfig struct {
	ID proto.NodeID
	// Context is the device, which the member owns from then on.
	Context *verbs.Context
	// NewWorker makes worker i on its thread or core.
	NewWorker func(i int, cfg fiber.WorkerConfig) (*fiber.Worker, error)
	// Clock is the time since the cluster's epoch as the member knows it, wrong by at most
	// ClockError; one with a method Reading, as SyncedClock has, knows its error at any time, and
	// ClockError is what that is at most as a rule.
	Clock      verbs.Clock
	ClockError time.Duration
	// RecorderClock is what histories are recorded by; RecorderName and RecorderError describe
	// it.
	RecorderClock verbs.Clock
	Recorder      history.Clock
	// Keep names memory that outlives the member; "" is anonymous memory.
	Keep string
	// Attach takes the tables as they are in kept memory, instead of loading them.
	Attach bool
	// Placement, if not nil, is how the replicas of the running cluster are when the member joins it with
	// nothing: it has memory for its own shard, formatted, loads the tables that are everywhere, and gets
	// replicas to fill. Without, the member is there from the beginning and loads its shards.
	Placement *placement.Map
	// Published is told of lines that a region has published (htm.Config); nil on real transports.
	Published func(mr *verbs.MR, line int)
	Simulated bool
	// AttachNIC has the machine's NIC carry a program; nil: it carries none.
	AttachNIC func(smartnic.Receiver) (smartnic.NIC, error)
	// Step marks a step of the machine's chips (protocol.ChipEnv); nil: nobody wants to know.
	Step func(name string)
	// AttachBoard has the cores of the machine's NIC run programs; nil: it has none.
	AttachBoard func() (protocol.Board, error)
	// PlaysNIC: a worker of its own plays the cores of the machine's NIC, if the protocol needs some (playedNIC). NewWorker
	// makes it behind all others, and has all on one thread.
	PlaysNIC bool
	// WithoutLineWords has the member take the device for one whose atomics do not exclude the
	// CPU's, whatever it is: for tests of the commit of such devices (design decision 3).
	WithoutLineWords bool
	// Incarnation of the RPC ports; worker i adds i. Not 0, and another one in each life.
	Incarnation uint64
	// Life counts the lives of the member on kept memory, from 0.
	Life uint32
}

// Member is one machine.
type Member struct {
	ID      proto.NodeID
	Workers []*Worker

	cluster    *Config
	cfg        MemberConfig
	pd         *verbs.PD
	shares     []*share // by shard; nil: not held here
	logs       *logs
	tables     []table
	shareBytes int // of each share
	logsAt     int // where the workers' own logs begin in a share
	journalsAt int // and the journals of their changes of tables
	views      views
	cache      *remote.Cache
	placed     *placement.Placed
	bound      *store.Bound // of what the tables grow by
	serving    *protocol.Serving
	chains     protocol.Chains
	barrier    protocol.Barrier
	chips      any             // see protocol.Chips
	cores      []*fiber.Worker // of the NIC
	kept       []string        // files of the recorders

	structure sync.Mutex // see Env.Structure
}

// Worker is one worker of a member with its engine.
type Worker struct {
	Env
	// Engine is nil before the cluster has started.
	Engine proto.Engine
	// Restored is how long it took to make the engine, and to recover what its logs of an earlier life leave to do.
	Restored time.Duration

	member    *Member
	viewing   viewing
	lacks     mutated
	addresses []rpc.Address   // of the peers' ports, by node
	ports     [][]rpc.Address // of all workers of all nodes, by node and worker
	connect   verbs.ConnectAttr
	keeper    keeper
	extents   []extent       // that tables have grown by
	fenced    []atomic.Bool  // by node: it was removed
	over      atomic.Bool    // the cluster stops: the keeper ends
	ways      []*memnode.Way // of a client, to its memory nodes; nil: it is none

	// mu guards conns and loop, which the worker's thread writes and any goroutine may look at, and
	// orders the making of queue pairs against the fence.
	mu    sync.Mutex
	conns []*fiber.Conn // by node
	loop  *fiber.Conn   // the other end of the one to the own node
}

// NewMember opens the memory of a member, loads its tables, and makes its workers with their
// queue pairs, which are not connected. On an error the context is closed.
func NewMember(cluster *Config, cfg MemberConfig) (*Member, error) {
	m := &Member{ID: cfg.ID, cluster: cluster, cfg: cfg}
	if err := m.build(); err != nil {
		return nil, errors.Join(fmt.Errorf("node %d: %w", cfg.ID, err), m.Close())
	}
	return m, nil
}

func (m *Member) build() error {
	device := m.cfg.Context.Attr()
	// A NIC that is played needs no line words: one thread has the memory.
	played := m.playsNIC()
	if played {
		m.cfg.AttachBoard = m.playNIC
	}
	err := m.cluster.Protocol.CheckDevice(device.Name, played || m.lineWords())
	if err != nil {
		return err
	}
	if err := m.cluster.Protocol.CheckChips(device.Name, m.cfg.AttachNIC != nil, m.cfg.AttachBoard != nil); err != nil {
		return err
	}
	if m.pd, err = m.cfg.Context.AllocPD(); err != nil {
		return err
	}
	if err := m.makeShares(); err != nil {
		return err
	}
	if err := m.makeLogs(); err != nil {
		return err
	}
	m.views.paused = make([]atomic.Bool, m.cluster.Workers)
	m.serving = protocol.NewServing(m.cluster.Nodes, m.cluster.Workers)
	m.cache = remote.NewCache(m.cluster.CacheBytes, cacheWays)
	m.cache.Mutate(m.cluster.mutation().remote)
	for i := range m.cluster.Workers {
		w, err := m.newWorker(i)
		if err != nil {
			return fmt.Errorf("worker %d: %w", i, err)
		}
		m.Workers = append(m.Workers, w)
	}
	return m.makeChips()
}

// makeChips makes the chips that the protocol needs beside cores, memory and an RDMA NIC.
func (m *Member) makeChips() (err error) {
	chips := m.cluster.Protocol.Chips
	if chips == nil {
		return nil
	}
	m.chips, err = chips.New(&protocol.ChipEnv{Sizes: m.cluster.sizes(), Node: m.ID, First: &m.Workers[0].Env,
		Attach: m.cfg.AttachNIC, Board: m.attachBoard, PD: m.pd, Step: m.cfg.Step})
	return err
}

// attachBoard has the member close the workers of the NIC's cores.
func (m *Member) attachBoard() (protocol.Board, error) {
	b, err := m.cfg.AttachBoard()
	if err != nil {
		return b, err
	}
	if b.Played {
		return b, nil
	}
	newWorker := b.NewWorker
	b.NewWorker = func(core int, cfg fiber.WorkerConfig) (*fiber.Worker, error) {
		w, err := newWorker(core, cfg)
		if err == nil {
			m.cores = append(m.cores, w)
		}
		return w, err
	}
	return b, nil
}

// ShareChips lets each worker of members that live in one process see the chips of all.
func ShareChips(members []*Member) {
	for _, m := range members {
		for _, w := range m.Workers {
			w.Chips = w.Chips[:0]
			for _, x := range members {
				w.Chips = append(w.Chips, x.chips)
			}
		}
	}
}

// makeRecorder makes the recorder of a worker, if histories are recorded.
func (m *Member) makeRecorder(e *Env) (err error) {
	r := m.cluster.Record
	if r == nil {
		return nil
	}
	o := history.Options{Worker: history.WorkerID(m.worker(e.Index)), Node: history.NodeID(m.ID),
		Clock: m.cfg.Recorder, MemoryBytes: r.MemoryBytes, SpillDir: r.SpillDir}
	if r.Keep {
		if o.Keep, err = os.CreateTemp(r.SpillDir, "drtmd-history-*.kept"); err != nil {
			return fmt.Errorf("keep what worker %d records: %w", e.Index, err)
		}
		m.kept = append(m.kept, o.Keep.Name())
	}
	e.Recorder = history.NewRecorder(o)
	return e.Recorder.Err()
}

// Kept are the files in which the member's workers record (Recording.Keep).
func (m *Member) Kept() []string { return m.kept }

// queueKey of a port that lives once: drawn anew with the incarnation, so that a stranger's datagrams
// do not even arrive. The highest bit would make it privileged, and 0 stands for a default.
func queueKey(incarnation uint64) uint32 {
	return uint32(incarnation>>32)&(1<<31-1) | 1
}

// cacheWays is the associativity of the location cache.
const cacheWays = 4

func (m *Member) newWorker(i int) (*Worker, error) {
	c := m.cluster
	w := &Worker{member: m, connect: c.Connect, fenced: make([]atomic.Bool, c.Nodes),
		addresses: make([]rpc.Address, c.Nodes),
		ports:     make([][]rpc.Address, c.Nodes), lacks: c.mutation()}
	e := &w.Env
	*e = Env{Node: m.ID, Index: i, Roles: c.Protocol.RolesOf(c.sizes(), c.options, i), Fibers: c.Fibers, Specs: c.Workload.Tables(),
		Cache: m.cache, Placement: m.placement(), Placed: m.placed, Serving: m.serving, Chains: &m.chains, Barrier: &m.barrier,
		PeerLife: func(n proto.NodeID) uint64 { return w.addresses[n].Incarnation }, Clock: m.cfg.Clock,
		ClockError: m.cfg.ClockError, WorstClockError: m.cfg.ClockError,
		RecorderClock: m.cfg.RecorderClock,
		Scope:         m.cfg.Context.Attr().Atomic, Mutation: w.lacks.protocol,
		Options: c.options, Growth: c.Growth,
		Simulated: m.cfg.Simulated, Life: m.cfg.Life,
		Region:    htm.Config{Geometry: c.Geometry, Spins: m.spins(), Mutation: w.lacks.htm},
		Structure: &m.structure,
		Rand:      rand.New(rand.NewPCG(c.Seed, uint64(m.worker(i)))),
		Peers:     make([]Peer, c.Nodes)}
	for i := range c.Functions {
		x := &c.Functions[i]
		e.Functions = append(e.Functions, protocol.Function{Number: x.Number,
			New: func() proto.Shipped { return x.New(c.Workload) }})
	}
	if !m.cfg.Simulated { // simulated machines come back as other lives: time alone decides there
		e.HolderLives = func(owner proto.NodeID) bool {
			return int(owner) < len(w.fenced) && !w.Fenced(owner)
		}
	}
	if m.cfg.WithoutLineWords {
		e.Scope = verbs.AtomicHCA
	}
	if err := m.openShares(w); err != nil {
		return nil, err
	}
	e.Logs = m.logs.of(i)
	if p := m.cfg.Published; p != nil {
		e.Region.Published = func(memory *htm.Memory, line int) { p(w.registered(memory), line) }
	}
	if err := m.makeRecorder(e); err != nil {
		return nil, err
	}
	port := c.RPC
	port.Incarnation = m.cfg.Incarnation + uint64(i)
	if port.QKey == 0 {
		port.QKey = queueKey(port.Incarnation)
	}
	port.Self = rpc.Identity{Node: uint16(m.ID), Worker: uint16(i), Life: m.cfg.Life}
	port.Peers, port.Slots = max(c.Nodes-1, 1), min(max(c.Fibers, 1)*rpcPerFiber, maxSlots)
	served := c.Nodes > 1 || c.Protocol.AnyWorker // otherwise nobody calls
	if c.Protocol.AnyWorker {
		port.Peers = c.Nodes * c.Workers
		e.Connect = w.sessionWith
	}
	cfg := fiber.WorkerConfig{Name: fmt.Sprintf("n%d/%d", m.ID, i), PD: m.pd, Depth: c.depth(),
		Conns: connsPerPeer * (c.Nodes + 1)}
	if served {
		cfg.Extra = port.Completions()
	}
	var err error
	if e.Worker, err = m.cfg.NewWorker(i, cfg); err != nil {
		return nil, err
	}
	if served {
		if e.Port, err = rpc.NewPort(e.Worker, port); err != nil {
			return nil, err
		}
	}
	w.serveReconnect(c)
	e.Region.Flag = e.Worker.RegionFlag()
	return w, w.makeConns(c.Nodes)
}

const (
	// rpcPerFiber is how many calls a fiber has outstanding to one peer in the common case; more
	// wait for a slot.
	rpcPerFiber = 2
	maxSlots    = 128
	// connsPerPeer leaves room for queue pairs that were replaced and are still being flushed.
	connsPerPeer = 2
)

// worker numbers the workers of all members.
func (m *Member) worker(i int) int { return int(m.ID)*m.cluster.Workers + i }

func (w *Worker) makeConns(nodes int) error {
	for range nodes {
		c, err := w.Worker.NewConn(verbs.AccessAll)
		if err != nil {
			return err
		}
		w.conns = append(w.conns, c)
	}
	var err error
	w.loop, err = w.Worker.NewConn(verbs.AccessAll)
	return err
}

// Describe is what the other members must know of this one.
func (m *Member) Describe() Descriptor {
	d := m.describeMemory()
	for _, w := range m.Workers {
		x := WorkerDescriptor{}
		for _, c := range w.conns {
			x.Endpoints = append(x.Endpoints, c.Endpoint())
		}
		if w.Port != nil {
			x.Port = w.Port.Address()
		}
		d.Workers = append(d.Workers, x)
	}
	return d
}

// describeMemory is Describe without the workers.
func (m *Member) describeMemory() Descriptor {
	d := Descriptor{Node: m.ID, ClockError: m.cfg.ClockError, Logs: m.logs.describe()}
	for _, s := range m.shares {
		if s != nil {
			d.Shares = append(d.Shares, m.describeShare(s))
		}
	}
	return d
}

// reach makes the member described the peer at the end of the queue pair to it.
func (w *Worker) reach(d *Descriptor) {
	p := &w.Peers[d.Node]
	*p = Peer{Conn: w.conns[d.Node], Session: p.Session, Shares: make([]*proto.PeerShare, len(w.Peers))}
	w.WorstClockError = max(w.WorstClockError, d.ClockError)
	for i := range d.Shares {
		w.reachShare(d.Node, &d.Shares[i])
	}
	p.Log = d.Logs.of(d.Node, w)
}

// Connect connects the queue pairs of all workers to the members described, which are all members
// in the order of their ids, this one included. Nothing may run on the workers yet.
func (m *Member) Connect(all []Descriptor) error {
	c := m.cluster
	if len(all) != c.Nodes {
		return fmt.Errorf("node %d: %d members, want %d", m.ID, len(all), c.Nodes)
	}
	for n := range all {
		d := &all[n]
		if int(d.Node) != n || len(d.Workers) != c.Workers {
			return fmt.Errorf("node %d: member %d describes itself as node %d with %d workers, want %d: all "+
				"members must have the same configuration", m.ID, n, d.Node, len(d.Workers), c.Workers)
		}
		if err := m.checkShares(d); err != nil {
			return err
		}
		if err := m.checkLogs(d); err != nil {
			return err
		}
		for i, w := range m.Workers {
			if err := m.connect(w, d); err != nil {
				return fmt.Errorf("node %d, worker %d, to node %d: %w", m.ID, i, n, err)
			}
		}
	}
	return nil
}

func (m *Member) connect(w *Worker, d *Descriptor) error {
	conn := w.conns[d.Node]
	peer := d.Workers[w.Index].Endpoints[m.ID]
	if d.Node == m.ID {
		peer = w.loop.Endpoint()
		if err := w.loop.Connect(conn.Endpoint(), m.cluster.Connect); err != nil {
			return err
		}
	}
	if err := conn.Connect(peer, m.cluster.Connect); err != nil {
		return err
	}
	ports := d.ports()
	if d.Node == m.ID {
		ports = m.ports() // a descriptor of a cluster of one has none
	}
	w.addPeer(d.Node, ports)
	w.reach(d)
	return nil
}

// Close frees the member's memory and device, and its workers if their thread has not done so.
func (m *Member) Close() error {
	var errs []error
	for _, w := range m.Workers {
		if w.Worker != nil {
			errs = append(errs, w.Worker.Close())
		}
		if w.Engine != nil {
			errs = append(errs, w.Engine.Close())
		}
	}
	for _, w := range m.cores {
		errs = append(errs, w.Close())
	}
	m.cores = nil
	if m.kept != nil { // nobody has asked for the history
		for _, w := range m.Workers {
			s, err := w.Recorder.Close()
			if err == nil {
				err = s.Discard()
			}
			errs = append(errs, err)
		}
		m.kept = nil
	}
	m.Workers = nil
	return errors.Join(append(errs, m.cfg.Context.Close())...)
}

// spins is how often a region looks at a locked line: once where nothing else runs meanwhile.
func (m *Member) spins() int {
	if m.cfg.Simulated {
		return -1
	}
	return 0
}
