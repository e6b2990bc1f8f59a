package hades_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/hades"
	"drtmd/proto/node"
	"drtmd/proto/workload/rows"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// TestTransactionsDoNotAllocate: of records of the own node and of another one, as a whole and in fields, squashed as
// often as they have locked everything before.
func TestTransactionsDoNotAllocate(t *testing.T) {
	raceskip.Counted(t)
	for _, p := range []node.Protocol{hades.Protocol(), hades.Hybrid()} {
		t.Run(p.Name, func(t *testing.T) {
			cost, err := sim.Preset(p.Preset)
			if err != nil {
				t.Fatal(err)
			}
			ctx := context.Background()
			c, err := node.NewSimulated(ctx, node.SimulatedConfig{Cost: cost, Config: node.Config{Protocol: p,
				Workload: rowsOf(2), Nodes: 2, Workers: 1, Fibers: 2}})
			if err != nil {
				t.Fatal(err)
			}
			err = c.Start("client", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
				if w.Node > 0 {
					return nil
				}
				whole := proto.Decl{Accesses: []proto.Access{{Table: rows.Rows, Mode: proto.ModeWrite, Key: rowKey(0, 1)},
					{Table: rows.Rows, Mode: proto.ModeWrite, Key: rowKey(1, 1)}}}
				drawn := c.Config.Workload.NewClient(0, rand.New(rand.NewPCG(1, 1)))
				program := &overwrite{d: &whole}
				var errs []error
				for attempt := range 20 {
					same := func() (*proto.Decl, proto.Program) { return &whole, program }
					errs = append(errs, allocates(f, w.Engine, attempt, same), allocates(f, w.Engine, attempt, drawn.Next))
				}
				return errors.Join(errs...)
			}).Wait(ctx)
			if err := errors.Join(err, c.Stop(), c.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// overwrite reads what is declared, and writes what may be written.
type overwrite struct {
	d   *proto.Decl
	row [rows.ValueBytes]byte
}

func (x *overwrite) Execute(tx proto.Txn) error {
	row := &x.row
	for i := range x.d.Accesses {
		a := &x.d.Accesses[i]
		if err := tx.Read(a.Table, a.Key, row[:]); err != nil {
			return err
		}
		if a.Mode == proto.ModeRead {
			continue
		}
		row[0]++
		if err := tx.Write(a.Table, a.Key, row[:]); err != nil {
			return err
		}
	}
	return nil
}

// allocates says how much each of some transactions allocates, if it is not nothing. Nothing else runs but the nodes'
// models.
func allocates(f *fiber.Fiber, e proto.Engine, attempt int, next func() (*proto.Decl, proto.Program)) error {
	const n = 100
	var before, after runtime.MemStats
	least := uint64(n)
	for range 4 { // the first one warms up
		runtime.ReadMemStats(&before)
		for range n {
			d, p := next()
			if err := once(f, e, d, attempt, p); err != nil {
				return err
			}
		}
		runtime.ReadMemStats(&after)
		least = min(least, after.Mallocs-before.Mallocs)
	}
	if least >= n/5 {
		return fmt.Errorf("attempt %d allocates %d times in %d transactions", attempt, least, n)
	}
	return nil
}
