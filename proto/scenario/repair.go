package scenario

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/memnode"
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/race"
	"drtmd/proto/rtx/sherman"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// Dimensions of the scenarios of repairable transactions.
const (
	dimPhases = "phases"
	dimSpread = "spread"
	dimLeases = "leases"
)

const (
	repairRegisters = 5 // roots that hold a number; the next one is the head of a stack
	repairStack     = repairRegisters
	repairClients   = 3
	// wallEpoch is the wall time on every clock at the beginning: 2026.
	wallEpoch = 56 * 365 * 24 * time.Hour
	// auditorWait is how often the auditor looks whether the clients have ended.
	auditorWait = 50 * time.Microsecond
	// auditorDown is how long it is away after a crash.
	auditorDown = 20 * sim.Microsecond
)

// repairShape has blocks of one line and of three.
var repairShape = rtx.Shape{Roots: repairRegisters + 1, Objects: 128,
	Classes: []rtx.Class{{Bytes: 64, Blocks: 256}, {Bytes: 192, Blocks: 256}}}

// repairTiming has leases of some round trips.
var repairTiming = rtx.Timing{Op: 8 * time.Microsecond, Drift: 24 * time.Microsecond,
	Commit: 32 * time.Microsecond, Wait: time.Microsecond, MaxWait: 64 * time.Microsecond,
	Horizon: 100 * time.Microsecond}

// hastyTiming has leases that end before a commit does.
var hastyTiming = rtx.Timing{Op: time.Microsecond, Drift: 0, Commit: 8 * time.Microsecond, Wait: time.Microsecond,
	MaxWait: 64 * time.Microsecond, Horizon: 100 * time.Microsecond}

// repairLimit bounds the events of a run: a lock that nobody can repair is asked for again and again.
const repairLimit = 4e6

// Checks of these scenarios, beside the history's.
const (
	checkTorn     = "whole values"
	checkStack    = "stack"
	checkMemory   = "memory"
	checkOverlap  = "one repair at a time"
	checkPatience = "patience"
)

// repairs is the scenario of repairable transactions on a passive memory node: n0 is the memory node, the last
// machine has an auditor that comes back after each crash, and the others have clients.
func repairs(name, doc string, short bool, load repairLoad) *scenario.Scenario {
	return repairsOn(1, name, doc, short, load)
}

// repairsOn is repairs on several memory nodes, n0, n1 and so on.
func repairsOn(memories int, name, doc string, short bool, load repairLoad) *scenario.Scenario {
	s := &scenario.Scenario{Name: name, Doc: doc, Nodes: repairClients + 1 + memories, MinNodes: 2 + memories, MaxNodes: 16,
		Fibers: 2, Until: 2 * sim.Millisecond, EventLimit: repairLimit, Steps: append(rtx.Steps(), load.steps()...),
		Draw: func(d *scenario.Drawing) sim.Schedule { return drawRepairs(d, memories, load.crashes()) },
		Dimensions: []scenario.Dimension{
			phases(),
			{Name: dimClocks, Doc: "clocks that agree, or are up to a second apart", Values: []string{"near", "far"},
				Drawn: []string{"near", "near", "far"}},
			{Name: dimLeases, Doc: "leases of some round trips, or so short that live transactions are repaired all the time",
				Values: []string{"long", "short"}, Drawn: []string{"long", "short"}},
			{Name: dimSpread, Doc: "registers in use", Values: []string{"all", "two"}, Drawn: []string{"all", "two"}},
		},
		Build: func(e *scenario.Env) error { return buildRepairs(e, memories, short, load, false) }}
	if s.Mutations = load.mutations(); memories > 1 {
		s.Dimensions = s.Dimensions[1:] // phases are always awaited
	}
	if short {
		s.Until, s.Nodes, s.Fibers, s.Draw = 250*sim.Microsecond, 3+memories, 1, nil
		for i := range s.Dimensions {
			s.Dimensions[i].Drawn = nil
		}
	}
	return s
}

// phases is whether phases of a commit are awaited.
func phases() scenario.Dimension {
	return scenario.Dimension{Name: dimPhases, Doc: "phases of a commit share a doorbell, or are awaited",
		Values: []string{"chained", "awaited"}, Drawn: []string{"chained", "awaited"}}
}

// allRepairs lists the scenarios of repairable transactions.
func allRepairs() []*scenario.Scenario {
	return []*scenario.Scenario{
		repairs("repairs", "repairable transactions: clients of a passive memory node under faults; history, blocks and "+
			"locks checked", false, registers{}),
		repairs("repairs-steps", "repairable transactions; a short run, for --every-step", true, registers{}),
		meetings(),
		repetitions(),
		repairs("trees", "a B-link tree on repairable transactions, under the faults of repairs; history and structure "+
			"checked", false, trees{}),
		repairs("trees-steps", "a B-link tree on repairable transactions; a short run, for --every-step", true, trees{}),
		repairs("tables", "a hash table (RACE) on repairable transactions, under the faults of repairs; history and "+
			"structure checked", false, tables{}),
		repairs("tables-steps", "a hash table (RACE) on repairable transactions; a short run, for --every-step", true,
			tables{}),
		repairs("trees-early", "a B-link tree whose leaves are locked before the commit, and are read by hints, under the "+
			"faults of repairs; history and structure checked", false, earlyTrees{}),
		repairs("trees-early-steps", "a B-link tree whose leaves are locked before the commit, and are read by hints; a short "+
			"run, for --every-step", true, earlyTrees{}),
		repairsOn(2, "repairs-spread", "repairable transactions on two memory nodes, under the faults of repairs; history, "+
			"blocks and locks checked", false, registers{}),
		losing(),
		repairsOn(2, "trees-spread", "a B-link tree on two memory nodes, under the faults of repairs; history, structure and "+
			"locks checked", false, trees{}),
		repairsOn(2, "trees-early-spread", "a B-link tree on two memory nodes whose leaves are locked before the commit, and "+
			"are read by hints, under the faults of repairs; history, structure and locks checked", false, earlyTrees{}),
		repairsOn(2, "tables-spread", "a hash table (RACE) on two memory nodes, under the faults of repairs; history, "+
			"structure and locks checked", false, tables{}),
		distributed("distributed", "the baseline of rTX with a membership service: clients of a passive memory node die and "+
			"are repaired; history and locks checked", dtxLoad{}),
		distributed("distributed-steps", "the baseline of rTX with a membership service; a short run, for --every-step",
			dtxLoad{short: true}),
		distributed("distributed-idempotent", "the baseline of rTX, which changes versions by CAS; as distributed",
			dtxLoad{idempotent: true}),
		distributed("distributed-tables", "a hash table (RACE) on the baseline of rTX, under the faults of distributed; "+
			"history and structure checked", dtxLoad{tables: true})}
}

// repairLoad is what the clients of a run do. It has no state.
type repairLoad interface {
	mutations() []scenario.Mutation
	// slots of a client are as few as suffice, so that blocks are soon used again.
	slots() int
	// steps are marked ones besides those of rtx.
	steps() []string
	// crashes are steps at which clients die or pause.
	crashes() []string
	// configure completes the configuration of a client.
	configure(cfg *rtx.Config)
	// shape is that of the memory, but for owners and slots.
	shape() rtx.Shape
	// open is called when a client was attached.
	open(k *repairClient, f *fiber.Fiber) error
	// program draws a transaction of a kind below 10, which takes down what it does.
	program(k *repairClient, kind int, t *history.Txn) func(*rtx.Tx) error
	// reads reports whether transactions of a kind only read.
	reads(kind int) bool
	// all reads every key.
	all(k *repairClient, tx *rtx.Tx, t *history.Txn) error
	// walk has the auditor check the structure and find the objects that the program reaches.
	walk(k *repairClient, f *fiber.Fiber)
}

// repairRun is a run.
type repairRun struct {
	e         *scenario.Env
	load      repairLoad
	short     bool
	shape     rtx.Shape
	servers   []*memnode.Server // by number of the memory node
	recorders []*history.Recorder
	clients   []*repairClient // of all lives
	stats     []*rtx.Stats
	reached   []rtx.Ptr // objects of the stack, as the auditor found them
	records   []uint64  // blocks of a table, likewise
	audited   bool
	loses     bool // a memory node, n1, is lost for ever
	registers int
}

// wallClock is a node's clock as the time of day.
type wallClock struct{ verbs.Clock }

func (c wallClock) Now() time.Duration { return wallEpoch + c.Clock.Now() }

func buildRepairs(e *scenario.Env, memories int, short bool, load repairLoad, loses bool) error {
	r := &repairRun{e: e, load: load, short: short, shape: load.shape(), registers: repairRegisters,
		loses: loses, servers: make([]*memnode.Server, memories)}
	if e.Setting(dimSpread) == "two" {
		r.registers = 2
	}
	// The auditor has the last number.
	r.shape.Slots, r.shape.Owners, r.shape.Nodes = load.slots(), (e.Nodes-1-memories)*e.Fibers+1, memories
	bytes, err := r.shape.Bytes()
	if err != nil {
		return err
	}
	for i := range memories {
		shape := r.shape
		shape.Node = i
		if err := addMemoryNode(e, &r.servers[i], memnode.Config{Bytes: bytes, Clients: r.shape.Owners,
			Format: shape.Format}); err != nil {
			return err
		}
	}
	machines := e.Nodes - memories
	for i := range machines {
		fibers, body := e.Fibers, (*repairClient).work
		if i == machines-1 {
			fibers, body = 1, (*repairClient).audit
		}
		m, err := e.AddMachine(scenario.MachineConfig{Conns: 8 * fibers, Boot: func(m *scenario.Machine) error {
			for j := range fibers {
				r.start(m, i*e.Fibers+j, body)
			}
			return nil
		}})
		if err != nil {
			return err
		}
		if i == machines-1 { // a fault at a step may strike the auditor, too
			m.Node.OnCrash(func() { e.World.After(auditorDown, m.Node.Restart) })
		}
	}
	e.AtEnd(r.check)
	return nil
}

// addMemoryNode adds a machine that serves memory, with one queue pair for each client. Its memory outlives a crash.
func addMemoryNode(e *scenario.Env, server **memnode.Server, c memnode.Config) error {
	c.QueuePairs, c.Connect, c.Keep = 1, repairConnect, "memory"
	_, err := e.AddMachine(scenario.MachineConfig{Bare: true, Boot: func(m *scenario.Machine) (err error) {
		*server, err = memnode.NewServer(m.Context, c)
		return err
	}})
	return err
}

// repairConnect gives up after some retries of 131 us each.
var repairConnect = verbs.ConnectAttr{RTR: verbs.RTRAttr{MinRNRTimer: 1},
	RTS: verbs.RTSAttr{Timeout: 5, RetryCount: 3, RNRRetry: 3}}

// repairClient is a fiber with a client, through one life of its machine.
type repairClient struct {
	*repairRun
	m        *scenario.Machine
	owner    int
	life     uint32
	rand     *rand.Rand
	recorder *history.Recorder
	conns    []*fiber.Conn // to the memory nodes
	c        *rtx.Client
	tree     *sherman.Tree
	hashUser
	next  uint64 // value that is written next
	ended bool   // its fiber
}

// start starts a client on its machine.
func (r *repairRun) start(m *scenario.Machine, owner int, body func(*repairClient, *fiber.Fiber) error) {
	life := m.Node.Incarnation()
	source := r.e.World.Rand(fmt.Sprintf("client %d.%d", owner, life))
	k := &repairClient{repairRun: r, m: m, owner: owner, life: life,
		rand: rand.New(rand.NewPCG(source.Uint64(), source.Uint64()))}
	k.recorder = history.NewRecorder(history.Options{Node: history.NodeID(m.Index()),
		Worker: history.WorkerID(owner<<8 | int(life)), Clock: history.Clock{Name: "true time"}})
	r.recorders, r.clients = append(r.recorders, k.recorder), append(r.clients, k)
	k.next = uint64(owner+1)<<40 | uint64(life)<<32
	m.Go(0, "client", func(f *fiber.Fiber) error {
		defer func() { k.ended = true }()
		if r.e.Over() && owner != r.shape.Owners-1 {
			return k.finish(f)
		}
		return body(k, f)
	})
}

// finish has a machine that comes back after the end of the run repair what it left.
func (k *repairClient) finish(f *fiber.Fiber) error {
	_, err := k.attach(f)
	return err
}

// attach opens a session, which fences the former one, and makes the client; false if that failed for now.
func (k *repairClient) attach(f *fiber.Fiber) (bool, error) {
	for len(k.conns) > 0 {
		last := len(k.conns) - 1
		old := k.conns[last]
		k.conns = k.conns[:last]
		if err := old.Close(f); err != nil {
			return false, err
		}
	}
	id := memnode.ClientID(k.owner + 1)
	for _, s := range k.servers {
		if err := s.Leave(id); err != nil {
			return false, nil // the memory node is down
		}
	}
	var remotes []rtx.Remote
	for _, s := range k.servers {
		way, err := memnode.Join(s.Admit, id, k.m.Workers[:1], repairConnect)
		if err != nil {
			return false, nil // or was, or memory is short: the next time
		}
		k.conns = append(k.conns, way.Conns[0])
		remotes = append(remotes, rtx.Remote{Conn: way.Conns[0], Memory: way.Memory})
	}
	cfg := rtx.Config{Conn: remotes[0].Conn, PD: k.m.PD, Memory: remotes[0].Memory, More: remotes[1:], Owner: k.owner,
		Clock: wallClock{k.m.Node.Clock()},
		Rand:  k.rand, Timing: repairTiming, Objects: 32, Bytes: 16 << 10, Attempts: 1000,
		Awaited: len(k.servers) == 1 && k.e.Setting(dimPhases) == "awaited", Installed: race.Installed, Mutation: k.mutation(rtx.Mutations())}
	if k.e.Setting(dimLeases) == "short" {
		cfg.Timing = hastyTiming
	}
	if k.owner != k.shape.Owners-1 {
		cfg.GiveUp = k.e.Over
	} else {
		cfg.Timing.MaxWait = time.Millisecond // for the lease of a client whose clock was a second ahead
	}
	k.load.configure(&cfg)
	c, err := rtx.Attach(f, cfg)
	if errors.Is(err, rtx.ErrCorrupt) {
		k.e.Fail(checkMemory, "owner %d does not come back: %v", k.owner, err)
	}
	if err != nil {
		return false, f.Err()
	}
	k.c = c
	k.stats = append(k.stats, c.Stats())
	if err := k.load.open(k, f); err != nil {
		return k.opened(f, err)
	}
	return true, nil
}

// opened says what becomes of an index that cannot be opened: the next time, unless the memory is corrupt.
func (k *repairClient) opened(f *fiber.Fiber, err error) (bool, error) {
	if errors.Is(err, rtx.ErrCorrupt) {
		k.e.Fail(checkMemory, "owner %d cannot open its index: %v", k.owner, err)
	}
	if f.Err() != nil {
		return false, f.Err()
	}
	// A queue pair that has failed may leave one of several memory nodes out of the client's reach.
	if proto.AbortReason(err) == 0 && k.c.Broken() == nil && !errors.Is(err, rtx.ErrNodeLost) {
		return false, err
	}
	return false, nil
}

// mutation is the one of the run, if it is in a list.
func (k *repairClient) mutation(list []scenario.Mutation) string {
	for _, m := range list {
		if m.Name == k.e.Mutation {
			return m.Name
		}
	}
	return ""
}

// work runs transactions until the run is over.
func (k *repairClient) work(f *fiber.Fiber) error {
	for !k.e.Over() {
		ok, err := k.attach(f)
		for err == nil && ok && !k.e.Over() {
			ok, err = k.one(f)
		}
		if err != nil {
			return err
		}
		if err := f.Sleep(20 * time.Microsecond); err != nil {
			return err
		}
	}
	return nil
}

// one runs a transaction; false says that the client is of no use any more.
func (k *repairClient) one(f *fiber.Fiber) (bool, error) {
	t := k.recorder.Begin(k.trueNow())
	kind := k.rand.IntN(10)
	body := k.load.program(k, kind, t)
	run := k.c.Run
	if k.load.reads(kind) {
		run = k.c.View
	}
	err := run(f, func(tx *rtx.Tx) error {
		t.Reset()
		k.torn = false
		return body(tx)
	})
	switch {
	case err == nil:
		k.recorder.End(t, k.trueNow(), history.Committed)
		if k.torn {
			k.e.Fail(checkTorn, "owner %d committed a transaction of kind %d that saw parts of two values", k.owner, kind)
		}
	case proto.AbortReason(err) != 0 || errors.Is(err, errEmpty) || errors.Is(err, rtx.ErrFull):
		k.recorder.End(t, k.trueNow(), history.Aborted)
	case errors.Is(err, rtx.ErrCorrupt), errors.Is(err, rtx.ErrUsage), errors.Is(err, rtx.ErrTooLarge):
		k.e.Fail(checkMemory, "owner %d: %v", k.owner, err)
		return false, nil
	case errors.Is(err, rtx.ErrNodeLost) && k.c.Broken() == nil:
		k.recorder.End(t, k.trueNow(), history.Aborted)
	default: // of the transport: whether it has committed is unknown
		return false, f.Err()
	}
	if err := f.Sleep(time.Duration(k.rand.IntN(4)) * time.Microsecond); err != nil {
		return false, err
	}
	return true, nil
}

func (k *repairClient) trueNow() int64 { return trueTime{k.e.World}.Now().Nanoseconds() }

// others reports whether any other client still runs.
func (k *repairClient) others() bool {
	for _, x := range k.clients {
		if x != k && !x.ended && x.m.Node.Up() && x.m.Node.Incarnation() == x.life {
			return true
		}
	}
	return false
}

// audit waits until all others have ended, and then looks at everything: whatever is still locked has a lease
// that ends, and is repaired.
func (k *repairClient) audit(f *fiber.Fiber) error {
	if k.loses {
		return k.auditSurvivors(f)
	}
	for !k.e.Over() || k.others() {
		if err := f.Sleep(auditorWait); err != nil {
			return err
		}
	}
	for {
		if ok, err := k.attach(f); err != nil {
			return err
		} else if ok {
			break
		}
		if err := f.Sleep(auditorWait); err != nil {
			return err
		}
	}
	t := k.recorder.Begin(k.trueNow())
	err := k.c.Run(f, func(tx *rtx.Tx) error {
		t.Reset()
		k.torn = false
		return k.load.all(k, tx, t)
	})
	if err != nil || k.torn {
		k.e.Fail(checkLocks, "the auditor cannot read: %v, torn: %v", err, k.torn)
		return nil
	}
	k.recorder.End(t, k.trueNow(), history.Committed)
	// The rest, lists and free objects included, one at a time.
	for _, p := range rtx.AllObjects(k.shape) {
		if err := k.c.Run(f, func(tx *rtx.Tx) error { _, err := tx.Read(p); return err }); err != nil {
			k.e.Fail(checkLocks, "the auditor cannot read object %d: %v", p, err)
			return nil
		}
	}
	k.audited = true
	k.load.walk(k, f)
	return nil
}

// check looks at the memory and the history when nothing more can happen.
func (r *repairRun) check() {
	var sum rtx.Stats
	for _, s := range r.stats {
		sum.Add(s)
	}
	r.e.Count("commits", sum.Commits)
	r.e.Count("unlogged", sum.Unlogged)
	r.e.Count("read-only", sum.ReadOnly)
	r.e.Count("repairs", sum.Repairs)
	r.e.Count("finished", sum.Finished)
	r.e.Count("undone", sum.Undone)
	r.e.Count("refills", sum.Refills)
	r.e.Count("done by two", sum.Unexpected)
	r.e.Count("early locks", sum.Early)
	if sum.Left > 0 {
		r.e.Fail(checkLocks, "clients met locks that they have left themselves, %d times", sum.Left)
	}
	if sum.Overlaps > 0 {
		r.e.Fail(checkOverlap, "%d repairs began while another one's lease was valid", sum.Overlaps)
	}
	if !r.audited && !r.loses {
		r.e.Fail(checkLocks, "the auditor has not come to its end")
	}
	// A lease, the lease of a commit, and the repair itself; and what retries of the transport take.
	longest := 10*repairTiming.Op + repairTiming.Drift + 2*repairTiming.Commit + repairTiming.Horizon +
		repairTiming.MaxWait + 100*time.Microsecond
	if r.short && sum.LongestWait > longest {
		r.e.Fail(checkPatience, "a client met one lock for %s, more than %s", sum.LongestWait, longest)
	}
	if unaudited, err := rtx.AuditSurvivors(r.memories(), r.reached, r.records); err != nil || (len(unaudited) > 0) != r.loses {
		r.e.Fail(checkMemory, "%v; not audited: %q", err, unaudited)
	}
	checkRecorders(r.e, r.recorders)
}

// checkRecorders joins the recordings of all lives and checks them.
func checkRecorders(e *scenario.Env, recorders []*history.Recorder) {
	var segments []*history.Segment
	for _, x := range recorders {
		segment, err := x.Close()
		if err != nil {
			e.Fail(checkHistory, "%v", err)
			return
		}
		segments = append(segments, segment)
	}
	h, err := history.NewRun(history.Run{Versions: history.Counting}, segments...)
	if err == nil {
		err = judge(e, h, nil)
	}
	if err != nil {
		e.Fail(checkHistory, "%v", err)
	}
}
