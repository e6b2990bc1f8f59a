package twopl

import (
	"errors"
	"fmt"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/store"
	"drtmd/store/layout"
	"drtmd/store/remote"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// MaxRecords of one transaction.
const MaxRecords = 1024

// Modelled CPU costs in picoseconds, for the simulator: assumed, about what the benchmarks of
// this package and of store show on the development machine.
const (
	beginCostPs   = 60_000 // of an attempt
	recordCostPs  = 40_000 // of a record, with its local lookup
	cpuLockCostPs = 30_000 // of a lock or unlock by the CPU
	copyCostPs    = 10_000 // of an access by the program
)

// ErrTooManyRecords: a transaction touches more than MaxRecords records.
var ErrTooManyRecords = fmt.Errorf("twopl: more than %d records in a transaction: split it",
	MaxRecords)

// Engine implements proto.Engine.
type Engine struct {
	cfg       Config
	tables    []*table // by TableID; nil where there is none
	stride    int      // bytes of a record's copy
	lookup    *remote.Client
	region    *htm.Region // of host functions
	cpuLocks  bool
	record    bool
	txs       []*tx // all that were made
	free      []*tx
	nextTx    uint32
	sightings proto.Sightings
	debts     proto.Debts
	stats     proto.Stats
	closed    bool
	closeErrs error
}

// table is a table as the engine uses it.
type table struct {
	id         proto.TableID
	index      int // in Config.Tables and Peer.Tables
	valueBytes int
	local      *store.Table
}

var _ proto.Engine = (*Engine)(nil)

// New makes the engine of a worker. It does not take over anything of the configuration, but
// everything must outlive it.
func New(cfg Config) (*Engine, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Mutation == LivesRepeat {
		cfg.Life = 1
	}
	if cfg.Life == 0 && cfg.Port != nil {
		cfg.Life = lifeOf(cfg.Port.Address().Incarnation)
	}
	e := &Engine{cfg: cfg, record: cfg.Recorder != nil,
		cpuLocks: cfg.CPULocks && cfg.Scope == verbs.AtomicGlob && cfg.Memory.Words != nil ||
			cfg.CPULocks && cfg.Mutation == CPUAnywhere}
	most := 0
	for i, s := range cfg.Tables {
		for int(s.ID) >= len(e.tables) {
			e.tables = append(e.tables, nil)
		}
		e.tables[s.ID] = &table{id: s.ID, index: i, valueBytes: s.ValueBytes, local: cfg.Local[i]}
		most = max(most, s.ValueBytes)
	}
	e.stride = layout.Stride(most)
	e.sightings.After, e.sightings.Lives = cfg.OrphanAfter, cfg.HolderLives
	if cfg.OrphanAfter == 0 {
		e.sightings.After = proto.DefaultOrphanAfter
	}
	e.debts.Unlooked = cfg.Mutation == DebtUnlooked
	var err error
	if e.lookup, err = remote.NewClient(cfg.Fibers, lookupBuffers); err != nil {
		return nil, err
	}
	cfg.Region.Step = nil // host functions run outside of fibers
	e.region = htm.NewRegion(cfg.Region)
	if cfg.Port != nil {
		e.serve()
	}
	return e, nil
}

// Stats implements proto.Engine.
func (e *Engine) Stats() *proto.Stats { return &e.stats }

// CPULocks reports whether local records are locked by the CPU: asked for, and possible here.
func (e *Engine) CPULocks() bool { return e.cpuLocks }

// Begin implements proto.Engine: it locks and reads what d declares.
func (e *Engine) Begin(f *fiber.Fiber, d *proto.Decl, attempt int) (proto.Tx, error) {
	t, err := e.take(f)
	if err != nil {
		return nil, err
	}
	if attempt == 0 {
		e.stats.Begun++
	}
	f.Charge(beginCostPs)
	t.startRecording(d.Kind)
	for i := range d.Accesses {
		a := &d.Accesses[i]
		if _, err := t.add(a.Table, a.Key); err != nil {
			t.finish(history.Aborted)
			return nil, err
		}
	}
	err = t.acquire(0)
	if err == nil && e.lacks(ReadLocksBack) {
		err = t.giveReadsBack(d)
	}
	if err != nil {
		t.finish(history.Aborted)
		return nil, err
	}
	return t, nil
}

// giveReadsBack is a mutation: locks of records that are declared to be read only are given back.
func (t *tx) giveReadsBack(d *proto.Decl) error {
	t.batch.Reset()
	for i := range d.Accesses {
		a := &d.Accesses[i]
		t.earlyUnlock(t.find(a.Table, a.Key), a.Mode == proto.ModeRead)
	}
	return t.batch.Await(t.f)
}

// table gives a table by its id.
func (e *Engine) table(id proto.TableID) (*table, error) {
	if int(id) >= len(e.tables) || e.tables[id] == nil {
		return nil, proto.ErrUnknownTable
	}
	return e.tables[id], nil
}

// take gives a transaction object that is free.
func (e *Engine) take(f *fiber.Fiber) (*tx, error) {
	if err := f.Err(); err != nil {
		return nil, err
	}
	n := len(e.free)
	if n == 0 {
		t, err := e.newTx()
		if err != nil {
			return nil, err
		}
		t.f = f
		return t, nil
	}
	t := e.free[n-1]
	e.free = e.free[:n-1]
	t.f = f
	return t, nil
}

func (e *Engine) newTx() (*tx, error) {
	if len(e.txs) == maxTxs {
		return nil, fmt.Errorf("twopl: %d transactions at the same time: use fewer fibers", maxTxs)
	}
	t := &tx{e: e, lookups: e.lookup.NewBatch()}
	t.nameLocks()
	if err := t.grow(); err != nil {
		return nil, err
	}
	e.txs = append(e.txs, t)
	return t, nil
}

// put takes a transaction object back, which holds nothing and has nothing in flight.
func (e *Engine) put(t *tx) {
	t.f, t.records = nil, t.records[:0]
	e.free = append(e.free, t)
}

// Close frees the engine's memory. No transaction may be running; operations of abandoned ones
// must have completed (fiber.Worker.Close sees to that for those in flight: close the engine
// after the worker's fibers and before its protection domain). It may be called twice.
func (e *Engine) Close() error {
	if e.closed {
		return nil
	}
	e.closed = true
	e.closeErrs = e.lookup.Close()
	for _, t := range e.txs {
		for _, c := range t.chunks {
			e.closeErrs = errors.Join(e.closeErrs, c.Close())
		}
		t.chunks = nil
	}
	e.txs, e.free = nil, nil
	return e.closeErrs
}

// clockNs is the time that the history takes down.
func (e *Engine) clockNs() int64 { return int64(e.cfg.Clock.Now()) }
