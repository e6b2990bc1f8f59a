package enginetest

import (
	"context"
	"testing"

	"drtmd/proto/node"
	"drtmd/verbs"
)

// Host is where clusters run.
type Host struct {
	Name string
	// Provider of the devices, for members on threads; nil with Simulated false is shared memory.
	Provider verbs.Provider
	// Simulated hosts run in virtual time; WithoutLineWords there as on RDMA hardware.
	Simulated        bool
	WithoutLineWords bool
	// Replicas of each record, as far as the cluster of a case has nodes; 0 is 1.
	Replicas int
	// Slow hosts take milliseconds for a transaction: cases repeat less.
	Slow bool
	// Unawaited: the protocol tells of a commit while records that it has written may stay locked for a moment. A
	// case waits for that before it looks at memory.
	Unawaited bool
	// faults of simulated hosts: node.SimulatedConfig.
	faults string
	// Missing says why this machine does not have the host; nil: it has.
	Missing func(t *testing.T)
}

// Hosts that every machine has.
func Hosts() []Host {
	return []Host{
		{Name: "shm"},
		{Name: "sim", Simulated: true},
		{Name: "sim without line words", Simulated: true, WithoutLineWords: true},
	}
}

// ReplicatedHosts are Hosts with backups, for protocols that keep them.
func ReplicatedHosts() (all []Host) {
	for _, h := range Hosts() {
		h.Name += ", three replicas"
		h.Replicas = 3
		all = append(all, h)
	}
	return all
}

// open builds a cluster.
func (h Host) open(ctx context.Context, c node.Config) (*node.Cluster, error) {
	if h.Simulated {
		return node.NewSimulated(ctx, node.SimulatedConfig{Config: c,
			WithoutLineWords: h.WithoutLineWords, Faults: h.faults})
	}
	threads := 1
	// NICs that are played take so many messages for a transaction that threads which wait for each other take long on a
	// busy machine; package xenic tests them on several.
	if played := c.Protocol.Chips != nil && c.Protocol.Chips.Cores; !c.Protocol.OneThread && !played {
		threads = min(2, c.Nodes*c.Workers)
	}
	return node.NewLocal(ctx, node.LocalConfig{Config: c, Provider: h.Provider, Threads: threads})
}
