package drtm_test

import (
	"context"
	"testing"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/proto/node"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// TestACopyOfAPlaceThatWasGivenAwayIsNotTheRegions: between the look-up of a record and the region its place is given to
// another record of the transaction, in whichever order the program touches the two. The region's copy of that place is the
// other record's, and the image of the first one is that of its new place only.
func TestACopyOfAPlaceThatWasGivenAwayIsNotTheRegions(t *testing.T) {
	moved, fresh := keyOn(0, 1), keyOn(0, loaded+1)
	for _, order := range [][]proto.Key{{moved, fresh}, {fresh, moved}} {
		var c *cluster
		moves := false
		c = start(t, host{"sim", func(ctx context.Context, cfg node.Config) (*node.Cluster, error) {
			return node.NewSimulated(ctx, node.SimulatedConfig{Config: cfg, OnStep: func(_ *fiber.Fiber, name string) {
				if moves && name == "drtm: before XBEGIN" {
					moves = false
					c.moveTo(moved, fresh)
				}
			}})
		}}, settings{node: func(cfg *node.Config) { cfg.Nodes, cfg.Record = 1, nil }})
		c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
			moves = true
			seen := value(small, 0)
			err := attempt(f, e, declare(writing(small, order[0]), writing(small, order[1])), 0, func(tx proto.Txn) error {
				for _, k := range order {
					if err := tx.GetForUpdate(small, k, seen); err != nil {
						return err
					}
					if v, _ := number(seen); v != 100+uint64(k) {
						t.Errorf("order %v: key %d had %d", order, k, v)
					}
					if err := tx.Write(small, k, value(small, 200+uint64(k))); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			for _, k := range order {
				if v, err := peek(f, e, small, k); err != nil || v != 200+uint64(k) {
					t.Errorf("order %v: key %d has %d, %v", order, k, v, err)
				}
			}
			return nil
		})
	}
}

// moveTo gives the place of a small record of the first node to another one, and a new place to the first. Their values are 100
// more than the keys.
func (c *cluster) moveTo(from, to proto.Key) {
	tab := c.Members[0].Workers[0].Tables[small-1]
	place, found := tab.Find(uint64(from))
	r := htm.NewRegion(htm.Config{})
	in := func(change func() bool) {
		r.Begin()
		if !change() || !r.Commit(nil) {
			c.t.Fatal("a region that is alone aborted")
		}
	}
	in(func() bool {
		m, off := tab.At(place)
		v, ok := r.Load64(m, off+layout.VersionOffset)
		return ok && r.Store64(m, off+layout.VersionOffset, uint64(layout.Version(v).Deleted()))
	})
	in(func() bool {
		ok, err := tab.ReclaimIn(r, uint64(from), uint64(drtm.Init))
		return ok && err == nil
	})
	for _, k := range []proto.Key{to, from} {
		in(func() bool {
			p, v, ok, err := tab.EnsureIn(r, uint64(k), uint64(drtm.Init))
			if !ok || err != nil {
				return false
			}
			if k == to && p != place || !found {
				c.t.Fatalf("key %d was put to %d, not to %d", k, p, place)
			}
			m, off := tab.At(p)
			return r.Store64(m, off+layout.VersionOffset, uint64(v.Inserted())) &&
				r.Store64(m, off+layout.ValueOffset, 100+uint64(k))
		})
	}
}
