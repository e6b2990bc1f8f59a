package scenario

import (
	"testing"

	"drtmd/verbs/sim"
)

// Dandelion §5.3: on one thread, batching pays 2.8 times and more: the CPU time per datagram is
// spent once for all messages in it.
func TestBatchingPaysOnOneWorker(t *testing.T) {
	rates, err := RPCs(preset(t, "cx5-100g"))
	must(t, err)
	for _, r := range rates {
		t.Logf("batching %t: %.2f M/s, %.1f messages in a datagram", r.Batching, r.Mops, r.PerDatagram)
	}
	if rates[0].Batching || rates[0].PerDatagram > 1 || rates[1].PerDatagram < 2 {
		t.Errorf("%+v", rates)
	}
	if x := rates[1].Mops / rates[0].Mops; x < 2.8 || x > 10 {
		t.Errorf("batching pays %.2fx, want 2.8x to 10x", x)
	}
}

// Each CPU cost of the RPC layer and of the queues bounds the rate of a worker.
func TestCPUCostsBoundTheRateOfRPCs(t *testing.T) {
	rate := func(change func(c *sim.CPUCost)) float64 {
		cost := preset(t, "cx5-100g")
		change(&cost.CPU)
		r, err := rpcRate(cost, false)
		must(t, err)
		return r.Mops
	}
	base := rate(func(*sim.CPUCost) {})
	for _, c := range []struct {
		name   string
		change func(c *sim.CPUCost)
	}{
		{"rpc-receive", func(c *sim.CPUCost) { c.RPCReceive += sim.Microsecond }},
		{"rpc-send", func(c *sim.CPUCost) { c.RPCSend += sim.Microsecond }},
		{"poll-entry", func(c *sim.CPUCost) { c.PollEntry += sim.Microsecond }},
		{"post", func(c *sim.CPUCost) { c.Post += sim.Microsecond }},
	} {
		// A microsecond more for each call leaves about one call in a microsecond; up to 256 are
		// answered in a pass, which the measured span may cut.
		if r := rate(c.change); r > 1.05 || r < 0.4 {
			t.Errorf("%s: %.2f M/s, before %.2f", c.name, r, base)
		}
	}
	if r := rate(func(c *sim.CPUCost) { c.Doorbell += sim.Microsecond }); r >= base {
		t.Errorf("doorbell: %.2f M/s, before %.2f", r, base)
	}
}
