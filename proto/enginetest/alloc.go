package enginetest

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/verbs/fiber"
)

// toucher reads what is declared, and writes what may be written.
type toucher struct {
	d   *proto.Decl
	buf [200]byte
}

func (x *toucher) Execute(tx proto.Txn) error {
	for i := range x.d.Accesses {
		a := &x.d.Accesses[i]
		b := x.buf[:valueBytes[a.Table]]
		if err := tx.Read(a.Table, a.Key, b); err != nil {
			return err
		}
		if a.Mode == proto.ModeRead {
			continue
		}
		b[0]++
		if err := tx.Write(a.Table, a.Key, b); err != nil {
			return err
		}
	}
	return nil
}

// allocations tests that transactions allocate nothing in their steady state.
func allocations(t *testing.T, e env) {
	raceskip.Counted(t)
	e.protocol.OneThread = true // all workers on one: nothing else allocates
	c := e.start(t, func(cfg *node.Config) { cfg.Record = nil })
	last := proto.NodeID(c.Config.Nodes - 1)
	for _, x := range []struct {
		name string
		d    *proto.Decl
	}{
		{"local", declare(reading(full, keyOn(0, 1)), writing(full, keyOn(0, 2)),
			writing(small, keyOn(0, 3)))},
		{"local, read-only", declare(reading(full, keyOn(0, 1)), reading(large, keyOn(0, 2)))},
		{"remote", declare(writing(full, keyOn(last, 1)), writing(small, keyOn(0, 2)))},
		{"remote, read-only", declare(reading(full, keyOn(last, 3)), reading(small, keyOn(0, 4)))},
	} {
		for _, n := range attempts {
			c.on(0, func(f *fiber.Fiber, eng proto.Engine) error {
				least, err := leastAllocations(f, eng, x.d, n, &toucher{d: x.d})
				if err == nil && least > 0.2 {
					err = fmt.Errorf("%s, attempt %d: at least %.2f allocations per transaction", x.name, n,
						least)
				}
				return err
			})
		}
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
}

// leastAllocations is the fewest allocations per transaction in some rounds. What else the process
// does while the fiber waits may allocate as well, but not in every round; what a transaction
// allocates shows in each.
func leastAllocations(f *fiber.Fiber, e proto.Engine, d *proto.Decl, attempt int, p proto.Program) (float64, error) {
	const n, rounds = 200, 5
	var before, after runtime.MemStats
	least := math.Inf(1)
	for round := range 1 + rounds {
		runtime.ReadMemStats(&before)
		for range n {
			err := once(f, e, d, attempt, p)
			if proto.AbortReason(err) != 0 {
				err = f.Sleep(100 * time.Microsecond)
			}
			if err != nil {
				return 0, err
			}
		}
		runtime.ReadMemStats(&after)
		if round > 0 {
			least = min(least, float64(after.Mallocs-before.Mallocs)/n)
		}
	}
	return least, nil
}

// once runs one attempt of a program.
func once(f *fiber.Fiber, e proto.Engine, d *proto.Decl, attempt int, p proto.Program) error {
	tx, err := e.Begin(f, d, attempt)
	if err != nil {
		return err
	}
	if err := p.Execute(tx); err != nil {
		tx.Abort(err)
		return err
	}
	return tx.Commit()
}
