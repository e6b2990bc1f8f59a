package drtm_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// doubtful is a clock whose error is set.
type doubtful struct {
	verbs.Clock
	err time.Duration
}

func (d *doubtful) Reading() (now, err time.Duration) { return d.Now(), d.err }

// doubting starts a cluster whose clock on node 0 is doubtful.
func doubting(t *testing.T, h host) (*cluster, *doubtful) {
	var clock *doubtful
	c := start(t, h, settings{drtm: func(cfg *drtm.Config) {
		if cfg.Node == 0 {
			clock = &doubtful{Clock: cfg.Clock}
			cfg.Clock, cfg.WorstClockError = clock, 10*us
		}
	}})
	return c, clock
}

// doubts sets the error, and lets the engine notice.
func (d *doubtful) doubts(f *fiber.Fiber, err time.Duration) error {
	d.err = err
	return f.Sleep(10 * us)
}

// TestClockInDoubtHasNoLeaseValidAndNoneExpired: by a clock that may be wrong by anything, nothing
// commits on a lease, and nothing overrides one; when it is known again, both work.
func TestClockInDoubtHasNoLeaseValidAndNoneExpired(t *testing.T) {
	for _, h := range []host{onSim, onHCA} {
		t.Run(h.name, func(t *testing.T) {
			c, clock := doubting(t, h)
			remote := keyOn(1, 1)
			c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
				if v, err := peek(f, e, small, remote); err != nil || v != initial {
					return fmt.Errorf("read %d, %v", v, err)
				}
				_, longest := e.Leases()
				if err := errors.Join(f.Sleep(2*longest), clock.doubts(f, 1<<60)); err != nil {
					return err
				}
				// The lease of the first read is over, by any other clock.
				err := attempt(f, e, declare(writing(small, remote)), 0, func(tx proto.Txn) error {
					return tx.Write(small, remote, value(small, 7))
				})
				if r := proto.AbortReason(err); r != proto.ReasonLeased {
					return fmt.Errorf("a write over a lease: %w, want %v", err, proto.ReasonLeased)
				}
				other := keyOn(1, 2)
				err = attempt(f, e, declare(reading(small, other)), 0, func(tx proto.Txn) error {
					return tx.Read(small, other, value(small, 0))
				})
				if r := proto.AbortReason(err); r != proto.ReasonLease {
					return fmt.Errorf("a read by a lease: %w, want %v", err, proto.ReasonLease)
				}
				if err := clock.doubts(f, 0); err != nil {
					return err
				}
				return do(f, e, declare(writing(small, remote), reading(small, other)),
					func(tx proto.Txn) error {
						return errors.Join(tx.Read(small, other, value(small, 0)),
							tx.Write(small, remote, value(small, 7)))
					})
			})
			c.verify()
		})
	}
}

// TestClockThatGetsWorseHasLeasesLastLonger: by three times what it is worse, up to a bound, and not
// where their length is given.
func TestClockThatGetsWorseHasLeasesLastLonger(t *testing.T) {
	for _, given := range []time.Duration{0, 3 * time.Millisecond} {
		t.Run(given.String(), func(t *testing.T) {
			var clock *doubtful
			c := start(t, onSim, settings{drtm: func(cfg *drtm.Config) {
				cfg.LeaseReadOnly = given
				if cfg.Node == 0 {
					clock = &doubtful{Clock: cfg.Clock}
					cfg.Clock, cfg.WorstClockError = clock, 10*us
				}
			}})
			c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
				for i, x := range []struct{ err, more time.Duration }{
					{0, 0}, {10 * us, 0}, {110 * us, 300 * us}, {100 * time.Millisecond,
						100 * time.Millisecond},
				} {
					if err := clock.doubts(f, x.err); err != nil {
						return err
					}
					k := keyOn(1, uint64(i+1))
					_ = attempt(f, e, declare(reading(small, k)), 0, func(tx proto.Txn) error {
						return tx.Read(small, k, value(small, 0)) // it may come too late
					})
					now := clock.Now()
					_, want := e.Leases()
					if given == 0 {
						want += x.more
					}
					s, _, _ := c.entry(small, k)
					if left := s.End() - now; left > want || left < want-50*us {
						return fmt.Errorf("by a clock wrong by %v: %v, %v from now, want at most %v",
							x.err, s, left, want)
					}
				}
				return nil
			})
		})
	}
}
