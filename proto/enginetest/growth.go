package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/protocol"
	"drtmd/proto/workload"
	"drtmd/verbs/fiber"
)

// growth: tables take more records than they have room for in the beginning, up to a bound that the
// refusal names, and what is in further regions is as good as the rest. Protocols without it refuse it.
func growth(t *testing.T, e env) {
	t.Run("hash tables", func(t *testing.T) { growthOf(t, e, tables{}) })
	if e.protocol.Scans {
		t.Run("ordered tables", func(t *testing.T) { growthOf(t, e, orderedTables{}) })
	}
}

// orderedTables are tables, all ordered.
type orderedTables struct{ tables }

func (orderedTables) Tables() []proto.TableSpec {
	all := tables{}.Tables()
	for i := range all {
		all[i].Ordered = true
	}
	return all
}

func growthOf(t *testing.T, e env, w workload.Workload) {
	bounded := func(bytes int64) func(*node.Config) {
		return func(c *node.Config) {
			c.Growth = protocol.Growth{Bytes: bytes, Setting: "test.growth"}
			c.Workload = w
			c.Workers = 2
			if c.Protocol.OneThread {
				c.Workers = 1
			}
		}
	}
	if !e.protocol.Grows {
		cfg := node.Config{Protocol: e.protocol, Nodes: e.nodes()}
		bounded(1 << 20)(&cfg)
		if err := cfg.Complete(); !errors.Is(err, protocol.ErrNeeds) || !strings.Contains(err.Error(), "test.growth") {
			t.Errorf("%v, want that the protocol lacks it, and the name of the setting", err)
		}
		return
	}
	const bound = 1 << 20
	c := e.start(t, bounded(bound))
	before := c.Registered()
	keys := uint64(e.scale(2000)) // of each worker of each node
	_, ordered := w.(orderedTables)
	if ordered {
		keys /= 2
	}
	growing := func(f *fiber.Fiber, w *node.Worker, _ int) error {
		for i := range keys {
			for _, home := range c.homes() {
				k := keyOn(home, capacity+(i*uint64(c.Config.Nodes)+uint64(w.Node))*2+uint64(w.Index))
				if err := run(f, w.Engine)(insertion(small, k, i+1)); err != nil {
					return fmt.Errorf("key %#x: %w", uint64(k), err)
				}
				if i%4 == 3 { // some go again
					if err := run(f, w.Engine)(deletion(small, k)); err != nil {
						return fmt.Errorf("key %#x: %w", uint64(k), err)
					}
				}
			}
		}
		return nil
	}
	if err := c.Start("grow", 1, growing).Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	if now := c.Registered(); now <= before || now > before+uint64(c.Config.Nodes)*bound {
		t.Errorf("%d bytes are registered, before it were %d", now, before)
	}
	// Who has seen nothing of it finds all of it, writes, and meets the bound.
	c.on(0, func(f *fiber.Fiber, eng proto.Engine) error {
		for _, home := range c.homes() {
			for i := uint64(0); i < keys; i += keys / 100 {
				k, want := keyOn(home, capacity+i*uint64(c.Config.Nodes)*2), i+1
				if i%4 == 3 {
					want = 0
				}
				if v, err := seen(f, eng, small, k); v != want || err != nil {
					return fmt.Errorf("key %#x is %d, want %d, %w", uint64(k), v, want, err)
				}
				if want == 0 {
					continue
				}
				err := do(f, eng, declare(writing(small, k)), func(tx proto.Txn) error {
					return tx.Write(small, k, value(small, want+1))
				})
				if err != nil {
					return err
				}
			}
			var err error
			if ordered {
				err = scanGrown(f, eng, home, keys, uint64(c.Config.Nodes))
				if err == nil && e.host.Slow {
					continue // hash tables meet the bound there
				}
			}
			for i := uint64(1 << 24); err == nil && i < 1<<24+40_000; i++ {
				err = run(f, eng)(insertion(large, keyOn(home, i), i))
			}
			if proto.AbortReason(err) != proto.ReasonFull || !strings.Contains(err.Error(), "test.growth = 1MiB: raise it") {
				return fmt.Errorf("at the bound: %w", err)
			}
		}
		return nil
	})
	c.verify()
}

// scanGrown scans pieces of the table "small" of a node, to which each worker of each node has added so many keys.
func scanGrown(f *fiber.Fiber, eng proto.Engine, home proto.NodeID, keys, nodes uint64) error {
	const piece = 40
	all := keys * nodes * 2
	for from := uint64(0); from+piece < all; from += all / 10 {
		var want, got []proto.Key
		for x := from; x < from+piece; x++ {
			if x/(nodes*2)%4 != 3 {
				want = append(want, keyOn(home, capacity+x))
			}
		}
		err := do(f, eng, &proto.Decl{Kind: 1, ReadOnly: true}, func(tx proto.Txn) error {
			got = got[:0]
			return tx.Scan(small, keyOn(home, capacity+from), keyOn(home, capacity+from+piece-1),
				func(k proto.Key, _ []byte) bool {
					got = append(got, k)
					return true
				})
		})
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("a scan from %#x finds %#x, want %#x", uint64(want[0]), got, want)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
