package drtm_test

import (
	"fmt"
	"testing"

	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/proto/node"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// roomy are ordered tables with room for all entries that a queue may not forget, and some more.
type roomy struct{ ordered }

func (r roomy) Tables() []proto.TableSpec {
	all := r.ordered.Tables()
	for i := range all {
		all[i].Capacity = 2 * drtm.SpareBound
	}
	return all
}

// TestQueuesForget: nothing. Far more entries are made for insertions than wait to be given back, and records are deleted
// at the head of the range at whose end they are inserted: none of these entries stays, whatever else is made meanwhile.
func TestQueuesForgetNothing(t *testing.T) {
	const batch, rounds = 16, 3 * drtm.SpareBound / 2 / 16
	for _, h := range []host{onSim, onHCA} {
		for _, id := range []proto.TableID{small, full} { // the state words of the first one's records are the CPU's
			c := start(t, h, settings{node: func(cfg *node.Config) { cfg.Workload, cfg.Record = roomy{}, nil }})
			most := 0
			c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
				for i := range uint64(rounds) {
					var all []proto.Access
					for j := range uint64(batch) {
						all = append(all, inserting(id, keyOn(0, capacity+(i+1)*batch+j)))
						if i > 0 {
							all = append(all, deleting(id, keyOn(0, capacity+i*batch+j)))
						}
					}
					err := do(f, e, declare(all...), func(tx proto.Txn) error {
						for _, a := range all {
							err := error(nil)
							if a.Mode == proto.ModeInsert {
								err = tx.Insert(id, a.Key, value(id, 1))
							} else {
								err = tx.Delete(id, a.Key)
							}
							if err != nil {
								return err
							}
						}
						return nil
					})
					if err != nil {
						return fmt.Errorf("%s, table %d, round %d: %w", h.name, id, i, err)
					}
					if i%(rounds/16) == 0 {
						most = max(most, c.absent(id))
					}
				}
				return nil
			})
			if most > 2*batch {
				t.Errorf("%s, table %d: %d entries of deleted records", h.name, id, most)
			}
		}
	}
}

// absent counts the entries of node 0 whose records are not there.
func (c *cluster) absent(id proto.TableID) (n int) {
	tab := c.Members[0].Workers[0].Tables[id-1]
	tab.Each(func(place int) bool {
		m, off := tab.At(place)
		if !layout.HeadOf(m.Bytes[off : off+tab.Record().Bytes]).Version.Live() {
			n++
		}
		return true
	})
	return n
}

// TestADroppedTombstoneIsGivenBack: an entry for which a queue has had no room is given back when a scan of its machine or of
// another one meets it, and when its table needs the room.
func TestADroppedTombstoneIsGivenBack(t *testing.T) {
	const id, first, count = full, uint64(loaded), 10
	change := func(f *fiber.Fiber, e *drtm.Engine, a proto.Access) error {
		return do(f, e, declare(a), func(tx proto.Txn) error {
			if a.Mode == proto.ModeInsert {
				return tx.Insert(id, a.Key, value(id, 1))
			}
			return tx.Delete(id, a.Key)
		})
	}
	scan := func(f *fiber.Fiber, e *drtm.Engine) (err error) {
		for i := 0; i < 8 && err == nil; i++ {
			err = do(f, e, &proto.Decl{Kind: 1, ReadOnly: true}, func(tx proto.Txn) error {
				return tx.Scan(id, keyOn(0, first), keyOn(0, 2*loaded), func(proto.Key, []byte) bool { return true })
			})
			if err == nil {
				err = f.Sleep(16 * drtm.DefaultLeaseReadOnly)
			}
		}
		return err
	}
	fill := func(f *fiber.Fiber, e *drtm.Engine) (err error) {
		for k := uint64(capacity); err == nil; k++ {
			err = change(f, e, inserting(id, keyOn(0, k)))
		}
		if proto.AbortReason(err) == proto.ReasonFull {
			err = nil
		}
		return err
	}
	for _, h := range []host{onSim, onHCA} {
		for _, x := range []struct {
			name string
			on   proto.NodeID
			run  func(f *fiber.Fiber, e *drtm.Engine) error
		}{{"scan", 0, scan}, {"scan from elsewhere", 1, scan}, {"full table", 0, fill}} {
			c := start(t, h, settings{node: func(cfg *node.Config) { cfg.Workload, cfg.Record = ordered{}, nil }})
			c.on(0, func(f *fiber.Fiber, e *drtm.Engine) (err error) {
				for k := first; k < first+count && err == nil; k++ {
					err = change(f, e, inserting(id, keyOn(0, k)))
				}
				e.NoSpare(true)
				for k := first; k < first+count && err == nil; k++ {
					err = change(f, e, deleting(id, keyOn(0, k)))
				}
				e.NoSpare(false)
				return err
			})
			if n := c.absent(id); n != count {
				t.Fatalf("%s: %d entries of deleted records before, want %d", h.name, n, count)
			}
			c.on(x.on, x.run)
			if n := c.absent(id); n != 0 {
				t.Errorf("%s, %s: %d entries of deleted records are left", h.name, x.name, n)
			}
		}
	}
}
