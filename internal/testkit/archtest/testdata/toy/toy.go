// Package toy is a protocol that TestAToyProtocolAndAToyWorkloadNeedNoOtherEdit adds to the
// composition: two-phase locking with at most one transaction at a time on a worker. It shows what a
// folder of a protocol has: a description, an engine, a deliberate bug.
package toy

import (
	"errors"
	"time"

	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/proto/twopl"
	"drtmd/verbs/fiber"
)

const stepBegin = "toy: before begin"

// lie is the protocol's mutation.
const lie = "toy-lie"

// Protocol describes it.
func Protocol() protocol.Protocol {
	p := twopl.Protocol()
	inner := p.New
	p.Name, p.Doc = "toy", "one transaction at a time on each worker, for tests"
	p.MaxNodes = 8
	p.Options = append(option.List{
		option.Bool("toy-serial", true, "run one transaction at a time"),
		option.Int("toy-turns", 1, 1, 1000, "`N` times that a transaction lets others run before it begins"),
		option.Duration("toy-pause", 0, time.Microsecond, time.Second, "`TIME` between two of them").
			ChosenBy("none", time.Microsecond),
		option.Choice("toy-mood", []string{"calm", "wild"}, "`NAME` of nothing in particular")}, p.Options...)
	p.Mutations = append(p.Mutations, protocol.Mutation{Name: lie,
		Doc: "every 16th commit is said to be one, and is an abort"})
	p.Simulation.Steps.All = append([]string{stepBegin}, p.Simulation.Steps.All...)
	p.Simulation.Dimensions = []protocol.Dimension{{Name: "serial", Doc: "one transaction at a time",
		Values: []protocol.DimensionValue{{Name: "yes"},
			{Name: "no", Options: option.Settings{"toy-serial": "false"}}}, Drawn: []string{"yes", "no"}}}
	p.New = func(e *protocol.Env) (proto.Engine, error) {
		below := *e
		if e.Mutation == lie {
			below.Mutation = ""
		}
		base, err := inner(&below)
		if err != nil {
			return nil, err
		}
		return &engine{Engine: base, Debtor: base.(proto.Debtor), OrphanLister: base.(proto.OrphanLister),
			serial: e.Options.Bool("toy-serial"), turns: e.Options.Int("toy-turns"),
			pause: e.Options.Duration("toy-pause"), lies: e.Mutation == lie}, nil
	}
	return p
}

// engine is twopl's, with a turnstile.
type engine struct {
	proto.Engine
	proto.Debtor
	proto.OrphanLister
	serial, lies bool
	turns        int
	pause        time.Duration
	busy         bool
	commits      int
}

func (e *engine) Begin(f *fiber.Fiber, d *proto.Decl, attempt int) (proto.Tx, error) {
	f.Step(stepBegin)
	for range e.turns {
		if err := f.Yield(); err != nil {
			return nil, err
		}
	}
	for e.serial && e.busy {
		if err := f.Sleep(max(e.pause, time.Microsecond)); err != nil {
			return nil, err
		}
	}
	e.busy = true
	inner, err := e.Engine.Begin(f, d, attempt)
	if err != nil {
		e.busy = false
		return nil, err
	}
	return &tx{Tx: inner, e: e}, nil
}

type tx struct {
	proto.Tx
	e *engine
}

var errLie = errors.New("toy: a lie")

func (t *tx) Commit() error {
	defer func() { t.e.busy = false }()
	if t.e.commits++; t.e.lies && t.e.commits%16 == 0 {
		t.Tx.Abort(errLie)
		return nil
	}
	return t.Tx.Commit()
}

func (t *tx) Rollback() error { defer func() { t.e.busy = false }(); return t.Tx.Rollback() }

func (t *tx) Abort(cause error) { defer func() { t.e.busy = false }(); t.Tx.Abort(cause) }
