package scenario

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"drtmd/internal/mutation"
	"drtmd/verbs/sim"
)

// Scenario is a program with its checks. It is immutable; a run's state belongs to its Env.
type Scenario struct {
	Name string
	Doc  string // one line
	// Nodes is the default size of the cluster; it may be set within MinNodes..MaxNodes.
	Nodes, MinNodes, MaxNodes int
	Even                      bool // the number of nodes must be even
	// Workers per machine and Fibers per worker can be set if these defaults are not 0.
	Workers, Fibers int
	// DrawnWorkers are what seeds draw the workers per machine from; nil: always Workers.
	DrawnWorkers []int
	// Dimensions are what else each seed draws.
	Dimensions []Dimension
	// Until is when the programs begin nothing new. Faults that are drawn begin before.
	Until sim.Time
	// EventLimit is the default of Options.EventLimit.
	EventLimit uint64
	Mutations  []Mutation
	// Steps are the steps that the programs mark. A fault at another one is refused.
	Steps []string
	// Deaths has Exhaust crash machines for good, too, without their memory, and two at once.
	Deaths bool
	// Ordered scenarios are small enough for all orders of their messages: their programs begin by Env.Begin.
	Ordered bool
	// CrashKept has machines that crash in a chosen order keep their memory, and come back after CrashFor; 0: never.
	CrashKept bool
	CrashFor  sim.Time
	// Pause is for how long Wander holds all messages of a run at most, while timers run: shorter than peers wait for
	// each other. 0: it does not.
	Pause sim.Time
	// Preset is the cost model of runs that name none; "": the simulator's default.
	Preset string
	// Draw draws the faults of a run without a script; nil draws none.
	Draw func(d *Drawing) sim.Schedule
	// Build adds the machines and registers the checks.
	Build func(e *Env) error
}

// Mutation describes a deliberate bug of a scenario. Where scenarios share mutations, its Of names the
// protocol or the layer whose step is left out.
type Mutation = mutation.Mutation

// Drawing is what a schedule of faults is drawn from.
type Drawing struct {
	Rand     *rand.Rand
	Nodes    []string
	Workers  int // of each machine
	Until    sim.Time
	Mutation string
	settings []Setting
	stream   func(string) *rand.Rand
}

// Stream is a random source of its own for each name: what is drawn from it moves no other draw.
func (d *Drawing) Stream(name string) *rand.Rand { return d.stream("faults/" + name) }

// Setting is the value of a dimension of the run.
func (d *Drawing) Setting(name string) string { return valueOf(d.settings, name) }

// weight is how often a kind of fault is drawn, against the others.
type weight struct {
	kind sim.FaultKind
	n    int
}

// draw gives a Draw that draws so many faults within the first three quarters of the run, each
// at most a quarter of the run long.
func draw(faults int, weights []weight) func(*Drawing) sim.Schedule {
	return func(d *Drawing) sim.Schedule {
		return drawWithin(d, faults, d.Until*3/4, d.Until/4, weights)
	}
}

// drawWithin draws faults that begin before the horizon and are at most a span long. Memory that
// is kept survives the crashes, as if it had a battery.
func drawWithin(d *Drawing, faults int, horizon, span sim.Time,
	weights []weight) sim.Schedule {
	var kinds []sim.Weight
	for _, w := range weights {
		kinds = append(kinds, sim.Weight{Kind: w.kind, Weight: w.n})
	}
	s := sim.RandomSchedule(d.Rand, sim.RandomOptions{Nodes: d.Nodes, Workers: d.Workers,
		Faults: faults, Horizon: horizon, Span: span, Weights: kinds})
	for i := range s {
		s[i].Kept = s[i].Kind == sim.CrashNode
	}
	return s
}

// All lists the scenarios of this package.
func All() []*Scenario {
	return []*Scenario{pingPong(), rpcEcho(), counterStorm(), pipeline(), leaseClock(), exchange(),
		crowd()}
}

// UnknownError is a name that stands for nothing.
type UnknownError struct {
	What  string // "scenario", "mutation"
	Name  string
	Known []string
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown %s %q; known: %s", e.What, e.Name, strings.Join(e.Known, ", "))
}

// Find finds a scenario of a list by name, or fails with an *UnknownError.
func Find(list []*Scenario, name string) (*Scenario, error) {
	var known []string
	for _, s := range list {
		if s.Name == name {
			return s, nil
		}
		known = append(known, s.Name)
	}
	return nil, &UnknownError{What: "scenario", Name: name, Known: known}
}

// Options of a run. The zero value is seed 0 of the scenario's own cluster without faults.
type Options struct {
	Seed uint64
	// Nodes, Workers and Fibers are the size; 0 is the scenario's own.
	Nodes, Workers, Fibers int
	// Settings are dimensions that are set, in any order; the others are drawn from the seed.
	// Completed: all dimensions, in the scenario's order.
	Settings []Setting
	Cost     *sim.CostModel // nil is the default preset
	// Random draws the faults from the seed; otherwise Faults happen.
	Random bool
	Faults sim.Schedule
	// Mutation switches a deliberate bug on; "" is none.
	Mutation string
	// Order, if not nil, chooses the order in which messages arrive, of a scenario that is Ordered. Behind its end
	// the first that is possible arrives. Completed: all turns of the run.
	Order []Turn
	// EventLimit bounds the events of the world; past it the run has failed. 0 = the scenario's.
	EventLimit uint64
	// KeepEvents is how many events before a failure are kept; 0 = 24.
	KeepEvents int
	// OnEvent, if set, is called with each event of the trace. It must not touch the world.
	OnEvent func(sim.Event)
}

const defaultKeepEvents = 24

// RangeError is a number that a scenario does not take.
type RangeError struct {
	What            string
	Value           int
	Lowest, Highest int
	Even            bool // it must be even
}

func (e *RangeError) Error() string {
	if e.Highest == 0 {
		return fmt.Sprintf("%s %d: this scenario has none to set", e.What, e.Value)
	}
	even := ""
	if e.Even {
		even = ", or not even"
	}
	return fmt.Sprintf("%s %d is not in %d..%d%s", e.What, e.Value, e.Lowest, e.Highest, even)
}

// Most workers of a machine, fibers of a worker, and fibers of all: some 50 KB each.
const (
	maxWorkers   = 64
	maxFibers    = 1024
	maxAllFibers = 1 << 17
)

// fill completes and checks options.
func (o *Options) fill(s *Scenario) error {
	pick := func(what string, v *int, own, low, high int, even bool) error {
		if own == 0 {
			high = 0
		}
		if *v == 0 {
			if what != "workers" || s.DrawnWorkers == nil {
				*v = own
			}
		} else if *v < low || *v > high || even && *v%2 != 0 {
			return &RangeError{What: what, Value: *v, Lowest: low, Highest: high, Even: even}
		}
		return nil
	}
	if err := pick("nodes", &o.Nodes, s.Nodes, s.MinNodes, s.MaxNodes, s.Even); err != nil {
		return err
	}
	if err := pick("workers", &o.Workers, s.Workers, 1, maxWorkers, false); err != nil {
		return err
	}
	if err := pick("fibers", &o.Fibers, s.Fibers, 1, maxFibers, false); err != nil {
		return err
	}
	if n := o.Nodes * max(o.Workers, 1) * max(o.Fibers, 1); n > maxAllFibers {
		return &RangeError{What: "fibers (nodes times workers times fibers)", Value: n, Lowest: 1,
			Highest: maxAllFibers}
	}
	if err := s.checkSettings(o.Settings); err != nil {
		return err
	}
	if o.EventLimit == 0 {
		o.EventLimit = s.EventLimit
	}
	if o.KeepEvents == 0 {
		o.KeepEvents = defaultKeepEvents
	}
	if o.Mutation == "" {
		return nil
	}
	var known []string
	for _, m := range s.Mutations {
		if m.Name == o.Mutation {
			return nil
		}
		known = append(known, m.Name)
	}
	return &UnknownError{What: "mutation", Name: o.Mutation, Known: known}
}
