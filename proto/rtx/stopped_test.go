package rtx_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/rtxtest"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// 4.4: pointers have 16 bits of version, so who has been stopped for long between its locks and its swings, and goes on
// when others have finished or undone its commit, looks again, and swings nothing.
func TestWhoWasStoppedSwingsNothing(t *testing.T) {
	raceskip.Simulated(t)
	const stop = 300 * time.Millisecond
	for _, x := range []struct {
		step      string
		roots     int
		overtaken uint64
		sum       byte // of a root at the end
	}{
		{"rtx: log DOING", 2, 1, 3},
		{"rtx: pointers swung", 2, 1, 3},
		{"rtx: validated", 1, 1, 3},
	} {
		t.Run(fmt.Sprintf("%s, %d", x.step, x.roots), func(t *testing.T) {
			world, err := rtxtest.NewWorld(testShape)
			must(t, err)
			var stats rtx.Stats
			add := func(c *rtx.Client, f *fiber.Fiber) error { return countUp(c, f, x.roots, 0) }
			stopped := world.ClientAwaited(func(c *rtx.Client, f *fiber.Fiber) error {
				err := add(c, f)
				stats = *c.Stats()
				return err
			})
			other := world.Client(func(c *rtx.Client, f *fiber.Fiber) error {
				if err := errors.Join(f.Sleep(50*time.Millisecond), add(c, f), add(c, f), f.Sleep(2*stop)); err != nil {
					return err
				}
				return c.Run(f, func(tx *rtx.Tx) error {
					v, err := tx.Read(c.Root(0))
					if err == nil && v[0] != x.sum {
						t.Errorf("the root is %d, want %d", v[0], x.sum)
					}
					return err
				})
			})
			must(t, errors.Join(stopped, other, world.RunUnder(sim.Schedule{{Kind: sim.PauseWorker, Worker: sim.WorkerAtStep,
				Node: "n1", Step: x.step, Count: 1, For: sim.Time(stop.Nanoseconds()) * sim.Nanosecond}})))
			if stats.Overtaken != x.overtaken {
				t.Errorf("overtaken %d times: %+v", stats.Overtaken, stats)
			}
		})
	}
}

// 4.4, 4.5: who was stopped while it repairs an update without log looks at the object again, before it renews the pointer.
func TestARepairThatWasStoppedLooksAgain(t *testing.T) {
	raceskip.Simulated(t)
	const stop = 300 * time.Millisecond
	world, err := rtxtest.NewWorld(testShape)
	must(t, err)
	var stats rtx.Stats
	dies := world.ClientAwaited(func(c *rtx.Client, f *fiber.Fiber) error { return errors.Join(one(c, f), one(c, f)) })
	stopped := world.ClientAwaited(func(c *rtx.Client, f *fiber.Fiber) error {
		err := errors.Join(f.Sleep(50*time.Millisecond), one(c, f))
		stats = *c.Stats()
		return err
	})
	other := world.Client(func(c *rtx.Client, f *fiber.Fiber) error {
		if err := errors.Join(f.Sleep(100*time.Millisecond), one(c, f), one(c, f), f.Sleep(2*stop)); err != nil {
			return err
		}
		return c.Run(f, func(tx *rtx.Tx) error {
			v, err := tx.Read(c.Root(0))
			if err == nil && v[0] != 4 { // the second one of who has died is undone
				t.Errorf("the root is %d, want 4", v[0])
			}
			return err
		})
	})
	must(t, errors.Join(dies, stopped, other, world.RunUnder(sim.Schedule{
		{Kind: sim.CrashNode, Node: "n1", Step: "rtx: validated", Count: 2},
		{Kind: sim.PauseWorker, Worker: sim.WorkerAtStep, Node: "n2", Step: "rtx: repair, block reclaimed", Count: 1,
			For: sim.Time(stop.Nanoseconds()) * sim.Nanosecond}})))
	if stats.Overtaken != 1 {
		t.Errorf("a repair was left %d times: %+v", stats.Overtaken, stats)
	}
}

// countUp adds 1 to the first byte of each of the first n roots, in one transaction; objects that are not there yet
// are made, of a class of sizes.
func countUp(c *rtx.Client, f *fiber.Fiber, n, class int) error {
	return c.Run(f, func(tx *rtx.Tx) error {
		for i := range n {
			v, err := tx.Update(c.Root(i))
			if v == nil && err == nil {
				v, err = tx.Write(c.Root(i), class)
			}
			if err != nil {
				return err
			}
			v[0]++
		}
		return nil
	})
}
