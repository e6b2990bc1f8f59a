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
// reports show, with what the simulated network counts: requests by opcode, and their payload.
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
				for _, w := range c.Workers() {
					x := &w.Worker.Stats
					for op, n := range x.Ops {
						all.Ops[op] += n
					}
					all.Posted, all.Bytes = all.Posted+x.Posted, all.Bytes+x.Bytes
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
				t.Log(seen)
			})
		}
	}
}
