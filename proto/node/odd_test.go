package node_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/workload"
	"drtmd/verbs/fiber"
)

// odd is a workload with something wrong.
type odd struct {
	workload.Workload
	place  proto.Placement // nil: as it is
	tables []proto.TableSpec
}

func (o odd) Placement() proto.Placement { return o.place }

func (o odd) NewClient(proto.NodeID, *rand.Rand) workload.Client { return nil }

func (o odd) Tables() []proto.TableSpec {
	if o.tables != nil {
		return o.tables
	}
	return o.Workload.Tables()
}

// oddTables has another capacity in each table.
func oddTables(w workload.Workload, capacity int) workload.Workload {
	o := odd{Workload: w, place: w.Placement(), tables: w.Tables()}
	for i := range o.tables {
		o.tables[i].Capacity = capacity
	}
	return o
}

// beyond places every record outside the cluster.
type beyond struct{}

func (beyond) Locate(proto.TableID, proto.Key) proto.Location { return proto.Location{Primary: 7} }

// TestProgramsThatCannotWorkAreRefusedByName: the error says which operation, and why; it panics
// nowhere.
func TestProgramsThatCannotWorkAreRefusedByName(t *testing.T) {
	ctx := context.Background()
	for _, p := range node.Protocols() {
		if p.Chips != nil {
			continue // package enginetest tests that they are refused here
		}
		t.Run(p.Name, func(t *testing.T) {
			w := bank(t, 1)
			c, err := node.NewLocal(ctx, node.LocalConfig{Config: node.Config{Protocol: p,
				Workload: odd{Workload: w, place: beyond{}}, Fibers: 1}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}()
			tasks := c.Start("misplaced", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
				r := proto.Runner{Engine: w.Engine, Rand: w.Rand}
				d := &proto.Decl{ReadOnly: true, Accesses: []proto.Access{{Table: 1, Mode: proto.ModeRead,
					Key: 5}}}
				_, err := r.Run(f, d, reads{})
				peek := w.Engine.Peek(f, 1, 5, make([]byte, w.Specs[0].ValueBytes))
				return errors.Join(err, peek)
			})
			err = tasks.Wait(ctx)
			if !errors.Is(err, proto.ErrPlacement) || strings.Count(err.Error(),
				"key 5 in table 1: placement outside the cluster; Locate says node 7, the nodes are 0 to 0") < 2 {
				t.Errorf("Locate outside: %v", err)
			}
			tasks = c.Start("no key", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
				return w.Engine.Peek(f, 1, 1<<64-1, make([]byte, w.Specs[0].ValueBytes))
			})
			if err := tasks.Wait(ctx); !errors.Is(err, proto.ErrKey) {
				t.Errorf("the key that stands for none: %v", err)
			}
			tasks = c.Start("no client", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
				d := workload.Driver{Runner: proto.Runner{Engine: w.Engine, Rand: w.Rand},
					Client: c.Config.Workload.NewClient(w.Node, nil), Counts: &workload.Counts{},
					Over: func() bool { return false }}
				return d.Run(f)
			})
			if err := tasks.Wait(ctx); !errors.Is(err, workload.ErrNoClient) {
				t.Errorf("NewClient gave nil: %v", err)
			}
		})
	}
}

// reads reads one record.
type reads struct{}

func (reads) Execute(tx proto.Txn) error { return tx.Read(1, 5, make([]byte, 8)) }
