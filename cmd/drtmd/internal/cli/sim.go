package cli

import (
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	protoscenario "drtmd/proto/scenario"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// SimSchema is that of the document that drtmd sim --json prints.
const SimSchema = "drtmd.sim/1"

const simLong = `sim runs a scenario on a simulated cluster in virtual time: programs of fibers on
the same verbs that run on real NICs, under faults, with checks. The same seed and options give
the same run, bit for bit, on every machine; sim prints a hash of the run's trace. Times are
modelled, by the cost model that --preset or --cost names.

  --seed S        run one seed and print statistics: events of the fabric, resumes of fibers, and
                  both per second of wall time.
  --seeds A..B    run many seeds, --jobs at a time, and stop at the first failure. sim shows the
                  lowest failing seed, whatever the number of jobs.
  --every-step    run one seed. Then run it again for each node and each occurrence of each marked
                  step, and crash the node there. Other faults happen only with --faults.

A scenario may have dimensions, such as the size of values or the share of read-only transactions.
Each seed draws their values; --set words=no,lines=3 and --workers fix them instead. --list lists
dimensions and values.

For a failure sim prints the check that failed, the last events before it, the dimensions, the
faults, and the command that repeats the run. --shrink searches for the simplest dimensions and
the fewest faults that still fail the same check.

--faults random draws faults from the seed, with the scenario's weights; none injects no fault. A
schedule lists faults, separated by semicolons; @FILE reads them from a file, one per line:

  --faults 'at 1.5ms crash node=n2 dram=kept; at 2ms restart node=n2'
  --faults 'at step "exchange: after lock" #2 crash dram=kept; at 1ms restart node=n1'

Nodes are n0, n1 and so on. docs/SIM.md describes the kinds of fault and their arguments:
`

const simLongEnd = `

--every-order runs a small scenario, one transaction of each node, in every order of its messages: one
run of those that differ only in the order of messages that do not depend on each other. Each such run
is repeated with a crash of each node behind each message that it has received, alone and with a loss of
the messages that it has sent since. --runs bounds the runs; --crashes=false leaves the crashes out.
--drawn draws orders from --seed instead, which finds sooner what takes unusual choices early on.
A run that fails is printed with --order, which repeats it.

--mutation switches on a deliberate bug of a scenario, to test that the checks find it.
--scenario saturation runs no program: it prints throughput that follows from the cost model.

If a fault of a schedule is never triggered, because its step is not reached that often, the run
says nothing about the fault: sim names it and exits with 4. sim also names a fault that was
triggered but changed nothing, such as a drop of datagrams when none are sent.

Exit codes:
  0    done
  1    the scenario could not run
  2    wrong command line
  3    a check failed
  4    the checks held, but a fault was never triggered
  130  interrupted`

const simExample = `  drtmd sim --list
  drtmd sim --scenario storm --seed 7
  drtmd sim --scenario rpc-echo --seeds 1..10000 --shrink
  drtmd sim --scenario storm --seeds 1..100 --mutation blind-retry --shrink   must fail
  drtmd sim --scenario exchange --every-step
  drtmd sim --scenario smallbank --seeds 1..1000                              DrTM under faults
  drtmd sim --scenario micro --seeds 1..1000 --mutation no-confirm            must fail
  drtmd sim --scenario smallbank-steps --every-step
  drtmd sim --scenario small-dnl4 --set script=skew --every-order             every order of messages
  drtmd sim --scenario crowd --nodes 90 --workers 16                          23,040 fibers
  drtmd sim --scenario saturation --preset cx3-56g`

// simFlags are the flags as given.
type simFlags struct {
	scenario, seeds, preset, cost, faults, mutation string
	set, order                                      string
	seed, events                                    uint64
	nodes, workers, fibers, jobs, runs              int
	shrink, everyStep, json, list, trace            bool
	everyOrder, crashes, drawn                      bool
}

func (a *app) simCommand() *cobra.Command {
	p := &simFlags{}
	c := &cobra.Command{
		Use:   "sim --scenario NAME",
		Short: "run a scenario on a simulated cluster, under faults",
		Long: simLong + "  " + strings.Join(sim.FaultKinds()[:9], ", ") + ",\n  " +
			strings.Join(sim.FaultKinds()[9:], ", ") + simLongEnd,
		Example: simExample,
		Args:    noArgs,
	}
	f := c.Flags()
	f.StringVar(&p.scenario, "scenario", "", "run the scenario `NAME`, see --list")
	f.Uint64Var(&p.seed, "seed", 1, "random seed `S`")
	f.StringVar(&p.seeds, "seeds", "", "run the seeds `A..B`, both included, until one fails")
	f.IntVar(&p.nodes, "nodes", 0, "`N` nodes; default: the scenario's own number")
	f.IntVar(&p.workers, "workers", 0, "`N` workers per node, if the scenario allows several")
	f.IntVar(&p.fibers, "fibers", 0, "`N` fibers per worker, if the scenario allows several")
	f.StringVar(&p.set, "set", "", "fix dimensions, `NAME=VALUE,...`, instead of drawing them; see --list")
	f.StringVar(&p.preset, "preset", "", "cost model `NAME`: "+strings.Join(sim.Presets(), ", ")+
		"; default "+sim.DefaultPreset)
	f.StringVar(&p.cost, "cost", "", "read the cost model from the YAML file `FILE`, see docs/SIM.md")
	f.StringVar(&p.faults, "faults", "random", "inject `FAULTS`: random, none, a schedule, or @FILE")
	f.StringVar(&p.mutation, "mutation", "", "switch on the deliberate bug `NAME`, see --list")
	f.BoolVar(&p.shrink, "shrink", false, "after a failure, search for the simplest run that fails")
	f.BoolVar(&p.everyStep, "every-step", false, "crash each node at each marked step, one run each")
	f.BoolVar(&p.drawn, "drawn", false, "with --every-order, draw the orders of --runs N from --seed, instead of making every one")
	f.BoolVar(&p.everyOrder, "every-order", false, "run every order of messages, of a small scenario")
	f.BoolVar(&p.crashes, "crashes", true, "with --every-order, crash each node behind each of its arrivals as well")
	f.IntVar(&p.runs, "runs", 0, "with --every-order, make `N` runs at most; 0: all")
	f.StringVar(&p.order, "order", "", "run the one order `TURNS`, such as 0,2,x1,0: numbers of the possible "+
		"arrivals, x and a node for a crash")
	f.IntVar(&p.jobs, "jobs", runtime.NumCPU(), "run `N` seeds at a time")
	f.Uint64Var(&p.events, "events", 0, "a run of more than `N` events fails; default: the scenario's "+
		"own bound")
	f.BoolVar(&p.json, "json", false, "print JSON (schema "+SimSchema+")")
	f.BoolVar(&p.list, "list", false, "list scenarios and their mutations, or those of --scenario alone; with --json as JSON")
	f.BoolVar(&p.trace, "trace", false, "print every event of the run")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if p.list {
			return a.listScenarios(p.scenario, p.json)
		}
		r, err := p.check(c, a)
		if err != nil {
			return err
		}
		return r.run(c.Context())
	}
	return c
}

// saturationName is the scenario that prints the throughput of a cost model.
const saturationName = "saturation"

const saturationDoc = "no program: READ throughput against payload, and batching in a datagram"

// scenarios are those of the verbs layers and those of the protocols.
func (a *app) scenarios() []*scenario.Scenario {
	return append(scenario.All(), protoscenario.All(a.has.Own()...)...)
}
