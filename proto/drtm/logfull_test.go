package drtm_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/verbs/fiber"
)

const (
	logSlots  = 2        // of a worker with one fiber
	logFullIn = 200 * us // how long a transaction waits for a slot
)

// withFullLogs makes two nodes of which the first one cannot reach the other: as many transactions as its log has slots
// have committed, and owe their updates there.
func withFullLogs(t *testing.T, mutation string) *cluster {
	t.Helper()
	var c *cluster
	breaks := false
	c = start(t, host{"sim", func(ctx context.Context, cfg node.Config) (*node.Cluster, error) {
		return node.NewSimulated(ctx, node.SimulatedConfig{Config: cfg, OnStep: func(_ *fiber.Fiber, name string) {
			if !breaks || name != "drtm: after commit" {
				return
			}
			breaks = false
			if err := c.Members[0].Workers[0].BreakLink(1); err != nil {
				t.Error(err)
			}
		}})
	}}, settings{node: func(cfg *node.Config) {
		cfg.Fibers, cfg.Mutation, cfg.Options = 1, mutation, option.Settings{"durable": "true"}
	}})
	c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
		for i := range uint64(logSlots) {
			if err := c.mend(f); err != nil {
				return err
			}
			breaks = true
			if err := do(f, e, declare(writing(small, keyOn(0, i)), writing(small, keyOn(1, i))), func(tx proto.Txn) error {
				return errors.Join(tx.Write(small, keyOn(0, i), value(small, initial+1)),
					tx.Write(small, keyOn(1, i), value(small, initial+1)))
			}); err != nil {
				return err
			}
		}
		if s := e.LogStats(); s.Taken != logSlots || e.DebtsAt(1) != logSlots {
			return fmt.Errorf("%d of %d slots are taken, %d updates owed", s.Taken, s.Slots, e.DebtsAt(1))
		}
		return nil
	})
	return c
}

// mend waits until the first node reaches the other again.
func (c *cluster) mend(f *fiber.Fiber) error {
	for !c.Members[0].Workers[0].Mend(f, 1) {
		if err := f.Sleep(10 * us); err != nil {
			return err
		}
	}
	return nil
}

// local is a transaction of the first node's own record, which nobody else needs.
func local() (*proto.Decl, program) {
	k := keyOn(0, logSlots)
	return declare(writing(small, k)), func(tx proto.Txn) error { return tx.Write(small, k, value(small, initial+1)) }
}

// TestAFullLogRefusesTransactionsUntilDebtsArePaid: while a machine is out of reach for which transactions wait in all
// slots, another one is aborted by name before it holds anything, readers go on, and all that was committed is there in
// the end.
func TestAFullLogRefusesTransactionsUntilDebtsArePaid(t *testing.T) {
	c := withFullLogs(t, "")
	d, p := local()
	c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
		begin := f.Now()
		if err := attempt(f, e, d, 0, p); proto.AbortReason(err) != proto.ReasonLogFull {
			return fmt.Errorf("with a full log: %w", err)
		}
		if took := f.Now() - begin; took < logFullIn || took > 2*logFullIn {
			t.Errorf("refused after %v", took)
		}
		if s, _, ok := c.entry(small, keyOn(0, logSlots)); !ok || s.Locked() {
			t.Errorf("the record is %v, there: %t", s, ok)
		}
		if v, err := peek(f, e, small, keyOn(0, logSlots)); err != nil || v != initial {
			t.Errorf("a reader saw %d, %v", v, err)
		}
		if s := e.LogStats(); s.Taken != logSlots || s.Waits != 1 {
			t.Errorf("%+v", s)
		}
		return nil
	})
	var aborts [proto.ReasonEnd]uint64
	err := c.Start("test", 2, func(f *fiber.Fiber, w *node.Worker, i int) error {
		switch {
		case w.Node != 0:
			return nil
		case i == 0:
			r := proto.Runner{Engine: w.Engine, Rand: rand.New(rand.NewPCG(1, 2)), Aborts: &aborts}
			_, err := r.Run(f, d, p)
			return err
		}
		if err := errors.Join(f.Sleep(10*logFullIn), c.mend(f)); err != nil {
			return err
		}
		w.Pay(f, 1)
		return nil
	}).Wait(context.Background())
	if err != nil || aborts[proto.ReasonLogFull] == 0 {
		t.Fatalf("when the debts are paid: %v; before, %d attempts were refused", err, aborts[proto.ReasonLogFull])
	}
	c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
		for _, k := range []proto.Key{keyOn(0, 0), keyOn(1, 0), keyOn(0, 1), keyOn(1, 1), keyOn(0, logSlots)} {
			if v, err := peek(f, e, small, k); err != nil || v != initial+1 {
				t.Errorf("key %#x is %d, %v", k, v, err)
			}
		}
		if s := e.LogStats(); s.Taken != 0 || e.Debts() != 0 {
			t.Errorf("in the end: %+v, %d owed", s, e.Debts())
		}
		return nil
	})
	c.verify()
}

// TestASlotOfADebtIsNoRoom: the mutation that gives slots back while something is owed refuses nothing, and loses the
// record by which the next life pays (scenario durable).
func TestASlotOfADebtIsNoRoom(t *testing.T) {
	c := withFullLogs(t, "log-of-debt-reused")
	d, p := local()
	c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error { return attempt(f, e, d, 0, p) })
}
