package hades_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/hades"
	"drtmd/proto/hades/hardware"
	"drtmd/proto/node"
	"drtmd/proto/protocol"
	"drtmd/proto/workload/rows"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// sent are messages by kind.
type sent map[hardware.Kind]uint64

// sentBy are the messages of all nodes so far.
func sentBy(c *node.Cluster) sent {
	all := sent{}
	for _, w := range c.Workers() {
		if w.Index > 0 {
			continue
		}
		stats := w.Engine.(*hades.Engine).Hardware().Stats()
		for k, n := range stats.Sent {
			all[hardware.Kind(k)] += n
		}
	}
	return all
}

// since are those that came since then.
func (s sent) since(earlier sent) sent {
	d := sent{}
	for k, n := range s {
		if n > earlier[k] {
			d[k] = n - earlier[k]
		}
	}
	return d
}

// committing adds the messages of a commit with so many other nodes (Table II).
func (s sent) committing(nodes uint64) sent {
	s[hardware.IntendToCommit], s[hardware.Ack], s[hardware.Validation] = nodes, nodes, nodes
	return s
}

// onThree runs a test on node 0 of three, with rows of four lines.
func onThree(t *testing.T, p node.Protocol, run func(c *node.Cluster, f *fiber.Fiber, e proto.Engine) error) {
	t.Helper()
	cost, err := sim.Preset(p.Preset)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	c, err := node.NewSimulated(ctx, node.SimulatedConfig{Cost: cost, Config: node.Config{Protocol: p, Workload: rowsOf(3),
		Nodes: 3, Workers: 1, Fibers: 2}})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Start("paper", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		if w.Node > 0 {
			return nil
		}
		return run(c, f, w.Engine)
	}).Wait(ctx)
	if err := errors.Join(err, c.Stop(), c.Close()); err != nil {
		t.Error(err)
	}
}

// steps runs one transaction.
func steps(f *fiber.Fiber, e proto.Engine, attempt int, run func(tx proto.Tx) error) error {
	tx, err := e.Begin(f, &proto.Decl{}, attempt)
	if err != nil {
		return err
	}
	if err := run(tx); err != nil {
		tx.Abort(err)
		return err
	}
	return tx.Commit()
}

// Table II, §V-A: the messages of a transaction, and the lines that are read and pushed at the nodes that it accesses.
func TestATransactionSendsTheMessagesOfTableII(t *testing.T) {
	var row, spare [rows.ValueBytes]byte
	near := []byte("12345678")
	for _, x := range []struct {
		name  string
		run   func(tx proto.Tx) error
		want  sent
		lines uint64 // that NICs read or push
	}{
		{"local: no message", func(tx proto.Tx) error { return tx.Write(rows.Rows, rowKey(0, 0), row[:]) }, sent{}, 0},
		{"a node that was only read takes part in the commit", func(tx proto.Tx) error {
			return tx.Read(rows.Rows, rowKey(1, 0), row[:])
		}, sent{hardware.Read: 1, hardware.Fetched: 1}.committing(1), 4},
		{"of a field its line is read, and the header's", func(tx proto.Tx) error {
			return proto.ReadAt(tx, rows.Rows, rowKey(1, 0), farField, row[:8], spare[:])
		}, sent{hardware.Read: 1, hardware.Fetched: 1}.committing(1), 2},
		{"of a write the lines are fetched that are written in part, and all are pushed", func(tx proto.Tx) error {
			return tx.Write(rows.Rows, rowKey(1, 0), row[:])
		}, sent{hardware.WriteFetch: 1, hardware.Fetched: 1}.committing(1), 2 + 4},
		{"of a field that is written its line is fetched and pushed, and the header's", func(tx proto.Tx) error {
			return proto.WriteAt(tx, rows.Rows, rowKey(1, 0), farField, near, spare[:])
		}, sent{hardware.WriteFetch: 1, hardware.Fetched: 1}.committing(1), 2 + 2},
		{"two nodes", func(tx proto.Tx) error {
			return errors.Join(tx.Read(rows.Rows, rowKey(1, 0), row[:]), tx.Write(rows.Rows, rowKey(2, 0), row[:]))
		}, sent{hardware.Read: 1, hardware.WriteFetch: 1, hardware.Fetched: 2}.committing(2), 4 + 2 + 4},
	} {
		t.Run(x.name, func(t *testing.T) {
			onThree(t, hades.Protocol(), func(c *node.Cluster, f *fiber.Fiber, e proto.Engine) error {
				if err := steps(f, e, 0, x.run); err != nil {
					return err
				}
				if err := f.Sleep(10 * time.Microsecond); err != nil { // Validation is on its way
					return err
				}
				if got := sentBy(c).since(sent{}); fmt.Sprint(got) != fmt.Sprint(x.want) {
					return fmt.Errorf("sent %v, want %v", got, x.want)
				}
				lines := uint64(0)
				for _, w := range c.Workers() {
					lines += w.Engine.(*hades.Engine).Hardware().Directory().Stats().Remote
				}
				if lines != x.lines {
					return fmt.Errorf("NICs access %d lines, want %d", lines, x.lines)
				}
				return nil
			})
		})
	}
}

// §V-A, Table III: a transaction waits for a round trip of 2 us to fetch lines of all nodes that it declares, and for
// another one to commit. Memory and the NICs' filters add some 100 ns, beside the time of the program and of HADES-H's
// software for its local record.
func TestATransactionTakesTwoRoundTrips(t *testing.T) {
	for _, p := range []node.Protocol{hades.Protocol(), hades.Hybrid()} {
		t.Run(p.Name, func(t *testing.T) {
			onThree(t, p, func(c *node.Cluster, f *fiber.Fiber, e proto.Engine) error {
				d := proto.Decl{Accesses: []proto.Access{{Table: rows.Rows, Mode: proto.ModeRead, Key: rowKey(1, 0)},
					{Table: rows.Rows, Mode: proto.ModeWrite, Key: rowKey(2, 0)}, {Table: rows.Rows, Mode: proto.ModeWrite, Key: rowKey(0, 0)}}}
				begun := c.Now()
				if err := once(f, e, &d, 0, &overwrite{d: &d}); err != nil {
					return err
				}
				cost := protocol.HADESSoftware()
				software := time.Duration(3*cost.AccessPs/1000) * time.Nanosecond
				if p.Name == "hades-h" {
					software += time.Duration(cost.Record(true)/1000) * time.Nanosecond
				}
				if took := c.Now() - begun - software; took < 4*time.Microsecond || took > 5*time.Microsecond {
					return fmt.Errorf("it takes %v and %v of software, want 4 to 5 us", took, software)
				}
				return nil
			})
		})
	}
}

// once runs one attempt of a program.
func once(f *fiber.Fiber, e proto.Engine, d *proto.Decl, attempt int, p proto.Program) error {
	tx, err := e.Begin(f, d, attempt)
	if err != nil {
		return err
	}
	if err := p.Execute(tx); err != nil {
		tx.Abort(err)
		return err
	}
	return tx.Commit()
}

// §IV-B, §V-A: of two transactions on lines of another node, the first that commits squashes the other one, which tells the
// nodes that it has accessed.
func TestTheFirstCommitSquashesTheOther(t *testing.T) {
	onThree(t, hades.Protocol(), func(c *node.Cluster, f *fiber.Fiber, e proto.Engine) error {
		var row [rows.ValueBytes]byte
		tx, err := e.Begin(f, &proto.Decl{}, 0)
		if err == nil {
			err = errors.Join(tx.Read(rows.Rows, rowKey(1, 0), row[:]), tx.Read(rows.Rows, rowKey(2, 0), row[:]))
		}
		if err != nil {
			return err
		}
		before := sentBy(c)
		if err := steps(f, e, 0, func(other proto.Tx) error { return other.Write(rows.Rows, rowKey(1, 0), row[:]) }); err != nil {
			return err
		}
		if err := tx.Commit(); proto.AbortReason(err) != proto.ReasonValidation {
			return fmt.Errorf("the other one: %v", err)
		}
		want := sent{hardware.WriteFetch: 1, hardware.Fetched: 1, hardware.Squash: 1, hardware.Abort: 2}.committing(1)
		if got := sentBy(c).since(before); fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("sent %v, want %v", got, want)
		}
		return nil
	})
}

// §IV-B: of two transactions on lines of their own node, the one that makes the second access squashes itself.
func TestTheSecondLocalAccessSquashesItself(t *testing.T) {
	onThree(t, hades.Protocol(), func(c *node.Cluster, f *fiber.Fiber, e proto.Engine) error {
		var row [rows.ValueBytes]byte
		tx, err := e.Begin(f, &proto.Decl{}, 0)
		if err == nil {
			err = tx.Read(rows.Rows, rowKey(0, 0), row[:])
		}
		if err != nil {
			return err
		}
		err = steps(f, e, 0, func(other proto.Tx) error { return other.Write(rows.Rows, rowKey(0, 0), row[:]) })
		if proto.AbortReason(err) != proto.ReasonConflict {
			return fmt.Errorf("the second one: %v", err)
		}
		return tx.Commit()
	})
}

// §VI: after so many squashes a transaction locks what it has accessed, node after node in ascending order, then executes.
func TestASquashedTransactionLocksEverything(t *testing.T) {
	onThree(t, hades.Protocol(), func(c *node.Cluster, f *fiber.Fiber, e proto.Engine) error {
		var row [rows.ValueBytes]byte
		run := func(tx proto.Tx) error {
			return errors.Join(tx.Read(rows.Rows, rowKey(2, 0), row[:]), tx.Write(rows.Rows, rowKey(1, 0), row[:]))
		}
		tx, err := e.Begin(f, &proto.Decl{}, 0)
		if err == nil {
			err = run(tx)
		}
		if err != nil {
			return err
		}
		tx.Abort(proto.Aborting(proto.ReasonConflict))
		before := sentBy(c)
		if err := steps(f, e, 1000, run); err != nil {
			return err
		}
		want := sent{hardware.Reserve: 2, hardware.Reserved: 2, hardware.Read: 1, hardware.WriteFetch: 1,
			hardware.Fetched: 2}.committing(2)
		if got := sentBy(c).since(before); fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("sent %v, want %v", got, want)
		}
		return nil
	})
}
