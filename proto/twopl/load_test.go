package twopl_test

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

// mixer is a program of random operations on a few keys, half of which do not exist at first. The
// record of table line under the key transferKey of each node takes part in transfers only.
type mixer struct {
	r     *rand.Rand
	nodes int
	buf   [200]byte
	torn  *atomic.Int64
	gets  []proto.Get
}

// hot is the number of keys of each table and node that are in use.
const hot = 4

func (m *mixer) key() proto.Key {
	k := m.r.Uint64N(hot)
	if m.r.IntN(2) == 0 {
		k += loaded
	}
	return keyOn(proto.NodeID(m.r.IntN(m.nodes)), k)
}

// Execute does one to four things.
func (m *mixer) Execute(tx proto.Txn) error {
	for range 1 + m.r.IntN(4) {
		id := tableIDs[m.r.IntN(len(tableIDs))]
		if err := missing(m.one(tx, id, m.key())); err != nil {
			return err
		}
	}
	if m.r.IntN(8) == 0 {
		return proto.ErrRollback
	}
	return nil
}

func (m *mixer) one(tx proto.Txn, id proto.TableID, k proto.Key) error {
	b := m.buf[:valueBytes[id]]
	switch m.r.IntN(6) {
	case 0:
		return tx.Write(id, k, value(len(b), m.r.Uint64()))
	case 1:
		return tx.Insert(id, k, value(len(b), m.r.Uint64()))
	case 2:
		return tx.Delete(id, k)
	case 3:
		return m.many(tx)
	}
	if err := tx.Read(id, k, b); err != nil {
		return err
	}
	if _, whole := number(b); !whole {
		m.torn.Add(1)
	}
	return nil
}

// many reads a key of each node and table at once.
func (m *mixer) many(tx proto.Txn) error {
	m.gets = m.gets[:0]
	for n := range m.nodes {
		for _, id := range tableIDs {
			m.gets = append(m.gets, proto.Get{Table: id, Key: keyOn(proto.NodeID(n), m.r.Uint64N(hot)),
				Value: make([]byte, valueBytes[id])})
		}
	}
	if err := tx.ReadMany(m.gets); err != nil {
		return err
	}
	for _, g := range m.gets {
		if _, whole := number(g.Value); g.Err == nil && !whole {
			m.torn.Add(1)
		}
	}
	return nil
}

// TestRandomTransactionsAreStrictlySerializable runs everything at once on few keys: from several
// nodes, workers and threads, with declarations or without.
func TestRandomTransactionsAreStrictlySerializable(t *testing.T) {
	each(t, func(t *testing.T, h host, cpu bool) {
		for _, workers := range []int{1, 2} {
			for _, declared := range []bool{false, true} {
				t.Run(fmt.Sprintf("workers %d, declared %v", workers, declared), func(t *testing.T) {
					c := start(t, h, cpu, func(cfg *node.Config) {
						cfg.Nodes, cfg.Workers, cfg.Fibers = 3, workers, 4
					})
					var torn, committed atomic.Int64
					c.load(h.scale(60), declared, &torn, &committed)
					c.sweep()
					res := c.verify()
					if n := torn.Load(); n > 0 {
						t.Errorf("%d reads were torn", n)
					}
					if res.Committed != uint64(committed.Load())+1 || res.Committed == 0 {
						t.Errorf("%d committed, %d in the history", committed.Load(), res.Committed)
					}
				})
			}
		}
	})
}

// sweep reads every key, so that absent entries are given back which a refused transaction had to
// leave behind because somebody else had them locked for a moment, by an outdated place.
func (c *cluster) sweep() {
	c.t.Helper()
	c.on(0, func(f *fiber.Fiber, e proto.Engine) error {
		return do(f, e, &proto.Decl{Kind: 1}, func(tx proto.Txn) error {
			for n := range c.Config.Nodes {
				for _, id := range tableIDs {
					for k := range uint64(loaded + hot) {
						err := tx.Read(id, keyOn(proto.NodeID(n), k), make([]byte, valueBytes[id]))
						if missing(err) != nil {
							return err
						}
					}
				}
			}
			return nil
		})
	})
}

// load has each fiber run n transactions.
func (c *cluster) load(n int, declared bool, torn, committed *atomic.Int64) {
	c.t.Helper()
	err := c.Start("load", c.Config.Fibers, func(f *fiber.Fiber, w *node.Worker, i int) error {
		r := rand.New(rand.NewPCG(uint64(w.Node)<<8|uint64(w.Index), uint64(i)))
		m := &mixer{r: r, nodes: c.Config.Nodes, torn: torn}
		run := proto.Runner{Engine: w.Engine, Rand: r}
		for range n {
			d := &proto.Decl{Kind: 1}
			if declared {
				for range r.IntN(4) {
					k := m.key()
					d.Accesses = append(d.Accesses, proto.Access{Table: tableIDs[r.IntN(len(tableIDs))],
						Mode: proto.ModeWrite, Key: k})
				}
			}
			res, err := run.Run(f, d, m)
			if err != nil && !errors.Is(err, proto.ErrRollback) {
				return fmt.Errorf("node %d worker %d fiber %d: %v: %w", w.Node, w.Index, i, res, err)
			}
			if res.Outcome == proto.Committed {
				committed.Add(1)
			}
		}
		return nil
	}).Wait(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
}

// TestSimulatedRunsRepeat: the same seed gives the same transactions at the same times.
func TestSimulatedRunsRepeat(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			var first string
			for i := range 2 {
				c := start(t, simulated, p.cpu, func(cfg *node.Config) { cfg.Nodes = 3 })
				var torn, committed atomic.Int64
				c.load(40, false, &torn, &committed)
				end := c.Now()
				c.sweep()
				res := c.verify()
				got := fmt.Sprintf("%v at the end, %d committed, %d aborted, %d operations", end,
					res.Committed, res.Aborted, res.Operations)
				if i == 0 {
					first = got
				} else if got != first {
					t.Errorf("first run: %s; second: %s", first, got)
				}
			}
		})
	}
}
