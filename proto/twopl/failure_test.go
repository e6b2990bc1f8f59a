package twopl_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/onesided"
	"drtmd/proto/twopl"
	"drtmd/store/layout"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// both declares a record of each node.
func both() *proto.Decl {
	return &proto.Decl{Kind: 1, Accesses: []proto.Access{
		{Table: line, Mode: proto.ModeWrite, Key: keyOn(0, 1)},
		{Table: line, Mode: proto.ModeWrite, Key: keyOn(1, 1)}}}
}

// state reads the state word of a record of table line while nothing changes it.
func (c *cluster) state(k proto.Key) uint64 {
	c.t.Helper()
	tab := c.Members[k>>32].Workers[0].Tables[line-1]
	off, ok := tab.Find(uint64(k))
	if !ok {
		c.t.Fatalf("no entry of key %#x", k)
	}
	m, off := tab.At(off)
	return binary.NativeEndian.Uint64(m.Bytes[off+layout.StateOffset:])
}

// TestPeerThatFails breaks the queue pair to node 1 before each phase of a transaction on records
// of nodes 0 and 1.
func TestPeerThatFails(t *testing.T) {
	for _, x := range []struct {
		name    string
		write   []proto.NodeID
		when    string // of the failure
		want    error
		outcome string
	}{
		{"before Begin", []proto.NodeID{0, 1}, "begin", proto.Aborting(proto.ReasonUnreachable), ""},
		{"before Commit of both", []proto.NodeID{0, 1}, "commit", proto.ErrUnknownOutcome, "unknown"},
		{"before Commit of the other", []proto.NodeID{1}, "commit", proto.ErrUnknownOutcome, "unknown"},
		{"before Commit of one's own", []proto.NodeID{0}, "commit", nil, "committed"},
		{"before Commit of nothing", nil, "commit", nil, "committed"},
		{"before Rollback", []proto.NodeID{0, 1}, "rollback", proto.ErrRollback, "rolled back"},
	} {
		t.Run(x.name, func(t *testing.T) {
			each(t, func(t *testing.T, h host, cpu bool) {
				c := start(t, h, cpu)
				var stats proto.Stats
				var orphans []proto.Orphan
				var held bool
				fail := c.Members[0].Workers[0].Peers[1].Conn.QP()
				c.on(0, func(f *fiber.Fiber, e proto.Engine) error {
					if x.when == "begin" {
						if err := fail.ToError(); err != nil {
							return err
						}
					}
					err := do(f, e, both(), func(tx proto.Txn) error {
						for _, n := range x.write {
							if err := tx.Write(line, keyOn(n, 1), value(valueBytes[line], 2)); err != nil {
								return err
							}
						}
						if err := fail.ToError(); err != nil {
							return err
						}
						if x.when == "rollback" {
							return proto.ErrRollback
						}
						return nil
					})
					if !errors.Is(err, x.want) {
						t.Errorf("%v, want %v", err, x.want)
					}
					stats, orphans = *e.Stats(), e.(proto.OrphanLister).Orphans(nil)
					held = c.state(keyOn(1, 1)) != 0 // before the node is connected again
					// The worker goes on with what it can reach.
					return do(f, e, &proto.Decl{Kind: 1}, func(tx proto.Txn) error {
						b := make([]byte, valueBytes[line])
						if err := tx.Read(line, keyOn(0, 1), b); err != nil {
							return err
						}
						if v, whole := number(b); !whole || (v != initial && v != 2) {
							return fmt.Errorf("read %v", b)
						}
						return nil
					})
				})
				got := ""
				switch {
				case stats.Committed == 1:
					got = "committed"
				case stats.Unknown == 1:
					got = "unknown"
				case stats.RolledBack == 1:
					got = "rolled back"
				}
				if got != x.outcome {
					t.Errorf("counted as %q, want %q", got, x.outcome)
				}
				if c.state(keyOn(0, 1)) != 0 {
					t.Error("the own record stays locked")
				}
				if x.when != "begin" && !held {
					t.Error("the record behind a broken queue pair was unlocked")
				}
				want := proto.Orphan{Node: 1, Table: line, Key: keyOn(1, 1), Owner: 0}
				if len(orphans) > 0 {
					want.Since = orphans[0].Since
				}
				if held && (len(orphans) != 1 || orphans[0] != want) {
					t.Errorf("orphans %+v, want the lock left behind, %+v", orphans, want)
				}
				if err := c.Stop(); err != nil {
					t.Fatal(err)
				}
				c.serializable()
			})
		})
	}
}

// TestCancelledTransactionsLeaveNothing cancels a fiber at many moments of a transaction that
// reads, writes, inserts and finds absent on two nodes: nothing stays locked, and both nodes'
// records agree.
func TestCancelledTransactionsLeaveNothing(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			c := start(t, simulated, p.cpu)
			committed, cancelled := 0, 0
			for at := time.Duration(0); at < 60*time.Microsecond; at += 400 * time.Nanosecond {
				switch err := c.cancelled(at); {
				case err == nil:
					committed++
					c.agree(2)
				case errors.Is(err, fiber.ErrCancelled):
					cancelled++
					c.agree(initial)
				default:
					t.Fatalf("cancelled after %v: %v", at, err)
				}
				c.unlocked()
				if t.Failed() {
					t.Fatalf("cancelled after %v", at)
				}
				c.on(0, func(f *fiber.Fiber, e proto.Engine) error { return do(f, e, both(), undo) })
			}
			if committed == 0 || cancelled < 10 {
				t.Errorf("%d committed and %d cancelled: the moments miss the transaction", committed,
					cancelled)
			}
			c.verify()
		})
	}
}

// cancelled runs writeEverywhere on a fiber that is cancelled after a time.
func (c *cluster) cancelled(after time.Duration) (err error) {
	c.t.Helper()
	c.on(0, func(f *fiber.Fiber, e proto.Engine) error {
		s := f.Worker().NewScope()
		task := f.Worker().Go("cancelled", s, func(f *fiber.Fiber) error {
			return do(f, e, both(), writeEverywhere)
		})
		if err := f.Sleep(after); err != nil {
			return err
		}
		s.Cancel(errors.New("enough"))
		err = f.Join(task, 0)
		return nil
	})
	return err
}

// undo takes back what writeEverywhere may have done.
func undo(tx proto.Txn) error {
	for n := range proto.NodeID(2) {
		if err := tx.Write(line, keyOn(n, 1), value(valueBytes[line], initial)); err != nil {
			return err
		}
		if err := missing(tx.Delete(large, keyOn(n, loaded))); err != nil {
			return err
		}
	}
	return nil
}

// writeEverywhere writes a record on each node, inserts one, and looks for one that is absent.
func writeEverywhere(tx proto.Txn) error {
	for n := range proto.NodeID(2) {
		if err := tx.Write(line, keyOn(n, 1), value(valueBytes[line], 2)); err != nil {
			return err
		}
		if err := tx.Insert(large, keyOn(n, loaded), value(valueBytes[large], 2)); err != nil {
			return err
		}
		err := tx.Read(small, keyOn(n, loaded), make([]byte, valueBytes[small]))
		if missing(err) != nil {
			return err
		}
	}
	return nil
}

// agree checks that what writeEverywhere writes is as it was, or all new.
func (c *cluster) agree(want uint64) {
	c.t.Helper()
	for n := range proto.NodeID(2) {
		b := make([]byte, valueBytes[line])
		if err := c.Read(line, keyOn(n, 1), b); err != nil {
			c.t.Fatal(err)
		}
		if v, whole := number(b); !whole || v != want {
			c.t.Errorf("node %d: %v, want %d", n, b, want)
		}
		err := c.Read(large, keyOn(n, loaded), make([]byte, valueBytes[large]))
		if inserted := err == nil; inserted != (want == 2) {
			c.t.Errorf("node %d: inserted is %v: %v", n, inserted, err)
		}
	}
}

// TestFullTablesSaySoAndTakeBack inserts until a table of another node is full.
func TestFullTablesSaySoAndTakeBack(t *testing.T) {
	each(t, func(t *testing.T, h host, cpu bool) {
		c := start(t, h, cpu)
		for _, home := range []proto.NodeID{0, 1} {
			c.on(0, func(f *fiber.Fiber, e proto.Engine) error {
				insert := func(k uint64) error {
					return do(f, e, &proto.Decl{Kind: 1}, func(tx proto.Txn) error {
						return tx.Insert(small, keyOn(home, k), value(8, k))
					})
				}
				k, most := uint64(loaded), uint64(10_000)
				var err error
				for ; err == nil && k < most; k++ {
					err = insert(k)
				}
				if proto.AbortReason(err) != proto.ReasonFull {
					return fmt.Errorf("after %d keys: %w, want an abort: table full", k, err)
				}
				if proto.ReasonFull.Retry() {
					t.Error("the runner would try again")
				}
				err = do(f, e, &proto.Decl{Kind: 1}, func(tx proto.Txn) error {
					return tx.Delete(small, keyOn(home, loaded))
				})
				return errors.Join(err, insert(k-1))
			})
		}
		c.verify()
	})
}

func TestConfigurationsThatCannotWorkAreRefused(t *testing.T) {
	c := start(t, simulated, false)
	for _, x := range []struct {
		name   string
		change func(*node.Env)
	}{
		{"worker that a lock word cannot name", func(e *node.Env) { e.Index = onesided.MaxWorkers }},
		{"life that a lock word cannot name", func(e *node.Env) { e.Life = onesided.MaxLives }},
		{"no atomics", func(e *node.Env) { e.Scope = verbs.AtomicNone }},
	} {
		t.Run(x.name, func(t *testing.T) {
			e := c.Members[0].Workers[0].Env
			x.change(&e)
			if _, err := twopl.New(&e, false); !errors.Is(err, twopl.ErrConfig) {
				t.Errorf("%v, want a refusal", err)
			}
		})
	}
}
