package twopl

import (
	"errors"
	"fmt"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/onesided"
	"drtmd/proto/protocol"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Modelled CPU costs in picoseconds, for the simulator: assumed, about what the benchmarks of
// this package and of store show on the development machine.
const (
	beginCostPs   = 60_000 // of an attempt
	recordCostPs  = 40_000 // of a record, with its local lookup
	cpuLockCostPs = 30_000 // of a lock or unlock by the CPU
	copyCostPs    = 10_000 // of an access by the program
)

// Marked steps.
const (
	stepLocate    = "twopl: before lookup"
	stepLock      = "twopl: before lock"
	stepLocked    = "twopl: after lock"
	stepCommit    = "twopl: before write back"
	stepWritten   = "twopl: record written back" // or posted, after each
	stepCommitted = "twopl: after write back"
	stepAbort     = "twopl: before release"
	stepReleased  = "twopl: after release" // of an attempt without effect
	stepFinish    = "twopl: before finish"
)

// ErrConfig is wrapped by everything that New refuses.
var ErrConfig = errors.New("twopl: bad configuration")

// Engine implements proto.Engine.
type Engine struct {
	onesided.Base
	cpuLocks bool
	words    onesided.Words
	mutation Mutation
	free     []*tx
	txs      int // transaction objects
}

// tx implements proto.Tx. One fiber has it between Begin and the end.
type tx struct {
	onesided.Tx
	e    *Engine
	word onesided.Word
}

var _ proto.Tx = (*tx)(nil)

// New makes the engine of a worker. With cpuLocks, local records are locked by the CPU where the
// device allows it.
func New(env *protocol.Env, cpuLocks bool) (*Engine, error) {
	m, err := Mutations().Find(env.Mutation)
	if err != nil {
		return nil, err
	}
	words, err := onesided.NewWords(env)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	case env.Scope != verbs.AtomicHCA && env.Scope != verbs.AtomicGlob:
		return nil, fmt.Errorf("%w: the device has no atomics: choose another device", ErrConfig)
	}
	e := &Engine{words: words, mutation: m}
	if m == LivesRepeat {
		e.words.Life = 1
	}
	err = e.Init(env, onesided.Rules{
		Owner: onesided.OwnerOf, Now: env.Clock.Now, OrphanAfter: env.Options.Duration(protocol.OptOrphanAfter),
		AccessPs: copyCostPs, Skip: skips[m], Steps: onesided.Steps{Finish: stepFinish},
		Costs: onesided.Costs{Find: recordCostPs, Ask: recordCostPs}})
	if err != nil {
		return nil, err
	}
	e.cpuLocks = cpuLocks &&
		(env.Scope == verbs.AtomicGlob && e.Worded() || e.lacks(CPUAnywhere))
	if env.Port != nil {
		e.ServeEnsure()
		e.ServeRanges(e.OwnShare)
		e.Serve(onesided.TypeReclaim, func(t proto.TableID, k proto.Key, word uint64) (uint64,
			onesided.Code) {
			return 0, e.Unlink(t, k, word, onesided.HostTries)
		})
	}
	return e, nil
}

// Begin implements proto.Engine: it locks and reads what d declares.
func (e *Engine) Begin(f *fiber.Fiber, d *proto.Decl, attempt int) (proto.Tx, error) {
	if err := f.Err(); err != nil {
		return nil, err
	}
	t, err := e.take()
	if err != nil {
		return nil, err
	}
	if attempt == 0 {
		e.Counters.Begun++
	}
	f.Charge(beginCostPs)
	e.Ahead.Prefetch(d)
	t.Open(f, d)
	if err = t.Declare(d); err == nil {
		err = t.Load(0, len(t.Records))
	}
	if err == nil && e.lacks(ReadLocksBack) {
		err = t.earlyUnlock(0, func(r *record) bool { return r.Mode == proto.ModeRead })
	}
	if err != nil {
		t.finish(history.Aborted)
		return nil, err
	}
	return t, nil
}

// Peek implements proto.Peeker.
func (e *Engine) Peek(f *fiber.Fiber, table proto.TableID, k proto.Key, dst []byte) error {
	if err := f.Err(); err != nil {
		return err
	}
	t, err := e.take()
	if err != nil {
		return err
	}
	defer func() { e.free = append(e.free, t) }()
	return t.Peek(f, table, k, dst)
}

// PeekRange implements proto.RangePeeker.
func (e *Engine) PeekRange(f *fiber.Fiber, table proto.TableID, from, to proto.Key, keys []proto.Key) (int,
	error) {
	if err := f.Err(); err != nil {
		return 0, err
	}
	t, err := e.take()
	if err != nil {
		return 0, err
	}
	defer func() { e.free = append(e.free, t) }()
	return t.PeekRange(f, table, from, to, keys)
}

// take gives a transaction object that is free.
func (e *Engine) take() (*tx, error) {
	if n := len(e.free); n > 0 {
		t := e.free[n-1]
		e.free = e.free[:n-1]
		return t, nil
	}
	if e.txs == onesided.MaxTxs-1 {
		return nil, fmt.Errorf("twopl: %d transactions at the same time: use fewer fibers", onesided.MaxTxs-1)
	}
	e.txs++
	t := &tx{e: e}
	e.InitTx(&t.Tx, t)
	t.nameLocks()
	return t, nil
}

// nameLocks gives the transaction a lock word that no other has.
func (t *tx) nameLocks() {
	t.word = t.e.words.Next()
	if t.e.lacks(SameWord) {
		t.word = onesided.MakeWord(t.e.Env.Node, 0, 0, t.e.words.Life)
	}
}
