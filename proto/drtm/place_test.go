package drtm_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/proto/node"
	"drtmd/verbs/fiber"
)

// TestALockOfAPlaceThatIsGivenAwayIsNobodys has node 1 lock by its location cache a place that is no
// key's any more, and node 0 give this place to another key, at all moments of that: a new entry is
// unlocked, and node 1, whose lock was none of the new key's, finds it gone.
func TestALockOfAPlaceThatIsGivenAwayIsNobodys(t *testing.T) {
	for _, h := range []host{onSim, onHCA} {
		t.Run(h.name, func(t *testing.T) {
			c := start(t, h, settings{node: func(c *node.Config) { c.CacheBytes = 1 << 14 }})
			insert := func(f *fiber.Fiber, e *drtm.Engine, k proto.Key) error {
				return do(f, e, declare(inserting(small, k)), func(tx proto.Txn) error {
					return tx.Insert(small, k, value(small, 5))
				})
			}
			next := uint64(loaded)
			c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error { return insert(f, e, keyOn(0, next)) })
			stale := 0
			for offset := time.Duration(0); offset < 12*us; offset += 50 * time.Nanosecond {
				old, fresh := keyOn(0, next), keyOn(0, next+1)
				next++
				c.on(1, func(f *fiber.Fiber, e *drtm.Engine) error {
					_, err := peek(f, e, small, old)
					return errors.Join(err, f.Sleep(2*time.Millisecond)) // the lease is over
				})
				c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
					err := do(f, e, declare(deleting(small, old)), func(tx proto.Txn) error {
						return tx.Delete(small, old)
					})
					for tries := 0; err == nil; tries++ {
						if _, _, there := c.entry(small, old); !there {
							return nil
						}
						if tries == 1000 {
							s, v, _ := c.entry(small, old)
							return fmt.Errorf("key %d is not given back: %v, version %v", old, s, v)
						}
						if err = f.Sleep(10 * us); err == nil {
							_, err = peek(f, e, small, keyOn(0, 1))
						}
					}
					return err
				})
				c.pair(func(f *fiber.Fiber, e *drtm.Engine) error {
					if err := f.Sleep(offset); err != nil {
						return err
					}
					return insert(f, e, fresh)
				}, func(f *fiber.Fiber, e *drtm.Engine) error {
					err := attempt(f, e, declare(writing(small, old)), 0, func(tx proto.Txn) error {
						return tx.Write(small, old, value(small, 6))
					})
					if proto.AbortReason(err) != proto.ReasonStale {
						return fmt.Errorf("ended with %w, want the place out of date", err)
					}
					stale++
					return nil
				})
			}
			t.Logf("%d attempts met a place that was out of date", stale)
			c.verify()
		})
	}
}
