package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"drtmd/internal/mutation"
	"drtmd/proto"
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/dtx"
	"drtmd/proto/rtx/inplace"
	"drtmd/proto/rtx/optimal"
	"drtmd/proto/rtx/race"
	"drtmd/proto/rtx/sherman"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// System is what indexes are made on: the transactions of a memory node's clients.
type System struct {
	Name, Doc string
	// Serializable transactions of several operations, and scans; otherwise operations on one key are linearizable.
	Serializable bool
	// Spread: it runs on several memory nodes.
	Spread bool
	// Copies: clients may keep copies of the nodes of an index that allows it, as blocks of objects never change.
	Copies    bool
	Mutations []mutation.Mutation
	Unmutated string // why it has none

	format func(bytes, owners int, index *IndexSpec, n Number) (Format, error)
	owners func(f *fiber.Fiber, conn *fiber.Conn, pd *verbs.PD, memory verbs.RemoteMR) (int, error)
	attach func(f *fiber.Fiber, cfg *Config, n int, mutation string) (memory, error)
}

// Format lays the memory of a memory node out.
type Format func(memory []byte) error

// Systems lists what there is; the first is the default.
func Systems() []System {
	return []System{
		{Name: "rtx", Doc: "repairable transactions of clients on the memory of a passive node (rTX)", Serializable: true,
			Spread: true, Copies: true, Mutations: rtx.Mutations(),
			format: func(bytes, owners int, index *IndexSpec, n Number) (Format, error) {
				s, err := Shape(bytes, owners, index)
				s.Node, s.Nodes = n.Node, n.Nodes
				return s.Format, err
			},
			owners: func(f *fiber.Fiber, conn *fiber.Conn, pd *verbs.PD, memory verbs.RemoteMR) (int, error) {
				s, err := rtx.Describe(f, conn, pd, memory)
				return s.Owners, err
			},
			attach: attachRepairable},
		{Name: "optimal", Doc: "the index's own locks on the memory of a passive node, without failure tolerance: the " +
			"baseline of rTX; --check proves single operations, not scans",
			Unmutated: "it is a baseline without failure tolerance",
			format: func(bytes, owners int, _ *IndexSpec, _ Number) (Format, error) {
				s, err := optimal.Kind.ShapeFor(bytes, owners, shapeRoots)
				return s.Format, err
			},
			owners: func(f *fiber.Fiber, conn *fiber.Conn, pd *verbs.PD, memory verbs.RemoteMR) (int, error) {
				s, err := optimal.Kind.Describe(f, conn, pd, memory)
				return s.Owners, err
			},
			attach: attachOptimal},
		{Name: "dtx", Doc: "distributed transactions in the manner of DrTM+H on the memory of a passive node: a baseline of " +
			"rTX, whose clients need a membership service",
			Serializable: true,
			Mutations:    dtx.Mutations(),
			format: func(bytes, owners int, _ *IndexSpec, _ Number) (Format, error) {
				s, err := dtx.Kind.ShapeFor(bytes, owners, shapeRoots)
				return s.Format, err
			},
			owners: func(f *fiber.Fiber, conn *fiber.Conn, pd *verbs.PD, memory verbs.RemoteMR) (int, error) {
				s, err := dtx.Kind.Describe(f, conn, pd, memory)
				return s.Owners, err
			},
			attach: attachDistributed},
	}
}

// FindSystem finds one by name.
func FindSystem(name string) (System, bool) {
	all := Systems()
	i := slices.IndexFunc(all, func(s System) bool { return s.Name == name })
	if i < 0 {
		return System{}, false
	}
	return all[i], true
}

// Number is that of a memory node, from 0, among those that are used together; 0 of 0 is one alone.
type Number struct{ Node, Nodes int }

// Format is the layout of a memory node of some bytes, for an index, with a number of owners: one for each fiber of
// each client. Memory that is too small for them is refused.
func (s *System) Format(bytes, owners int, index *IndexSpec, n Number) (Format, error) {
	if n.Nodes > 1 && !s.Spread {
		return nil, fmt.Errorf("%w: %s runs on one memory node, not on %d", rtx.ErrShape, s.Name, n.Nodes)
	}
	return s.format(bytes, owners, index, n)
}

// Owners is how many owners memory was laid out for. Memory of another system is rtx.ErrLayout.
func (s *System) Owners(f *fiber.Fiber, conn *fiber.Conn, pd *verbs.PD, memory verbs.RemoteMR) (int, error) {
	return s.owners(f, conn, pd, memory)
}

// memory is a client of a memory node.
type memory interface {
	sherman.Memory
	begin(f *fiber.Fiber, view bool) (transaction, error)
	Class(bytes int) int
	Broken() error
	Close() error
}

// transaction is an attempt.
type transaction interface {
	sherman.Tx
	Commit() error
	Rollback() error
	Abort() error
}

// repairable is a client of repairable transactions.
type repairable struct{ *rtx.Client }

func (r repairable) begin(f *fiber.Fiber, view bool) (transaction, error) { return r.Begin(f, view) }

func attachRepairable(f *fiber.Fiber, cfg *Config, n int, mutation string) (memory, error) {
	c, err := rtx.Attach(f, rtx.Config{Conn: cfg.Conn, PD: cfg.Worker.PD(), Memory: cfg.Memory, More: cfg.More,
		Owner: cfg.Owner + n, Clock: cfg.Clock, Rand: cfg.source(n), Timing: cfg.Timing, Logged: cfg.Options.Logged,
		EarlyLocks: !cfg.Options.LateLocks,
		Hints:      cfg.hints, Copies: cfg.copies, Installed: race.Installed, Mutation: mutation})
	return repairable{c}, err
}

// source is a random source for a client.
func (cfg *Config) source(n int) *rand.Rand {
	return rand.New(rand.NewPCG(cfg.Rand.Uint64(), uint64(n)))
}

// locking is a client of package optimal.
type locking struct{ *optimal.Client }

func (l locking) begin(f *fiber.Fiber, _ bool) (transaction, error) { return l.Begin(f) }

func attachOptimal(f *fiber.Fiber, cfg *Config, n int, _ string) (memory, error) {
	c, err := optimal.Attach(f, cfg.inplace(n), optimal.Parts{Optimistic: cfg.Options.Optimistic,
		Idempotent: cfg.Options.Idempotent})
	return locking{c}, err
}

// distributed is a client of package dtx.
type distributed struct{ *dtx.Client }

func (d distributed) begin(f *fiber.Fiber, view bool) (transaction, error) { return d.Begin(f, view) }

func attachDistributed(f *fiber.Fiber, cfg *Config, n int, mutation string) (memory, error) {
	c, err := dtx.Attach(f, dtx.Config{Config: cfg.inplace(n), Members: cfg.Members, Idempotent: cfg.Options.Idempotent, Mutation: mutation})
	return distributed{c}, err
}

// inplace is the configuration of a baseline's client.
func (cfg *Config) inplace(n int) inplace.Config {
	return inplace.Config{Conn: cfg.Conn, PD: cfg.Worker.PD(), Memory: cfg.Memory, Owner: cfg.Owner + n, Rand: cfg.source(n),
		Wait: cfg.Timing.Wait, MaxWait: cfg.Timing.MaxWait}
}

// again is the pause before run tries again.
const again = 10 * time.Microsecond

// run runs a transaction of the client until it commits.
func (k *client) run(f *fiber.Fiber, view bool, body func(sherman.Tx) error) error {
	for {
		t, err := k.memory.begin(f, view)
		if err != nil {
			return err
		}
		if err = end(t, body(t)); proto.AbortReason(err) == 0 {
			return err
		}
		if err := f.Sleep(again); err != nil {
			return err
		}
	}
}

// end ends an attempt whose code returned err. An error that is no Abort counts only if what was read is valid.
func end(t transaction, err error) error {
	var failed error
	switch {
	case err == nil:
		return t.Commit()
	case proto.AbortReason(err) != 0:
		failed = t.Abort()
	default:
		failed = t.Rollback()
	}
	if failed != nil {
		return failed
	}
	return err
}
