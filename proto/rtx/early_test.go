package rtx_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/rtx"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// plant writes the first values of roots 0 to n-1, of class 1.
func plant(c *rtx.Client, f *fiber.Fiber, n int) error {
	return c.Run(f, func(tx *rtx.Tx) error {
		for i := range n {
			if _, err := tx.Write(c.Root(i), 1); err != nil {
				return err
			}
		}
		return nil
	})
}

// bump changes a root that is locked when it is read, if clients lock early.
func bump(c *rtx.Client, tx *rtx.Tx, root int) error {
	_, err := tx.ReadToUpdate(c.Root(root))
	if err != nil {
		return err
	}
	v, err := tx.Update(c.Root(root))
	if err == nil {
		v[0]++
	}
	return err
}

// 4.5, Opt2: an update of one object that is locked early, with a hint, is one READ of the object and one of its
// metadata, and four CASes: lock, pointer, slot, release. It takes three round trips; with neither it takes five.
func TestAnEarlyLockSavesRoundTrips(t *testing.T) {
	var times [2]time.Duration
	var trip time.Duration
	for i, early := range []bool{true, false} {
		seen := sim.Traffic{Node: "n0"}
		b := newSimBed(t, seen.Note, testShape.Format)
		b.early = early
		b.run(func(c *rtx.Client, f *fiber.Fiber) error {
			update := func() error {
				return c.Run(f, func(tx *rtx.Tx) error { return bump(c, tx, 0) })
			}
			if err := errors.Join(plant(c, f, 1), update(), update()); err != nil {
				return err
			}
			var err error
			if trip, err = rtx.RoundTrip(f, b.way.Conns[0], b.worker.PD(), b.way.Memory); err != nil {
				return err
			}
			before, start := seen.Bytes, f.Now()
			if err := update(); err != nil {
				return err
			}
			got, want := seen.Bytes.Minus(before), sim.TrafficBytes{Read: 1024 + 2*16, Write: 1024, CAS: 4 * 8}
			if times[i] = f.Now() - start; early {
				want.Read = 1024 + 16
			}
			if got != want {
				t.Errorf("early %v: %+v, want %+v", early, got, want)
			}
			if s := c.Stats(); (s.Early > 0) != early || s.Left > 0 {
				t.Errorf("early %v: %+v", early, *s)
			}
			return nil
		})
	}
	if saved := times[1] - times[0]; saved < trip*3/2 || saved > trip*5/2 {
		t.Errorf("an update takes %s, or %s if it is locked by the commit; a round trip takes %s", times[0], times[1], trip)
	}
}

// Who holds an early lock waits for nobody: two clients that lock in different orders do not wait for the end of a
// lease, and who aborts lets go at once, by whatever the attempt ends.
func TestWhoHoldsAnEarlyLockWaitsForNobody(t *testing.T) {
	b := newSimBed(t, nil, testShape.Format)
	b.early = true
	b.run(func(first *rtx.Client, f *fiber.Fiber) error {
		second, err := b.attach(f, 1)
		if err != nil {
			return err
		}
		if err := plant(first, f, 2); err != nil {
			return err
		}
		start := f.Now()
		x, err := first.Begin(f, false)
		if err != nil {
			return err
		}
		y, err := second.Begin(f, false)
		if err := errors.Join(err, bump(first, x, 0), bump(second, y, 1)); err != nil {
			return err
		}
		if _, err := x.Read(first.Root(1)); proto.AbortReason(err) != proto.ReasonLocked {
			t.Errorf("a read of what another one has locked: %v", err)
		}
		if err := errors.Join(bump(second, y, 0), y.Commit(), x.Abort()); err != nil {
			return err
		}
		failed := errors.New("a reason of its own")
		for name, end := range map[string]func(tx *rtx.Tx) error{
			"abort":    (*rtx.Tx).Abort,
			"rollback": (*rtx.Tx).Rollback,
			"commit":   (*rtx.Tx).Commit,
			"none":     func(*rtx.Tx) error { _, err := first.Begin(f, false); return err },
		} {
			tx, err := first.Begin(f, false)
			if err != nil {
				return err
			}
			if _, err := tx.ReadToUpdate(first.Root(0)); err != nil {
				return err
			}
			if err := end(tx); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if err := second.Run(f, func(tx *rtx.Tx) error { return bump(second, tx, 0) }); err != nil {
				return err
			}
		}
		err = first.Run(f, func(tx *rtx.Tx) error { return errors.Join(bump(first, tx, 0), failed) })
		if !errors.Is(err, failed) {
			t.Errorf("the code of a transaction failed, and it says %v", err)
		}
		if err := second.Run(f, func(tx *rtx.Tx) error { return bump(second, tx, 0) }); err != nil {
			return err
		}
		lease := rtx.DefaultTiming().Drift
		if took := f.Now() - start; took > lease/4 || first.Stats().Repairs+second.Stats().Repairs > 0 {
			t.Errorf("it took %s, with leases of more than %s, and %d and %d repairs", took, lease, first.Stats().Repairs,
				second.Stats().Repairs)
		}
		return nil
	})
	must(t, rtx.Audit(b.server.Memory().Bytes(), nil))
}

// Several objects that were locked early are committed with a log.
func TestEarlyLocksBecomeThoseOfALog(t *testing.T) {
	b := newSimBed(t, nil, testShape.Format)
	b.early = true
	b.run(func(c *rtx.Client, f *fiber.Fiber) error {
		if err := plant(c, f, 3); err != nil {
			return err
		}
		before := *c.Stats()
		for range 3 {
			err := c.Run(f, func(tx *rtx.Tx) error {
				return errors.Join(bump(c, tx, 0), bump(c, tx, 2), bump(c, tx, 1))
			})
			if err != nil {
				return err
			}
		}
		if s := c.Stats(); s.Commits-before.Commits != 3 || s.Unlogged != before.Unlogged || s.Early < 6 || s.Repairs > 0 {
			t.Errorf("%+v", *s)
		}
		return nil
	})
	must(t, rtx.Audit(b.server.Memory().Bytes(), nil))
}

func TestEarlyLocksAllocateNothing(t *testing.T) {
	raceskip.Counted(t)
	b := newShmBed(t)
	b.early = true
	b.run(func(c *rtx.Client, f *fiber.Fiber) error {
		if err := plant(c, f, 1); err != nil {
			return err
		}
		var failed error
		update := func(tx *rtx.Tx) error { return bump(c, tx, 0) }
		look := func(tx *rtx.Tx) error { _, err := tx.Read(c.Root(0)); return err }
		n := testing.AllocsPerRun(200, func() { failed = errors.Join(failed, c.Run(f, update), c.View(f, look)) })
		if n != 0 {
			t.Errorf("%v allocations", n)
		}
		return failed
	})
}
