package node_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/workload"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
	"drtmd/verbs/sim"
)

// wires counts what the simulated network has carried, by the words of its trace.
type wires struct {
	requests map[string]uint64 // by opcode
	bytes    uint64
}

func (c *wires) event(e sim.Event) {
	var op, kind string
	var number, length uint64
	switch n, _ := fmt.Sscanf(e.What, "%s %s #%d, %d B", &op, &kind, &number, &length); {
	case n != 4 && e.Kind == "wire":
		if n, _ = fmt.Sscanf(e.What, "%s answer #%d, done, %d B", &op, &number, &length); n == 3 {
			c.bytes += length
		}
	case kind == "request" && e.Kind == "exec", kind == "datagram" && e.Kind == "wire":
		c.requests[op]++
		c.bytes += length
	}
}

// TestVerbCountersAreTheNetworksOwn compares what workers count of their verbs, which status, metrics and
// reports show, with what the simulated network counts: requests by opcode, their payload, doorbells, and
// completions.
func TestVerbCountersAreTheNetworksOwn(t *testing.T) {
	for _, name := range []string{"drtm", "twopl"} {
		for _, lineWords := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", line words ", lineWords), func(t *testing.T) {
				raceskip.Simulated(t)
				protocol, err := node.FindProtocol(name)
				if err != nil {
					t.Fatal(err)
				}
				seen := wires{requests: map[string]uint64{}}
				cfg := node.Config{Protocol: protocol, Workload: bank(t, 3), Nodes: 3, Workers: 1, Fibers: 4, Seed: 3}
				c, err := node.NewSimulated(t.Context(), node.SimulatedConfig{Config: cfg,
					WithoutLineWords: !lineWords, OnEvent: seen.event})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if err := c.Start("load", cfg.Fibers, func(f *fiber.Fiber, w *node.Worker, i int) error {
					client := cfg.Workload.NewClient(w.Node, rand.New(rand.NewPCG(uint64(w.Node), uint64(i))))
					d := workload.Driver{Client: client, Counts: &workload.Counts{},
						Over:   func() bool { return f.Now() > 2*time.Millisecond },
						Runner: proto.Runner{Engine: w.Engine, Rand: w.Rand}}
					return d.Run(f)
				}).Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := c.Sleep(t.Context(), 10*time.Millisecond); err != nil { // all is done, and acknowledged
					t.Fatal(err)
				}
				var all fiber.Stats
				var calls rpc.Stats
				for _, w := range c.Workers() {
					x := &w.Worker.Stats
					for op, n := range x.Ops {
						all.Ops[op] += n
					}
					all.Posted += x.Posted
					all.Bytes += x.Bytes
					all.Doorbells += x.Doorbells
					all.Completed += x.Completed
					all.Statuses[verbs.WCSuccess] += x.Statuses[verbs.WCSuccess]
					calls.Doorbells += w.Port.Stats.Doorbells
					calls.DatagramsSent += w.Port.Stats.DatagramsSent
				}
				total := uint64(0)
				for op, n := range all.Ops {
					name := verbs.Opcode(op).String()
					if total += n; n != seen.requests[name] {
						t.Errorf("%d %s were counted, the network has carried %d", n, name, seen.requests[name])
					}
				}
				if total < 1000 || total != all.Posted || all.Bytes != seen.bytes {
					t.Errorf("%d requests by opcode, %d in all, of %d B; the network has carried %d B", total,
						all.Posted, all.Bytes, seen.bytes)
				}
				world := c.WorldStats()
				if all.Doorbells != world.Doorbells || all.Doorbells == total || calls.Doorbells == 0 ||
					calls.Doorbells >= all.Doorbells {
					t.Errorf("%d doorbells were counted, %d of them for datagrams; the NICs have heard %d",
						all.Doorbells, calls.Doorbells, world.Doorbells)
				}
				if all.Completed != world.Completions || all.Statuses[verbs.WCSuccess] != world.Completions {
					t.Errorf("%d completions were counted, %d of success; the NICs have written %d", all.Completed,
						all.Statuses[verbs.WCSuccess], world.Completions)
				}
				if n := seen.requests[verbs.OpSend.String()]; calls.DatagramsSent != n {
					t.Errorf("%d datagrams were counted, the network has carried %d", calls.DatagramsSent, n)
				}
				t.Log(seen)
			})
		}
	}
}
