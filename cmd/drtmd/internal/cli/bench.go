package cli

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/cmd/drtmd/internal/report"
	"drtmd/cmd/drtmd/internal/transport"
	"drtmd/proto/option"
	"drtmd/proto/rtx/engine"
	"drtmd/proto/workload/ycsb"
	"drtmd/verbs/sim"
)

const benchLong = `bench runs a workload on a cluster, measures it, and prints a report. By
default all nodes run in this process, on --threads OS threads; they reach each other only over
the transport, as separate machines do. Other places to run:

  --processes N     the nodes are spread over N processes
  --transport sim   the nodes run in the simulator, in virtual time
  --cluster ADDR    the nodes are the daemons (drtmd serve) of a cluster; every member runs clients
  --memory ADDR     the nodes are clients of a memory node (drtmd serve --role memory), which has all
                    records; ADDR,ADDR: of several that share them; only for protocols of memory nodes,
                    see --list

Workloads, each with its own options (drtmd bench --list NAME describes them):

WORKLOADS
drtmd bench --list lists workloads and protocols. --list NAME describes one, with its options, and with
the deliberate bugs of a protocol. --json writes either as JSON.

Columns and lines of the report:

  committed/s      transactions committed during the measurement, per second of the cluster's clock
  p50 .. p99.9     latency of committed transactions, from the first attempt to the commit, retries
                   included. One transaction in --sample-every is timed; the two clock readings
                   cost throughput
  rolled back/s    transactions that ended by their own rules, such as insufficient funds
  aborts/commit    attempts that the protocol aborted and tried again, per commit
  given up         transactions that the protocol aborted for good
  unknown          transactions whose outcome is unknown, because a node was lost
  fallback path    attempts that ran without an emulated hardware transaction
  verbs            requests posted per commit, those of RPC included; payload in both directions
  sums conserved   whether the tables agree with what the committed transactions did
  verified         what the workload checked in its tables after the run
  replicas equal   with --replicas: whether all copies of each record are equal at the end, and none
                   is locked; of replicas in several processes --check says whether they are equal

--check records every transaction, warm-up included, and checks that the run is strictly
serializable. If it is not, bench prints the shortest violation and exits with 3. Recording costs
throughput. --history saves the record for drtmd check.

--workload lookup runs no transactions: it counts the READs of look-ups in DrTM's hash table and
prints them beside Table VI of the paper, as drtmd reproduce drtm/table-6 does.

Throughput and latency on shm depend on the load of the machine. docs/BENCH.md has measured figures
with their commands, and describes the JSON. Ctrl-C ends the run and prints the report so far.

A run is unsettled if, 15 s after its end, nodes still cannot reach each other and owe each other
updates or unlocks. bench then reports the measurement, but does not judge the sums.

Exit codes:
  0    done
  1    failed, a node was lost, or the run is unsettled
  2    wrong command line
  3    not strictly serializable, not decided, or the tables or replicas do not agree
  130  interrupted`

const benchExample = `
  drtmd bench                                          SmallBank on three nodes, DrTM
  drtmd bench --protocol nocc --threads 1 --nodes 1 --distributed 0
  drtmd bench --duration 2s --check
  drtmd bench --report out                             a page with plots: out/report.html
  drtmd bench --workload micro --protocol twopl --check --history run.hist
  drtmd bench --transport ibv --check                  on RDMA hardware or Soft-RoCE
  drtmd bench --transport sim --preset cx3-56g --nodes 6
  drtmd bench --cluster up --check                     inside the daemons of drtmd up
  drtmd bench --cluster 10.0.0.1:7440 --ca ca.pem --cert me.pem --key me.key
  drtmd bench --memory 10.0.0.1:7480 --protocol rtx --workload ycsb --check
  drtmd bench --list                                   what there is to run
  drtmd bench --list tatp                              a workload and its options
  drtmd bench --list farm                              a protocol, its options and deliberate bugs`

// clusterFlag names a cluster of daemons.
const clusterFlag = "cluster"

// mixFlag is another name for YCSB's option letter.
const mixFlag = "mix"

// joinFlag is given by a supervisor to the processes that it starts.
const joinFlag = "join"

// Help of flags that several commands have.
const (
	deviceUsage = "RDMA device `NAME`; default: the first device with an active port"
	runDirUsage = "transport shm: `FOLDER` through which processes find each other; default: the " +
		"user's own, below /dev/shm"
)

// benchFlags are the flags as given.
type benchFlags struct {
	workload, protocol, mutation            string
	options                                 option.Settings // of the protocol
	nodes, threads, workers, fibers         int
	clientNodes                             int
	replicas                                int
	growth                                  string
	processes, join                         int
	duration, warmup                        time.Duration
	transport, device, runDir, preset, cost string
	seed, checkMemory                       uint64
	sampleEvery, yieldEvery                 int
	check, list                             bool
	json, history, report                   string
	remote                                  clientFlags
	memory, index                           string
	client, memoryNodes, leafCopies         int
}

func (a *app) benchCommand() *cobra.Command {
	p := &benchFlags{}
	c := &cobra.Command{
		Use:     "bench [flags] | --list [NAME...]",
		Short:   "run transactions on a cluster, measure and check them",
		Long:    strings.Replace(benchLong, "WORKLOADS", workloadLines(a.has), 1),
		Example: benchExample[1:],
		Args: func(c *cobra.Command, args []string) error {
			if p.list {
				return nil // names of what is to be described
			}
			return noArgs(c, args)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, w := range benchWorkloads(a.has) {
				names = append(names, w.Name)
			}
			for _, x := range a.benchProtocols() {
				names = append(names, x.Name)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	c.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == mixFlag {
			name = ycsb.OptLetter
		}
		return pflag.NormalizedName(name)
	})
	a.wrong = p.register(c, a.has)
	a.helpWithNames(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if p.list {
			return a.benchList(args, p.json)
		}
		if p.workload == lookupName {
			return a.lookup(c, p)
		}
		r, err := p.checked(c, a)
		if err != nil {
			return err
		}
		return r.run(c.Context())
	}
	return c
}

// register makes the flags. The error is of an option that has the name of another flag.
func (p *benchFlags) register(c *cobra.Command, has *composition.Composition) error {
	f := c.Flags()
	f.StringVar(&p.workload, "workload", has.DefaultWorkload().Name, "workload `NAME`, see --list")
	f.StringVar(&p.protocol, "protocol", has.DefaultProtocol().Name, "protocol `NAME`, see --list")
	f.IntVar(&p.nodes, "nodes", 3, "`N` nodes in the cluster")
	f.IntVar(&p.clientNodes, "client-nodes", 0, "only the first `N` nodes have clients, as machines for clients do; the "+
		"others hold records and serve; 0: all have")
	f.IntVar(&p.replicas, "replicas", 1, "`R` copies of each record on different nodes, for protocols that "+
		"replicate (see --list)")
	f.StringVar(&p.growth, "growth", "0B", "the tables of a node may grow by `SIZE` together beyond their first "+
		"room, for protocols with such tables (see --list)")
	f.IntVar(&p.threads, "threads", 0, "`N` OS threads per process; default: 2, but at most one per "+
		"worker and CPU")
	f.IntVar(&p.workers, "workers", 1, "`N` workers per node")
	f.IntVar(&p.fibers, "fibers", 16, "`N` fibers per worker; each runs one transaction at a time; some protocols have "+
		"another default, see --list")
	f.IntVar(&p.processes, "processes", 1, "spread the nodes over `N` processes")
	f.DurationVar(&p.duration, "duration", 0, "measure for `TIME` of the cluster's clock; "+
		"default 10s, in the simulator 20ms of virtual time")
	f.DurationVar(&p.warmup, "warmup", 0, "run for `TIME` before the measurement; default 2s, in the "+
		"simulator 2ms")
	f.StringVar(&p.transport, "transport", transport.Default, "transport `NAME`: shm, ibv or sim")
	f.StringVar(&p.device, "device", "", deviceUsage)
	f.StringVar(&p.runDir, "run-dir", "", runDirUsage)
	f.StringVar(&p.preset, "preset", "", "transport sim: cost model `NAME`: "+
		strings.Join(sim.Presets(), ", ")+"; default "+sim.DefaultPreset)
	f.StringVar(&p.cost, "cost", "", "transport sim: read the cost model from the YAML file `FILE`, "+
		"see docs/SIM.md")
	f.Uint64Var(&p.seed, "seed", 1, "random seed `S`")
	f.IntVar(&p.sampleEvery, "sample-every", 0, "time one transaction in `N`; -1: none; "+
		"default 64, in the simulator 1")
	f.IntVar(&p.yieldEvery, "yield-every", 0, "a fiber lets others run after `N` transactions; "+
		"default 16")
	f.BoolVar(&p.check, "check", false, "record the run and check that it is strictly serializable")
	f.Uint64Var(&p.checkMemory, "check-memory", 0, checkMemoryUsage)
	f.StringVar(&p.history, "history", "", "record the run and save the record to `FILE`")
	f.StringVar(&p.json, jsonFlag, "", "write the report as JSON (schema "+report.BenchSchema+
		") to `FILE`; - or no FILE: to standard output, instead of the text")
	f.StringVar(&p.report, "report", "", "write "+report.HTMLFile+", a page with plots, and "+
		report.JSONFile+" to the folder `DIR`")
	f.StringVar(&p.mutation, "mutation", "", "switch on the deliberate bug `NAME` of the protocol, see --list PROTOCOL")
	f.BoolVar(&p.list, "list", false, "list workloads and protocols, or describe those that are named; with "+
		"--json as JSON (schema "+ListSchema+")")
	p.remote.register(f, clusterFlag)
	f.Lookup(clusterFlag).Usage = "run inside the daemons of a cluster: control address `ADDR` of " +
		"any node, or several with commas; up or up:NAME: the nodes of drtmd up"
	f.StringVar(&p.memory, memoryFlag, "", "protocols of memory nodes: address `ADDR` of the memory node (drtmd serve --role "+
		"memory), or ADDR,ADDR of several, in the order of their numbers; default: in this process, for this run")
	f.IntVar(&p.memoryNodes, memoryNodesFlag, 1, "protocols of memory nodes: `N` memory nodes in this process or in the "+
		"simulator, which share the records")
	f.StringVar(&p.index, indexFlag, "", "protocols of memory nodes: store each table in the index `NAME`, see --list PROTOCOL")
	f.IntVar(&p.leafCopies, leafCopiesFlag, engine.DefaultCopies, "protocol rtx, index sherman: each worker keeps copies of up to "+
		"`N` nodes of 1 KB, and reads 16 bytes to see whether one is still right; 0: it reads the nodes")
	f.IntVar(&p.client, clientFlag, 0, "protocols of memory nodes: number `N` of the first client, N+1 of the second, and so "+
		"on; 0: free numbers")
	f.IntVar(&p.join, joinFlag, 0, "run as one process of several; `FD` is the socket to their supervisor")
	_ = f.MarkHidden(joinFlag) // cannot fail: the flag exists
	return errors.Join(registerOptions(f, has.OfProtocols), registerOptions(f, workloadOptions(has)))
}
