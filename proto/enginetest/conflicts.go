package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/verbs/fiber"
)

// access is what a transaction does to a key that exists or not.
type access struct {
	mode proto.Mode
	run  func(tx proto.Txn, k proto.Key) error
}

var accesses = []access{
	{proto.ModeRead, func(tx proto.Txn, k proto.Key) error { return answered(read(tx, full, k)) }},
	{proto.ModeWrite, func(tx proto.Txn, k proto.Key) error {
		return answered(tx.Write(full, k, value(full, 9)))
	}},
	{proto.ModeInsert, func(tx proto.Txn, k proto.Key) error {
		return answered(tx.Insert(full, k, value(full, 9)))
	}},
	{proto.ModeDelete, func(tx proto.Txn, k proto.Key) error { return answered(tx.Delete(full, k)) }},
}

// heldRecords holds a record of the last node from another node, present or absent, in each of the
// four ways, and touches it in all ways from every node that holds nothing. If one of the two
// changes the record, the other is refused or ends before; nothing of a refused transaction stays
// locked.
func heldRecords(t *testing.T, e env) {
	c := e.start(t, func(cfg *node.Config) { cfg.Nodes = 3 })
	const home, holder = 2, 0
	for _, other := range []proto.NodeID{1, home} {
		for i, hold := range accesses {
			for _, base := range []uint64{0, loaded} {
				c.conflict(keyOn(home, base+uint64(i)), holder, other, hold)
			}
		}
	}
	c.verify()
}

// until waits for a flag of another fiber.
func until(f *fiber.Fiber, b *atomic.Bool) error {
	for !b.Load() {
		if err := f.Sleep(5 * time.Microsecond); err != nil {
			return err
		}
	}
	return nil
}

// conflict holds k from one node while transactions of another touch it in every way.
func (c *cluster) conflict(k proto.Key, holder, other proto.NodeID, hold access) {
	c.t.Helper()
	var held, done atomic.Bool
	err := c.Start("conflict", 2, func(f *fiber.Fiber, w *node.Worker, i int) error {
		switch {
		case i == 0 && w.Node == holder:
			defer held.Store(true) // also when it fails
			d := declare(proto.Access{Table: full, Mode: hold.mode, Key: k})
			d.ReadOnly = false
			err := again(f, w.Engine, d, 0, func(tx proto.Txn) error {
				if err := hold.run(tx, k); err != nil {
					return err
				}
				held.Store(true)
				if err := until(f, &done); err != nil {
					return err
				}
				return proto.ErrRollback
			})
			switch reason := proto.AbortReason(err); {
			case errors.Is(err, proto.ErrRollback), reason == proto.ReasonLease,
				reason == proto.ReasonValidation:
				return nil
			}
			return fmt.Errorf("the holder by %v ended with %w", hold.mode, err)
		case i == 1 && w.Node == other:
			defer done.Store(true)
			if err := until(f, &held); err != nil {
				return err
			}
			return c.touch(f, w.Engine, k, other, hold)
		}
		return nil
	}).Wait(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
}

// touch does everything to a record that somebody holds, with a record of every node before it.
func (c *cluster) touch(f *fiber.Fiber, e proto.Engine, k proto.Key, other proto.NodeID,
	hold access) error {
	for _, a := range accesses {
		var all []proto.Access
		for _, n := range c.homes() {
			for _, x := range []uint64{10, loaded + 10} {
				all = append(all, proto.Access{Table: full, Mode: a.mode, Key: keyOn(n, x)})
			}
		}
		all = append(all, proto.Access{Table: full, Mode: a.mode, Key: k})
		d := declare(all...)
		d.ReadOnly = false
		err := unlessStale(f, e, d, func(tx proto.Txn) error {
			for _, x := range all {
				if err := a.run(tx, x.Key); err != nil {
					return err
				}
			}
			return proto.ErrRollback // the content stays as it is
		})
		reason := proto.AbortReason(err)
		switch {
		case reason == proto.ReasonLocked || reason == proto.ReasonLeased || reason == proto.ReasonLease:
		case (hold.mode == proto.ModeRead && c.protocol.Optimistic || c.protocol.LocksLate) &&
			errors.Is(err, proto.ErrRollback):
			// Nothing is held of what is read, or of anything before the commit.
		case hold.mode != proto.ModeRead || a.mode != proto.ModeRead && !c.protocol.Offers.Has(proto.OfferLeases):
			return fmt.Errorf("%v by node %d of key %#x that is held for %v ended with %w, want a refusal",
				a.mode, other, k, hold.mode, err)
		case errors.Is(err, proto.ErrRollback):
			// Readers may share; a lease may be over on a host whose threads wait for a processor.
		default:
			return fmt.Errorf("%v by node %d of key %#x beside a reader ended with %w", a.mode, other, k, err)
		}
	}
	return nil
}

// unlessStale runs attempts until one is not refused for a place that is out of date.
func unlessStale(f *fiber.Fiber, e proto.Engine, d *proto.Decl, p program) (err error) {
	for range 10 {
		if err = attempt(f, e, d, 0, p); proto.AbortReason(err) != proto.ReasonStale {
			return err
		}
	}
	return err
}

// peeks peeks at records over one line and over several while others write and delete them.
func peeks(t *testing.T, e env) {
	c := e.start(t, func(cfg *node.Config) { cfg.Fibers = 3 })
	var peeked, absent, locked atomic.Int64
	err := c.Start("peek", 3, func(f *fiber.Fiber, w *node.Worker, i int) error {
		r := rand.New(rand.NewPCG(uint64(w.Node), uint64(i)))
		run := proto.Runner{Engine: w.Engine, Rand: r}
		for range e.scale(150) {
			id := tableIDs[r.IntN(len(tableIDs))]
			k := keyOn(proto.NodeID(r.IntN(2)), r.Uint64N(2))
			if i > 0 {
				if err := change(f, &run, id, k, r.Uint64()); err != nil {
					return err
				}
				continue
			}
			b := value(id, 0)
			switch err := w.Engine.Peek(f, id, k, b); {
			case err == proto.ErrNotFound:
				absent.Add(1)
			case proto.AbortReason(err) != 0 && proto.AbortReason(err).Retry():
				locked.Add(1)
			case err != nil:
				return err
			default:
				peeked.Add(1)
				if _, whole := number(b); !whole {
					return fmt.Errorf("torn: %v", b)
				}
			}
			if err := f.Yield(); err != nil {
				return err
			}
		}
		return nil
	}).Wait(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if peeked.Load() == 0 {
		t.Errorf("%d absent, %d locked, none read", absent.Load(), locked.Load())
	}
	c.verify()
}

// change deletes a record, or writes it, or inserts it if it is not there.
func change(f *fiber.Fiber, run *proto.Runner, id proto.TableID, k proto.Key, v uint64) error {
	if v%8 == 0 {
		_, err := run.Run(f, declare(deleting(id, k)), program(func(tx proto.Txn) error {
			return answered(tx.Delete(id, k))
		}))
		return err
	}
	_, err := run.Run(f, declare(inserting(id, k)), program(func(tx proto.Txn) error {
		if err := tx.Write(id, k, value(id, v)); err != proto.ErrNotFound {
			return err
		}
		return tx.Insert(id, k, value(id, v))
	}))
	return err
}
