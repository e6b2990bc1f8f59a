package drtm_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/proto/node"
	"drtmd/verbs/fiber"
)

// atHome are the tables of these tests, of which the first is accessed by its own node only.
type atHome struct{ tables }

func (a atHome) Tables() []proto.TableSpec {
	all := a.tables.Tables()
	all[small-1].AtHome = true
	return all
}

// TestRecordsThatStayAtHomeNeedNoNIC (§7.3): without line words, transactions lock records that no other node accesses by
// the CPU, in whichever way they run, and others by requests to the NIC. A cluster of one has no others.
func TestRecordsThatStayAtHomeNeedNoNIC(t *testing.T) {
	const byFallback = 1000 // attempts before
	for nodes := 1; nodes <= 2; nodes++ {
		c := start(t, onHCA, settings{node: func(cfg *node.Config) { cfg.Workload, cfg.Nodes = atHome{}, nodes }})
		c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
			for _, id := range []proto.TableID{small, large} {
				for n, attempts := range []int{0, byFallback} {
					fresh := keyOn(0, uint64(20+n))
					buf := value(id, 0)
					steps := []struct {
						name string
						d    *proto.Decl
						run  program
					}{
						{"update", declare(writing(id, keyOn(0, 1)), reading(id, keyOn(0, 2))), func(tx proto.Txn) error {
							return errors.Join(tx.Read(id, keyOn(0, 2), buf), tx.GetForUpdate(id, keyOn(0, 1), buf),
								tx.Write(id, keyOn(0, 1), value(id, uint64(n)+7)))
						}},
						{"insert", declare(inserting(id, fresh)), func(tx proto.Txn) error {
							return tx.Insert(id, fresh, value(id, 5))
						}},
						{"delete", declare(deleting(id, fresh)), func(tx proto.Txn) error { return tx.Delete(id, fresh) }},
					}
					for _, x := range steps {
						posted := f.Worker().Stats.Posted
						if err := attempt(f, e, x.d, attempts, x.run); err != nil {
							return fmt.Errorf("%d nodes, table %d, %s: %w", nodes, id, x.name, err)
						}
						needs := nodes > 1 && id != small
						if posts := f.Worker().Stats.Posted - posted; posts > 0 != needs {
							t.Errorf("%d nodes, table %d, attempt %d, %s: %d requests to the NIC", nodes, id, attempts, x.name, posts)
						}
					}
					if v, err := peek(f, e, id, keyOn(0, 1)); err != nil || v != uint64(n)+7 {
						t.Errorf("%d nodes, table %d, attempt %d: the update left %d, %v", nodes, id, attempts, v, err)
					}
				}
			}
			return nil
		})
		c.verify()
	}
}

// TestTablesThatStayAtHomeAreRefusedElsewhere, on every device: the error names node, table and key.
func TestTablesThatStayAtHomeAreRefusedElsewhere(t *testing.T) {
	for _, h := range []host{onSim, onHCA} {
		c := start(t, h, settings{node: func(cfg *node.Config) { cfg.Workload = atHome{} }})
		c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
			for _, x := range []proto.Access{reading(small, keyOn(1, 3)), writing(small, keyOn(1, 3)), inserting(small, keyOn(1, 40))} {
				_, err := e.Begin(f, declare(x, writing(full, keyOn(1, 3))), 0)
				if !errors.Is(err, drtm.ErrNotAtHome) || !strings.Contains(err.Error(), fmt.Sprintf(`node 0, table "t", key %d, of node 1`,
					x.Key)) {
					t.Errorf("%s, %v: %v", h.name, x.Mode, err)
				}
			}
			return do(f, e, declare(writing(full, keyOn(1, 3))), func(tx proto.Txn) error {
				return tx.Write(full, keyOn(1, 3), value(full, 1))
			})
		})
		c.verify()
	}
}

// ordered are the tables of these tests, with their order.
type ordered struct{ atHome }

func (o ordered) Tables() []proto.TableSpec {
	all := o.atHome.Tables()
	for i := range all {
		all[i].Ordered = true
	}
	return all
}

// TestRangesThatStayAtHomeAreRefusedElsewhere, and others are not.
func TestRangesThatStayAtHomeAreRefusedElsewhere(t *testing.T) {
	for _, h := range []host{onSim, onHCA} {
		c := start(t, h, settings{node: func(cfg *node.Config) { cfg.Workload = ordered{} }})
		c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
			scan := func(id proto.TableID, n proto.NodeID) (found int, err error) {
				err = do(f, e, declare(), func(tx proto.Txn) error {
					found = 0
					return tx.Scan(id, keyOn(n, 0), keyOn(n, 2*loaded), func(proto.Key, []byte) bool {
						found++
						return true
					})
				})
				return found, err
			}
			if _, err := scan(small, 1); !errors.Is(err, drtm.ErrNotAtHome) ||
				!strings.Contains(err.Error(), `node 0, table "t", a range, of node 1`) {
				t.Errorf("%s: %v", h.name, err)
			}
			for _, x := range []struct {
				id proto.TableID
				n  proto.NodeID
			}{{small, 0}, {full, 0}, {full, 1}} {
				if n, err := scan(x.id, x.n); n != loaded || err != nil {
					t.Errorf("%s: table %d of node %d has %d records, %v", h.name, x.id, x.n, n, err)
				}
			}
			return nil
		})
		c.verify()
	}
}
