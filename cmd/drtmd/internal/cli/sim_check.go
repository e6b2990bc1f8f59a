package cli

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// maxJobs bounds the runs at a time: each has a cluster in memory.
const maxJobs = 1024

// simRun is a checked command line.
type simRun struct {
	*app
	flags       *simFlags
	scenario    *scenario.Scenario // nil: saturation
	options     scenario.Options
	costArgs    string // the flags that name the cost model, for the command that replays
	first, last uint64 // of a search
	search      bool
}

// check turns the flags into a run, or says what is wrong with them.
func (p *simFlags) check(c *cobra.Command, a *app) (*simRun, error) {
	given := c.Flags().Changed
	r := &simRun{app: a, flags: p}
	if p.scenario == "" {
		return nil, usagef("drtmd sim --list names them", "--scenario is missing")
	}
	if err := p.checkModes(given); err != nil {
		return nil, err
	}
	if err := r.loadCost(p, given); err != nil {
		return nil, err
	}
	if p.scenario == saturationName {
		for _, name := range []string{"seed", "seeds", "nodes", "workers", "fibers", "faults",
			"set", "mutation", "shrink", "every-step", "every-order", "order", "trace", "events"} {
			if given(name) {
				return nil, usagef("it takes --preset or --cost, and --json",
					"--scenario %s has no --%s", saturationName, name)
			}
		}
		return r, nil
	}
	var err error
	if r.scenario, err = scenario.Find(a.scenarios(), p.scenario); err != nil {
		return nil, a.unknownScenario(p.scenario)
	}
	if preset := r.scenario.Preset; preset != "" && !given("preset") && !given("cost") {
		if r.options.Cost, err = sim.Preset(preset); err != nil {
			return nil, err
		}
	}
	if r.search = given("seeds"); r.search {
		if r.first, r.last, err = parseSeeds(p.seeds); err != nil {
			return nil, err
		}
	}
	r.options = scenario.Options{Seed: p.seed, Nodes: p.nodes, Workers: p.workers,
		Fibers: p.fibers, Cost: r.options.Cost, Mutation: p.mutation, EventLimit: p.events}
	for name, v := range map[string]int{"nodes": p.nodes, "workers": p.workers,
		"fibers": p.fibers} {
		if given(name) && v < 1 {
			return nil, usagef("", "--%s %d is not positive", name, v)
		}
	}
	if r.options.Settings, err = scenario.ParseSettings(p.set); err != nil {
		return nil, usagef("write --set NAME=VALUE,NAME=VALUE; --list names the dimensions", "--set: %v",
			err)
	}
	if given("order") {
		if !r.scenario.Ordered {
			return nil, a.wrongOptions(&scenario.NoOrderError{Scenario: p.scenario})
		}
		if r.options.Order, err = scenario.ParseOrder(p.order); err != nil {
			return nil, usagef("", "--order: %v", err)
		}
	}
	faults := p.faults
	if (p.everyStep || p.everyOrder) && !given("faults") {
		faults = "none" // the crashes at the steps are faults enough
	}
	return r, r.parseFaults(faults)
}

// checkModes refuses flags that exclude each other.
func (p *simFlags) checkModes(given func(string) bool) error {
	for _, pair := range [][2]string{{"seed", "seeds"}, {"seeds", "every-step"}, {"seeds", "trace"},
		{"every-step", "trace"}, {"preset", "cost"}, {"json", "trace"}, {"every-order", "seeds"},
		{"every-order", "every-step"}, {"every-order", "order"}, {"every-order", "trace"}, {"every-order", "shrink"},
		{"order", "seeds"}, {"order", "every-step"}, {"order", "shrink"}} {
		if given(pair[0]) && given(pair[1]) {
			return usagef("", "--%s and --%s exclude each other", pair[0], pair[1])
		}
	}
	for _, name := range []string{"runs", "crashes", "drawn"} {
		if given(name) && !p.everyOrder {
			return usagef("", "--%s needs --every-order", name)
		}
	}
	if mode := firstGiven(given, "every-order", "order"); mode != "" {
		switch {
		case p.fibers > 1:
			return usagef("--workers adds clients", "--%s: a worker of a small scenario has one client, and --fibers %d "+
				"asks for more", mode, p.fibers)
		case given("faults") && p.faults == "random":
			return usagef("leave it out, or write faults: see docs/SIM.md", "--%s has an order in place of a seed, and "+
				"--faults random needs one", mode)
		}
	}
	if p.drawn && p.runs == 0 {
		return usagef("", "--drawn has no end of its own: add --runs N")
	}
	if p.runs < 0 {
		return usagef("", "--runs %d is negative", p.runs)
	}
	if p.jobs < 1 || p.jobs > maxJobs {
		return usagef("", "--jobs %d is not in 1..%d", p.jobs, maxJobs)
	}
	return nil
}

// firstGiven is the first of some flags that is given; "": none is.
func firstGiven(given func(string) bool, names ...string) string {
	for _, name := range names {
		if given(name) {
			return name
		}
	}
	return ""
}

func (a *app) unknownScenario(name string) error {
	var names []string
	for _, s := range a.scenarios() {
		names = append(names, s.Name)
	}
	names = append(names, saturationName)
	hint := "known: " + strings.Join(names, ", ")
	if near, ok := nearest(name, names); ok {
		hint = "did you mean " + near + "? " + hint
	}
	return usagef(hint, "unknown scenario %q", name)
}

// loadCost reads the cost model.
func (r *simRun) loadCost(p *simFlags, given func(string) bool) error {
	var err error
	if given("cost") {
		if err := noFolder(p.cost, ""); err != nil {
			return fmt.Errorf("cost file: %w", err)
		}
		r.options.Cost, err = sim.LoadCost(p.cost)
		r.costArgs = "--cost " + shellQuote(p.cost)
		var wrong *sim.CostFileError
		if errors.As(err, &wrong) {
			return usagef("see docs/SIM.md for its keys", "cost file %v", err)
		}
		if err != nil {
			return fmt.Errorf("cost file: %w", err)
		}
		return nil
	}
	name := sim.DefaultPreset
	if given("preset") {
		name = p.preset
		r.costArgs = "--preset " + shellQuote(name)
	}
	if r.options.Cost, err = sim.Preset(name); err != nil {
		return usagef("", "%v", err) // it names those that there are
	}
	return nil
}

// parseFaults reads --faults.
func (r *simRun) parseFaults(text string) error {
	switch text {
	case "random":
		r.options.Random = true
		return nil
	case "none", "":
		return nil
	}
	if file, ok := strings.CutPrefix(text, "@"); ok {
		if err := noFolder(file, ""); err != nil {
			return fmt.Errorf("fault schedule: %w", err)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("fault schedule: %w", err)
		}
		if r.options.Faults, err = sim.ParseSchedule(string(b)); err != nil {
			return usagef("see docs/SIM.md", "fault schedule %s: %v", file, err)
		}
		return nil
	}
	var err error
	if r.options.Faults, err = scenario.ParseFaults(text); err != nil {
		return usagef("use random, none, @FILE, or a schedule as in docs/SIM.md", "--faults: %v", err)
	}
	return nil
}

// parseSeeds reads A..B.
func parseSeeds(s string) (first, last uint64, err error) {
	const hint = "write --seeds FIRST..LAST, both included"
	a, b, ok := strings.Cut(s, "..")
	first, err1 := strconv.ParseUint(a, 10, 64)
	last, err2 := strconv.ParseUint(b, 10, 64)
	if !ok || err1 != nil || err2 != nil {
		return 0, 0, usagef(hint, "--seeds %q is not a range of numbers", s)
	}
	if last < first {
		return 0, 0, usagef(hint, "--seeds %s is empty: it ends before it begins", s)
	}
	if last-first == 1<<64-1 {
		return 0, 0, usagef(hint, "--seeds %s is every number there is", s)
	}
	return first, last, nil
}

// wrongOptions turns what the scenario refuses into a usage error.
func (a *app) wrongOptions(err error) error {
	var unknown *scenario.UnknownError
	var outside *scenario.RangeError
	var faults *scenario.FaultsError
	var noSteps *scenario.NoStepsError
	var noOrder *scenario.NoOrderError
	switch {
	case errors.As(err, &unknown):
		if len(unknown.Known) == 0 {
			return usagef("this scenario has none", "unknown %s %q", unknown.What, unknown.Name)
		}
		return usagef("", "%v", err)
	case errors.As(err, &outside):
		return usagef("", "--%v", err)
	case errors.As(err, &faults):
		return usagef("see docs/SIM.md", "--faults: %v", err)
	case errors.As(err, &noSteps):
		return usagef("those that do: "+a.scenariosThat(func(s *scenario.Scenario) bool { return len(s.Steps) > 0 }),
			"--every-step: %v", err)
	case errors.As(err, &noOrder):
		return usagef("those that are small enough: "+
			a.scenariosThat(func(s *scenario.Scenario) bool { return s.Ordered }), "%v", err)
	}
	return err
}

// scenariosThat names the scenarios that have something.
func (a *app) scenariosThat(have func(*scenario.Scenario) bool) string {
	var names []string
	for _, s := range a.scenarios() {
		if have(s) {
			names = append(names, s.Name)
		}
	}
	return strings.Join(names, ", ")
}

// shellQuote quotes a word for a shell if it needs that.
func shellQuote(s string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.ContainsRune("-_./:", c)
	}
	if s != "" && strings.IndexFunc(s, func(c rune) bool { return !plain(c) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// moreThreads lets the search use a thread for each job, and leaves room for the rest.
func moreThreads(jobs int) {
	if n := min(jobs, runtime.NumCPU()); runtime.GOMAXPROCS(0) < n {
		runtime.GOMAXPROCS(n)
	}
}
