package xenic_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/workload/ranges"
	"drtmd/proto/xenic"
	"drtmd/verbs/fiber"
)

// TestTheOrderOfATableTellsWhatIsAbsent: a record is inserted, read by others, and deleted without a look-up by DMA. While the
// insertion is under way others meet its lock; if they look at the order alone, they miss it.
func TestTheOrderOfATableTellsWhatIsAbsent(t *testing.T) {
	raceskip.Simulated(t)
	const key = proto.Key(1)<<48 | 1 // of node 1, which has even ones
	for _, mutation := range []string{"", "xenic-absence-ignores-lock"} {
		c, err := cluster(t, 6, func(c *node.SimulatedConfig) {
			w, err := ranges.New(ranges.Default(3))
			if err != nil {
				t.Fatal(err)
			}
			c.Workload, c.Mutation = w, mutation
		})
		if err != nil {
			t.Fatal(err)
		}
		begin := func(f *fiber.Fiber, w *node.Worker, mode proto.Mode) (proto.Tx, error) {
			return w.Engine.Begin(f, &proto.Decl{Kind: 1, Accesses: []proto.Access{{Table: ranges.Rows, Key: key, Mode: mode}}}, 0)
		}
		value := make([]byte, ranges.ValueBytes)
		write := func(f *fiber.Fiber, w *node.Worker) error {
			tx, err := begin(f, w, proto.ModeInsert)
			if err != nil {
				return err
			}
			if err := f.Sleep(40 * time.Microsecond); err != nil {
				return err
			}
			if err := tx.Insert(ranges.Rows, key, value); err != nil {
				return err
			}
			if err := tx.Commit(); err != nil {
				return err
			}
			if err := f.Sleep(100 * time.Microsecond); err != nil {
				return err
			}
			if tx, err = begin(f, w, proto.ModeWrite); err != nil {
				return err
			}
			if err := tx.Delete(ranges.Rows, key); err != nil {
				return err
			}
			return tx.Commit()
		}
		read := func(f *fiber.Fiber, w *node.Worker) (err error) {
			for _, x := range []struct {
				after time.Duration
				want  error // nil: it is there
			}{{0, proto.ErrNotFound}, {20 * time.Microsecond, proto.Aborting(proto.ReasonLocked)}, {60 * time.Microsecond, nil},
				{200 * time.Microsecond, proto.ErrNotFound}} {
				if err := f.Sleep(x.after); err != nil {
					return err
				}
				tx, err := begin(f, w, proto.ModeRead)
				if err == nil {
					if err = tx.Read(ranges.Rows, key, value); err == nil || err == proto.ErrNotFound {
						err = errors.Join(err, tx.Commit())
					}
				}
				if missed := mutation != "" && proto.AbortReason(x.want) != 0; errors.Is(err, x.want) == missed {
					t.Errorf("mutation %q, after another %v: %v, want %v", mutation, x.after, err, x.want)
				}
			}
			return nil
		}
		err = c.Start("client", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
			switch {
			case w.Index > 0 || w.Node == 1:
				return nil
			case w.Node == 0:
				if err := f.Sleep(10 * time.Microsecond); err != nil {
					return err
				}
				return write(f, w)
			}
			return read(f, w)
		}).Wait(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if n := c.Workers()[0].Chips[1].(*xenic.Chip).Stats().Lookups; n != 0 {
			t.Errorf("mutation %q: %d look-ups by DMA", mutation, n)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
