package rtx_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"drtmd/proto/rtx"
	"drtmd/verbs/fiber"
)

// manyShape has room for transactions of 80 objects, as Figure 18 has.
var manyShape = rtx.Shape{Owners: 2, Slots: 84, Roots: 80, Objects: 1,
	Classes: []rtx.Class{{Bytes: 64, Blocks: 12 * rtx.ChunkBlocks}}}

// updateRoots updates the first n roots in one transaction.
func updateRoots(c *rtx.Client, f *fiber.Fiber, n int) error {
	return c.Run(f, func(tx *rtx.Tx) error {
		for i := range n {
			if _, err := tx.Write(c.Root(i), 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// 6.4: leases are regulated by the number of objects, unless Timing.Op is 0.
func TestLeasesAreLongerForMoreObjects(t *testing.T) {
	for name, each := range map[string]time.Duration{"with regulation": 80 * time.Microsecond, "without": 0} {
		t.Run(name, func(t *testing.T) {
			b := newShapedBed(t, manyShape)
			timing := rtx.DefaultTiming()
			timing.Op = each
			b.drive(func(f *fiber.Fiber) error {
				c, err := rtx.Attach(f, rtx.Config{Conn: b.way.Conns[0], PD: b.worker.PD(), Memory: b.way.Memory, Clock: b.clock,
					Rand: rand.New(rand.NewPCG(1, 2)), Timing: timing, Objects: 80})
				for i := 0; i < 80 && err == nil; i += 40 { // first values take slots of their own
					err = updateRoots(c, f, i+40)
				}
				if err != nil {
					return err
				}
				length := func(n int) time.Duration {
					if err == nil {
						err = f.Sleep(20 * time.Millisecond) // leases of before are over: an owner's increase
					}
					begin := b.clock.Now()
					if err == nil {
						err = updateRoots(c, f, n)
					}
					lease, failed := rtx.LastLease(b.server.Memory().Bytes(), c.Root(0))
					if err == nil {
						err = failed
					}
					return rtx.LeaseTime(lease) - begin
				}
				one, all := length(1), length(80)
				const reads = 500 * time.Microsecond // of 80 objects, before the lease begins
				if grown := all - one; err == nil && (grown < 79*each || grown > 79*each+reads) {
					t.Errorf("a lease is %v for one object and %v for 80", one, all)
				}
				return err
			})
		})
	}
}

// An expired lock is told, by the word that all locks of its transaction have.
func TestExpiredLocksAreTold(t *testing.T) {
	b := newShapedBed(t, manyShape)
	var told []uint64
	b.drive(func(f *fiber.Fiber) error {
		c, err := rtx.Attach(f, rtx.Config{Conn: b.way.Conns[0], PD: b.worker.PD(), Memory: b.way.Memory, Clock: b.clock,
			Rand: rand.New(rand.NewPCG(1, 2)), OnExpired: func(w uint64) { told = append(told, w) }})
		if err != nil {
			return err
		}
		if err := updateRoots(c, f, 1); err != nil {
			return err
		}
		word, err := rtx.LockRoot(b.server.Memory().Bytes(), c.Root(0))
		if err == nil {
			err = updateRoots(c, f, 1)
		}
		if err != nil {
			return err
		}
		if !slices.Equal(told, []uint64{word}) {
			t.Errorf("told of %#x, and the object had %#x", told, word)
		}
		return nil
	})
}
