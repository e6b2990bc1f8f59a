package drtm

import (
	"errors"
	"fmt"
	"time"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/onesided"
	"drtmd/proto/protocol"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Engine is the protocol as one worker runs it.
type Engine struct {
	onesided.Base
	cfg       Config
	tables    []protocol.Entries // of the own node
	bounded   BoundedClock       // the clock, if that is one; else nil
	soft      time.Duration      // softtime
	softDelta time.Duration      // the clock's error then
	fixed     fixedLeases
	glob      bool // CPU and NIC atomics exclude each other: line words
	tickets   tickets
	free      []*tx
	allTxs    []*tx
	spare     spare
	hints     hints
	logs      *logs // nil: the tables are not to outlive the process
	// logTooLong is the abort of a transaction whose log records do not fit into a slot.
	logTooLong *proto.Abort
}

// fixedLeases says which lengths the configuration has named.
type fixedLeases struct{ lease, readOnly bool }

// CPU time of the steps in the simulator, in picoseconds. Assumed, of the order that DrTM reports:
// with them a local SmallBank transaction takes 0.41 us on a worker alone. The paper's 34 million a
// second on one node (abstract), by 16 threads if they are as many as for TPC-C beside it, are
// 0.47 us; one thread on each of six machines, 138 million / 10.85 (§8.3), takes 0.47 us as well,
// its waits for others included. docs/BENCH.md gives the command.
const (
	costBegin  = 60_000
	costFind   = 20_000
	costAccess = 25_000
	costCommit = 60_000
	costPost   = 15_000 // beside the doorbell, which package fiber charges
	// costLogLine is that of a line of the log, checksum included: emulated NVRAM (§8.7).
	costLogLine = 15_000
)

// New makes the engine of a worker, on its thread and before any transaction runs anywhere. It
// registers the RPC handlers with which other machines have entries made here.
func New(cfg Config) (*Engine, error) {
	e := &Engine{cfg: cfg, fixed: fixedLeases{cfg.Lease != 0, cfg.LeaseReadOnly != 0}}
	c := &e.cfg
	c.defaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	var err error
	if e.tables, err = protocol.EntriesOf(c.Tables); err != nil {
		return nil, err
	}
	e.glob = c.Memory.Words != nil
	e.tickets = newTickets(uint16(c.Index), c.Clock.Now())
	e.tickets.same = c.Mutation == SameTicket
	e.bounded, _ = c.Clock.(BoundedClock)
	e.soft, e.softDelta = e.now()
	e.hints.at = make([]hint, hintCount)
	e.spare = newSpare(e)
	err = e.Init(&c.Env, onesided.Rules{
		Owner:       func(w uint64) proto.NodeID { return State(w).Owner() },
		Now:         func() time.Duration { return e.soft },
		OrphanAfter: c.OrphanAfter, Declared: true, Made: e.spare.made, Room: e.spare.makeRoom,
		Tombstone: e.tombstone,
		Near:      nearTables(c),
		Steps: onesided.Steps{Lookup: "drtm: before lookup", Ensure: "drtm: before ensure",
			Lines: "drtm: between lines", Finish: "drtm: finish",
			Unlocked: "drtm: unlocked before write-back"},
		Costs: onesided.Costs{Lookup: costFind, Ask: costPost, Update: costPost},
		Skip:  skips[c.Mutation]})
	if err != nil {
		return nil, err
	}
	if c.Durable {
		if e.logs, err = e.openLogs(); err != nil {
			return nil, errors.Join(err, e.Close())
		}
		e.logTooLong = &proto.Abort{Reason: proto.ReasonFull, Cause: fmt.Errorf("the transaction's log does not fit "+
			"into its %d bytes: make %s larger", e.logs.bytes, optLogBytes)}
	}
	if _, err := c.Worker.AddPart(softTime{e}, 0); err != nil {
		return nil, err
	}
	if c.Port != nil {
		e.ServeEnsure()
		e.ServeRanges(e.OwnShare)
		e.Serve(onesided.TypeForget, func(t proto.TableID, k proto.Key, _ uint64) (uint64,
			onesided.Code) {
			e.spare.forget(t, k)
			return 0, onesided.Done
		})
	}
	return e, nil
}

// Regions are the statistics of all regions of the engine.
func (e *Engine) Regions() htm.Stats {
	s := e.HostRegions()
	for _, t := range e.allTxs {
		s.Add(&t.region.Stats)
	}
	return s
}

// softTime refreshes softtime at the end of each pass of the worker (DrTM §7.1's timer thread,
// without the conflicts that it causes).
type softTime struct{ e *Engine }

func (s softTime) Completed(*verbs.WC) {}
func (s softTime) Flush() {
	e := s.e
	if e.soft, e.softDelta = e.now(); e.spare.any() {
		e.spare.pass()
	}
}
func (s softTime) Fence(error)  {}
func (s softTime) Close() error { return nil }

// tx is an attempt of a transaction. It is used again for others.
type tx struct {
	onesided.Tx
	e      *Engine
	decl   *proto.Decl
	way    *way
	ended  bool
	remote bool // some records are reached by verbs

	region   *htm.Region
	inRegion bool // a region was begun, and not committed
	deletes  bool // the region's commit makes deletions of local records take effect
	together bool // the first access loads all local records (loadTogether)
	aborts   int  // of regions, in this transaction's attempts so far
	overflow bool // one of them was for capacity
	late     bool // the fallback handler's leases ended before it was done
	ranged   bool // one needed a range of another machine, which no region can ask for

	chain chain         // of which attempts are pieces
	part  protocol.Part // at the barrier; 0: none

	end       time.Duration // common end of all leases; 0: there are none
	leaseTo   time.Duration // end of those that are asked for now
	ticket    Ticket        // of this attempt's locks; 0: none was taken
	exclusive bool          // reads take the write lock too

	stores bool // the region's commit makes the writes take effect
	slot   int  // of the logs; noSlot: none
	owed   bool // something that is logged there could not be done
}

// take gives a transaction object: for another attempt the one that made the attempts before, if
// it is free, since it counts what they ran into.
func (e *Engine) take(d *proto.Decl, attempt int) *tx {
	n := len(e.free)
	if n == 0 {
		return e.newTx()
	}
	at := n - 1
	if attempt > 0 {
		for i := range e.free {
			if e.free[i].decl == d {
				at = i
				break
			}
		}
	}
	t := e.free[at]
	e.free[at], e.free = e.free[n-1], e.free[:n-1]
	return t
}

// Peek implements proto.Peeker.
func (e *Engine) Peek(f *fiber.Fiber, table proto.TableID, k proto.Key, dst []byte) error {
	t := e.take(nil, 0)
	defer e.peeked(t, t.decl)
	return t.Peek(f, table, k, dst)
}

// peeked gives an object back that was taken for a peek. A plan that peeks between two attempts of a transaction
// does not forget that no region can do it.
func (e *Engine) peeked(t *tx, decl *proto.Decl) {
	if t.decl = nil; t.overflow || t.ranged {
		t.decl = decl
	}
	e.free = append(e.free, t)
}

// newTx makes a transaction object; there are as many as transactions run at the same time.
func (e *Engine) newTx() *tx {
	t := &tx{e: e}
	e.InitTx(&t.Tx, t)
	cfg := e.cfg.Region
	cfg.Flag = e.Env.Worker.RegionFlag()
	if n := e.cfg.RegionWrites; n > 0 {
		cfg.Geometry.Sets, cfg.Geometry.Ways = 1, n
	}
	if e.cfg.Simulated {
		cfg.Step = func(name string) {
			t.F.Step(name)
			t.F.Charge(costAccess)
		}
	}
	t.region = htm.NewRegion(cfg)
	e.allTxs = append(e.allTxs, t)
	return t
}

// open makes the object this attempt's, and chooses its way.
func (t *tx) open(d *proto.Decl, attempt int) {
	e := t.e
	if attempt == 0 || t.decl != d {
		t.aborts, t.overflow, t.late, t.ranged = 0, false, false, false
	}
	t.decl, t.ended, t.remote, t.inRegion, t.deletes = d, false, false, false, false
	t.end, t.ticket, t.slot, t.together, t.MadeHere = 0, 0, noSlot, false, false
	t.exclusive = e.cfg.LockReads && !d.ReadOnly
	switch {
	case attempt >= e.cfg.Attempts,
		!d.ReadOnly && (t.overflow || t.ranged || t.aborts >= e.cfg.RegionAborts):
		t.way = &fallback
		e.Counters.FellBack(d.Kind, t.overflow)
	case d.ReadOnly && attempt < e.roundAttempts() && !t.ranged:
		t.way = &twoRounds
	case d.ReadOnly:
		t.way = &leaseAll
	default:
		t.way = &regional
	}
}

// close gives the object back.
func (t *tx) close(o history.Outcome) {
	t.ended = true
	if t.MadeHere || len(t.Ranges) > 0 {
		t.forgetAbsent(o)
	}
	t.leaveSlot()
	t.Close(o)
	if !t.chain.open || o == history.Aborted && !t.chain.Binding {
		t.leaveBarrier()
	}
	if !t.chain.open {
		t.e.free = append(t.e.free, t)
	}
}
