package twopl_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/verbs/fiber"
)

// holders has a test decide which nodes live.
func holders(lives func(proto.NodeID) bool) func(*node.Config) {
	return func(c *node.Config) {
		c.Nodes, c.Record = 3, nil
		made := c.Protocol.New
		c.Protocol.New = func(e *node.Env) (proto.Engine, error) {
			e.HolderLives = lives
			return made(e)
		}
	}
}

// run runs a transaction until it has an outcome.
func run(f *fiber.Fiber, e proto.Engine, d *proto.Decl, p program) error {
	_, err := (&proto.Runner{Engine: e, Rand: rand.New(rand.NewPCG(1, 2))}).Run(f, d, p)
	return err
}

// one declares a record of node 1 to be written.
func one(k uint64) *proto.Decl {
	return &proto.Decl{Kind: 1, Accesses: []proto.Access{
		{Table: small, Mode: proto.ModeWrite, Key: keyOn(1, k)}}}
}

// onEach runs a test for both protocols, and for a record that is met at home and from afar.
func onEach(t *testing.T, test func(t *testing.T, cpu bool, met proto.NodeID)) {
	t.Helper()
	for _, p := range protocols {
		for _, met := range []proto.NodeID{0, 1} {
			t.Run(fmt.Sprintf("%s, record of node 1, met on node %d", p.name, met), func(t *testing.T) {
				test(t, p.cpu, met)
			})
		}
	}
}

// TestOrphanedLocksAreNamed: a lock of a node that is gone, or of which nothing is known, is reported
// as locked at first and as orphaned after a bounded wait, by name.
func TestOrphanedLocksAreNamed(t *testing.T) {
	onEach(t, func(t *testing.T, cpu bool, met proto.NodeID) {
		for name, lives := range map[string]func(proto.NodeID) bool{
			"unknown": nil, "gone": func(n proto.NodeID) bool { return n != 2 }} {
			c := start(t, simulated, cpu, holders(lives))
			c.on(2, func(f *fiber.Fiber, e proto.Engine) error {
				_, err := e.Begin(f, one(1), 0)
				return err // and the transaction is never ended
			})
			c.on(met, func(f *fiber.Fiber, e proto.Engine) error {
				begin := f.Now()
				err := run(f, e, one(1), func(proto.Txn) error { return nil })
				if proto.AbortReason(err) != proto.ReasonOrphaned {
					return fmt.Errorf("%s: ended with %v", name, err)
				}
				if e.Stats().Aborts[proto.ReasonLocked] == 0 ||
					f.Now()-begin > 2*proto.DefaultOrphanAfter {
					return fmt.Errorf("%s: %d attempts before, %v in all", name,
						e.Stats().Aborts[proto.ReasonLocked], f.Now()-begin)
				}
				want := proto.Orphan{Node: 1, Table: small, Key: keyOn(1, 1), Owner: 2}
				list := e.(proto.OrphanLister).Orphans(nil)
				if len(list) == 1 {
					want.Since = list[0].Since
				}
				if len(list) != 1 || list[0] != want {
					return fmt.Errorf("%s: orphans are %+v, want %+v", name, list, want)
				}
				err = e.Peek(f, small, keyOn(1, 1), make([]byte, valueBytes[small]))
				if proto.AbortReason(err) != proto.ReasonOrphaned {
					return fmt.Errorf("%s: a look at the record ends with %v", name, err)
				}
				// Everything else goes on.
				return run(f, e, one(2), func(tx proto.Txn) error {
					return tx.Write(small, keyOn(1, 2), value(valueBytes[small], 5))
				})
			})
		}
	})
}

// TestALockThatALivingHolderKeepsIsWaitedFor: a holder whose thread gets no CPU time for longer than
// Config.OrphanAfter is slow, not dead. Whoever needs its record tries again until it is given back.
func TestALockThatALivingHolderKeepsIsWaitedFor(t *testing.T) {
	const after = proto.DefaultOrphanAfter
	onEach(t, func(t *testing.T, cpu bool, met proto.NodeID) {
		c := start(t, simulated, cpu, holders(func(proto.NodeID) bool { return true }))
		err := c.Start("test", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
			switch w.Node {
			case 2:
				tx, err := w.Engine.Begin(f, one(1), 0)
				if err != nil {
					return err
				}
				return errors.Join(f.Sleep(2*after), tx.Rollback())
			case met:
				if err := f.Sleep(time.Millisecond); err != nil {
					return err
				}
				err := run(f, w.Engine, one(1), func(tx proto.Txn) error {
					return tx.Write(small, keyOn(1, 1), value(valueBytes[small], 7))
				})
				waited := w.Engine.Stats().Aborts[proto.ReasonLocked]
				orphans := w.Engine.(proto.OrphanLister).Orphans(nil)
				if err != nil || waited == 0 || f.Now() < 2*after || len(orphans) > 0 {
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
