package twopl_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/workload/ranges"
	"drtmd/verbs/fiber"
)

// TestACommitSeesWhatHasChangedInItsRanges: rows that have come or gone since a scan, on either node, end the
// transaction that writes because of it; with ranges of two nodes, a row that has come and gone does as well.
func TestACommitSeesWhatHasChangedInItsRanges(t *testing.T) {
	row := func(n proto.NodeID, i int) proto.Key { return proto.Key(n)<<48 | proto.Key(i) }
	insert := func(k proto.Key) func(proto.Txn) error {
		return func(tx proto.Txn) error { return tx.Insert(ranges.Rows, k, make([]byte, 16)) }
	}
	remove := func(k proto.Key) func(proto.Txn) error {
		return func(tx proto.Txn) error { return tx.Delete(ranges.Rows, k) }
	}
	for _, x := range []struct {
		name     string
		mutation string
		nodes    []proto.NodeID // whose rows 10 to 20 are scanned
		between  []func(proto.Txn) error
		want     proto.Reason // 0: it commits
	}{
		{"nothing", "", []proto.NodeID{0, 1}, nil, 0},
		{"a row beside the range", "", []proto.NodeID{0}, []func(proto.Txn) error{insert(row(0, 9))}, 0},
		{"a row here", "", []proto.NodeID{0}, []func(proto.Txn) error{insert(row(0, 11))}, proto.ReasonValidation},
		{"a row there", "", []proto.NodeID{1}, []func(proto.Txn) error{insert(row(1, 11))}, proto.ReasonValidation},
		{"a row there, unchecked", "ranges-unchecked", []proto.NodeID{1}, []func(proto.Txn) error{insert(row(1, 11))}, 0},
		{"a row that has gone again", "", []proto.NodeID{1},
			[]func(proto.Txn) error{insert(row(1, 11)), remove(row(1, 11))}, 0},
		{"the same with two ranges", "", []proto.NodeID{0, 1},
			[]func(proto.Txn) error{insert(row(1, 11)), remove(row(1, 11))}, proto.ReasonValidation},
		{"the same, unstamped", "ranges-unstamped", []proto.NodeID{0, 1},
			[]func(proto.Txn) error{insert(row(1, 11)), remove(row(1, 11))}, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			w, err := ranges.New(ranges.Default(2))
			if err != nil {
				t.Fatal(err)
			}
			p, err := node.FindProtocol("twopl")
			if err != nil {
				t.Fatal(err)
			}
			ctx := context.Background()
			c, err := node.NewLocal(ctx, node.LocalConfig{Config: node.Config{Protocol: p, Workload: w, Nodes: 2,
				Mutation: x.mutation}})
			if err != nil {
				t.Fatal(err)
			}
			err = c.Start("test", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
				if w.Node != 0 {
					return nil
				}
				tx, err := w.Engine.Begin(f, &proto.Decl{Kind: 1}, 0)
				if err != nil {
					return err
				}
				for _, n := range x.nodes {
					err := tx.Scan(ranges.Rows, row(n, 10), row(n, 20), func(proto.Key, []byte) bool { return true })
					if err != nil {
						return err
					}
				}
				run := proto.Runner{Engine: w.Engine, Rand: rand.New(rand.NewPCG(1, 2))}
				for _, other := range x.between {
					if _, err := run.Run(f, &proto.Decl{Kind: 1}, program(other)); err != nil {
						return err
					}
				}
				if err := tx.Insert(ranges.Rows, row(0, 15), make([]byte, 16)); err != nil {
					return err
				}
				if got := proto.AbortReason(tx.Commit()); got != x.want {
					t.Errorf("the commit ends with %v, want %v", got, x.want)
				}
				return nil
			}).Wait(ctx)
			if err := errors.Join(err, c.Stop(), c.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestALookUpAwaitsItsCallsBeforeABrokenLink: a look-up that has asked the host of one row, and finds the link to
// another row's broken, leaves no call under way. The next look-up uses its buffers.
func TestALookUpAwaitsItsCallsBeforeABrokenLink(t *testing.T) {
	row := func(n proto.NodeID) proto.Key { return proto.Key(n)<<48 | 2 }
	w, err := ranges.New(ranges.Default(3))
	if err != nil {
		t.Fatal(err)
	}
	p, err := node.FindProtocol("twopl")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	c, err := node.NewLocal(ctx, node.LocalConfig{Config: node.Config{Protocol: p, Workload: w, Nodes: 3}})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Start("test", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		if w.Node != 0 {
			return nil
		}
		read := func(nodes ...proto.NodeID) error {
			tx, err := w.Engine.Begin(f, &proto.Decl{Kind: 1}, 0)
			if err != nil {
				return err
			}
			var gets []proto.Get
			for _, n := range nodes {
				gets = append(gets, proto.Get{Table: ranges.Rows, Key: row(n), Value: make([]byte, ranges.ValueBytes)})
			}
			if err := tx.ReadMany(gets); err != nil {
				tx.Abort(err)
				return err
			}
			return tx.Commit()
		}
		if err := w.BreakLink(2); err != nil {
			return err
		}
		for range 3 {
			for _, x := range []struct {
				nodes []proto.NodeID
				want  proto.Reason // 0: it commits
			}{{[]proto.NodeID{2}, proto.ReasonUnreachable}, {[]proto.NodeID{1, 2}, proto.ReasonUnreachable},
				{[]proto.NodeID{1}, 0}} {
				if err := read(x.nodes...); proto.AbortReason(err) != x.want || x.want == 0 && err != nil {
					t.Errorf("rows of nodes %d: %v, want %v", x.nodes, err, x.want)
				}
			}
		}
		return nil
	}).Wait(ctx)
	if err := errors.Join(err, c.Stop(), c.Close()); err != nil {
		t.Error(err)
	}
}
