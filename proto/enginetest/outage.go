package enginetest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/workload"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// unlockedUnheard has the way between two nodes break at many moments of a transaction's end. Its
// unlocks may be executed though their completions are errors: then they are done, and nobody's
// violation; or they are owed, and done when the nodes are connected again.
func unlockedUnheard(t *testing.T, e env) {
	if e.protocol.OneThread || e.protocol.Chips != nil {
		return // it has no locks, or NICs repeat what is lost
	}
	c := e.start(t)
	k, want := keyOn(0, 1), uint64(initial)
	owed, executed := 0, 0
	for offset := time.Duration(0); offset < 12*time.Microsecond; offset += 50 * time.Nanosecond {
		ended, unknown, linked := false, false, 0
		err := c.Start("case", 2, func(f *fiber.Fiber, w *node.Worker, i int) error {
			switch {
			case w.Node == 1 && i == 0:
				err := attempt(f, w.Engine, declare(writing(small, k)), 0, func(tx proto.Txn) error {
					return tx.Write(small, k, value(small, want+1))
				})
				if err := c.rest(f, w.Engine); err != nil {
					return err
				}
				if n := w.Engine.(proto.Debtor).DebtsAt(0); n > 0 {
					owed++
					if err := f.Sleep(20 * time.Microsecond); err != nil { // what is on its way arrives
						return err
					}
					if !c.record(small, k).locked {
						executed++
					}
				}
				ended = true
				switch unknown = errors.Is(err, proto.ErrUnknownOutcome); {
				case err == nil:
					want++
				case !unknown && proto.AbortReason(err) != proto.ReasonUnreachable:
					return err
				}
			case w.Node == 1:
				if err := f.Sleep(offset); err != nil {
					return err
				}
				if err := w.BreakLink(0); err != nil {
					return err
				}
				w.Peers[0].Session.Close()
			}
			if i > 0 {
				return nil
			}
			peer := 1 - w.Node
			for is, tries := false, 0; linked < 2; tries++ {
				if ended && w.Mend(f, peer) && !is {
					is = true
					linked++
				}
				w.Pay(f, peer)
				if tries == 10_000 {
					return fmt.Errorf("node %d: not connected again", w.Node)
				}
				if err := f.Sleep(20 * time.Microsecond); err != nil {
					return err
				}
			}
			w.Pay(f, peer)
			return nil
		}).Wait(t.Context())
		if err != nil {
			t.Fatalf("broken after %v: %v", offset, err)
		}
		r := c.record(small, k)
		v, _ := number(r.value)
		if unknown && v == want+1 {
			want++
		}
		if r.locked || v != want {
			t.Fatalf("broken after %v: %d, %s, want %d", offset, v, r, want)
		}
	}
	t.Logf("%d times something was owed, %d times it was done already", owed, executed)
	if executed == 0 || executed == owed {
		t.Error("want unlocks that were executed unheard, and others that were not")
	}
	c.verify()
}

// brokenWayOwesNothing makes many attempts while the way to a record's node is broken: they send nothing, so that
// they leave nothing to be done there. What an outage leaves is what the attempts owe that it has caught.
func brokenWayOwesNothing(t *testing.T, e env) {
	if e.protocol.OneThread || e.protocol.Chips != nil {
		return // it has no locks, or NICs repeat what is lost
	}
	t.Run("hash tables", func(t *testing.T) { brokenWay(t, e, tables{}) })
	if e.protocol.Scans {
		t.Run("ordered tables", func(t *testing.T) { brokenWay(t, e, orderedTables{}) })
	}
}

func brokenWay(t *testing.T, e env, tables workload.Workload) {
	c := e.start(t, func(c *node.Config) { c.Workload = tables })
	k := keyOn(0, 1)
	over, linked := false, 0
	err := c.Start("case", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		if w.Node == 1 {
			err := attemptsByABrokenWay(f, w, c, k)
			if over = true; err != nil {
				return err
			}
		}
		for is, tries := false, 0; linked < 2; tries++ {
			if over && w.Mend(f, 1-w.Node) && !is {
				is = true
				linked++
			}
			w.Pay(f, 1-w.Node)
			if tries == 10_000 {
				return fmt.Errorf("node %d: not connected again", w.Node)
			}
			if err := f.Sleep(20 * time.Microsecond); err != nil {
				return err
			}
		}
		return nil
	}).Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = c.Start("case", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		if w.Node != 1 {
			return nil
		}
		return errors.Join(writeSmall(f, w, k, initial+2), c.rest(f, w.Engine))
	}).Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r := c.record(small, k); r.locked {
		t.Errorf("in the end the record is %s", r)
	} else if v, _ := number(r.value); v != initial+2 {
		t.Errorf("in the end the record holds %d, want %d", v, initial+2)
	}
	c.verify()
}

// attemptsByABrokenWay writes a record of node 0, whose place is known then, and breaks the way to it.
func attemptsByABrokenWay(f *fiber.Fiber, w *node.Worker, c *cluster, k proto.Key) error {
	if err := writeSmall(f, w, k, initial+1); err != nil {
		return err
	}
	if err := c.rest(f, w.Engine); err != nil {
		return err
	}
	if err := w.BreakLink(0); err != nil {
		return err
	}
	w.Peers[0].Session.Close()
	caught := 0
	for i := range 100 {
		if i == 50 {
			w.Peers[0].Session, k = nil, keyOn(0, 2) // as that of a machine which died before it was met
		}
		if err := writeSmall(f, w, k, initial+2); proto.AbortReason(err) != proto.ReasonUnreachable {
			return fmt.Errorf("by a broken way: %v, want an abort because it is unreachable", err)
		}
		n := w.Engine.(proto.Debtor).DebtsAt(0)
		if i == 0 { // nobody has seen before that the way is broken
			caught = n
		}
		if n > caught {
			return fmt.Errorf("attempt %d, which could send nothing, owes something: %d", i, n)
		}
	}
	return nil
}

// writeSmall is an attempt that writes one record.
func writeSmall(f *fiber.Fiber, w *node.Worker, k proto.Key, v uint64) error {
	return attempt(f, w.Engine, declare(writing(small, k)), 0, func(tx proto.Txn) error {
		return tx.Write(small, k, value(small, v))
	})
}

// stolenLock takes a lock from its holder behind its back: that is no outage but a bug. It stops the node, or the
// engine names it.
func stolenLock(t *testing.T, e env) {
	if e.protocol.OneThread || e.protocol.LocksLate || e.protocol.Chips != nil {
		return // it has no locks, or none while its program runs, or a NIC has them
	}
	c := e.start(t)
	k := keyOn(0, 1)
	err := c.Start("case", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		if w.Node != 1 {
			return nil
		}
		return attempt(f, w.Engine, declare(writing(small, k)), 0, func(proto.Txn) error {
			tab := c.Members[0].Workers[0].Tables[small-1]
			off, _ := tab.Find(uint64(k))
			if !c.record(small, k).locked {
				return errors.New("the record is not locked")
			}
			m, off := tab.At(off)
			binary.LittleEndian.PutUint64(m.Bytes[off+layout.StateOffset:], 0)
			return errors.New("enough")
		})
	}).Wait(t.Context())
	var trouble error
	for _, m := range c.Members {
		for _, w := range m.Workers {
			if x, ok := w.Engine.(proto.Troubled); ok {
				trouble = errors.Join(trouble, x.Trouble())
			}
		}
	}
	if trouble == nil && !strings.Contains(fmt.Sprint(err), "invariant violated") {
		t.Errorf("ended with %v, want the violation", err)
	}
}
