package node_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
)

// TestWorkersCallAnyWorkerOfAnyNode: also the others of their own node, and themselves; and each is told who
// calls.
func TestWorkersCallAnyWorkerOfAnyNode(t *testing.T) {
	const typeWho rpc.Type = 0x77
	for _, nodes := range []int{1, 2} {
		const workers = 2
		answered := 0
		p := protocol(t, "twopl")
		p.AnyWorker = true
		inner := p.New
		p.New = func(e *node.Env) (proto.Engine, error) {
			e.Port.HandleFrom(typeWho, func(c *rpc.Caller, req, resp []byte) (int, error) {
				if req[0] != byte(c.Node) || req[1] != byte(c.Worker) {
					return 0, fmt.Errorf("%v says that it is %v", c.Identity, req)
				}
				return copy(resp, []byte{byte(e.Node), byte(e.Index)}), nil
			})
			e.Worker.Submit("calls", func(f *fiber.Fiber) error {
				if err := f.Sleep(10 * time.Millisecond); err != nil { // every engine is made
					return err
				}
				for n := range nodes {
					for w := range workers {
						s, err := e.Connect(f, proto.NodeID(n), w, 0)
						if err != nil {
							return err
						}
						resp := make([]byte, 2)
						req := []byte{byte(e.Node), byte(e.Index)}
						if _, err := s.Flow(1).Call(f, typeWho, req, resp, 0); err != nil ||
							resp[0] != byte(n) || resp[1] != byte(w) {
							return fmt.Errorf("worker %d of node %d answers as %v: %w", w, n, resp, err)
						}
						answered++
					}
				}
				if _, err := e.Connect(f, 0, workers, 0); err == nil {
					return fmt.Errorf("there is a worker %d", workers)
				}
				return nil
			}, func(err error) {
				if err != nil {
					t.Error(err)
				}
			})
			return inner(e)
		}
		c, err := node.NewSimulated(context.Background(), node.SimulatedConfig{Config: node.Config{Protocol: p,
			Workload: bank(t, nodes), Nodes: nodes, Workers: workers}})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Sleep(context.Background(), 20*time.Millisecond); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if want := nodes * workers * nodes * workers; answered != want {
			t.Errorf("%d nodes: %d calls were answered, not %d", nodes, answered, want)
		}
	}
}
