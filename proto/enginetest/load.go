package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/verbs/fiber"
)

// mixer draws transactions of one to six random operations on a few keys, half of which have no
// record at first, a third of them read-only.
type mixer struct {
	r          *rand.Rand
	nodes      int
	undeclared bool
	decl       proto.Decl // what is done
	empty      proto.Decl // what is declared if nothing is
	torn       *atomic.Int64
	buf        [200]byte
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
		a := proto.Access{Table: tableIDs[m.r.IntN(len(tableIDs))], Mode: proto.ModeRead,
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
	if m.undeclared {
		m.empty.Kind = 1
		return &m.empty
	}
	return d
}

// Execute does what was drawn.
func (m *mixer) Execute(tx proto.Txn) error {
	for _, a := range m.decl.Accesses {
		b := m.buf[:valueBytes[a.Table]]
		err := tx.Read(a.Table, a.Key, b)
		if answered(err) != nil {
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
		if answered(err) != nil {
			return err
		}
	}
	if m.r.IntN(8) == 0 {
		return proto.ErrRollback
	}
	return nil
}

// load has each fiber run n transactions, and counts those that committed.
func (c *cluster) load(n int, undeclared bool) (committed int64) {
	c.t.Helper()
	var torn, done atomic.Int64
	err := c.Start("load", c.Config.Fibers, func(f *fiber.Fiber, w *node.Worker, i int) error {
		r := rand.New(rand.NewPCG(uint64(w.Node)<<8|uint64(w.Index), uint64(i)))
		m := &mixer{r: r, nodes: c.Config.Nodes, torn: &torn, undeclared: undeclared}
		run := proto.Runner{Engine: w.Engine, Rand: r}
		for range n {
			res, err := run.Run(f, m.draw(), m)
			if err != nil && !errors.Is(err, proto.ErrRollback) {
				return fmt.Errorf("node %d worker %d fiber %d: %+v: %w", w.Node, w.Index, i, res, err)
			}
			if res.Outcome == proto.Committed {
				done.Add(1)
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
		c.t.Fatal(err)
	}
	if torn := torn.Load(); torn > 0 {
		c.t.Errorf("%d reads were torn", torn)
	}
	return done.Load()
}

const loadPerFiber = 60

// randomLoad runs everything at once on few keys: from one node and several, one worker and several,
// with declarations and, where that is offered, without.
func randomLoad(t *testing.T, e env) {
	shapes := []struct{ nodes, workers int }{{1, 1}, {1, 2}, {2, 1}, {3, 2}}
	if e.protocol.OneThread && e.host.Simulated {
		shapes = shapes[:1]
	}
	for _, x := range shapes {
		for _, undeclared := range []bool{false, true} {
			if undeclared && e.protocol.Declared {
				continue // accesses that were not declared is the case of the refusal
			}
			t.Run(fmt.Sprintf("%d nodes, %d workers, undeclared %v", x.nodes, x.workers, undeclared),
				func(t *testing.T) {
					c := e.start(t, func(cfg *node.Config) { cfg.Nodes, cfg.Workers = x.nodes, x.workers })
					committed := c.load(e.scale(loadPerFiber), undeclared)
					res := c.verify()
					if committed == 0 || res.Committed != uint64(committed) {
						t.Errorf("%d committed, %d in the history", committed, res.Committed)
					}
				})
		}
	}
}

// repeats: the same seed gives the same transactions at the same times.
func repeats(t *testing.T, e env) {
	var first string
	for i := range 2 {
		c := e.start(t, func(cfg *node.Config) {
			if cfg.Nodes > 1 {
				cfg.Nodes = 3
			}
		})
		c.load(e.scale(40), false)
		end := c.Now()
		res := c.verify()
		got := fmt.Sprintf("%v at the end, %d committed, %d aborted, %d operations", end,
			res.Committed, res.Aborted, res.Operations)
		if i == 0 {
			first = got
		} else if got != first {
			t.Errorf("first run: %s; second: %s", first, got)
		}
	}
}
