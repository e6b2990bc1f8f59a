package reproduce

import (
	"fmt"
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/proto/workload"
	"drtmd/proto/workload/opmix"
	"drtmd/proto/workload/smallbank"
	"drtmd/proto/workload/tatp"
	"drtmd/verbs"
	"drtmd/verbs/rpc"
	"drtmd/verbs/sim"
)

// The model of Dandelion's cluster (Table 2): preset cx5-100g, and what the preset leaves out. All constants are here,
// and none follows from a figure's result.
const (
	dandelionNodes   = 5
	dandelionThreads = 64
	dandelionCores   = 36 // of a machine, with two threads each
	// memoryLatency of a line in the own socket's memory, idle. Assumed: DDR4-2933 of a two-socket Cascade Lake.
	memoryLatency = 90 * sim.Nanosecond
	// memoryOverlap is how many lines a core loads together. Cited: 10 line fill buffers of its L1 (Intel's
	// optimization manual, Skylake). Two threads that share them have half each.
	memoryOverlap = 10
	// twoThreads is how many thousandths longer each of two threads of a core takes than one alone. Assumed: together
	// they do 1.25 times as much.
	twoThreads = 1600
	// dandelionWindow is the datagrams of a thread that may be under way to one other: the buffer of each flow of
	// transactions (§5.1). The paper says that there is one open, and not how many are under way.
	dandelionWindow = 2
	// dandelionFibers is the transactions of a thread. Figure 22 has the rate level off at 75.
	dandelionFibers = 80
	// fasstFibers is FaSST's coroutines of a thread, as its paper has it; fasstThreads is where §8.2 sees its best.
	fasstFibers  = 20
	fasstThreads = 32
)

// Options of Dandelion's protocols.
const (
	optGather      = "hashtable-batching"
	optBackupReads = "backup-reads"
)

// dandelionSystem is a protocol with its ways.
type dandelionSystem struct {
	name     string
	protocol string
	fasst    bool
	alone    bool // each message in a datagram of its own
	// mixed: datagrams have requests and answers. In the paper's none has: the layer that batches messages lies on eRPC, and
	// each batch of requests results in a batch of responses (§5.3); a packet of eRPC is of one request or of its answer.
	// Here answers to several batches may share a packet, which that sentence leaves out.
	mixed    bool
	settings option.Settings
}

// Systems of the figures; steps are Dnl-4 with one optimisation more each.
var (
	dnl4System  = dandelionSystem{name: "Dnl-4", protocol: dnl4Name, settings: gathers()}
	dnl2System  = dandelionSystem{name: "Dnl-2", protocol: dnl2Name, settings: gathers()}
	dnl1System  = dandelionSystem{name: "Dnl-1", protocol: dnl1Name, settings: gathers()}
	mixedSystem = dandelionSystem{name: "Dnl-4, mixed", protocol: dnl4Name, mixed: true, settings: gathers()}
	fasstSystem = dandelionSystem{name: "FaSST", protocol: fasstName, fasst: true, alone: true}

	noOpts = dandelionSystem{name: "no-opts", protocol: dnl4Name, alone: true,
		settings: option.Settings{optGather: "false", optBackupReads: "false"}}
	nwBatch = dandelionSystem{name: "nw-batch", protocol: dnl4Name,
		settings: option.Settings{optGather: "false", optBackupReads: "false"}}
	htBatch = dandelionSystem{name: "ht-batch", protocol: dnl4Name,
		settings: option.Settings{optGather: "true", optBackupReads: "false"}}
	localReads = dandelionSystem{name: "local-reads", protocol: dnl4Name, settings: gathers()}
	noHTBatch  = dandelionSystem{name: "-ht-batch", protocol: dnl4Name,
		settings: option.Settings{optGather: "false"}}
)

func gathers() option.Settings { return option.Settings{optGather: "true"} }

// benchmark is one of the paper's six (§7), with so many keys of a node.
type benchmark struct {
	name string
	make func(nodes, keys int) (workload.Workload, error)
}

func microBenchmark(gets, puts int) benchmark {
	return benchmark{fmt.Sprintf("O(%d,%d)", gets, puts), func(nodes, keys int) (workload.Workload, error) {
		o := opmix.Default(nodes)
		o.Keys, o.Gets, o.Puts = keys, gets, puts
		return opmix.New(o)
	}}
}

var (
	bankBench = benchmark{"SmallBank", func(nodes, keys int) (workload.Workload, error) {
		o := smallbank.Default(nodes)
		o.Accounts, o.HotAccounts, o.ValueBytes, o.OneKeyBalance = max(keys/2, 1), 1, 8, true
		o.PlaceAnywhere()
		return smallbank.New(o)
	}}
	tatpBench = benchmark{"TATP", func(nodes, keys int) (workload.Workload, error) {
		o := tatp.Default(nodes)
		o.Subscribers, o.ValueBytes, o.NoNumbers, o.FailedCommit = max(keys/10, 4), 48, true, true
		return tatp.New(o)
	}}
)

// keys of a node: so many that few attempts abort, and few enough to be loaded in seconds.
func (b *benchmark) keys(r *Run) int {
	if b.name == tatpBench.name {
		return pick(r, 200_000, 4_000)
	}
	return pick(r, 60_000, 2_000)
}

// deployment is a point of a figure. Zero values are the paper's default.
type deployment struct {
	system  dandelionSystem
	bench   benchmark
	nodes   int
	threads int // of a machine
	fibers  int // transactions of a thread
	keys    int // of a node
	window  int
	memory  sim.Time
	seed    uint64
}

// observed is what a deployment did.
type observed struct {
	mtps              float64 // of all machines, committed; M/s
	aborted           float64 // M/s
	p50, p99          float64 // us
	messages          float64 // of a transaction
	nwBatch, htBatch  float64
	packets           float64 // of a machine; M/s
	goodput, bandwith float64 // of a machine; Gbps
	payload           float64 // bytes of a packet
}

// dandelionSlice is how many threads of a machine are simulated: with them the NIC has the same share of its rates.
func dandelionSlice(r *Run) int { return pick(r, 4, 1) }

// deploy runs a deployment.
func (r *Run) deploy(d deployment) (*observed, error) {
	orElse := func(v *int, value int) {
		if *v == 0 {
			*v = value
		}
	}
	orElse(&d.nodes, dandelionNodes)
	orElse(&d.keys, d.bench.keys(r))
	orElse(&d.window, dandelionWindow)
	threads, fibers := dandelionThreads, dandelionFibers
	if d.system.fasst {
		threads, fibers = fasstThreads, fasstFibers
	}
	orElse(&d.threads, threads)
	orElse(&d.fibers, fibers)
	if d.memory == 0 {
		d.memory = memoryLatency
	}
	w, err := d.bench.make(d.nodes, d.keys)
	if err != nil {
		return nil, err
	}
	workers := min(d.threads, dandelionSlice(r))
	m := model{protocol: d.system.protocol, settings: d.system.settings, workload: w, preset: cx5, nodes: d.nodes,
		workers: workers, fibers: d.fibers, replicas: copies, seed: d.seed + 1, every: 1,
		warmup: pick(r, 500*time.Microsecond, 100*time.Microsecond), measured: pick(r, 500*time.Microsecond, 100*time.Microsecond),
		rpc:  rpc.Config{Window: d.window, NoBatch: d.system.alone, AnswersApart: !d.system.mixed && !d.system.fasst},
		tune: func(c *sim.CostModel) { shareMachine(c, workers, d.threads, d.memory) }}
	if d.system.fasst {
		m.rpc.Window = 0
	}
	got, err := m.run(r.ctx)
	if err != nil {
		return nil, err
	}
	return observe(got, d.nodes, float64(d.threads)/float64(workers)), nil
}

// shareMachine is a part of a machine that runs so many of its threads.
func shareMachine(c *sim.CostModel, workers, threads int, memory sim.Time) {
	c.CPU.Memory, c.CPU.Overlap = memory, memoryOverlap
	if pairs := threads - dandelionCores; pairs > 0 {
		c.CPU.Overlap = memoryOverlap / 2
		c.CPU.Hardware = sim.Ratio((twoThreads*2*pairs + 1000*(threads-2*pairs)) / threads)
	}
	of := func(v int64) int64 { return max(v*int64(workers)/int64(threads), 1) }
	c.Link.Rate, c.PCIe.Rate = sim.Bandwidth(of(int64(c.Link.Rate))), sim.Bandwidth(of(int64(c.PCIe.Rate)))
	c.PCIe.Reads = sim.OpRate(of(int64(c.PCIe.Reads)))
	for _, v := range []*sim.VerbRates{&c.NIC.In, &c.NIC.Out} {
		for _, rate := range []*sim.OpRate{&v.Read, &v.Write, &v.Send, &v.Datagram, &v.Atomic} {
			*rate = sim.OpRate(of(int64(*rate)))
		}
	}
}

// observe turns counts of a part of each machine into rates of all.
func observe(got *load.Result, nodes int, scale float64) *observed {
	s := got.Elapsed.Seconds()
	committed := float64(got.Sum.Outcomes(proto.Committed) + got.Sum.Outcomes(proto.RolledBack))
	o := &observed{mtps: committed / s / aMillion * scale}
	var requests uint64
	for _, p := range proto.Phases() {
		requests += got.Sum.Engine.Phases[p].Requests
	}
	for _, n := range got.Sum.Engine.Aborts {
		o.aborted += float64(n) / s / aMillion * scale
	}
	packets, bytes := float64(got.Sum.Fiber.Ops[verbs.OpSend]), float64(got.Sum.Fiber.Bytes)
	o.messages = 2 * float64(requests) / committed
	o.nwBatch = 2 * float64(requests) / packets
	o.payload = bytes / packets
	o.packets = packets / s / aMillion * scale / float64(nodes)
	o.goodput = 8 * bytes / s / 1e9 * scale / float64(nodes)
	o.bandwith = o.goodput + 8*packets*90/s/1e9*scale/float64(nodes)
	if n := got.Sum.Engine.LookAheads; n > 0 {
		o.htBatch = float64(got.Sum.Engine.LookedAhead) / float64(n)
	}
	o.p50, o.p99 = float64(got.Latency[0].P50Ns)/1e3, float64(got.Latency[0].P99Ns)/1e3
	return o
}
