package enginetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/store"
	"drtmd/verbs/fiber"
)

func insertion(id proto.TableID, k proto.Key, v uint64) (*proto.Decl, program) {
	return declare(inserting(id, k)), func(tx proto.Txn) error { return tx.Insert(id, k, value(id, v)) }
}

func deletion(id proto.TableID, k proto.Key) (*proto.Decl, program) {
	return declare(deleting(id, k)), func(tx proto.Txn) error { return tx.Delete(id, k) }
}

// run runs a transaction until it has an outcome.
func run(f *fiber.Fiber, e proto.Engine) func(*proto.Decl, program) error {
	return func(d *proto.Decl, p program) error { return do(f, e, d, p) }
}

// versionsGrow: also if the entry was given back in between.
func versionsGrow(t *testing.T, e env) {
	c := e.start(t)
	c.on(0, func(f *fiber.Fiber, eng proto.Engine) error {
		for _, home := range c.homes() {
			k := keyOn(home, 1)
			if err := c.rest(f, eng); err != nil {
				return err
			}
			last := c.record(small, k).version
			for i := range e.scale(20) {
				if err := run(f, eng)(deletion(small, k)); err != nil {
					return err
				}
				if i%2 == 0 { // long enough for the entry to be given back
					if err := f.Sleep(5 * time.Millisecond); err != nil {
						return err
					}
					if _, err := seen(f, eng, small, keyOn(0, 2)); err != nil {
						return err
					}
				}
				if err := run(f, eng)(insertion(small, k, 5)); err != nil {
					return err
				}
				if err := c.rest(f, eng); err != nil {
					return err
				}
				v := c.record(small, k).version
				if v <= last || !v.Live() {
					return fmt.Errorf("node %d: version %v after %v", home, v, last)
				}
				last = v
			}
		}
		return nil
	})
	c.verify()
}

// spaceReused inserts and deletes more keys than a table has entries, and looks as many up that
// have no record.
func spaceReused(t *testing.T, e env) {
	raceskip.SameMemory(t) // one transaction at a time
	c := e.start(t)
	most := 2 * entries(c.Members[0].Workers[0].Tables[0])
	switch {
	case e.host.Slow:
		most /= 4
	case !e.host.Simulated: // a transaction takes as long as threads wait for one another
		most /= 2 // more than there are free entries
	}
	c.on(0, func(f *fiber.Fiber, eng proto.Engine) error {
		for i := range uint64(most) {
			for _, home := range c.homes() {
				k := keyOn(home, capacity+i)
				if v, err := seen(f, eng, small, k); v != 0 || err != nil {
					return fmt.Errorf("key %d of node %d is %d, %w", i, home, v, err)
				}
				err := run(f, eng)(insertion(small, k, i+1))
				if err == nil {
					err = run(f, eng)(deletion(small, k))
				}
				if err != nil {
					return fmt.Errorf("key %d at node %d: %w", i, home, err)
				}
			}
		}
		return nil
	})
	c.verify()
}

// fullTable: a key is refused when the table is full. Then a key that was deleted has room again; and the
// refused one has room after the first deletion, or, if not every place can hold every key, after as many as it
// takes.
func fullTable(t *testing.T, e env) {
	raceskip.SameMemory(t) // one transaction at a time
	c := e.start(t)
	_, anyPlace := c.Members[0].Workers[0].Tables[small-1].(*store.Table)
	for _, home := range c.homes() {
		c.on(0, func(f *fiber.Fiber, eng proto.Engine) error {
			k, most := uint64(loaded), uint64(10_000)
			var err error
			for ; err == nil && k < most; k++ {
				err = run(f, eng)(insertion(small, keyOn(home, k), k))
			}
			if proto.AbortReason(err) != proto.ReasonFull {
				return fmt.Errorf("after %d keys: %w, want an abort: table full", k, err)
			}
			k--
			if err := run(f, eng)(deletion(small, keyOn(home, loaded))); err != nil {
				return err
			}
			if err := insertWithRoom(f, eng, keyOn(home, loaded)); err != nil {
				return fmt.Errorf("a key that was deleted: %w", err)
			}
			for victim := uint64(loaded); victim < k; victim++ {
				if err := run(f, eng)(deletion(small, keyOn(home, victim))); err != nil {
					return err
				}
				err = insertWithRoom(f, eng, keyOn(home, k))
				if proto.AbortReason(err) != proto.ReasonFull || anyPlace {
					return err
				}
			}
			return fmt.Errorf("the key that was refused, after all deletions: %w", err)
		})
	}
	c.verify()
}

// insertWithRoom inserts a key, and waits for room: a tombstone is given back when its leases are over.
func insertWithRoom(f *fiber.Fiber, eng proto.Engine, k proto.Key) (err error) {
	for range 20 {
		err = run(f, eng)(insertion(small, k, 1))
		if proto.AbortReason(err) != proto.ReasonFull {
			return err
		}
		if err := f.Sleep(5 * time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("no room: %w", err)
}

func panics(t *testing.T, e env) {
	c := e.start(t)
	c.on(0, func(f *fiber.Fiber, eng proto.Engine) error {
		var all []proto.Access
		for _, home := range c.homes() {
			all = append(all, writing(small, keyOn(home, 1)))
		}
		panicked := func() (what any) {
			defer func() { what = recover() }()
			return do(f, eng, declare(all...), func(tx proto.Txn) error {
				for _, a := range all {
					if err := tx.Write(small, a.Key, value(small, 5)); err != nil {
						return err
					}
				}
				panic("a bug")
			})
		}()
		if panicked != "a bug" {
			return fmt.Errorf("the program's panic has become %v", panicked)
		}
		for _, a := range all {
			if v, err := seen(f, eng, small, a.Key); v != initial || err != nil {
				return fmt.Errorf("key %#x is %d, %w", a.Key, v, err)
			}
			err := do(f, eng, declare(a), func(tx proto.Txn) error {
				return tx.Write(small, a.Key, value(small, 6))
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	c.verify()
}

// outdatedPlaces has node 0 learn where keys of the last node are, that node delete them and insert
// others, which take their entries, and node 0 touch old and new ones in one transaction, in both
// orders.
func outdatedPlaces(t *testing.T, e env) {
	c := e.start(t)
	home := proto.NodeID(c.Config.Nodes - 1)
	const n = 8
	c.on(0, func(f *fiber.Fiber, eng proto.Engine) error {
		for k := range uint64(n) {
			if _, err := seen(f, eng, full, keyOn(home, k)); err != nil {
				return err
			}
		}
		return f.Sleep(5 * time.Millisecond) // leases are over
	})
	c.on(home, func(f *fiber.Fiber, eng proto.Engine) error {
		for k := range uint64(n) {
			if err := run(f, eng)(deletion(full, keyOn(home, k))); err != nil {
				return err
			}
			if err := run(f, eng)(insertion(full, keyOn(home, loaded+k), 7+k)); err != nil {
				return err
			}
		}
		return nil
	})
	c.on(0, func(f *fiber.Fiber, eng proto.Engine) error {
		for _, first := range []uint64{0, loaded} {
			var all []proto.Access
			for _, base := range []uint64{first, loaded - first} {
				for k := range uint64(n) {
					all = append(all, writing(full, keyOn(home, base+k)))
				}
			}
			err := do(f, eng, declare(all...), func(tx proto.Txn) error {
				for k := range uint64(n) {
					err := errors.Join(finds(proto.ErrNotFound, read)(tx, full, keyOn(home, k)),
						reads(7+k)(tx, full, keyOn(home, loaded+k)))
					if err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	c.verify()
}

// cancelled cancels a fiber at many moments of a transaction that reads, writes, inserts and finds
// absent on every node: nothing stays locked, and all records agree.
func cancelled(t *testing.T, e env) {
	c := e.start(t, func(cfg *node.Config) { cfg.Fibers = 2 })
	committed, stopped := 0, 0
	for at := time.Duration(0); at < 50*time.Microsecond; at += 100*time.Nanosecond + at/20 {
		want := uint64(initial)
		switch err := c.cancelAfter(at); {
		case err == nil:
			committed++
			want = 2
		case errors.Is(err, fiber.ErrCancelled):
			stopped++
		default:
			t.Fatalf("cancelled after %v: %v", at, err)
		}
		c.arrive()
		c.agree(want)
		c.unlocked()
		if t.Failed() {
			t.Fatalf("cancelled after %v", at)
		}
		c.on(0, func(f *fiber.Fiber, eng proto.Engine) error {
			d, _ := c.everywhere()
			return do(f, eng, d, c.undo)
		})
	}
	if committed == 0 || stopped < 10 && !e.protocol.OneThread {
		t.Errorf("%d committed and %d cancelled: the moments miss the transaction", committed, stopped)
	}
	c.verify()
}

// everywhere writes a record on each node, inserts one, and looks for one that is absent.
func (c *cluster) everywhere() (*proto.Decl, program) {
	d := &proto.Decl{Kind: 1}
	for _, n := range c.homes() {
		d.Accesses = append(d.Accesses, writing(full, keyOn(n, 1)), inserting(large, keyOn(n, loaded)),
			reading(small, keyOn(n, loaded)))
	}
	return d, func(tx proto.Txn) error {
		for _, n := range c.homes() {
			if err := tx.Write(full, keyOn(n, 1), value(full, 2)); err != nil {
				return err
			}
			if err := tx.Insert(large, keyOn(n, loaded), value(large, 2)); err != nil {
				return err
			}
			if err := answered(read(tx, small, keyOn(n, loaded))); err != nil {
				return err
			}
		}
		return nil
	}
}

// undo takes back what everywhere may have done.
func (c *cluster) undo(tx proto.Txn) error {
	for _, n := range c.homes() {
		if err := tx.Write(full, keyOn(n, 1), value(full, initial)); err != nil {
			return err
		}
		if err := answered(tx.Delete(large, keyOn(n, loaded))); err != nil {
			return err
		}
	}
	return nil
}

// cancelAfter runs everywhere on a fiber that is cancelled after a time.
func (c *cluster) cancelAfter(after time.Duration) (err error) {
	c.t.Helper()
	c.on(0, func(f *fiber.Fiber, eng proto.Engine) error {
		s := f.Worker().NewScope()
		d, p := c.everywhere()
		task := f.Worker().Go("cancelled", s, func(f *fiber.Fiber) error {
			return do(f, eng, d, p)
		})
		if err := f.Sleep(after); err != nil {
			return err
		}
		s.Cancel(errors.New("enough"))
		err = f.Join(task, 0)
		return c.rest(f, eng)
	})
	return err
}

// agree checks that what everywhere writes is as it was, or all new.
func (c *cluster) agree(want uint64) {
	c.t.Helper()
	for _, n := range c.homes() {
		if v, whole := number(c.record(full, keyOn(n, 1)).value); !whole || v != want {
			c.t.Errorf("node %d: %d, want %d", n, v, want)
		}
		r := c.record(large, keyOn(n, loaded))
		if inserted := r.entry && r.version.Live(); inserted != (want == 2) {
			c.t.Errorf("node %d: inserted is %v: %v", n, inserted, r)
		}
	}
}
