package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/cmd/drtmd/internal/report"
	"drtmd/cmd/drtmd/internal/transport"
	"drtmd/proto/option"
	"drtmd/verbs/sim"
)

const benchLong = `bench runs a workload on a cluster and reports what came of it. The cluster's nodes live in this
process, on --threads OS threads, and reach each other over the transport as separate machines
would; with --processes, each process has its share of the nodes; with --transport sim, they run
in the simulator's virtual time; with --cluster, they are the daemons of drtmd serve, whose members
all run clients.

Workloads and protocols: drtmd bench --list.

What the report means:

  committed/s      transactions committed during the measurement, per second of the cluster's clock
  p50 .. p99.9     latency of committed transactions, from their first attempt to their commit,
                   retries included, of one transaction in --sample-every; the clock readings of
                   those that are measured cost throughput
  rolled back/s    transactions that ended by their own rules, such as insufficient funds
  aborts/commit    attempts that the protocol aborted, and that were tried again, per commit
  given up         transactions that the protocol aborted for good
  unknown          transactions of which nobody can tell whether they were committed
  fallback path    attempts that did not commit by a hardware transaction's emulation
  verbs            requests posted, those of RPC included, per commit; payload in any direction
  sums conserved   whether the tables add up with what the committed transactions did

--check records every transaction, warm-up included, and proves the run strictly serializable, or
prints the shortest violation found; exit code 3 then. Recording costs throughput. --history saves
what was recorded for drtmd check.

--workload lookup runs no transactions: it counts the READs of look-ups in DrTM's hash table, and
prints them beside Table VI of the paper, as drtmd reproduce drtm/table-6 does.

Throughput and latency on shm depend on what else the machine does; docs/BENCH.md has what was
measured, with which command, and the JSON. Ctrl-C ends the run and prints the report so far.

A run is not settled if nodes cannot reach each other at its end and owe each other updates or locks
after 15 s: what was measured is reported, the sums are not judged.

Exit codes: 0 done, 1 failed, a node lost, or not settled, 2 wrong command line, 3 not strictly
serializable, not decided, or the sums do not add up, 130 interrupted.`

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
  drtmd bench --list`

// clusterFlag names a cluster of daemons.
const clusterFlag = "cluster"

// joinFlag is given by a supervisor to the processes that it starts.
const joinFlag = "join"

// benchFlags are the flags as given.
type benchFlags struct {
	workload, protocol, mutation            string
	options                                 option.Settings // of the protocol
	nodes, threads, workers, fibers         int
	processes, join                         int
	duration, warmup                        time.Duration
	transport, device, runDir, preset, cost string
	seed, checkMemory                       uint64
	sampleEvery, yieldEvery                 int
	check, list                             bool
	json, history, report                   string
	remote                                  clientFlags
}

func (a *app) benchCommand() *cobra.Command {
	p := &benchFlags{}
	c := &cobra.Command{
		Use:     "bench",
		Short:   "run transactions on a cluster, measure and check them",
		Long:    benchLong,
		Example: benchExample[1:],
		Args:    noArgs,
	}
	a.wrong = p.register(c, a.has)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if p.list {
			return a.benchList()
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
	f.StringVar(&p.workload, "workload", has.DefaultWorkload().Name, "`NAME`, see --list")
	f.StringVar(&p.protocol, "protocol", has.DefaultProtocol().Name, "`NAME`, see --list")
	f.IntVar(&p.nodes, "nodes", 3, "`N` machines of the cluster")
	f.IntVar(&p.threads, "threads", 0, "`N` OS threads of each process; default: 2, or as many "+
		"as there are workers")
	f.IntVar(&p.workers, "workers", 1, "`N` workers per node")
	f.IntVar(&p.fibers, "fibers", 16, "`N` fibers per worker: transactions at the same time")
	f.IntVar(&p.processes, "processes", 1, "`N` processes that the nodes are spread over")
	f.DurationVar(&p.duration, "duration", 0, "`TIME` to measure, on the cluster's clock; "+
		"default 10s, in the simulator 20ms of virtual time")
	f.DurationVar(&p.warmup, "warmup", 0, "`TIME` before it; default 2s, in the simulator 2ms")
	f.StringVar(&p.transport, "transport", transport.Default, "`NAME`: shm, ibv or sim")
	f.StringVar(&p.device, "device", "", "`NAME`; default: the first with an active port")
	f.StringVar(&p.runDir, "run-dir", "", "transport shm: `FOLDER` in which processes meet; "+
		"default: the user's own below /dev/shm")
	f.StringVar(&p.preset, "preset", "", "transport sim: cost model `NAME`: "+
		strings.Join(sim.Presets(), ", ")+"; default "+sim.DefaultPreset)
	f.StringVar(&p.cost, "cost", "", "transport sim: cost model from a YAML `FILE`, see docs/SIM.md")
	f.Uint64Var(&p.seed, "seed", 1, "`S` decides what is drawn")
	f.IntVar(&p.sampleEvery, "sample-every", 0, "measure the latency of one transaction in `N`; "+
		"-1: of none; default 64, in the simulator 1")
	f.IntVar(&p.yieldEvery, "yield-every", 0, "`N` transactions until a fiber lets others run; "+
		"default 16")
	f.BoolVar(&p.check, "check", false, "record the run and prove it strictly serializable")
	f.Uint64Var(&p.checkMemory, "check-memory", 0, checkMemoryUsage)
	f.StringVar(&p.history, "history", "", "save what was recorded to `FILE`")
	f.StringVar(&p.json, "json", "", "write the report as JSON (schema "+report.BenchSchema+
		") to `FILE`; - is the standard output, without the text")
	f.StringVar(&p.report, "report", "", "write "+report.HTMLFile+", a page with plots, and "+
		report.JSONFile+" to folder `DIR`")
	f.StringVar(&p.mutation, "mutation", "", "switch the deliberate bug `NAME` of the protocol on")
	f.BoolVar(&p.list, "list", false, "list workloads, protocols and their deliberate bugs")
	p.remote.register(f, clusterFlag)
	f.Lookup(clusterFlag).Usage = "run inside the daemons of a cluster: `ADDR` of any node's " +
		"control plane, or of several with commas; up or up:NAME: the nodes of drtmd up"
	f.IntVar(&p.join, joinFlag, 0, "be one process of a run; `FD` leads to its supervisor")
	_ = f.MarkHidden(joinFlag) // it exists
	return errors.Join(registerOptions(f, has.OfProtocols), registerOptions(f, workloadOptions(has)))
}

// benchList names what there is.
func (a *app) benchList() error {
	fmt.Fprintln(a.stdout, "workloads")
	for _, w := range benchWorkloads(a.has) {
		fmt.Fprintf(a.stdout, "  %-12s %s\n", w.Name, w.Doc)
	}
	fmt.Fprintln(a.stdout, "\nprotocols")
	for _, p := range a.has.Protocols {
		fmt.Fprintf(a.stdout, "  %-12s %s\n", p.Name, p.Doc)
	}
	for _, p := range a.has.Protocols {
		if len(p.Mutations) == 0 {
			continue
		}
		fmt.Fprintf(a.stdout, "\ndeliberate bugs of %s (--mutation), which --check should find\n",
			p.Name)
		for _, m := range p.Mutations {
			fmt.Fprintf(a.stdout, "  %-24s %s\n", m.Name, m.Doc)
		}
	}
	return nil
}
