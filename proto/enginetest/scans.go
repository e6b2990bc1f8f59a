package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/workload/ranges"
	"drtmd/verbs/fiber"
)

// scans of ordered tables, under protocols that have them.
func scans(t *testing.T, e env) {
	if !e.protocol.Scans {
		t.Skip("the protocol does not scan")
	}
	t.Run("a scan sees the transaction's own writes", func(t *testing.T) { ownScans(t, e) })
	if !e.host.Simulated && !e.played() {
		t.Run("scans do not allocate", func(t *testing.T) { scanAllocations(t, e) })
	}
	t.Run("random scans are strictly serializable", func(t *testing.T) { randomScans(t, e) })
	t.Run("a queue of rows stays short", func(t *testing.T) { queues(t, e) })
}

// startRanges builds a cluster with the workload ranges.
func (e env) startRanges(t *testing.T, nodes, workers int) (*cluster, *ranges.Ranges) {
	t.Helper()
	o := ranges.Default(nodes)
	if nodes > 1 {
		o.Distributed = 0.3
	}
	w, err := ranges.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return e.start(t, func(cfg *node.Config) { cfg.Nodes, cfg.Workers, cfg.Workload = nodes, workers, w }), w
}

// rowOn is row i of a node, of which every other one was loaded.
func rowOn(n proto.NodeID, i uint64) proto.Key { return proto.Key(n)<<48 | proto.Key(i) }

// verifyRanges is verify, with a look at the locks of the rows.
func (c *cluster) verifyRanges() uint64 {
	c.t.Helper()
	c.settle()
	if err := c.Stop(); err != nil {
		c.t.Fatal(err)
	}
	for _, n := range c.homes() {
		for i := range uint64(ranges.Default(1).Keys) {
			tab := c.Members[n].Workers[0].Tables[ranges.Rows-1]
			place, ok := tab.Find(uint64(rowOn(n, i)))
			if !ok {
				continue
			}
			m, off := tab.At(place)
			if r := c.header(m.Bytes[off:]); r.locked {
				c.t.Errorf("node %d row %d is locked: %s", n, i, r)
			}
		}
	}
	return c.serializable().Committed
}

// ownScans: what a transaction has inserted, written and deleted, in order, in both directions and up to a limit.
func ownScans(t *testing.T, e env) {
	const row = ranges.Rows
	for _, n := range []int{1, 100} { // the first attempt may only find out in which way it has to run
		t.Run(fmt.Sprintf("attempt %d", n), func(t *testing.T) {
			c, _ := e.startRanges(t, e.nodes(), 1)
			c.on(0, func(f *fiber.Fiber, eng proto.Engine) error {
				for _, home := range c.homes() {
					at := func(i uint64) proto.Key { return rowOn(home, i) }
					d := declare(deleting(row, at(6)), writing(row, at(8)), inserting(row, at(7)), inserting(row, at(63)))
					keys := func(tx proto.Txn, from, to uint64, limit int) (got []uint64, err error) {
						err = tx.Scan(row, at(from), at(to), func(k proto.Key, v []byte) bool {
							got = append(got, uint64(k)&0xffff)
							return len(got) < limit
						})
						return got, err
					}
					err := again(f, eng, d, n, func(tx proto.Txn) error {
						if err := errors.Join(tx.Delete(row, at(6)), tx.Write(row, at(8), make([]byte, 16)),
							tx.Insert(row, at(7), make([]byte, 16)), tx.Insert(row, at(63), make([]byte, 16))); err != nil {
							return first(err)
						}
						for _, x := range []struct {
							from, to uint64
							limit    int
							want     []uint64
						}{
							{3, 9, 100, []uint64{4, 7, 8}}, {9, 3, 100, []uint64{8, 7, 4}},
							{6, 6, 9, nil}, {7, 7, 9, []uint64{7}}, {2, 60, 3, []uint64{2, 4, 7}},
							{63, 0, 2, []uint64{63, 62}}, {60, 63, 9, []uint64{60, 62, 63}}} {
							got, err := keys(tx, x.from, x.to, x.limit)
							if err != nil {
								return err
							}
							if !slices.Equal(got, x.want) {
								return fmt.Errorf("from %d to %d, at most %d: %d, want %d", x.from, x.to, x.limit, got, x.want)
							}
						}
						return nil
					})
					if err == nil {
						err = again(f, eng, &proto.Decl{Kind: 1, ReadOnly: true}, n, func(tx proto.Txn) error {
							got, err := keys(tx, 0, 63, 100)
							if err == nil && len(got) != 33 {
								err = fmt.Errorf("then there are %d rows, want 33", len(got))
							}
							return err
						})
					}
					if err == nil {
						var some [3]proto.Key
						var found int
						found, err = eng.(proto.RangePeeker).PeekRange(f, row, at(9), at(5), some[:])
						if err == nil && (found != 2 || some[0] != at(8) || some[1] != at(7)) {
							err = fmt.Errorf("a peek finds %d rows, %#x", found, some)
						}
					}
					if err != nil {
						return fmt.Errorf("node %d: %w", home, err)
					}
				}
				if e.nodes() > 1 {
					err := attempt(f, eng, &proto.Decl{Kind: 1, ReadOnly: true}, n, func(tx proto.Txn) error {
						return tx.Scan(row, rowOn(0, 0), rowOn(1, 9), func(proto.Key, []byte) bool { return true })
					})
					if !errors.Is(err, proto.ErrPlacement) {
						return fmt.Errorf("a range of two nodes: %v", err)
					}
				}
				return nil
			})
			c.verifyRanges()
		})
	}
}

// scanAllocations tests that scans, of the own node and of another, allocate nothing in their steady state.
func scanAllocations(t *testing.T, e env) {
	raceskip.Counted(t)
	e.protocol.OneThread = true // all workers on one: nothing else allocates
	w, err := ranges.New(ranges.Default(e.nodes()))
	if err != nil {
		t.Fatal(err)
	}
	c := e.start(t, func(cfg *node.Config) { cfg.Record, cfg.Workload = nil, w })
	for _, home := range c.homes() {
		rows := 0
		x := &scanner{from: rowOn(home, 5), to: rowOn(home, 45), each: func(proto.Key, []byte) bool { rows++; return true }}
		c.on(0, func(f *fiber.Fiber, eng proto.Engine) error {
			least, err := leastAllocations(f, eng, &proto.Decl{Kind: 1, ReadOnly: true}, 1, x)
			if err == nil && (least > 0.2 || rows == 0) {
				err = fmt.Errorf("node %d: at least %.2f allocations per scan, %d rows", home, least, rows)
			}
			return err
		})
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
}

// scanner is a program that scans a range.
type scanner struct {
	from, to proto.Key
	each     func(proto.Key, []byte) bool
}

func (x *scanner) Execute(tx proto.Txn) error { return tx.Scan(ranges.Rows, x.from, x.to, x.each) }

// first is the first of joined errors, as a program returns it.
func first(err error) error {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		return list.Unwrap()[0]
	}
	return err
}

const scansPerFiber = 30

// randomScans runs the workload on all fibers.
func randomScans(t *testing.T, e env) {
	shapes := []struct{ nodes, workers int }{{2, 2}}
	if e.protocol.OneThread && e.host.Simulated {
		shapes[0].nodes = 1
	}
	for _, x := range shapes {
		t.Run(fmt.Sprintf("%d nodes, %d workers", x.nodes, x.workers), func(t *testing.T) {
			c, w := e.startRanges(t, x.nodes, x.workers)
			var committed atomic.Int64
			err := c.Start("scans", c.Config.Fibers, func(f *fiber.Fiber, worker *node.Worker, i int) error {
				r := rand.New(rand.NewPCG(uint64(worker.Node)<<8|uint64(worker.Index), uint64(i)))
				client := w.NewClient(worker.Node, r)
				run := proto.Runner{Engine: worker.Engine, Rand: r}
				for range e.scale(scansPerFiber) {
					d, p := client.Next()
					res, err := run.Run(f, d, p)
					if err != nil {
						return fmt.Errorf("node %d worker %d fiber %d: %+v: %w", worker.Node, worker.Index, i, res, err)
					}
					client.Done(res.Outcome)
					if res.Outcome == proto.Committed {
						committed.Add(1)
					}
					if c.protocol.OneThread {
						if err := f.Yield(); err != nil {
							return err
						}
					}
				}
				return nil
			}).Wait(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if got := c.verifyRanges(); committed.Load() == 0 || got != uint64(committed.Load()) {
				t.Errorf("%d committed, %d in the history", committed.Load(), got)
			}
		})
	}
}
