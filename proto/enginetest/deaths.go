package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/check"
	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/verbs/fiber"
)

// Of peerDies, in virtual time.
const (
	deathOrphanAfter = 500 * time.Microsecond
	deathLook        = 50 * time.Microsecond
	deathLooks       = 200
)

// peerDies has a machine die at each step at which its transaction holds locks, before its point of commit and
// after: the outcome is unknown then. A record at the other machine has the new value, unlocked, or stays locked:
// then a transaction that meets it is told that the lock is orphaned, and the engine lists it.
func peerDies(t *testing.T, e env) {
	if e.host.Replicas > 1 || e.protocol.Offers&proto.OfferOrphans == 0 {
		return // with backups the survivors decide, which package scenario tests; or no lock is called orphaned
	}
	deaths, orphaned := 0, 0
	for _, step := range e.protocol.Simulation.Steps.Held {
		died, locked := diesAt(t, e, step)
		if died {
			deaths++
		}
		if locked {
			orphaned++
		}
	}
	if orphaned == 0 && len(e.protocol.Simulation.Steps.Held) > 0 {
		t.Errorf("of %d deaths none left a lock", deaths)
	}
}

// diesAt has node 1 die at a step, and says whether it did, as not every transaction has every step, and whether it
// left a lock at node 0.
func diesAt(t *testing.T, e env, step string) (died, locked bool) {
	t.Helper()
	e.host.faults = fmt.Sprintf("at step %q #1 crash node=n1 dram=kept", step)
	c := e.start(t, func(cfg *node.Config) {
		cfg.Options = option.Settings{}
		for name, v := range e.protocol.Simulation.Options {
			cfg.Options[name] = v
		}
		if _, ok := e.protocol.Options.Find(protocol.OptOrphanAfter); ok {
			cfg.Options[protocol.OptOrphanAfter] = deathOrphanAfter.String()
		}
	})
	here, there := keyOn(0, 1), keyOn(1, 1)
	over, lived := false, false
	var met []proto.Orphan
	c.Start("case", 1, func(f *fiber.Fiber, w *node.Worker, _ int) (err error) {
		if w.Node == 1 {
			err := attempt(f, w.Engine, declare(writing(small, here), writing(small, there)), 0, func(tx proto.Txn) error {
				if err := tx.Write(small, here, value(small, initial+1)); err != nil {
					return err
				}
				return tx.Write(small, there, value(small, initial+1))
			})
			lived = true
			return err
		}
		defer func() {
			if over = true; err != nil {
				t.Errorf("%s: %v", step, err)
			}
		}()
		for range deathLooks {
			if err := f.Sleep(deathLook); err != nil {
				return err
			}
			err = attempt(f, w.Engine, declare(writing(small, here)), 0, func(tx proto.Txn) error {
				return tx.Write(small, here, value(small, initial+2))
			})
			switch r := proto.AbortReason(err); {
			case r == proto.ReasonOrphaned:
				met = w.Engine.(proto.OrphanLister).Orphans(nil)
				return nil
			case err == nil || !r.Retry():
				return err
			}
		}
		return fmt.Errorf("it is neither written nor orphaned: %w", err)
	})
	for i := 0; !over && i < deathLooks; i++ {
		if err := c.Sleep(context.Background(), deathLooks*deathLook/100); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(c.Sleep(context.Background(), time.Millisecond), c.Stop()); err != nil {
		t.Fatal(err)
	}
	r := c.record(small, here)
	if listed := slices.ContainsFunc(met, func(o proto.Orphan) bool {
		return o.Node == 0 && o.Table == small && o.Key == here && o.Owner == 1
	}); listed != r.locked {
		t.Errorf("%s: the record is %v, and the orphans are %v", step, r, met)
	}
	if res := c.serializableOwing(); (res.Unknown == 1) == lived {
		t.Errorf("%s: %d outcomes are unknown, and node 1 ends its transaction: %t", step, res.Unknown, lived)
	}
	return !lived, r.locked
}

// serializableOwing is serializable of a cluster in which the dead have left locks: what those owe may be missing.
func (c *cluster) serializableOwing() *check.Result {
	c.t.Helper()
	h, err := c.HistoryOwing(func(uint64) bool { return true })
	if err != nil {
		c.t.Fatal(err)
	}
	return c.judge(h)
}
