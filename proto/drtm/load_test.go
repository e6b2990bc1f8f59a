package drtm_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/proto/node"
	"drtmd/verbs/fiber"
)

// mixer draws transactions of one to six random operations on a few keys, half of which have no
// record at first, a third of them read-only.
type mixer struct {
	r     *rand.Rand
	nodes int
	decl  proto.Decl
	torn  *atomic.Int64
	buf   [200]byte
}

// hot is the number of keys of each table and node that are in use, loaded or not.
const hot = 4

// draw makes the next declaration.
func (m *mixer) draw() *proto.Decl {
	d := &m.decl
	*d = proto.Decl{Kind: 1, ReadOnly: m.r.IntN(3) == 0, Accesses: d.Accesses[:0]}
	for range 1 + m.r.IntN(6) {
		k := m.r.Uint64N(hot)
		if m.r.IntN(2) == 0 {
			k += loaded
		}
		n := proto.NodeID(m.r.IntN(m.nodes))
		a := proto.Access{Table: proto.TableID(1 + m.r.IntN(int(large))), Mode: proto.ModeRead,
			Key: keyOn(n, k)}
		if !d.ReadOnly {
			a.Mode = proto.Mode(1 + m.r.IntN(int(proto.ModeDelete)))
		}
		double := false
		for _, x := range d.Accesses {
			double = double || x.Table == a.Table && x.Key == a.Key
		}
		if !double {
			d.Accesses = append(d.Accesses, a)
		}
	}
	return d
}

// Execute does what was declared.
func (m *mixer) Execute(tx proto.Txn) error {
	for _, a := range m.decl.Accesses {
		b := m.buf[:sizes[a.Table]]
		err := tx.Read(a.Table, a.Key, b)
		if missing(err) != nil {
			return err
		}
		if _, whole := number(b); err == nil && !whole {
			m.torn.Add(1)
		}
		switch v := value(a.Table, m.r.Uint64()); a.Mode {
		case proto.ModeWrite:
			err = tx.Write(a.Table, a.Key, v)
		case proto.ModeInsert:
			err = tx.Insert(a.Table, a.Key, v)
		case proto.ModeDelete:
			err = tx.Delete(a.Table, a.Key)
		}
		if missing(err) != nil {
			return err
		}
	}
	if m.r.IntN(8) == 0 {
		return proto.ErrRollback
	}
	return nil
}

// load has each fiber run n transactions.
func (c *cluster) load(n int) {
	c.t.Helper()
	torn, err := c.try(n, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if torn > 0 {
		c.t.Errorf("%d reads were torn", torn)
	}
}

// try is load without a judgement: it says how many reads were torn. change, if not nil, has a
// last word on each fiber's runner and program.
func (c *cluster) try(n int, change func(f *fiber.Fiber, w *node.Worker, r *proto.Runner,
	p proto.Program) proto.Program) (int64, error) {
	var torn atomic.Int64
	err := c.Start("load", c.Config.Fibers, func(f *fiber.Fiber, w *node.Worker, i int) error {
		r := rand.New(rand.NewPCG(c.Config.Seed<<32|uint64(w.Node)<<8|uint64(w.Index), uint64(i)))
		m := &mixer{r: r, nodes: c.Config.Nodes, torn: &torn}
		run := proto.Runner{Engine: w.Engine, Rand: r}
		p := proto.Program(m)
		if change != nil {
			p = change(f, w, &run, p)
		}
		for range n {
			res, err := run.Run(f, m.draw(), p)
			if err != nil && !errors.Is(err, proto.ErrRollback) {
				return fmt.Errorf("node %d worker %d fiber %d: %+v: %w", w.Node, w.Index, i, res, err)
			}
		}
		return nil
	}).Wait(context.Background())
	return torn.Load(), err
}

// TestRandomTransactionsAreStrictlySerializable runs everything at once on few keys.
func TestRandomTransactionsAreStrictlySerializable(t *testing.T) {
	random := func(t *testing.T, h host) {
		for _, x := range []struct{ nodes, workers int }{{1, 1}, {1, 2}, {2, 1}, {3, 2}} {
			t.Run(fmt.Sprintf("%d nodes, %d workers", x.nodes, x.workers), func(t *testing.T) {
				c := start(t, h, settings{node: func(cfg *node.Config) {
					cfg.Nodes, cfg.Workers = x.nodes, x.workers
				}})
				c.load(loadPerFiber)
				var stats proto.Stats
				var counts drtm.Counts
				for _, w := range c.Workers() {
					e := w.Engine.(*drtm.Engine)
					stats.Fallbacks += e.Stats().Fallbacks
					stats.Committed += e.Stats().Committed
					for r, n := range e.Stats().Aborts {
						stats.Aborts[r] += n
					}
					counts.LeaseAll += e.Counts().LeaseAll
					counts.Joined += e.Counts().Joined
					counts.Reclaimed += e.Counts().Reclaimed
				}
				res := c.verify()
				t.Logf("%+v %+v, %d checked", stats, counts, res.Checked)
			})
		}
	}
	each(t, random)
	t.Run(onHCA.name, func(t *testing.T) { random(t, onHCA) })
}
