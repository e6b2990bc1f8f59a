package twopl_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/verbs/fiber"
)

// access is what a transaction does to a key that exists or not.
type access struct {
	name string
	run  func(tx proto.Txn, k proto.Key) error
}

var accesses = []access{
	{"read", func(tx proto.Txn, k proto.Key) error {
		return missing(tx.Read(line, k, make([]byte, valueBytes[line])))
	}},
	{"write", func(tx proto.Txn, k proto.Key) error {
		return missing(tx.Write(line, k, value(valueBytes[line], 9)))
	}},
	{"insert", func(tx proto.Txn, k proto.Key) error {
		return missing(tx.Insert(line, k, value(valueBytes[line], 9)))
	}},
	{"delete", func(tx proto.Txn, k proto.Key) error { return missing(tx.Delete(line, k)) }},
}

// missing takes an answer about the record's existence for one.
func missing(err error) error {
	if err == proto.ErrNotFound || err == proto.ErrExists {
		return nil
	}
	return err
}

// TestHeldRecordsEndOtherTransactions holds a record, present or absent, in one of the four ways,
// from its own node or from another, and touches it in all ways from both nodes: every pair
// conflicts, since all locks are exclusive, and nothing of the refused transaction stays locked.
func TestHeldRecordsEndOtherTransactions(t *testing.T) {
	each(t, func(t *testing.T, h host, cpu bool) {
		c := start(t, h, cpu)
		for _, holder := range []proto.NodeID{0, 1} {
			for _, other := range []proto.NodeID{0, 1} {
				for i, hold := range accesses {
					c.conflict(keyOn(0, uint64(i)), holder, other, hold)
					c.conflict(keyOn(0, loaded+uint64(i)), holder, other, hold)
				}
			}
		}
		c.verify()
	})
}

// conflict holds k from one node while transactions of another touch it in every way.
func (c *cluster) conflict(k proto.Key, holder, other proto.NodeID, hold access) {
	c.t.Helper()
	var held, done atomic.Bool
	until := func(f *fiber.Fiber, b *atomic.Bool) error {
		for !b.Load() {
			if err := f.Sleep(5 * time.Microsecond); err != nil {
				return err
			}
		}
		return nil
	}
	err := c.Start("test", 2, func(f *fiber.Fiber, w *node.Worker, i int) error {
		switch {
		case i == 0 && w.Node == holder:
			defer held.Store(true) // also when it fails
			return ignore(proto.ErrRollback, do(f, w.Engine, &proto.Decl{Kind: 1},
				func(tx proto.Txn) error {
					if err := hold.run(tx, k); err != nil {
						return err
					}
					held.Store(true)
					if err := until(f, &done); err != nil {
						return err
					}
					return proto.ErrRollback
				}))
		case i == 1 && w.Node == other:
			defer done.Store(true)
			if err := until(f, &held); err != nil {
				return err
			}
			for _, a := range accesses {
				if err := refused(f, w.Engine, k, a); err != nil {
					return fmt.Errorf("%s by node %d of key %#x that node %d has for %s: %w", a.name, other,
						k, holder, hold.name, err)
				}
			}
		}
		return nil
	}).Wait(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
}

// refused has a transaction lock records on both nodes, some of them absent, and then k, which
// somebody has; and the same with all of them declared.
func refused(f *fiber.Fiber, e proto.Engine, k proto.Key, a access) error {
	d := &proto.Decl{Kind: 1}
	for range 2 {
		err := do(f, e, d, func(tx proto.Txn) error {
			for n := range proto.NodeID(2) {
				for _, x := range []uint64{10, loaded + 10} {
					if err := a.run(tx, keyOn(n, x)); err != nil {
						return err
					}
				}
			}
			return a.run(tx, k)
		})
		if proto.AbortReason(err) != proto.ReasonLocked {
			return fmt.Errorf("%v, want an abort: locked", err)
		}
		for n := range proto.NodeID(2) {
			for _, x := range []uint64{10, loaded + 10} {
				d.Accesses = append(d.Accesses, proto.Access{Table: line, Mode: proto.ModeWrite,
					Key: keyOn(n, x)})
			}
		}
		d.Accesses = append(d.Accesses, proto.Access{Table: line, Mode: proto.ModeWrite, Key: k})
	}
	return nil
}

func ignore(what, err error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}
