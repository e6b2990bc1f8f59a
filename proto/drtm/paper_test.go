package drtm_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/proto/node"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// One test per claim of DrTM (TOCS 2016), with its section. What the state word looks like and
// when leases are valid is in state_test.go (§5.2, Figure 9(b)).

// pair runs a body on the first worker of each of two nodes at the same time.
func (c *cluster) pair(body ...func(f *fiber.Fiber, e *drtm.Engine) error) {
	c.t.Helper()
	err := c.Start("test", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		if int(w.Node) >= len(body) || w.Index != 0 {
			return nil
		}
		return body[w.Node](f, w.Engine.(*drtm.Engine))
	}).Wait(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
}

// TestTableIV (§5.3, Table IV; Figure 8(b) to (d)): whether a local access conflicts with a remote
// one of the same record. (b) the remote operation comes after the local one, inside its region:
// always, R_RD after L_RD being the one false conflict. (c) it comes before the access, with the
// region begun, and (d) before the region: only if one of the two writes.
func TestTableIV(t *testing.T) {
	const (
		b = iota
		c
		d
	)
	tests := []struct {
		name   string
		figure int
		remote proto.Mode
		local  proto.Mode
		abort  bool
	}{
		{"8(b) R_RD L_RD", b, proto.ModeRead, proto.ModeRead, true},
		{"8(b) R_RD L_WR", b, proto.ModeRead, proto.ModeWrite, true},
		{"8(b) R_WR L_RD", b, proto.ModeWrite, proto.ModeRead, true},
		{"8(b) R_WR L_WR", b, proto.ModeWrite, proto.ModeWrite, true},
		{"8(c) R_RD L_RD", c, proto.ModeRead, proto.ModeRead, false},
		{"8(c) R_RD L_WR", c, proto.ModeRead, proto.ModeWrite, true},
		{"8(c) R_WR L_RD", c, proto.ModeWrite, proto.ModeRead, true},
		{"8(c) R_WR L_WR", c, proto.ModeWrite, proto.ModeWrite, true},
		{"8(d) R_RD L_RD", d, proto.ModeRead, proto.ModeRead, false},
		{"8(d) R_RD L_WR", d, proto.ModeRead, proto.ModeWrite, true},
		{"8(d) R_WR L_RD", d, proto.ModeWrite, proto.ModeRead, true},
		{"8(d) R_WR L_WR", d, proto.ModeWrite, proto.ModeWrite, true},
	}
	k := keyOn(0, 1)
	const wait = 60 * us // for the remote operation, which takes a few
	pause := func(f *fiber.Fiber) { f.Charge(int64(wait) * 1000) }
	run := func(h host, i int) {
		x := tests[i]
		if h.name == onHCA.name && i == 0 {
			x.abort = false // it comes from the line that the lease and the value share
		}
		t.Run(h.name+" "+x.name, func(t *testing.T) {
			cl := start(t, h, settings{})
			var got error
			local := func(f *fiber.Fiber, e *drtm.Engine) error {
				// Not read-only, so that it runs in a region: another record is to be written.
				decl := declare(proto.Access{Table: small, Mode: x.local, Key: k},
					writing(small, keyOn(0, 2)))
				if x.figure == d {
					if err := f.Sleep(2 * wait); err != nil {
						return err
					}
				}
				got = attempt(f, e, decl, 0, func(tx proto.Txn) error {
					if x.figure == c {
						pause(f)
					}
					if err := tx.Read(small, k, value(small, 0)); err != nil {
						return err
					}
					if x.local == proto.ModeWrite {
						if err := tx.Write(small, k, value(small, 5)); err != nil {
							return err
						}
					}
					if x.figure == b {
						pause(f)
					}
					return nil
				})
				return nil
			}
			remote := func(f *fiber.Fiber, e *drtm.Engine) error {
				if err := f.Sleep(5 * us); err != nil {
					return err
				}
				tx, err := e.Begin(f, declare(proto.Access{Table: small, Mode: x.remote, Key: k}), 0)
				if err != nil {
					return err
				}
				if err := f.Sleep(4 * wait); err != nil {
					return err
				}
				tx.Abort(proto.ErrRollback)
				return nil
			}
			cl.pair(local, remote)
			if abort := proto.AbortReason(got) != 0; abort != x.abort {
				t.Errorf("the local transaction ended with %v; want abort %v", got, x.abort)
			}
			cl.verify()
		})
	}
	for _, h := range []host{onSim, onHCA} {
		for i := range tests {
			run(h, i)
		}
	}
}

// TestRemoteOperationsOnAHeldRecord (§5.3, Figure 10(a)): readers share a lease with the end that
// it has; a write lock aborts both; an unexpired lease aborts a writer, an expired one is
// overwritten after one more CAS.
func TestRemoteOperationsOnAHeldRecord(t *testing.T) {
	tests := []struct {
		name   string
		first  proto.Mode
		second proto.Mode
		late   bool // the second comes when a lease of the first is over
		want   proto.Reason
	}{
		{"read of a leased record", proto.ModeRead, proto.ModeRead, false, 0},
		{"read of a locked record", proto.ModeWrite, proto.ModeRead, false, proto.ReasonLocked},
		{"write of a leased record", proto.ModeRead, proto.ModeWrite, false, proto.ReasonLeased},
		{"write of a locked record", proto.ModeWrite, proto.ModeWrite, false, proto.ReasonLocked},
		{"read of a record leased before", proto.ModeRead, proto.ModeRead, true, 0},
		{"write of a record leased before", proto.ModeRead, proto.ModeWrite, true, 0},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			c := start(t, onSim, settings{node: func(cfg *node.Config) { cfg.Nodes = 3 }})
			k := keyOn(2, 1)
			held := func(m proto.Mode) *proto.Decl {
				d := declare(proto.Access{Table: small, Mode: m, Key: k})
				d.ReadOnly = false // leases of 0.4 ms for both
				return d
			}
			var before, after drtm.State
			var got error
			c.pair(func(f *fiber.Fiber, e *drtm.Engine) error {
				tx, err := e.Begin(f, held(x.first), 0)
				if err != nil {
					return err
				}
				before, _, _ = c.entry(small, k)
				if err := f.Sleep(300 * us); err != nil {
					return err
				}
				tx.Abort(proto.ErrRollback)
				return nil
			}, func(f *fiber.Fiber, e *drtm.Engine) error {
				wait := 100 * us
				if x.late {
					wait = 600 * us
				}
				if err := f.Sleep(wait); err != nil {
					return err
				}
				var tx proto.Tx
				if tx, got = e.Begin(f, held(x.second), 0); got == nil {
					after, _, _ = c.entry(small, k)
					got = tx.Commit()
				}
				return nil
			})
			if r := proto.AbortReason(got); r != x.want || x.want == 0 && got != nil {
				t.Fatalf("the second ended with %v, want reason %v", got, x.want)
			}
			if x.want == 0 && x.second == proto.ModeRead && !x.late && after != before {
				t.Errorf("the lease was %v and is %v, want it joined", before, after)
			}
			if x.late && after == before {
				t.Errorf("an expired lease stayed: %v", after)
			}
			c.verify()
		})
	}
}

// TestLocalWriteClearsAnExpiredLease (§5.3, Figure 10(b), lines 4 to 6), and a local read leaves
// it.
func TestLocalWriteClearsAnExpiredLease(t *testing.T) {
	for _, m := range []proto.Mode{proto.ModeRead, proto.ModeWrite} {
		t.Run(m.String(), func(t *testing.T) {
			c := start(t, onSim, settings{})
			k := keyOn(0, 1)
			c.on(1, func(f *fiber.Fiber, e *drtm.Engine) error {
				_, err := peek(f, e, small, k)
				return err
			})
			c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
				if s, _, _ := c.entry(small, k); s.End() == 0 {
					return errors.New("there is no lease")
				}
				if err := f.Sleep(2 * time.Millisecond); err != nil {
					return err
				}
				return do(f, e, declare(proto.Access{Table: small, Mode: m, Key: k},
					writing(small, keyOn(0, 2))), func(tx proto.Txn) error {
					if m == proto.ModeWrite {
						return tx.Write(small, k, value(small, 5))
					}
					return tx.Read(small, k, value(small, 0))
				})
			})
			if s, _, _ := c.entry(small, k); (s == drtm.Init) != (m == proto.ModeWrite) {
				t.Errorf("after a local %v the state is %v", m, s)
			}
			c.verify()
		})
	}
}

// TestAbortReleasesEveryLock (§5.3): of two records that START asks for at once, one is locked by
// another; the lock on the other one is given back.
func TestAbortReleasesEveryLock(t *testing.T) {
	c := start(t, onSim, settings{node: func(cfg *node.Config) { cfg.Nodes = 3 }})
	a, b := keyOn(2, 1), keyOn(2, 2)
	c.pair(func(f *fiber.Fiber, e *drtm.Engine) error {
		tx, err := e.Begin(f, declare(writing(small, b)), 0)
		if err != nil {
			return err
		}
		if err := f.Sleep(100 * us); err != nil {
			return err
		}
		tx.Abort(proto.ErrRollback)
		return nil
	}, func(f *fiber.Fiber, e *drtm.Engine) error {
		if err := f.Sleep(50 * us); err != nil {
			return err
		}
		_, err := e.Begin(f, declare(writing(small, a), writing(small, b)), 0)
		if proto.AbortReason(err) != proto.ReasonLocked {
			return fmt.Errorf("Begin gave %v, want a record to be locked", err)
		}
		if s, _, _ := c.entry(small, a); s != drtm.Init {
			return fmt.Errorf("the other record is %v", s)
		}
		if s, _, _ := c.entry(small, b); !s.Locked() || s.Owner() != 0 {
			return fmt.Errorf("the locked record is %v", s)
		}
		return nil
	})
	c.verify()
}

// TestLeasesOfATransactionEndTogether (§5.2, Figure 9(a), lines 4 to 7; §5.4).
func TestLeasesOfATransactionEndTogether(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		c := start(t, onSim, settings{node: func(cfg *node.Config) { cfg.Nodes = 3 }})
		keys := []proto.Key{keyOn(1, 1), keyOn(2, 1), keyOn(2, 2)}
		c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
			d := declare(reading(small, keys[0]), reading(small, keys[1]), reading(large, keys[2]))
			d.ReadOnly = readOnly
			tx, err := e.Begin(f, d, 0)
			if err != nil {
				return err
			}
			one, _, _ := c.entry(small, keys[0])
			two, _, _ := c.entry(small, keys[1])
			three, _, _ := c.entry(large, keys[2])
			if one.End() == 0 || one != two || two != three {
				return fmt.Errorf("leases end at %v, %v and %v", one.End(), two.End(), three.End())
			}
			want := drtm.DefaultLease
			if readOnly {
				want = drtm.DefaultLeaseReadOnly
			}
			if left := one.End() - f.Now(); left > want || left < want/2 {
				return fmt.Errorf("the leases last %v longer, of %v", left, want)
			}
			return tx.Commit()
		})
		c.verify()
	}
}

// TestAnExpiredLeaseAbortsTheCommit (§5.2, §5.3: lease confirmation).
func TestAnExpiredLeaseAbortsTheCommit(t *testing.T) {
	for i := range 4 {
		local, h := i%2 == 1, onSim
		if i >= 2 {
			h = onHCA
		}
		c := start(t, h, settings{})
		c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
			d := declare(reading(small, keyOn(1, 1)), writing(small, keyOn(1, 2)))
			if local {
				d = declare(reading(small, keyOn(1, 1)), writing(small, keyOn(0, 2)))
			}
			k := d.Accesses[1].Key
			err := attempt(f, e, d, 0, func(tx proto.Txn) error {
				f.Charge(int64(drtm.DefaultLease) * 1000)
				return tx.Write(small, k, value(small, 5))
			})
			if proto.AbortReason(err) != proto.ReasonLease {
				return fmt.Errorf("ended with %v, want the lease to have ended", err)
			}
			if _, v, _ := c.entry(small, k); v != layout.FirstVersion {
				return fmt.Errorf("the record was written: version %v", v)
			}
			return nil
		})
		c.verify()
	}
}

// TestReadOnlyTransactionsSeeAChangeBetweenTheRounds (§4.4, §5.4), and lease local records as
// well after that.
func TestReadOnlyTransactionsSeeAChangeBetweenTheRounds(t *testing.T) {
	c := start(t, onSim, settings{})
	a, b := keyOn(0, 1), keyOn(0, 2)
	c.pair(func(f *fiber.Fiber, e *drtm.Engine) error {
		d := declare(reading(small, a), reading(small, b))
		err := attempt(f, e, d, 0, func(tx proto.Txn) error {
			if err := tx.Read(small, a, value(small, 0)); err != nil {
				return err
			}
			f.Charge(int64(100*us) * 1000)
			return tx.Read(small, b, value(small, 0))
		})
		if proto.AbortReason(err) != proto.ReasonValidation {
			return fmt.Errorf("ended with %v, want the rounds to differ", err)
		}
		regions := e.Stats().RegionRuns
		if err := attempt(f, e, d, 2, func(tx proto.Txn) error {
			return errors.Join(tx.Read(small, a, value(small, 0)), tx.Read(small, b, value(small, 0)))
		}); err != nil {
			return err
		}
		s, _, _ := c.entry(small, a)
		if s.End() == 0 || e.Stats().RegionRuns != regions {
			return fmt.Errorf("the state is %v, and %d regions ran; want all leased, and none", s,
				e.Stats().RegionRuns-regions)
		}
		return nil
	}, func(f *fiber.Fiber, e *drtm.Engine) error {
		return do(f, e, declare(writing(small, a)), func(tx proto.Txn) error {
			return tx.Write(small, a, value(small, 5))
		})
	})
	c.verify()
}

// TestCapacityLeadsToTheFallbackHandler (§7.2): a transaction whose region does not fit commits by
// locking everything, local records included, and updates them.
func TestCapacityLeadsToTheFallbackHandler(t *testing.T) {
	each(t, func(t *testing.T, h host) {
		c := start(t, h, settings{drtm: func(cfg *drtm.Config) { cfg.RegionWrites = 2 }})
		d := declare(writing(small, keyOn(0, 3)), writing(full, keyOn(0, 2)),
			writing(large, keyOn(0, 1)), writing(large, keyOn(1, 1)))
		c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
			if err := do(f, e, d, func(tx proto.Txn) error {
				for _, a := range d.Accesses {
					if err := tx.Write(a.Table, a.Key, value(a.Table, 5)); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				return err
			}
			if e.Stats().Aborts[proto.ReasonCapacity] != 1 || e.Stats().Fallbacks != 1 {
				return fmt.Errorf("%d aborts for capacity, %d fallbacks, want one of each",
					e.Stats().Aborts[proto.ReasonCapacity], e.Stats().Fallbacks)
			}
			for _, a := range d.Accesses {
				if v, err := peek(f, e, a.Table, a.Key); v != 5 || err != nil {
					return fmt.Errorf("table %d key %d is %d, %v", a.Table, a.Key, v, err)
				}
			}
			return nil
		})
		c.verify()
	})
}

// TestFallbackWaitsForALock (§7.2): in the global order it is safe to wait.
func TestFallbackWaitsForALock(t *testing.T) {
	c := start(t, onSim, settings{})
	k := keyOn(1, 1)
	c.pair(func(f *fiber.Fiber, e *drtm.Engine) error {
		tx, err := e.Begin(f, declare(writing(small, k)), 0)
		if err != nil {
			return err
		}
		if err := f.Sleep(500 * us); err != nil {
			return err
		}
		if err := tx.Write(small, k, value(small, 5)); err != nil {
			return err
		}
		return tx.Commit()
	}, func(f *fiber.Fiber, e *drtm.Engine) error {
		if err := f.Sleep(100 * us); err != nil {
			return err
		}
		b := value(small, 0)
		err := attempt(f, e, declare(writing(small, k)), drtm.DefaultAttempts,
			func(tx proto.Txn) error { return tx.GetForUpdate(small, k, b) })
		if v, _ := number(b); err != nil || v != 5 {
			return fmt.Errorf("read %d, %v", v, err)
		}
		return nil
	})
	c.verify()
}

// TestReadsAreLockedWithoutReadLeases (§8.5): without read leases START locks what is only read, too, so that two
// readers of a remote record are in each other's way; with them it leases.
func TestReadsAreLockedWithoutReadLeases(t *testing.T) {
	for _, leases := range []bool{true, false} {
		c := start(t, onSim, settings{drtm: func(cfg *drtm.Config) { cfg.LockReads = !leases }})
		read, write := keyOn(1, 1), keyOn(0, 1)
		c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
			d := declare(reading(small, read), writing(small, write))
			tx, err := e.Begin(f, d, 0)
			if err != nil {
				return err
			}
			if s, _, _ := c.entry(small, read); s.Locked() == leases || leases && s.End() == 0 {
				return fmt.Errorf("read leases %v: the state of what is read is %v", leases, s)
			}
			if err := tx.Write(small, write, value(small, 5)); err != nil {
				return err
			}
			return tx.Commit()
		})
		c.verify()
	}
}
