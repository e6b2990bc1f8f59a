package drtm_test

import (
	"errors"
	"fmt"
	"testing"

	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/proto/node"
	"drtmd/verbs/fiber"
)

// What keeps transactions apart, one step at a time: each of these tests fails if the step that it
// names is left out.

// TestEveryWayConfirmsItsLeases: a read-only transaction that takes too long must not commit,
// whichever way it runs (§5.4, §7.2).
func TestEveryWayConfirmsItsLeases(t *testing.T) {
	for _, x := range []struct {
		name    string
		attempt int
	}{{"two rounds", 0}, {"all leased", 2}, {"fallback", drtm.DefaultAttempts}} {
		for _, commit := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, commit %t", x.name, commit), func(t *testing.T) {
				c := start(t, onSim, settings{})
				c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
					d := declare(reading(small, keyOn(1, 1)), reading(small, keyOn(0, 1)))
					err := attempt(f, e, d, x.attempt, func(tx proto.Txn) error {
						f.Charge(int64(drtm.DefaultLeaseReadOnly) * 1000)
						if !commit {
							return proto.ErrRollback
						}
						return nil
					})
					if proto.AbortReason(err) != proto.ReasonLease {
						return fmt.Errorf("ended with %v, want the lease to have ended", err)
					}
					return nil
				})
				c.verify()
			})
		}
	}
}

// TestRoundsRefuseALockedRecord (§5.4): both rounds do, though the version is still the old one.
// Whoever holds the lock may have committed.
func TestRoundsRefuseALockedRecord(t *testing.T) {
	a, b := keyOn(0, 1), keyOn(0, 2)
	for _, x := range []struct {
		name string
		// lock is when another machine locks a record, after the reader's first look at 50 us.
		first bool
		want  proto.Reason
	}{{"before the first round", true, proto.ReasonLocked},
		{"between the rounds", false, proto.ReasonValidation}} {
		t.Run(x.name, func(t *testing.T) {
			c := start(t, onSim, settings{})
			c.pair(func(f *fiber.Fiber, e *drtm.Engine) error {
				if err := f.Sleep(50 * us); err != nil {
					return err
				}
				d := declare(reading(small, a), reading(small, b))
				err := attempt(f, e, d, 0, func(tx proto.Txn) error {
					if err := tx.Read(small, a, value(small, 0)); err != nil {
						return err
					}
					f.Charge(int64(100*us) * 1000)
					return tx.Read(small, b, value(small, 0))
				})
				if proto.AbortReason(err) != x.want {
					return fmt.Errorf("ended with %v, want %v", err, x.want)
				}
				return nil
			}, func(f *fiber.Fiber, e *drtm.Engine) error {
				begin := 60 * us
				if x.first {
					begin = us
				}
				if err := f.Sleep(begin); err != nil {
					return err
				}
				tx, err := e.Begin(f, declare(writing(small, a)), 0)
				if err != nil {
					return err
				}
				err = f.Sleep(300 * us)
				tx.Abort(err)
				return err
			})
			c.verify()
		})
	}
}

// TestALeasedAbsenceStays (design decision 7): while a lease says that a key is absent, its
// tombstone is not given back, and the key cannot be inserted.
func TestALeasedAbsenceStays(t *testing.T) {
	k := keyOn(0, 1)
	c := start(t, onSim, settings{})
	c.pair(func(f *fiber.Fiber, e *drtm.Engine) error {
		if err := do(f, e, declare(deleting(small, k)), func(tx proto.Txn) error {
			return tx.Delete(small, k)
		}); err != nil {
			return err
		}
		if err := f.Sleep(100 * us); err != nil { // the other one has its lease by now
			return err
		}
		for range 10 { // each has a chance to give tombstones back
			if _, err := peek(f, e, small, keyOn(0, 2)); err != nil {
				return err
			}
		}
		err := attempt(f, e, declare(inserting(small, k)), 0, func(tx proto.Txn) error {
			return tx.Insert(small, k, value(small, 5))
		})
		if proto.AbortReason(err) != proto.ReasonLeased {
			return fmt.Errorf("the insertion ended with %v, want the key's absence leased", err)
		}
		return nil
	}, func(f *fiber.Fiber, e *drtm.Engine) error {
		if err := f.Sleep(30 * us); err != nil {
			return err
		}
		return attempt(f, e, declare(reading(small, k)), 0, func(tx proto.Txn) error {
			if err := tx.Read(small, k, value(small, 0)); !errors.Is(err, proto.ErrNotFound) {
				return fmt.Errorf("the deleted record is there: %v", err)
			}
			return f.Sleep(300 * us)
		})
	})
	c.verify()
}

// TestAnAbsenceReadInRoundsIsValidated (§5.4): a key without an entry has no version to compare,
// and another worker of the machine inserts it between the rounds.
func TestAnAbsenceReadInRoundsIsValidated(t *testing.T) {
	k := keyOn(0, loaded+1)
	c := start(t, onSim, settings{node: func(cfg *node.Config) { cfg.Workers = 2 }})
	reader := func(f *fiber.Fiber, e *drtm.Engine) error {
		err := attempt(f, e, declare(reading(small, k)), 0, func(tx proto.Txn) error {
			if err := tx.Read(small, k, value(small, 0)); !errors.Is(err, proto.ErrNotFound) {
				return fmt.Errorf("found what nobody has inserted: %v", err)
			}
			f.Charge(int64(100*us) * 1000)
			return nil
		})
		if proto.AbortReason(err) != proto.ReasonConflict {
			return fmt.Errorf("ended with %v, want a conflict", err)
		}
		return nil
	}
	writer := func(f *fiber.Fiber, e *drtm.Engine) error {
		if err := f.Sleep(30 * us); err != nil {
			return err
		}
		return do(f, e, declare(inserting(small, k)), func(tx proto.Txn) error {
			return tx.Insert(small, k, value(small, 5))
		})
	}
	if err := c.Start("test", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		switch {
		case w.Node != 0:
			return nil
		case w.Index == 0:
			return reader(f, w.Engine.(*drtm.Engine))
		}
		return writer(f, w.Engine.(*drtm.Engine))
	}).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.verify()
}

// TestFallbackLocksInTheGlobalOrder (§7.2), whatever the declaration's: while it waits for the
// first record it has none of the others.
func TestFallbackLocksInTheGlobalOrder(t *testing.T) {
	first, second := keyOn(0, 1), keyOn(0, 2)
	c := start(t, onSim, settings{})
	c.pair(func(f *fiber.Fiber, e *drtm.Engine) error {
		if err := f.Sleep(50 * us); err != nil {
			return err
		}
		return attempt(f, e, declare(writing(small, second), writing(small, first)),
			drtm.DefaultAttempts, func(tx proto.Txn) error {
				return tx.Write(small, second, value(small, 5))
			})
	}, func(f *fiber.Fiber, e *drtm.Engine) error {
		tx, err := e.Begin(f, declare(writing(small, first)), 0)
		if err != nil {
			return err
		}
		err = f.Sleep(200 * us) // the other one waits by now
		if s, _, _ := c.entry(small, second); s.Locked() {
			err = errors.Join(err, fmt.Errorf("the second record is %v", s))
		}
		tx.Abort(err)
		return err
	})
	c.verify()
}
