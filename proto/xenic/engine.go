package xenic

import (
	"errors"
	"fmt"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/protocol"
	"drtmd/proto/txset"
	"drtmd/proto/xenic/nics"
	"drtmd/store/layout"
	"drtmd/store/robinhood"
	"drtmd/verbs/fiber"
	"drtmd/verbs/smartnic"
)

// Marked steps.
const (
	stepBegin     = "xenic: before EXECUTE"
	stepExecuted  = "xenic: after EXECUTE"
	stepCommit    = "xenic: before the commit"
	stepCommitted = "xenic: after the commit"
	stepFill      = "xenic: records are copied to a new replica"
)

// Steps are the steps that an engine marks for the simulator's nemesis.
func Steps() []string { return []string{stepBegin, stepExecuted, stepCommit, stepCommitted} }

// CPU time in picoseconds of the host, beside what ports take. The paper does not count instructions; all are assumed, as
// those of package occ.
const (
	beginPs  = 60_000
	findPs   = 40_000 // of a look-up of a local record
	accessPs = 10_000 // of an access by the program
)

// Engine implements proto.Engine for one worker.
type Engine struct {
	env    *protocol.Env
	chip   *Chip
	host   *nics.Host
	tables []*robinhood.Table // of the own shard
	region *htm.Region
	set    txset.Config
	local  bool // transactions of the own shard run on the host
	// image is room for a record of a table.
	image   []byte
	buffers []*txset.Buffers
	stats   proto.Stats
	free    []*tx
	closed  bool
}

// New makes the engine of a worker, and begins to apply.
func New(env *protocol.Env) (*Engine, error) {
	if len(env.Chips) == 0 {
		return nil, fmt.Errorf("%w: no node has a NIC with cores", ErrConfig)
	}
	c := env.Chips[env.Node].(*Chip)
	e := &Engine{env: env, chip: c, local: env.Options.Bool(OptLocal)}
	region := env.Region
	region.Flag = env.Worker.RegionFlag()
	e.region = htm.NewRegion(region)
	e.set = txset.Config{Specs: env.Specs, Placement: env.Placement, Nodes: len(env.Chips), AccessPs: accessPs,
		Recorder: env.Recorder, Clock: env.RecorderClock}
	for _, s := range env.Specs {
		r := layout.NewRecord(layout.KindLineVersions, s.ValueBytes)
		e.set.Records = append(e.set.Records, r)
		if len(e.image) < r.Bytes {
			e.image = make([]byte, r.Bytes)
		}
	}
	port, err := smartnic.NewPort(env.Worker, c.board, env.Index, batching(env.Options))
	if err != nil {
		return nil, err
	}
	cfg := nics.HostConfig{Node: int(env.Node), Thread: env.Index, Cores: len(c.logs), Mutation: c.mutation, Port: port,
		Functions: c.functions, Options: c.options,
		Worker: env.Worker, Polled: !env.Simulated, Memory: c.memory, Yard: &c.yard, Most: c.most,
		Idle: env.Roles&protocol.Robinhood == 0}
	cfg.Tables = e.replicas()
	e.tables = cfg.Tables[env.Node]
	for _, i := range c.roles.logs(env.Index, len(c.logs)) {
		cfg.Logs = append(cfg.Logs, c.logs[i])
	}
	e.host = nics.NewHost(cfg)
	if env.Port != nil {
		env.Port.Handle(typeCopy, e.serveCopies)
	}
	return e, nil
}

// Stats of the engine. Those of the NIC are the first worker's.
func (e *Engine) Stats() *proto.Stats {
	if e.env.Index == 0 {
		e.stats.Lookups = e.chip.nic.Stats.Lookups
	}
	return &e.stats
}

// Trouble implements proto.Troubled.
func (e *Engine) Trouble() error { return e.host.Trouble() }

// Close implements proto.Engine.
func (e *Engine) Close() error {
	if e.closed {
		return nil
	}
	e.closed = true
	var errs []error
	for _, b := range e.buffers {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

// Finish implements proto.Debtor: NICs do what is left, and nothing is left to the engine.
func (e *Engine) Finish(*fiber.Fiber, proto.NodeID) {}

// Debts implements proto.Debtor: what the own NIC has under way, and what its host has not applied.
func (e *Engine) Debts() int { return e.DebtsAt(e.env.Node) }

// DebtsAt implements proto.Debtor. The first worker of a node owes what the NIC does.
func (e *Engine) DebtsAt(n proto.NodeID) int {
	if e.env.Index > 0 || n != e.env.Node {
		return 0
	}
	return e.chip.nic.Owed() + e.chip.yard.Buried()
}

// Begin implements proto.Engine.
func (e *Engine) Begin(f *fiber.Fiber, d *proto.Decl, attempt int) (proto.Tx, error) {
	x, err := e.open(f, d, attempt)
	if x == nil {
		return nil, err
	}
	if err == nil {
		err = x.Load(0, len(x.Records))
	}
	if err != nil {
		x.Abort(err)
		return nil, err
	}
	return x, nil
}

// ErrRole: a worker that runs no transactions was asked for one.
var ErrRole = errors.New("this worker applies logs and runs no transactions: begin them on an application thread")

// RoleStats is what the worker has done, and, of the first one, what the cores of the member's NIC have.
func (e *Engine) RoleStats() (worker, nic protocol.RoleStats) {
	worker = protocol.RoleStats{Committed: e.stats.Committed, LogRecords: e.host.Applied, Updates: e.host.Updates,
		BusyPs: e.env.Worker.Stats.BusyPs}
	if e.env.Index == 0 {
		s := &e.chip.nic.Stats
		nic = protocol.RoleStats{Committed: s.Committed, Requests: s.Requests, BusyPs: e.chip.nic.BusyPs()}
	}
	return worker, nic
}

// open begins an attempt with the records that are declared. nil: the fiber has ended. With an error it is to be aborted.
func (e *Engine) open(f *fiber.Fiber, d *proto.Decl, attempt int) (*tx, error) {
	if e.env.Roles&protocol.Application == 0 {
		return nil, ErrRole
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	if err := e.awaitView(f); err != nil {
		return nil, err
	}
	if attempt == 0 {
		e.stats.Begun++
	}
	x := e.take()
	x.Open(f, d)
	f.Charge(beginPs)
	return x, x.Declare(d)
}

// awaitView waits until the NIC is in a view, and takes transactions in it. A node that is back takes none before the
// placement has it.
func (e *Engine) awaitView(f *fiber.Fiber) error {
	for {
		if _, serves := e.chip.nic.Epoch(); serves {
			return nil
		}
		if err := f.Sleep(lookEvery); err != nil {
			return err
		}
	}
}

// take gives a transaction object that is free.
func (e *Engine) take() *tx {
	n := len(e.free)
	if n == 0 {
		x := &tx{e: e}
		b := &txset.Buffers{}
		b.Init(nil, e.set.Records)
		e.buffers = append(e.buffers, b)
		x.Init(&e.set, b, x)
		n, e.free = 1, append(e.free, x)
	}
	x := e.free[n-1]
	e.free = e.free[:n-1]
	x.open, x.host = nil, e.local
	return x
}

// PeekRange implements proto.RangePeeker: a transaction that looks at a range, and is not committed.
func (e *Engine) PeekRange(f *fiber.Fiber, t proto.TableID, from, to proto.Key, keys []proto.Key) (n int, err error) {
	if err := f.Err(); err != nil {
		return 0, err
	}
	if err := e.awaitView(f); err != nil {
		return 0, err
	}
	x := e.take()
	x.F, x.Err, x.Records = f, nil, x.Records[:0]
	defer func() {
		x.drop()
		x.F = nil
		e.free = append(e.free, x)
	}()
	at, err := x.Range(t, from, to)
	if err != nil {
		return 0, err
	}
	x.host = false
	return x.Keys(t, at, from, to, keys)
}

// Peek implements proto.Peeker: a transaction of one read, which is not committed.
func (e *Engine) Peek(f *fiber.Fiber, t proto.TableID, k proto.Key, dst []byte) error {
	x := e.take()
	x.F, x.Err, x.Records = f, nil, x.Records[:0]
	defer func() {
		x.drop()
		x.F = nil
		e.free = append(e.free, x)
	}()
	if err := x.Add(t, k, proto.ModeRead); err != nil {
		return err
	}
	r := &x.Records[0]
	if len(dst) != len(r.Value) {
		return proto.WrongSize(t, k, len(dst), len(r.Value))
	}
	x.host = false // its table may miss what is in logs
	if err := x.Load(0, 1); err != nil {
		return err
	}
	if !r.Is {
		return proto.ErrNotFound
	}
	copy(dst, r.Value)
	return nil
}
