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

const simLong = `sim runs a scenario on a simulated cluster in virtual time: programs of fibers
over the same verbs that run on real NICs, under faults, with checks. The same seed and options give
the same run, bit for bit, on every machine; the hash of its trace is printed. Times are modelled,
by the cost model that --preset or --cost names.

  --seed S        run one seed and say what it took. events are those of the fabric; resumes are
                  those of fibers; their sum per second of wall time is the speed.
  --seeds A..B    run many, --jobs at a time, and stop at the first that fails. The lowest seed
                  that failed is shown, whatever the number of jobs.
  --every-step    run one seed, and then once more for each occurrence of each step that the
                  programs mark and each node, with a crash of the node at that step. Other faults
                  happen only if --faults is given.

Each seed draws the dimensions of its run, where a scenario has some: the size of values, how often
transactions only read, whether the device has line words. --set words=no,lines=3 and --workers take
the place of the draw; --list names dimensions and values.

A failure is shown with the check that failed, the last events before it, the dimensions, the
faults, and the command that makes the same run again. --shrink looks for the plainest dimensions
and the fewest faults with which the same check fails.

Faults: random draws them from the seed, with weights that each scenario has; none has none; others
are a schedule, its faults separated by semicolons, or @FILE with a fault a line:

  --faults 'at 1.5ms crash node=n2 dram=kept; at 2ms restart node=n2'
  --faults 'at step "exchange: after lock" #2 crash dram=kept; at 1ms restart node=n1'

Nodes are n0, n1 and so on. Faults and their arguments are described in docs/SIM.md; known:
`

const simLongEnd = `

--mutation switches on a deliberate bug of a scenario, to see that its checks find it.
--scenario saturation runs no program: it prints what the cost model gives.

A fault of --faults that never struck, because its step is not taken that often, is named, and the
exit code is 4: the run says nothing about it. One that struck and changed nothing, such as a drop
of datagrams where none are sent, is named too.

Exit codes: 0 done, 1 failed to run, 2 wrong command line, 3 a check failed, 4 the checks held but a
fault never struck, 130 interrupted.`

const simExample = `  drtmd sim --list
  drtmd sim --scenario storm --seed 7
  drtmd sim --scenario rpc-echo --seeds 1..10000 --shrink
  drtmd sim --scenario storm --seeds 1..100 --mutation blind-retry --shrink   must fail
  drtmd sim --scenario exchange --every-step
  drtmd sim --scenario smallbank --seeds 1..1000                              DrTM under faults
  drtmd sim --scenario micro --seeds 1..1000 --mutation no-confirm            must fail
  drtmd sim --scenario smallbank-steps --every-step
  drtmd sim --scenario crowd --nodes 90 --workers 16                          23,040 fibers
  drtmd sim --scenario saturation --preset cx3-56g`

// simFlags are the flags as given.
type simFlags struct {
	scenario, seeds, preset, cost, faults, mutation string
	set                                             string
	seed, events                                    uint64
	nodes, workers, fibers, jobs                    int
	shrink, everyStep, json, list, trace            bool
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
	f.StringVar(&p.scenario, "scenario", "", "`NAME` of a scenario; --list names them")
	f.Uint64Var(&p.seed, "seed", 1, "run seed `S`")
	f.StringVar(&p.seeds, "seeds", "", "search seeds `A..B`, both included")
	f.IntVar(&p.nodes, "nodes", 0, "`N` machines; default: the scenario's own number")
	f.IntVar(&p.workers, "workers", 0, "`N` workers on each machine, where a scenario can have several")
	f.IntVar(&p.fibers, "fibers", 0, "`N` fibers on each worker, where a scenario has several")
	f.StringVar(&p.set, "set", "", "do not draw the dimensions `NAME=VALUE,...`; --list names them")
	f.StringVar(&p.preset, "preset", "", "cost model `NAME`: "+strings.Join(sim.Presets(), ", ")+
		"; default "+sim.DefaultPreset)
	f.StringVar(&p.cost, "cost", "", "cost model from a YAML `FILE`, see docs/SIM.md")
	f.StringVar(&p.faults, "faults", "random", "`FAULTS`: random, none, a schedule, or @FILE")
	f.StringVar(&p.mutation, "mutation", "", "switch on the deliberate bug `NAME`")
	f.BoolVar(&p.shrink, "shrink", false, "after a failure look for the plainest run that fails")
	f.BoolVar(&p.everyStep, "every-step", false, "crash each node at each marked step in turn")
	f.IntVar(&p.jobs, "jobs", runtime.NumCPU(), "`N` runs at a time")
	f.Uint64Var(&p.events, "events", 0, "a run of more than `N` events has failed; default: the "+
		"scenario's own bound")
	f.BoolVar(&p.json, "json", false, "print JSON (schema "+SimSchema+")")
	f.BoolVar(&p.list, "list", false, "list scenarios and their mutations; with --json as JSON")
	f.BoolVar(&p.trace, "trace", false, "print every event of the run")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if p.list {
			return a.listScenarios(p.json)
		}
		r, err := p.check(c, a)
		if err != nil {
			return err
		}
		return r.run(c.Context())
	}
	return c
}

// saturationName stands for the tables of what a cost model gives.
const saturationName = "saturation"

const saturationDoc = "no program: READ throughput against payload, and batching in a datagram"

// scenarios are those of the verbs layers and those of the protocols.
func (a *app) scenarios() []*scenario.Scenario {
	return append(scenario.All(), protoscenario.All(a.has.Own()...)...)
}
