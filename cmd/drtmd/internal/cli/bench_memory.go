package cli

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"drtmd/proto/node"
	"drtmd/proto/node/memory"
	"drtmd/proto/option"
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/engine"
	"drtmd/proto/workload"
	"drtmd/proto/workload/keyvalue"
)

// Flags of runs on a memory node.
const (
	memoryFlag      = "memory"
	memoryNodesFlag = "memory-nodes"
	indexFlag       = "index"
	leafCopiesFlag  = "leaf-copies"
	clientFlag      = "client"
)

// mostLeafCopies is 16 GiB of them.
const mostLeafCopies = 1 << 24

// findProtocol finds the protocol, and refuses the flags that it has no use for.
func (r *benchRun) findProtocol(given func(string) bool) (err error) {
	p := r.flags
	if m, ok := node.FindMemoryProtocol(p.protocol); ok {
		r.protocol = m
		return r.checkMemory(given)
	}
	if r.protocol, err = r.has.Protocol(p.protocol); err != nil {
		unknown := (*node.UnknownError)(nil)
		if errors.As(err, &unknown) {
			for _, m := range node.MemoryProtocols() {
				unknown.Known += ", " + m.Name
			}
		}
		return usagef("", "%v", err)
	}
	for _, f := range []string{memoryFlag, memoryNodesFlag, indexFlag, leafCopiesFlag, clientFlag} {
		if given(f) {
			return usagef("it is for protocols of memory nodes, see --list", "protocol %s has no --%s", p.protocol, f)
		}
	}
	return nil
}

// checkMemory refuses what runs on a memory node do not have.
func (r *benchRun) checkMemory(given func(string) bool) error {
	p := r.flags
	if given(clusterFlag) {
		return usagef("start a memory node with drtmd serve --role memory, and use --memory",
			"protocol %s does not run inside the daemons of a cluster", p.protocol)
	}
	index, ok := engine.FindIndex(p.index)
	r.index = &index
	system, _ := engine.FindSystem(p.protocol)
	memories := max(p.memoryNodes, len(memoryAddresses(p.memory)))
	switch {
	case !ok:
		return usagef("known: "+engine.IndexNames(), "unknown index %q", p.index)
	case given(leafCopiesFlag) && (!index.Copies || !system.Copies):
		return usagef("leave it out", "protocol %s with index %s has no --%s: clients keep no copies", p.protocol, index.Name, leafCopiesFlag)
	case p.leafCopies < 0 || p.leafCopies > mostLeafCopies:
		return usagef("", "--%s %d is not in 0..%d", leafCopiesFlag, p.leafCopies, mostLeafCopies)
	case p.memory != "" && given(memoryNodesFlag):
		return usagef("leave it out", "--%s names the memory nodes, so --%s has no meaning", memoryFlag, memoryNodesFlag)
	case p.memoryNodes < 1 || p.memoryNodes > rtx.MaxNodes:
		return usagef("", "--%s %d is not in 1..%d", memoryNodesFlag, p.memoryNodes, rtx.MaxNodes)
	case memories > 1 && !system.Spread:
		return usagef("", "protocol %s runs on one memory node, not on %d", p.protocol, memories)
	case p.memory != "" && p.transport == simTransport:
		return usagef("the memory node is simulated, too", "--transport sim has no --%s", memoryFlag)
	case p.memory == "" && p.processes > 1:
		return usagef("name the memory node that all of them reach, with --"+memoryFlag,
			"--processes %d: the processes cannot share a memory node inside one of them", p.processes)
	}
	return nil
}

// fitIndex gives the workload values that the index takes, unless they were chosen.
func (r *benchRun) fitIndex(spec *workload.Spec) {
	for _, o := range spec.Options {
		if _, given := r.loadOptions[o.Name]; o.Name == keyvalue.OptValueBytes && !given {
			if r.loadOptions == nil {
				r.loadOptions = option.Settings{}
			}
			r.loadOptions[o.Name] = strconv.Itoa(r.index.DefaultValue)
		}
	}
}

// memoryAddresses takes a list ADDR,ADDR apart.
func memoryAddresses(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// openClients builds clients of a memory node, or this process's part of them.
func (r *benchRun) openClients(ctx context.Context, cfg node.Config, part *node.Part) (*node.Cluster, error) {
	p := r.flags
	c := node.ClientsConfig{Config: cfg, Index: r.index.Name, Memory: memoryAddresses(p.memory), MemoryNodes: p.memoryNodes,
		Client: p.client, Provider: r.provider, Options: engine.Options{Copies: p.leafCopies},
		Device: p.device, Threads: r.threads, Part: part}
	if p.leafCopies == 0 {
		c.Options.Copies = -1 // none
	}
	if r.cost != nil {
		return node.NewSimulatedClients(ctx, c, r.cost)
	}
	cluster, err := node.NewClients(ctx, c)
	refused := (*memory.RefusedError)(nil)
	switch {
	case errors.As(err, &refused):
		return nil, usagef("", "%s: %v", p.memory, err)
	case errors.Is(err, rtx.ErrLayout), errors.Is(err, rtx.ErrShape), errors.Is(err, engine.ErrVersions):
		return nil, usagef("", "memory node: %v", err)
	}
	return cluster, err
}
