package cli

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/transport"
	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/proto/rtx/engine"
	"drtmd/proto/workload"
	"drtmd/verbs"
	"drtmd/verbs/sim"
)

// Defaults that depend on the kind of time.
const (
	realDuration    = 10 * time.Second
	realWarmup      = 2 * time.Second
	realSample      = 64
	virtualDuration = 20 * time.Millisecond
	virtualWarmup   = 2 * time.Millisecond
	defaultThreads  = 2
)

// simTransport is the transport that is no provider of real devices.
const simTransport = "sim"

// benchRun is a checked command line.
type benchRun struct {
	*app
	flags    *benchFlags
	workload workload.Workload
	settings string // of the workload, in words
	verify   string // what the workload checks after the run, in words
	// perMinute is the transaction whose rate per minute is reported; "": none.
	perMinute string
	// loadOptions are those of the workload's options that were given.
	loadOptions option.Settings
	allOptions  option.Settings // with those that were not
	protocol    node.Protocol
	growth      protocol.Growth
	provider    verbs.Provider // nil in the simulator
	cost        *sim.CostModel // nil elsewhere
	threads     int
	client      *control.Client // of a cluster of daemons; nil elsewhere
	scratch     string          // folder for what is recorded, while the run lasts; "" if nothing is
	functions   []workload.Function
	index       *engine.IndexSpec // of a protocol of memory nodes; nil: the nodes have the records
}

// checked turns the flags into a run, or says what is wrong with them.
func (p *benchFlags) checked(c *cobra.Command, a *app) (*benchRun, error) {
	given := c.Flags().Changed
	r := &benchRun{app: a, flags: p}
	for _, n := range []struct {
		name string
		v    int
	}{{"nodes", p.nodes}, {"workers", p.workers}, {"fibers", p.fibers},
		{"replicas", p.replicas}, {"processes", p.processes}} {
		if n.v < 1 {
			return nil, usagef("", "--%s %d is not positive", n.name, n.v)
		}
	}
	if err := r.findProtocol(given); err != nil {
		return nil, err
	}
	if given(clusterFlag) {
		if err := r.checkCluster(c.Context(), given); err != nil {
			return nil, err
		}
	} else if i := slices.IndexFunc(clientFiles, given); i >= 0 {
		return nil, usagef("name a node of one with --"+clusterFlag, "--%s is for a cluster of daemons", clientFiles[i])
	}
	if p.clientNodes < 0 || p.clientNodes > p.nodes {
		return nil, usagef("", "--client-nodes %d is not in 0..%d: the cluster has %d nodes", p.clientNodes, p.nodes, p.nodes)
	}
	spec, err := findWorkload(r.has, p.workload)
	if err != nil {
		return nil, err
	}
	r.functions = spec.Functions
	if err := errors.Join(r.protocol.CheckNodes(p.nodes), r.protocol.CheckReplicas(p.replicas, p.nodes)); err != nil {
		return nil, usagef("", "%v", err)
	}
	bytes, err := option.ParseBytes(p.growth)
	if err != nil {
		return nil, usagef("", "--growth: %v", err)
	}
	r.growth = protocol.Growth{Bytes: int64(bytes), Setting: "--growth"}
	if err := r.protocol.CheckGrowth(r.growth); err != nil {
		return nil, usagef("", "%v", err)
	}
	p.options, err = takenOptions(c.Flags(), r.has.OfProtocols, "protocol", p.protocol, r.protocol.Options)
	if err != nil {
		return nil, err
	}
	if err := r.checkChips(given); err != nil {
		return nil, err
	}
	if err := r.checkWorkload(c.Flags(), spec); err != nil {
		return nil, err
	}
	if r.client == nil {
		if err := r.checkTransport(given); err != nil {
			return nil, err
		}
	} else if r.protocol.OneThread {
		return nil, usagef("leave --cluster out", "protocol %s runs in one process", p.protocol)
	}
	if r.client == nil && p.memory == "" {
		if err := r.checkTableMemory(); err != nil {
			return nil, err
		}
	}
	return r, r.checkTimes(given)
}

// onlySimulated reports whether a protocol runs on chips that only the simulator has. Those with cores are played elsewhere.
func onlySimulated(p *node.Protocol) bool { return p.Chips != nil && !p.Chips.Cores }

// checkChips refuses machines that do not have the chips which the protocol runs on, and chips that cannot be. A worker
// has as many fibers as the protocol says if the command line does not.
func (r *benchRun) checkChips(given func(string) bool) error {
	p, chips := r.flags, r.protocol.Chips
	if n := r.protocol.Fibers; n > 0 && !given("fibers") {
		p.fibers = n
	}
	if chips == nil {
		return nil
	}
	if r.client != nil || p.transport != simTransport && onlySimulated(&r.protocol) {
		return usagef("use --transport sim, with --preset "+r.protocol.Preset, "protocol %s runs on chips that only the "+
			"simulator has", p.protocol)
	}
	values, err := r.protocol.Options.Values(p.options)
	if err == nil {
		err = chips.Check(r.sizes(), values)
	}
	if err != nil {
		return usagef("", "protocol %s: %v", p.protocol, err)
	}
	return nil
}

func (r *benchRun) sizes() protocol.Sizes {
	return protocol.Sizes{Nodes: r.flags.nodes, Workers: r.flags.workers, Fibers: r.flags.fibers}
}

// checkTableMemory refuses tables for which there is no memory, before any is loaded.
func (r *benchRun) checkTableMemory() error {
	p := r.flags
	var need uint64
	if r.index != nil {
		bytes, _ := node.OwnMemoryBytes(&node.Config{Workload: r.workload, Nodes: p.nodes, Workers: p.workers,
			Fibers: p.fibers}, r.index, p.memoryNodes)
		need = uint64(bytes) * uint64(p.memoryNodes)
	} else {
		bytes, err := node.TableBytes(r.workload, &r.protocol, p.options)
		if err != nil {
			return nil // whoever makes the cluster says it
		}
		need = uint64(bytes) * uint64(p.nodes) * uint64(p.replicas)
	}
	need += need / 8 // a word beside each line
	if most := availableMemory(); need > most {
		return usagef("make the workload smaller, or use fewer nodes", "the tables of %d nodes take %s of memory, and %s is "+
			"available", p.nodes, memorySize(need), memorySize(most))
	}
	return nil
}

// checkCluster finds the daemons, and refuses what is theirs to decide.
func (r *benchRun) checkCluster(ctx context.Context, given func(string) bool) error {
	p := r.flags
	for _, f := range ofDaemons {
		if given(f) {
			return usagef("the daemons have theirs", "--cluster has no --%s", f)
		}
	}
	var err error
	if r.client, err = p.remote.dial(ctx); err != nil {
		return err
	}
	r.threads = p.threads
	return r.describeCluster(ctx, r.client)
}

// checkTransport opens nothing, but knows what the transport takes.
func (r *benchRun) checkTransport(given func(string) bool) error {
	p := r.flags
	virtual := p.transport == simTransport
	only := func(want bool, where string, names ...string) error {
		for _, n := range names {
			if given(n) && virtual != want {
				return usagef("it is for "+where, "--transport %s has no --%s", p.transport, n)
			}
		}
		return nil
	}
	err := errors.Join(only(true, "--transport sim", "preset", "cost"),
		only(false, "shm and ibv", "threads", "device", "run-dir", "processes"))
	if err != nil {
		return err
	}
	if virtual {
		s := &simRun{}
		flags, has := simFlags{preset: p.preset, cost: p.cost}, given
		if chips := r.protocol.Chips; chips != nil && chips.Preset != "" && !given("preset") && !given("cost") {
			flags.preset = chips.Preset
			has = func(name string) bool { return name == "preset" || given(name) }
		}
		err := s.loadCost(&flags, has)
		r.cost = s.options.Cost
		return err
	}
	if given("run-dir") && p.transport != "shm" {
		return usagef("it is for --transport shm", "--transport %s has no --run-dir", p.transport)
	}
	r.provider, err = transport.New(p.transport, transport.Options{RunDir: p.runDir})
	if unknown := (*transport.UnknownError)(nil); errors.As(err, &unknown) {
		known := append(transport.Names(), simTransport)
		return usagef("known: "+strings.Join(known, ", "), "unknown transport %q", p.transport)
	}
	if err != nil {
		return err
	}
	return r.checkThreads(given)
}

// checkThreads chooses the number of OS threads.
func (r *benchRun) checkThreads(given func(string) bool) error {
	p := r.flags
	if p.processes > p.nodes {
		return usagef("each process needs a node", "--processes %d is more than --nodes %d",
			p.processes, p.nodes)
	}
	if p.processes > 1 && r.protocol.OneThread {
		return usagef("leave --processes out", "protocol %s runs in one process", p.protocol)
	}
	if c := r.protocol.Chips; p.processes > 1 && c != nil && c.Cores {
		return usagef("leave --processes out", "protocol %s runs in one process: workers play its NICs there", p.protocol)
	}
	workers := p.nodes / p.processes * p.workers // of the process that has the fewest
	next, of := "each thread needs a worker", "workers"
	if c := r.protocol.Chips; c != nil && c.Cores {
		workers, of = p.nodes/p.processes, "nodes"
		next = "all workers of a node run on one thread: one of them plays its NIC"
	}
	if r.threads = p.threads; !given("threads") {
		r.threads = min(defaultThreads, workers, max(runtime.NumCPU(), 1))
		if r.protocol.OneThread {
			r.threads = 1
		}
	}
	switch {
	case r.threads < 1 || r.threads > workers:
		return usagef(next, "--threads %d is not in 1..%d, the number of %s of a process", r.threads, workers, of)
	case r.protocol.OneThread && r.threads > 1:
		return usagef("use --threads 1", "protocol %s runs on one thread", p.protocol)
	}
	return nil
}

// checkTimes fills in the defaults that depend on the kind of time.
func (r *benchRun) checkTimes(given func(string) bool) error {
	p := r.flags
	duration, warmup, sample := realDuration, realWarmup, realSample
	if r.cost != nil {
		duration, warmup, sample = virtualDuration, virtualWarmup, 1
	}
	if !given("duration") {
		p.duration = duration
	}
	if !given("warmup") {
		p.warmup = warmup
	}
	if !given("sample-every") {
		p.sampleEvery = sample
	}
	p.sampleEvery = max(p.sampleEvery, 0)
	switch {
	case p.duration <= 0:
		return usagef("", "--duration %s is not positive", p.duration)
	case p.warmup < 0:
		return usagef("", "--warmup %s is negative", p.warmup)
	case p.yieldEvery < 0:
		return usagef("", "--yield-every %d is negative", p.yieldEvery)
	}
	return nil
}
