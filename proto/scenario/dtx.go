package scenario

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/memnode"
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/dtx"
	"drtmd/proto/rtx/inplace"
	"drtmd/proto/rtx/race"
	"drtmd/verbs/fiber"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

const (
	dtxRegisters = 4
	dtxBytes     = 256 << 10
	// dtxDetection is what the membership service takes to find that a client is dead.
	dtxDetection = 30 * time.Microsecond
)

// dtxLoad is what clients do.
type dtxLoad struct {
	short      bool // for --every-step
	idempotent bool // dtx.Config.Idempotent
	tables     bool // operations on a hash table, not transactions of registers
}

// steps at which clients die or pause.
func (l dtxLoad) steps() []string {
	if l.tables {
		return slices.Concat(race.StepsInPlace(), race.Steps(), dtx.Steps(), dtx.StepsUnderLocks())
	}
	return dtx.Steps()
}

// distributed is the scenario of package dtx: n0 is the memory node, and the others are clients of a membership service
// that knows which of them are dead. The last one looks at everything in the end.
func distributed(name, doc string, load dtxLoad) *scenario.Scenario {
	s := &scenario.Scenario{Name: name, Doc: doc, Nodes: repairClients + 2, MinNodes: 3, MaxNodes: 16, Fibers: 2,
		Until: sim.Millisecond, EventLimit: repairLimit, Steps: load.steps(),
		Build:      func(e *scenario.Env) error { return (&dtxRun{e: e, dtxLoad: load}).build() },
		Mutations:  dtx.Mutations(),
		Dimensions: []scenario.Dimension{phases()},
		Draw: func(d *scenario.Drawing) (list sim.Schedule) {
			some := func() string { return d.Nodes[1+d.Rand.IntN(len(d.Nodes)-2)] }
			steps := load.steps()
			for range d.Rand.IntN(8) {
				at := sim.Fault{Worker: sim.WorkerAtStep, Node: some(), Step: steps[d.Rand.IntN(len(steps))],
					Count: 1 + d.Rand.IntN(20), For: upTo(d.Rand, d.Until/4)}
				if load.tables { // few steps are those of a rehash
					at.Count = 1 + d.Rand.IntN(20>>d.Rand.IntN(4))
					if d.Rand.IntN(2) == 0 {
						at.Node = "" // who takes it
					}
				}
				if at.Kind = sim.PauseWorker; d.Rand.IntN(2) == 0 {
					at.Kind, at.Kept, at.Worker = sim.CrashNode, true, 0
				}
				list = append(list, at)
			}
			for range d.Rand.IntN(6) {
				list = append(list, sim.Fault{Kind: sim.DelayRC, At: upTo(d.Rand, d.Until), From: some(), To: d.Nodes[0],
					By: upTo(d.Rand, 50*sim.Microsecond), Times: 1 + d.Rand.IntN(4)})
			}
			if d.Rand.IntN(2) == 0 { // lines of a READ are torn apart
				list = append(list, sim.Fault{Kind: sim.StallMemory, Node: d.Nodes[0], PPM: 1 + d.Rand.IntN(stallPPM),
					By: 1 + sim.Time(d.Rand.Int64N(int64(longestStall)))})
			}
			return list
		}}
	if load.tables {
		s.Mutations, s.Until = append(race.Mutations(), dtx.Mutations()...), 2*sim.Millisecond
	}
	if load.short {
		s.Until, s.Nodes, s.Fibers, s.Draw = 250*sim.Microsecond, 4, 1, nil
	}
	return s
}

// dtxRun is a run, and the membership service.
type dtxRun struct {
	dtxLoad
	e         *scenario.Env
	server    *memnode.Server
	owners    int
	recorders []*history.Recorder
	now       []*dtxClient // by owner: its present life
	ended     []*dtxClient // lives that are over, and not repaired yet
	stats     []*dtx.Stats
	rehashes  uint64
	audited   bool
}

// dtxClient is a fiber with a client, through one life of its machine.
type dtxClient struct {
	*dtxRun
	hashUser
	m        *scenario.Machine
	owner    int
	life     uint32
	rand     *rand.Rand
	recorder *history.Recorder
	c        *dtx.Client
	next     uint64
	done     bool
	died     sim.Time
	by       *dtxClient // who repairs it
}

func (r *dtxRun) build() error {
	e := r.e
	r.owners = (e.Nodes-2)*e.Fibers + 1
	r.now = make([]*dtxClient, r.owners)
	shape, err := dtx.Kind.ShapeFor(dtxBytes+r.owners*64<<10, r.owners, dtxRegisters)
	if err != nil {
		return err
	}
	if err := addMemoryNode(e, &r.server, memnode.Config{Bytes: shape.Bytes(), Clients: r.owners,
		Format: shape.Format}); err != nil {
		return err
	}
	for i := range e.Nodes - 1 {
		fibers, body := e.Fibers, (*dtxClient).work
		if i == e.Nodes-2 {
			fibers, body = 1, (*dtxClient).audit
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
		m.Node.OnCrash(func() {
			for _, k := range r.now {
				if k != nil && k.m == m {
					r.bury(k)
				}
			}
			if i == e.Nodes-2 {
				e.World.After(auditorDown, m.Node.Restart)
			}
		})
	}
	e.AtEnd(r.check)
	return nil
}

// bury notes that a life is over.
func (r *dtxRun) bury(k *dtxClient) {
	k.died = r.e.World.Now()
	r.ended, r.now[k.owner] = append(r.ended, k), nil
}

// start starts a client on its machine.
func (r *dtxRun) start(m *scenario.Machine, owner int, body func(*dtxClient, *fiber.Fiber) error) {
	life := m.Node.Incarnation()
	source := r.e.World.Rand(fmt.Sprintf("client %d.%d", owner, life))
	k := &dtxClient{dtxRun: r, m: m, owner: owner, life: life, rand: rand.New(rand.NewPCG(source.Uint64(), source.Uint64()))}
	k.recorder = history.NewRecorder(history.Options{Node: history.NodeID(m.Index()),
		Worker: history.WorkerID(owner<<8 | int(life)), Clock: history.Clock{Name: "true time"}})
	k.next = uint64(owner+1)<<40 | uint64(life)<<32
	r.recorders, r.now[owner] = append(r.recorders, k.recorder), k
	m.Go(0, "client", func(f *fiber.Fiber) error {
		defer func() { k.done = true }()
		return body(k, f)
	})
}

// Removed implements dtx.Members: whoever asks first repairs, unless it dies, too.
func (k *dtxClient) Removed(owner int) bool {
	i := k.find(owner)
	if i < 0 || k.e.World.Now()-k.ended[i].died < sim.Time(dtxDetection.Nanoseconds())*1000 {
		return false
	}
	x := k.ended[i]
	if x.by != nil && x.by != k && x.by.alive() {
		return false
	}
	if x.by == nil {
		if err := k.server.Leave(memnode.ClientID(owner + 1)); err != nil { // fenced
			return false
		}
	}
	x.by = k
	return true
}

// Repaired implements dtx.Members.
func (k *dtxClient) Repaired(owner int) {
	if i := k.find(owner); i >= 0 {
		k.ended = append(k.ended[:i], k.ended[i+1:]...)
	}
}

// find is the index of the oldest life of an owner that is over.
func (r *dtxRun) find(owner int) int {
	for i, x := range r.ended {
		if x.owner == owner {
			return i
		}
	}
	return -1
}

func (k *dtxClient) alive() bool { return k.now[k.owner] == k && !k.done }

// attach makes the client, when nobody repairs its former life.
func (k *dtxClient) attach(f *fiber.Fiber) (bool, error) {
	if i := k.find(k.owner); i >= 0 && k.ended[i].by != nil && k.ended[i].by.alive() {
		return false, nil
	}
	id := memnode.ClientID(k.owner + 1)
	if i := k.find(k.owner); i >= 0 {
		k.ended[i].by = k
	}
	if err := k.server.Leave(id); err != nil {
		return false, nil // the memory node is down
	}
	way, err := memnode.Join(k.server.Admit, id, k.m.Workers[:1], repairConnect)
	if err != nil {
		return false, nil
	}
	k.c, err = dtx.Attach(f, dtx.Config{Config: inplace.Config{Conn: way.Conns[0], PD: k.m.PD, Memory: way.Memory,
		Owner: k.owner, Rand: k.rand, Wait: time.Microsecond, MaxWait: 16 * time.Microsecond}, Members: k, Idempotent: k.idempotent,
		Awaited:  k.e.Setting(dimPhases) == "awaited",
		Mutation: listed(dtx.Mutations(), k.e.Mutation)})
	if err != nil {
		return false, f.Err()
	}
	k.stats = append(k.stats, k.c.Stats())
	for k.find(k.owner) >= 0 {
		k.Repaired(k.owner)
	}
	if !k.tables {
		return true, nil
	}
	return k.open(f)
}

// work runs transactions until the run is over.
func (k *dtxClient) work(f *fiber.Fiber) error {
	for !k.e.Over() {
		ok, err := k.attach(f)
		for err == nil && ok && !k.e.Over() {
			ok, err = k.one(f)
		}
		if err == nil {
			err = f.Sleep(20 * time.Microsecond)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// register reads a register, and writes it if it is to be changed, and takes that down.
func (k *dtxClient) register(tx *dtx.Tx, t *history.Txn, i int, change bool) error {
	le := binary.LittleEndian
	b, err := tx.Read(k.c.Root(i))
	if err != nil {
		return err
	}
	version := uint64(history.NewVersion(1, 0))
	if b == nil {
		t.ReadAbsent(repairTable, history.Key(i), 0)
	} else {
		if le.Uint64(b) < version || le.Uint64(b[8:]) != le.Uint64(b[32:]) {
			return proto.Aborting(proto.ReasonValidation) // a view that is out of date, or torn: this one is not committed
		}
		t.Read(repairTable, history.Key(i), history.Version(le.Uint64(b)), history.Digest(le.Uint64(b[8:])))
		version = le.Uint64(b) + 1
	}
	if !change {
		return nil
	}
	if b, err = tx.Write(k.c.Root(i), 0); err != nil {
		return err
	}
	k.next++
	le.PutUint64(b, version)
	le.PutUint64(b[8:], k.next)
	le.PutUint64(b[32:], k.next)
	t.Write(repairTable, history.Key(i), history.Version(version), history.Digest(k.next))
	return nil
}

// one runs a transaction; false says that the client is of no use any more.
func (k *dtxClient) one(f *fiber.Fiber) (bool, error) {
	if k.tables {
		return k.oneOfTable(f)
	}
	kind := k.rand.IntN(4)
	var registers [3]int
	for i := range registers {
		registers[i] = k.rand.IntN(dtxRegisters)
	}
	t := k.recorder.Begin(trueTime{k.e.World}.Now().Nanoseconds())
	tx, err := k.c.Begin(f, kind == 0)
	if err != nil {
		return false, f.Err()
	}
	for i, x := range registers {
		if err == nil && (i == 0 || x != registers[0] && (i == 1 || x != registers[1])) {
			err = k.register(tx, t, x, i < kind)
		}
	}
	if err == nil {
		err = tx.Commit()
	}
	return k.outcome(f, t, err)
}

// outcome takes down how a transaction has ended; false says that the client is of no use any more.
func (k *dtxClient) outcome(f *fiber.Fiber, t *history.Txn, err error) (bool, error) {
	end := trueTime{k.e.World}.Now().Nanoseconds()
	switch {
	case err == nil:
		k.recorder.End(t, end, history.Committed)
	case proto.AbortReason(err) != 0:
		k.recorder.End(t, end, history.Aborted)
	case errors.Is(err, rtx.ErrCorrupt), errors.Is(err, rtx.ErrUsage):
		k.e.Fail(checkMemory, "owner %d: %v", k.owner, err)
		return false, nil
	default: // of the transport: whether it has committed is unknown
		return false, f.Err()
	}
	return true, f.Sleep(time.Duration(k.rand.IntN(4)) * time.Microsecond)
}

// audit waits until all others have ended, repairs what they left, and looks at everything.
func (k *dtxClient) audit(f *fiber.Fiber) error {
	for busy := true; busy; {
		if err := f.Sleep(auditorWait); err != nil {
			return err
		}
		busy = !k.e.Over()
		for _, x := range k.now {
			busy = busy || x != nil && x != k && !x.done
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
	for owner := range k.owners - 1 {
		if err := k.server.Leave(memnode.ClientID(owner + 1)); err != nil {
			return err
		}
		if err := k.c.Repair(f, owner); err != nil {
			return err
		}
	}
	if k.tables {
		return k.auditTable(f)
	}
	t := k.recorder.Begin(trueTime{k.e.World}.Now().Nanoseconds())
	tx, err := k.c.Begin(f, true)
	for i := 0; i < dtxRegisters && err == nil; i++ {
		err = k.register(tx, t, i, false)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		k.e.Fail(checkLocks, "the auditor cannot read: %v", err)
		return nil
	}
	k.recorder.End(t, trueTime{k.e.World}.Now().Nanoseconds(), history.Committed)
	k.audited = true
	return nil
}

func (r *dtxRun) check() {
	if !r.audited {
		r.e.Fail(checkLocks, "the auditor has not come to its end")
	}
	var redone, undone uint64
	for _, s := range r.stats {
		redone, undone = redone+s.Redone, undone+s.Undone
	}
	r.e.Count("redone", redone)
	r.e.Count("undone", undone)
	if r.tables {
		r.e.Count("rehashes", r.rehashes)
	}
	checkRecorders(r.e, r.recorders)
}
