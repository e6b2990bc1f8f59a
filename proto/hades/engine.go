package hades

import (
	"errors"
	"fmt"

	"drtmd/htm/directory"
	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/hades/hardware"
	"drtmd/proto/protocol"
	"drtmd/proto/txset"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// ErrConfig is wrapped by everything that is refused.
var ErrConfig = errors.New("hades: bad configuration")

// Marked steps.
const (
	stepBegin     = "hades: before accesses"
	stepAccessed  = "hades: after accesses"
	stepCommit    = "hades: before commit"
	stepCommitted = "hades: after commit"
	stepValidate  = "hades: before validation"
	// Marked where records have replicas. markedAt is at a node of which another one's transaction has accessed lines, or
	// that keeps its record, before the kind of the message that it has taken.
	markedAt    = "hades: at a node, "
	stepRecover = "hades: a placement is in use"
	stepListed  = "hades: records of the dead are known"
	stepDecided = "hades: transactions of the dead are decided"
	stepKept    = "hades: every replica has the records of the dead"
	stepEnded   = "hades: transactions of the dead are over"
	stepFill    = "hades: a replica is filled"
)

// Steps are the steps that an engine marks for the simulator's nemesis.
func Steps() protocol.Steps {
	s := protocol.Steps{All: []string{stepBegin, stepAccessed, stepCommit, stepCommitted, stepValidate},
		Fine:       []string{stepAccessed},
		Recovering: []string{stepRecover, stepListed, stepDecided, stepKept, stepEnded, stepFill}}
	for _, k := range []hardware.Kind{hardware.IntendToCommit, hardware.Persist, hardware.Validation, hardware.Truncate} {
		s.Logged = append(s.Logged, markedAt+k.String())
	}
	return s
}

// Engine implements proto.Engine for one worker.
type Engine struct {
	env  *protocol.Env
	chip *Chip
	set  txset.Config
	// software is charged for records of the own node.
	software protocol.Software
	buffers  []*txset.Buffers
	stats    proto.Stats
	free     []*tx
	// Of the Scan or PeekRange that looks for keys.
	keys   []proto.Key
	found  int
	take   func(key uint64, place int) bool // takeKey, bound once
	closed bool
	// Of clusters with replicas: the epoch of the placement that the worker has taken into use, and fibers that wait for the
	// chip's view.
	adopted uint64
	moved   fiber.Cond
	running int // Recover and Fill
}

// New makes the engine of a worker.
func New(env *protocol.Env) (*Engine, error) {
	if len(env.Chips) == 0 {
		return nil, fmt.Errorf("%w: no node has chips", ErrConfig)
	}
	e := &Engine{env: env, chip: chipOf(env, env.Node)}
	e.take, e.software = e.takeKey, e.chip.software()
	if v := e.chip.view; v != nil {
		v.engines = append(v.engines, e)
	}
	e.set = txset.Config{Specs: env.Specs, Placement: env.Placement, Nodes: len(env.Chips), AccessPs: accessPs + protocol.HADESSoftware().AccessPs,
		Recorder: env.Recorder, Clock: env.RecorderClock}
	for _, s := range env.Specs {
		e.set.Records = append(e.set.Records, layout.NewRecord(layout.KindOneVersion, s.ValueBytes))
	}
	return e, nil
}

// Stats of the engine. Those of the hardware are the first worker's.
func (e *Engine) Stats() *proto.Stats {
	if e.env.Index == 0 {
		d, n := e.chip.Directory().Stats(), e.chip.Stats()
		e.stats.Checks, e.stats.FalseConflicts = d.Checks+n.Checks, d.FalseConflicts+n.FalseConflicts
		e.stats.Compared = d.Compared + n.Compared
		e.stats.Evicted = d.Squashes[directory.Evicted]
	}
	return &e.stats
}

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

// Finish implements proto.Debtor: NICs repeat what is lost, and nothing is left to the engine.
func (e *Engine) Finish(*fiber.Fiber, proto.NodeID) {}

// Debts implements proto.Debtor.
func (e *Engine) Debts() (all int) {
	for n := range e.env.Chips {
		all += e.DebtsAt(proto.NodeID(n))
	}
	return all
}

// DebtsAt implements proto.Debtor: transactions of the own node of whose end another one has not heard. The first worker
// of a node owes them.
func (e *Engine) DebtsAt(n proto.NodeID) int {
	if e.env.Index > 0 || n == e.env.Node {
		return 0
	}
	c := chipOf(e.env, n)
	if !c.Alive() {
		return 0 // the others decide
	}
	return c.Unheard(e.chip.Node)
}

// takeTx gives a transaction object that is free: the one that the fiber had last, if it can be, as it knows what the
// attempts before have accessed.
func (e *Engine) takeTx(f *fiber.Fiber) *tx {
	n := len(e.free)
	if n == 0 {
		x := &tx{e: e}
		b := &txset.Buffers{}
		b.Init(nil, e.set.Records)
		e.buffers = append(e.buffers, b)
		x.Init(&e.set, b, x)
		x.last = f
		return x
	}
	at := n - 1
	for i, x := range e.free {
		if x.last == f {
			at = i
		}
	}
	x := e.free[at]
	e.free[at] = e.free[n-1]
	e.free = e.free[:n-1]
	if x.last != f {
		x.last = f
		x.forget()
	}
	return x
}

// Begin implements proto.Engine.
func (e *Engine) Begin(f *fiber.Fiber, d *proto.Decl, attempt int) (proto.Tx, error) {
	if err := f.Err(); err != nil {
		return nil, err
	}
	if attempt == 0 {
		e.stats.Begun++
	}
	x := e.takeTx(f)
	if attempt == 0 {
		x.forget()
	}
	if err := x.begin(f); err != nil {
		x.F = nil
		e.free = append(e.free, x)
		return nil, err
	}
	x.Open(f, d)
	f.Charge(beginPs)
	err := x.reserve(attempt)
	if err == nil {
		err = x.Declare(d)
	}
	if err == nil {
		x.inFields(d)
		err = x.Load(0, len(x.Records))
	}
	if err != nil {
		x.Abort(err)
		return nil, err
	}
	return x, nil
}

// Peek implements proto.Peeker: a transaction of one read, which is not committed.
func (e *Engine) Peek(f *fiber.Fiber, t proto.TableID, k proto.Key, dst []byte) error {
	return e.peek(f, func(x *tx) error {
		if err := x.Add(t, k, proto.ModeRead); err != nil {
			return err
		}
		r := &x.Records[0]
		if len(dst) != len(r.Value) {
			return proto.WrongSize(t, k, len(dst), len(r.Value))
		}
		if err := x.Load(0, 1); err != nil {
			return err
		}
		if !r.Is {
			return proto.ErrNotFound
		}
		copy(dst, r.Value)
		return nil
	})
}

// PeekRange implements proto.RangePeeker.
func (e *Engine) PeekRange(f *fiber.Fiber, t proto.TableID, from, to proto.Key, keys []proto.Key) (n int, err error) {
	err = e.peek(f, func(x *tx) error {
		n = 0
		at, err := x.Range(t, from, to)
		for err == nil && n < len(keys) {
			some, found := x.keys[:], 0
			if found, err = x.Keys(t, at, from, to, some); err != nil {
				return err
			}
			_, b, err := x.home(at.Primary, at.Shard)
			if err != nil {
				return err
			}
			for _, k := range some[:found] {
				place, ok := b.find(t, k)
				if ok && n < len(keys) && b.tables[t-1].head(place).Version.Live() {
					keys[n] = k
					n++
				}
			}
			if found < len(some) || some[found-1] == to {
				return nil
			}
			if from > to {
				from = some[found-1] - 1
			} else {
				from = some[found-1] + 1
			}
		}
		return err
	})
	return n, err
}

const (
	peekKeys  = 16
	peekTries = 64 // of a look that other transactions squash
)

func (e *Engine) peek(f *fiber.Fiber, look func(x *tx) error) (err error) {
	for range peekTries {
		if err = f.Err(); err != nil {
			return err
		}
		x := e.takeTx(f)
		if err = x.begin(f); err == nil {
			x.Err, x.Records, x.Ranges = nil, x.Records[:0], x.Ranges[:0]
			err = look(x)
			x.drop()
		}
		x.F = nil
		e.free = append(e.free, x)
		if r := proto.AbortReason(err); r == 0 || !r.Retry() {
			return err
		}
		if err := f.Yield(); err != nil {
			return err
		}
	}
	return err
}

// takeKey takes one that a scan has found.
func (e *Engine) takeKey(key uint64, _ int) bool {
	e.keys[e.found] = proto.Key(key)
	e.found++
	return e.found < len(e.keys)
}

// keysOf finds the first keys of a range of a table.
func (e *Engine) keysOf(c *Chip, t *table, from, to proto.Key, list []proto.Key) int {
	if len(list) == 0 {
		return 0
	}
	ok := c.inRegion(func() bool {
		e.keys, e.found = list, 0
		return t.ordered.Scan(c.region, uint64(from), uint64(to), e.take)
	})
	invariant.Assert(ok, "hades: the keys of a page do not fit into a region")
	return e.found
}
