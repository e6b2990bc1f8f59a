package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"

	"drtmd/proto"
	"drtmd/proto/chop"
	"drtmd/proto/history"
	"drtmd/proto/member"
	"drtmd/proto/member/membersim"
	"drtmd/proto/node"
	"drtmd/proto/placement"
	"drtmd/proto/protocol"
	"drtmd/proto/workload"
	"drtmd/proto/workload/smallbank"
	"drtmd/proto/workload/tpcc"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
	"drtmd/verbs/smartnic"
)

// cluster is a run: sites, and what the checks know, which no crash takes away.
type cluster struct {
	e        *scenario.Env
	cfg      node.Config
	protocol node.Protocol
	load     workload.Workload
	set      settings
	values   values
	sizes    []int    // see program
	behind   []behind // found by the check of the history
	// atBoot has engines made before their peers are connected, so that they answer from the
	// beginning; others are made when all are.
	atBoot bool
	// hasty lives try to reach the others before these know them.
	hasty      bool
	polls      bool     // see spec
	durable    bool     // see spec
	unrecorded bool     // see spec
	grace      sim.Time // see spec
	sites      []*site
	// removed is the machine that the others remove from the cluster, at a time; nil: none.
	removed  *site
	removeAt sim.Time
	losses   losses   // of runs with replicas
	small    bool     // see spec
	begins   []func() // of the clients of a small world, until all are ready
	begun    bool     // they were called
	placed   bool     // a machine has asked for the first placement
	ended    bool     // the managers have nothing to do any more
	// registry has the machines for its members, each by its access; nil: the managers know everything.
	registry *membersim.Registry
	access   []*membersim.Node
}

// site is a machine through all its lives.
type site struct {
	*cluster
	id        proto.NodeID
	machine   *scenario.Machine
	member    *node.Member // of the present life; that of the last one while the machine is down
	loaded    bool         // the tables were loaded once
	joins     bool         // the present life has come to a cluster with replicas that runs
	initial   *history.Snapshot
	lives     int
	recorders []*history.Recorder
	clients   []*client
	managers  []*manager // of the present life
	seat      *seat      // as a member; nil: it has not joined
	replaces  member.Incarnation
}

// shard is the one that the site's records are of.
func (s *site) shard() proto.ShardID { return proto.ShardID(s.id) }

// Timing of the runs.
const (
	manageEvery = 30 * time.Microsecond
	pollEvery   = 100 * time.Nanosecond
	// grace is how long managers go on after the end of the run, for transactions that must
	// still release what they hold.
	grace = 5 * sim.Millisecond
	// epoch is the time on every clock at the beginning: clocks that go back stay positive.
	epoch = time.Second
)

// keepTimes let keepers connect members again several times in a run.
var keepTimes = node.KeepTimes{Look: manageEvery, Retry: 20 * time.Microsecond,
	Most: 160 * time.Microsecond, Patience: 400 * time.Microsecond}

// build adds the machines.
func (x spec) build(e *scenario.Env, w workload.Workload, set settings, chopping chop.Mutation) error {
	mutation := e.Mutation
	if mutation == mutationBeyondDelta || chopping != 0 {
		mutation = ""
	}
	c := &cluster{e: e, values: values{}, protocol: x.protocol, load: w, set: set,
		atBoot: x.protocol.Early, hasty: x.faults == crashFaults, polls: x.polls,
		durable: x.durable, unrecorded: x.unrecorded, small: x.small, losses: newLosses(set.replicas), grace: cmp.Or(x.grace, grace)}
	if !x.unrecorded {
		c.sizes = c.sizesOf()
	}
	c.cfg = node.Config{Protocol: x.protocol, Options: x.options(e.Setting), Workload: w,
		Nodes: e.Nodes, Workers: e.Workers, Fibers: e.Fibers, CacheBytes: 1 << 12,
		Replicas: set.replicas, Mutation: mutation, Keep: keepTimes,
		// 4 retries after 131 us each.
		Connect: verbs.ConnectAttr{RTR: verbs.RTRAttr{MinRNRTimer: 1},
			RTS: verbs.RTSAttr{Timeout: 5, RetryCount: 4, RNRRetry: 3}},
		RPC: rpc.Config{RTOMin: 30 * time.Microsecond, RTOFirst: 60 * time.Microsecond,
			RTOMax: 120 * time.Microsecond, PeerTimeout: 600 * time.Microsecond,
			HealFirst: 20 * time.Microsecond, HealMost: 160 * time.Microsecond}}
	if !x.unrecorded {
		c.cfg.Record = &node.Recording{}
	}
	if x.small {
		smallTimes(&c.cfg)
	}
	switch x.load {
	case loadBank:
		c.cfg.Functions = smallbank.Spec().Functions
	case loadTPCC:
		c.cfg.Functions = tpcc.Spec().Functions
	}
	if err := c.cfg.Complete(); err != nil {
		return err
	}
	for i := range e.Nodes {
		s := &site{cluster: c, id: proto.NodeID(i)}
		c.sites = append(c.sites, s)
		m, err := e.AddMachine(scenario.MachineConfig{Bare: true, Workers: e.Workers, Boot: s.boot})
		if err != nil {
			return err
		}
		if c.replicated() {
			m.Node.OnCrash(s.noteDeath)
		}
	}
	if x.membership {
		cuts := drawnCuts
		if x.short {
			cuts = 0 // who loses its lease dies, too, and no more may than the crashes say
		}
		c.makeRegistry(cuts)
	}
	if x.removal {
		c.removed = c.sites[len(c.sites)-1]
		c.removeAt = e.Until/8 + sim.Time(e.World.Rand("removal").Int64N(int64(e.Until/2)))
	}
	e.AtEnd(c.check)
	return nil
}

// clock is a node's clock, counted from the epoch.
type clock struct{ verbs.Clock }

func (c clock) Now() time.Duration { return epoch + c.Clock.Now() }

// trueTime is what histories are recorded by.
type trueTime struct{ w *sim.World }

func (t trueTime) Now() time.Duration { return time.Duration(t.w.Now() / sim.Nanosecond) }

// boot begins a life of the machine.
func (s *site) boot(m *scenario.Machine) error {
	s.machine = m
	life := s.lives
	if s.registry != nil {
		s.access[s.id].Die()
	}
	keep, attach := "tables", s.loaded
	var joins *placement.Map
	if s.replicated() && life > 0 {
		keep, attach = fmt.Sprintf("tables %d", life), false
		if s.joins = s.placed; s.joins {
			joins = placement.Initial(s.cfg.Nodes, s.cfg.Replicas)
		}
	}
	member, err := node.NewMember(&s.cfg, node.MemberConfig{ID: s.id, Context: m.Context, Placement: joins,
		NewWorker: m.NewWorker, Clock: clock{m.Node.Clock()}, ClockError: s.set.clockError, WithoutLineWords: !s.set.words,
		RecorderClock: trueTime{s.e.World}, Keep: keep, Attach: attach, Simulated: true,
		Life:        uint32(life),
		Incarnation: uint64(s.id+1)<<32 | uint64(m.Node.Incarnation())<<16 | 1,
		AttachNIC:   func(r smartnic.Receiver) (smartnic.NIC, error) { return m.Node.Attach(r) },
		AttachBoard: func() (protocol.Board, error) { return node.Board(m.Node, m.Adopt) },
		Step:        func(name string) { s.e.World.Step(m.Node, name) },
		Published: func(mr *verbs.MR, line int) {
			m.Node.Touch(mr, line*verbs.LineBytes, verbs.LineBytes)
		}})
	if err != nil {
		return err
	}
	if !s.loaded {
		s.initial = member.Loaded(s.shard())
	}
	s.member, s.loaded, s.managers, s.seat = member, true, nil, nil
	s.lives++
	for i, w := range member.Workers {
		if !s.unrecorded {
			w.Recorder = history.NewRecorder(history.Options{Node: history.NodeID(s.id),
				Worker: history.WorkerID((int(s.id)*s.cfg.Workers+i)<<8 | life),
				Clock:  history.Clock{Name: "true time"}})
			s.recorders = append(s.recorders, w.Recorder)
		}
		if s.replicated() {
			w.Lease = s.holdsLease
		}
		if s.atBoot {
			if w.Engine, err = s.protocol.Make(&w.Env); err != nil {
				return err
			}
		}
		mg := &manager{site: s, w: w, i: i, life: life, fencedLives: s.noLives()}
		s.managers = append(s.managers, mg)
		m.Go(i, "manager", mg.run)
	}
	return nil
}

// up reports whether the machine has a life that can be connected to, and that is part of the run.
func (s *site) up() bool { return s.machine != nil && s.machine.Up() && s.member != nil && !s.late() }

// manager keeps one worker connected, and runs its transactions.
type manager struct {
	*site
	w       *node.Worker
	i, life int
	met     []int // by node, from the own one on: the life of the peer that it was joined with, from 1
	tried   []int // by node: the life of the peer that it tried to reach before they were joined
	running int   // clients
	started bool
	resumed bool // the rest of chains of an earlier life is run, or was
	// fencedFor is the pending view for which the worker is fenced.
	fencedFor member.Epoch
	// fencedLives are the newest lives of the other machines from which it was fenced off, by node.
	fencedLives []member.Incarnation
	filling     bool // a replica of the machine
	connected   bool // to every machine that is up
}

// run is the manager's fiber.
func (m *manager) run(f *fiber.Fiber) error {
	m.met, m.tried = make([]int, len(m.sites)), make([]int, len(m.sites))
	for !m.ended {
		if m.small {
			m.lookSmall()
		}
		m.fence()
		m.checkTrouble()
		all := true
		follow := m.follow
		if m.replicated() {
			follow = m.view
		}
		if m.registry != nil {
			ok, err := follow(f)
			if err != nil {
				return err
			}
			all = ok
		}
		met := true
		for _, peer := range m.sites {
			ok, err := m.connect(f, peer)
			if err != nil {
				return err
			}
			met = met && (ok || m.replicated() && !peer.up())
		}
		if met && m.replicated() && m.w.Engine == nil {
			if err := m.makeEngine(); err != nil {
				return err
			}
		}
		m.connected = met
		all = all && met
		if all && m.durable && !m.resumed {
			m.resume()
		}
		if all && !m.started && !m.e.Over() && m.restored() {
			// Short of memory it tries again.
			if err := m.start(); err != nil && !errors.Is(err, syscall.ENOMEM) {
				return err
			}
		}
		if done := m.idle() && m.settled(); m.e.Over() && (done || m.e.World.Now() > m.e.Until+m.grace) {
			if m.durable && !done {
				m.e.Fail(checkRecovery, "so long after the end of the run: %s", m.unsettled())
			}
			if !m.replicated() || m.registry == nil {
				return nil
			}
			if !done {
				m.e.Fail(checkRecovery, "so long after the end of the run: %s", m.leftOver())
			}
			m.registry.Close() // no view comes after the last one
			m.ended = true
		}
		if err := f.Sleep(manageEvery); err != nil {
			return err
		}
	}
	return nil
}

// connect sees to the way to a peer, and reports whether it works. Lives that have not met are joined
// by the manager of the lower node. Between lives that have, it is the keeper's code that makes again
// what breaks, as in any cluster.
func (m *manager) connect(f *fiber.Fiber, peer *site) (bool, error) {
	if !peer.up() || !m.knows(peer) && !m.meets(peer) {
		return false, nil
	}
	if !m.knows(peer) {
		m.hurry(f, peer)
		if peer.id < m.id {
			return false, nil
		}
		if m.registry != nil {
			m.admit(peer)
		}
		if ok, err := m.join(f, peer); !ok || err != nil {
			return false, err
		}
	}
	ok := m.w.Mend(f, peer.id)
	m.w.Pay(f, peer.id)
	return ok, f.Err()
}

// knows reports whether the present lives of both were joined.
func (m *manager) knows(peer *site) bool {
	if peer.id >= m.id {
		return m.met[peer.id] == peer.lives
	}
	other := peer.managers[m.i]
	return other.met != nil && other.met[m.id] == m.lives
}

// join connects two lives for the first time.
func (m *manager) join(f *fiber.Fiber, peer *site) (bool, error) {
	old, err := node.Join(m.member, peer.member, m.i)
	if err == nil {
		m.met[peer.id] = peer.lives // the peer may be another one when the old ones are closed
	}
	for _, r := range old {
		if r.Worker == m.w.Worker {
			if err := r.Conn.Close(f); err != nil {
				return false, err
			}
			continue
		}
		r.Worker.Submit("close", func(f *fiber.Fiber) error { return r.Conn.Close(f) }, nil)
	}
	return err == nil, nil // memory is short, or the peer went down: next time
}

// idle reports whether no client runs any more anywhere, and no engine has anything left to do at
// peers that were out of reach: until then the others may need this manager.
func (c *cluster) idle() bool {
	for _, s := range c.sites {
		if c.durable && (!s.up() || !s.restored()) {
			return false
		}
		for _, m := range s.managers {
			if s.up() && (m.running > 0 || m.owes() || !m.drained()) {
				return false
			}
		}
	}
	return true
}

// unsettled says what idle waits for.
func (c *cluster) unsettled() string {
	var all []string
	for _, s := range c.sites {
		switch {
		case !s.up():
			all = append(all, fmt.Sprintf("node %d is down", s.id))
			continue
		case !s.restored():
			all = append(all, fmt.Sprintf("node %d has not recovered", s.id))
		}
		for _, m := range s.managers {
			if m.running > 0 || m.owes() {
				all = append(all, fmt.Sprintf("node %d, worker %d runs %d clients, and owes something: %t", s.id, m.i,
					m.running, m.owes()))
			}
		}
	}
	return strings.Join(all, "; ")
}

// restored reports whether nothing of an earlier life is left to do that the machine has logged.
func (s *site) restored() bool {
	for _, w := range s.member.Workers {
		if e, ok := w.Engine.(proto.Logger); ok && e.LogStats().Recovering > 0 {
			return false
		}
	}
	return true
}

// owes reports whether the worker's engine has anything left to do that it can still do.
func (m *manager) owes() bool {
	e, ok := m.w.Engine.(proto.Debtor)
	switch {
	case !ok || m.site == m.removed:
		return false
	case m.removed != nil:
		return e.Debts() > e.DebtsAt(m.removed.id)
	}
	return e.Debts() > 0
}

func (m *manager) makeEngine() (err error) {
	if m.protocol.Chips != nil {
		var members []*node.Member
		for _, s := range m.sites {
			members = append(members, s.member)
		}
		node.ShareChips(members)
	}
	m.w.Engine, err = m.protocol.Make(&m.w.Env)
	return err
}

// start starts the clients, once everything is connected.
func (m *manager) start() error {
	if m.w.Engine == nil {
		if err := m.makeEngine(); err != nil {
			return err
		}
	}
	m.started = true
	if m.polls {
		m.machine.Go(m.i, "poll", m.poll)
	}
	if m.w.Roles&protocol.Application == 0 {
		return nil
	}
	for i := range m.e.Fibers {
		r := m.e.World.Rand(fmt.Sprintf("client %d.%d.%d.%d", m.id, m.i, i, m.life))
		c := &client{program: program{values: m.values, sizes: m.sizes},
			Client: m.load.NewClient(m.id, rand.New(rand.NewPCG(r.Uint64(), r.Uint64())))}
		m.clients = append(m.clients, c)
		run := func(f *fiber.Fiber) error {
			d := workload.Driver{Client: c, Counts: &c.counts, Over: m.e.Over, YieldEvery: 4,
				ChargePs: drawChargePs}
			d.Runner = proto.Runner{Engine: m.w.Engine, GiveUp: m.e.Over,
				Rand: rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))}
			if _, chains := m.load.(proto.Resumer); m.durable && chains {
				// What is cut off is finished by another life of the machine, of which there may be none.
				d.Runner.GiveUp = func() bool { return m.e.Over() && c.program.piece == 0 }
			}
			if m.small {
				d.Over, d.Runner.GiveUp = func() bool { return m.played(c) }, m.givesUp(c)
			}
			defer func() { m.running-- }()
			for {
				err := d.Run(f)
				if !errors.Is(err, syscall.ENOMEM) {
					return err
				}
				// A buffer could not be made: the transaction has not begun.
				if err := f.Sleep(manageEvery); err != nil {
					return err
				}
			}
		}
		if m.small {
			m.startSmall(c, run)
			continue
		}
		m.running++
		m.machine.Go(m.i, "client", run)
	}
	return nil
}

// poll keeps the worker looking for completions, so that softtime is not older than pollEvery. A simulated
// worker rests when it has nothing to do, and its softtime stands still.
func (m *manager) poll(f *fiber.Fiber) error {
	for !m.e.Over() {
		if err := f.Sleep(pollEvery); err != nil {
			return err
		}
	}
	return nil
}

// drawChargePs is the CPU time of drawing a transaction: assumed.
const drawChargePs = 200_000
