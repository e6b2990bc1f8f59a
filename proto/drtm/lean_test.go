package drtm_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/proto/node"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// counting is a clock that counts its readings.
type counting struct {
	verbs.Clock
	n int
}

func (c *counting) Now() time.Duration {
	c.n++
	return c.Clock.Now()
}

// TestLocalTransactionsAreLean (§7.1, §7.3): without remote records a transaction reads no clock,
// posts nothing, waits for nothing and allocates nothing.
func TestLocalTransactionsAreLean(t *testing.T) {
	each(t, func(t *testing.T, h host) {
		var mu sync.Mutex // engines are made on their threads
		clocks := map[proto.NodeID]*counting{}
		c := start(t, h, settings{
			node: func(cfg *node.Config) { cfg.Record = nil },
			drtm: func(cfg *drtm.Config) {
				x := &counting{Clock: cfg.Clock}
				mu.Lock()
				defer mu.Unlock()
				clocks[cfg.Node], cfg.Clock = x, x
			}})
		a, b := keyOn(0, 1), keyOn(0, 2)
		buf := value(full, 0)
		tests := []struct {
			name string
			d    *proto.Decl
			run  program
		}{
			{"read and write", declare(reading(full, a), writing(full, b)), func(tx proto.Txn) error {
				if err := tx.Read(full, a, buf); err != nil {
					return err
				}
				return tx.Write(full, b, buf)
			}},
			{"read only", declare(reading(full, a), reading(full, b)), func(tx proto.Txn) error {
				if err := tx.Read(full, a, buf); err != nil {
					return err
				}
				return tx.Read(full, b, buf)
			}},
		}
		c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
			for _, x := range tests {
				once := func() error { return attempt(f, e, x.d, 0, x.run) }
				if err := once(); err != nil {
					return err
				}
				w := f.Worker()
				posted, switches, read := w.Stats.Posted, w.Stats.Switches, clocks[0].n
				for range 100 {
					if err := once(); err != nil {
						return err
					}
				}
				if w.Stats.Posted != posted || h.name == "shm" && w.Stats.Switches != switches ||
					clocks[0].n != read && h.name == "shm" {
					return fmt.Errorf("%s: %d posts, %d switches, %d readings of the clock", x.name,
						w.Stats.Posted-posted, w.Stats.Switches-switches, clocks[0].n-read)
				}
			}
			return nil
		})
	})
}

// TestOrphanedLocksAreNamed (§5.6 has recovery wait for the machine): a lock that stays is reported
// as locked at first and as orphaned after a bounded wait, by name, local and remote.
func TestOrphanedLocksAreNamed(t *testing.T) {
	for _, owner := range []proto.NodeID{0, 1} {
		t.Run(fmt.Sprintf("record of node 1, met on node %d", owner), func(t *testing.T) {
			c := start(t, onSim, settings{
				node: func(cfg *node.Config) { cfg.Nodes = 3 },
				drtm: func(cfg *drtm.Config) { cfg.OrphanAfter = 2 * time.Millisecond }})
			k := keyOn(1, 1)
			c.on(2, func(f *fiber.Fiber, e *drtm.Engine) error {
				_, err := e.Begin(f, declare(writing(small, k)), 0)
				return err // and the transaction is never ended
			})
			c.on(owner, func(f *fiber.Fiber, e *drtm.Engine) error {
				begin := f.Now()
				err := do(f, e, declare(writing(small, k), writing(small, keyOn(1, 2))),
					func(tx proto.Txn) error { return tx.GetForUpdate(small, k, value(small, 0)) })
				if proto.AbortReason(err) != proto.ReasonOrphaned {
					return fmt.Errorf("ended with %v", err)
				}
				if e.Stats().Aborts[proto.ReasonLocked] == 0 || f.Now()-begin > 50*time.Millisecond {
					return fmt.Errorf("%d attempts before, %v in all", e.Stats().Aborts[proto.ReasonLocked],
						f.Now()-begin)
				}
				list := e.Orphans(nil)
				if len(list) != 1 || list[0].Key != k || list[0].Owner != 2 {
					return fmt.Errorf("orphans are %+v", list)
				}
				// Everything else goes on.
				return do(f, e, declare(writing(small, keyOn(1, 2))), func(tx proto.Txn) error {
					return tx.Write(small, keyOn(1, 2), value(small, 5))
				})
			})
		})
	}
}

// TestALockThatALivingHolderKeepsIsWaitedFor: a holder whose thread gets no CPU time for longer than
// Config.OrphanAfter is slow, not dead. Whoever needs its record tries again until it is given back.
func TestALockThatALivingHolderKeepsIsWaitedFor(t *testing.T) {
	for _, owner := range []proto.NodeID{0, 1} {
		t.Run(fmt.Sprintf("record of node 1, met on node %d", owner), func(t *testing.T) {
			const after = 2 * time.Millisecond
			c := start(t, onSim, settings{
				node: func(cfg *node.Config) { cfg.Nodes = 3 },
				drtm: func(cfg *drtm.Config) {
					cfg.OrphanAfter = after
					cfg.HolderLives = func(proto.NodeID) bool { return true }
				}})
			k := keyOn(1, 1)
			err := c.Start("test", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
				switch w.Node {
				case 2: // keeps the lock for ten times that long
					tx, err := w.Engine.Begin(f, declare(writing(small, k)), 0)
					if err != nil {
						return err
					}
					return errors.Join(f.Sleep(10*after), tx.Rollback())
				case owner:
					if err := f.Sleep(after); err != nil {
						return err
					}
					err := do(f, w.Engine, declare(writing(small, k), writing(small, keyOn(1, 2))),
						func(tx proto.Txn) error { return tx.Write(small, k, value(small, 7)) })
					waited := w.Engine.Stats().Aborts[proto.ReasonLocked]
					orphans := w.Engine.(proto.OrphanLister).Orphans(nil)
					if err != nil || waited == 0 || f.Now() < 10*after || len(orphans) > 0 {
						return fmt.Errorf("ended with %v after %v, %d times locked, orphans %+v", err,
							f.Now(), waited, orphans)
					}
				}
				return nil
			}).Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}
