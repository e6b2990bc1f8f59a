package engine

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"drtmd/internal/mutation"
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/dtx"
	"drtmd/proto/rtx/sherman"
	"drtmd/proto/txset"
	"drtmd/store/layout"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Config of an Engine.
type Config struct {
	Worker *fiber.Worker
	Conn   *fiber.Conn // of the worker, to the memory node
	Memory verbs.RemoteMR
	// More are the memory nodes behind the first: see rtx.Config. The baselines have one.
	More []rtx.Remote
	// Owner is the number of the engine's first client in the memory; there is one for each of the Fibers.
	Owner  int
	Fibers int
	Clock  verbs.Clock // the time of day, for leases
	Timing rtx.Timing
	Rand   *rand.Rand

	System    string // of Systems
	Index     string // of Indexes; "" is the first
	Specs     []proto.TableSpec
	Placement proto.Placement
	Nodes     int // that the placement names
	// Members says which clients of system dtx are dead; nil: nobody does.
	Members dtx.Members
	// Recorder takes the history, with times of RecorderClock; nil is off.
	Recorder      *history.Recorder
	RecorderClock verbs.Clock
	Options       Options
	// Mutation is a deliberate bug of rtx or of the index; "" is none.
	Mutation string

	hints  *rtx.Hints // of all clients
	copies *rtx.Copies
}

// Options switch parts of rTX off and on; in the zero value system rtx has all, and the baselines have none.
type Options struct {
	// Logged: an update of one object has a log, too, without Opt1 (section 4.5).
	Logged bool
	// Optimistic and Idempotent are parts of rTX that system optimal has, and the second one dtx, for the factor analysis
	// (section 6.3): see optimal.Parts.
	Optimistic, Idempotent bool
	// LateLocks: what is updated is locked by the commit alone, without Opt2 (section 4.5).
	LateLocks bool
	// NoHints: an object's metadata is read before its block, as in the paper, not together with it.
	NoHints bool
	// Copies is how many nodes of a tree a worker keeps copies of, with hints; 0: DefaultCopies, negative: none.
	Copies int
}

const (
	// hintBytes is what a worker remembers of where blocks of objects are.
	hintBytes = 2 << 20
	// DefaultCopies is 4 MiB of nodes.
	DefaultCopies = 4096
)

// Engine implements proto.Engine.
type Engine struct {
	cfg     Config
	system  System
	index   IndexSpec
	set     txset.Config
	stats   proto.Stats
	clients []*client
	free    []*client // those without a transaction
}

// ErrLost: the memory node is gone, or it has fenced this client; or the memory is corrupt.
var ErrLost = errors.New("the memory node is lost")

// client runs one transaction at a time.
type client struct {
	e       *Engine
	memory  memory
	tables  []Index
	buffers txset.Buffers
	tx      tx
}

// New attaches the clients to the memory, on a fiber of the worker: it repairs what former lives of them have left.
func New(f *fiber.Fiber, cfg Config) (*Engine, error) {
	system, ok := FindSystem(cfg.System)
	if !ok {
		return nil, fmt.Errorf("%w: no system %q", rtx.ErrUsage, cfg.System)
	}
	index, ok := FindIndex(cfg.Index)
	if !ok {
		return nil, fmt.Errorf("%w: no index %q", rtx.ErrUsage, cfg.Index)
	}
	if len(cfg.More) > 0 && !system.Spread {
		return nil, fmt.Errorf("%w: %s runs on one memory node, not on %d", rtx.ErrUsage, system.Name, 1+len(cfg.More))
	}
	e := &Engine{cfg: cfg, system: system, index: index}
	e.set = txset.Config{Specs: cfg.Specs, Placement: cfg.Placement, Nodes: cfg.Nodes, Recorder: cfg.Recorder,
		Clock: cfg.RecorderClock}
	for _, s := range cfg.Specs {
		if err := index.Takes(s); err != nil {
			return nil, err
		}
		e.set.Records = append(e.set.Records, layout.NewRecord(layout.KindOneVersion, s.ValueBytes))
	}
	if !cfg.Options.NoHints {
		e.cfg.hints = rtx.NewHints(hintBytes)
		if n := cfg.Options.Copies; n >= 0 && system.Copies && index.Copies {
			e.cfg.copies = rtx.NewCopies(cmp.Or(n, DefaultCopies), sherman.NodeBytes)
		}
	}
	shared := make([]any, len(cfg.Specs))
	for n := range cfg.Fibers {
		k, err := e.attach(f, n, shared)
		if err != nil {
			return nil, errors.Join(err, e.Close()) // those before have nothing in flight
		}
		e.clients, e.free = append(e.clients, k), append(e.free, k)
	}
	return e, nil
}

// Takes refuses a table that the index cannot have.
func (s *IndexSpec) Takes(t proto.TableSpec) error {
	switch {
	case t.ValueBytes < s.MinValue || t.ValueBytes > s.MaxValue:
		return fmt.Errorf("%w: table %s has values of %d bytes, and index %s takes %s: use --value-bytes %d",
			proto.ErrValueSize, t.Name, t.ValueBytes, s.Name, s.values(), s.MaxValue)
	case t.Ordered && !s.Ordered:
		return fmt.Errorf("%w: table %s is scanned, and index %s has no order: use index sherman",
			proto.ErrUnsupported, t.Name, s.Name)
	}
	return nil
}

func (s *IndexSpec) values() string {
	if s.MinValue == s.MaxValue {
		return fmt.Sprintf("those of %d", s.MaxValue)
	}
	return fmt.Sprintf("%d to %d", s.MinValue, s.MaxValue)
}

// attach makes the client of fiber n.
func (e *Engine) attach(f *fiber.Fiber, n int, shared []any) (*client, error) {
	cfg := &e.cfg
	own := func(list []mutation.Mutation) string {
		if slices.ContainsFunc(list, func(m mutation.Mutation) bool { return m.Name == cfg.Mutation }) {
			return cfg.Mutation
		}
		return ""
	}
	memory, err := e.system.attach(f, cfg, n, own(e.system.Mutations))
	if err != nil {
		return nil, err
	}
	k := &client{e: e, memory: memory}
	for i := range cfg.Specs {
		x, err := e.index.open(f, k, &opening{table: i, cfg: cfg, shared: &shared[i],
			mutation: own(e.index.Mutations)})
		if err != nil {
			k.closeLater(f)
			return nil, fmt.Errorf("table %s, index %s: %w", cfg.Specs[i].Name, e.index.Name, err)
		}
		k.tables = append(k.tables, x)
	}
	k.buffers.Init(nil, e.set.Records)
	k.tx.k = k
	k.tx.Init(&e.set, &k.buffers, &k.tx)
	return k, nil
}

// closeLater frees the memory of a client that could not be made, unless something of it is in flight.
func (k *client) closeLater(f *fiber.Fiber) {
	if k.memory.Broken() == nil && f.Err() == nil {
		_ = k.close() // the first error is the one to tell
	}
}

// close frees the client's memory.
func (k *client) close() error {
	var errs []error
	for _, x := range k.tables {
		errs = append(errs, x.Close())
	}
	return errors.Join(append(errs, k.memory.Close())...)
}

// Stats of the engine.
func (e *Engine) Stats() *proto.Stats { return &e.stats }

// Transactions adds up what the clients of the engine have done.
func (e *Engine) Transactions() (sum rtx.Stats) {
	for _, k := range e.clients {
		if r, ok := k.memory.(repairable); ok {
			sum.Add(r.Stats())
		}
	}
	return sum
}

// Rehashes is how many subtables the clients of the engine have split.
func (e *Engine) Rehashes() (sum uint64) {
	for _, k := range e.clients {
		for _, t := range k.tables {
			if h, ok := t.(*hash); ok {
				sum += h.Stats().Rehashes
			}
		}
	}
	return sum
}

// Close frees the memory of the clients.
func (e *Engine) Close() error {
	var errs []error
	for _, k := range e.clients {
		errs = append(errs, k.close())
	}
	return errors.Join(errs...)
}

// Begin begins a transaction.
func (e *Engine) Begin(f *fiber.Fiber, d *proto.Decl, _ int) (proto.Tx, error) {
	k, err := e.take(f, d.ReadOnly)
	if err != nil {
		return nil, err
	}
	e.stats.Begun++
	k.tx.Open(f, d)
	if err := k.tx.Declare(d); err != nil {
		k.tx.Abort(err)
		return nil, err
	}
	return &k.tx, nil
}

// take takes a client that is free, with an attempt begun.
func (e *Engine) take(f *fiber.Fiber, view bool) (*client, error) {
	n := len(e.free)
	if n == 0 {
		return nil, fmt.Errorf("%w: more than %d transactions at a time", rtx.ErrUsage, len(e.clients))
	}
	k := e.free[n-1]
	var err error
	if k.tx.tx, err = k.memory.begin(f, view); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLost, k.memory.Broken())
	}
	e.free = e.free[:n-1]
	return k, nil
}

// Peek implements proto.Peeker. A record that changes meanwhile is an Abort.
func (e *Engine) Peek(f *fiber.Fiber, t proto.TableID, k proto.Key, dst []byte) error {
	n := len(e.cfg.Specs)
	if uint(t)-1 >= uint(n) {
		return proto.UnknownTable(t, k, n)
	}
	if want := e.cfg.Specs[t-1].ValueBytes; len(dst) != want {
		return proto.WrongSize(t, k, len(dst), want)
	}
	c, err := e.take(f, true)
	if err != nil {
		return err
	}
	defer e.give(c)
	_, found, err := c.tables[t-1].Get(c.tx.tx, uint64(k), false, dst)
	if err = end(c.tx.tx, err); err == nil && !found {
		return proto.ErrNotFound
	}
	return err
}

// give gives a client back.
func (e *Engine) give(k *client) { e.free = append(e.free, k) }
