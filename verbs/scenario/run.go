package scenario

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"drtmd/verbs/sim"
)

// Result of a run.
type Result struct {
	Scenario string
	Options  Options // completed
	Hash     uint64  // of the trace
	Stats    sim.Stats
	Resumes  uint64 // of fibers
	Fibers   uint64 // started
	Steps    []sim.StepCount
	Counts   []Count // the scenario's own figures
	Schedule sim.Schedule
	Outcomes []sim.Outcome // of the schedule's faults
	Failure  *Failure      // nil: every check held

	arrivals []arrival // of a run in a chosen order
	cut      bool      // it was given up: it repeats another run
}

// Count is a figure of a scenario, such as the operations that it completed.
type Count struct {
	Name  string
	Value uint64
}

// Failure is a check that did not hold.
type Failure struct {
	Check  string // its name
	Text   string
	At     sim.Time
	Event  uint64      // the number of the event in which it was seen
	Events []sim.Event // the last ones, oldest first
}

func (f *Failure) Error() string {
	return fmt.Sprintf("%s: %s (at %s, event %d)", f.Check, f.Text, f.At, f.Event)
}

// Names of the checks that every scenario has.
const (
	CheckProgram   = "program"   // a fiber panicked or returned an error
	CheckEnded     = "ended"     // the run, and every fiber, comes to its end
	CheckOrder     = "order"     // a chosen order is possible
	CheckInvariant = "invariant" // a panic below the programs, a fenced worker
)

// Run runs a scenario once. The error is one of the options: an *UnknownError, a *RangeError or
// a *FaultsError. A check that fails is in the Result. When ctx ends the run, the error is its
// cause.
func Run(ctx context.Context, s *Scenario, o Options) (*Result, error) {
	var d director
	if o.Order != nil {
		d = &follower{turns: slices.Clone(o.Order)}
	}
	return runAs(ctx, s, o, d)
}

// runAs is Run, in an order that d chooses; nil: messages arrive at their times.
func runAs(ctx context.Context, s *Scenario, o Options, d director) (*Result, error) {
	e, err := prepare(s, &o, d)
	if err != nil {
		return nil, err
	}
	defer e.kill()
	if err := e.run(ctx, o.EventLimit); err != nil {
		return nil, err
	}
	if !e.cut {
		e.finish()
	}
	r := &Result{Scenario: s.Name, Options: o, Schedule: e.schedule, Hash: e.World.Hash(),
		Stats: e.World.Stats(), Steps: e.World.Steps(), Counts: e.counts, Failure: e.failure,
		Outcomes: e.outcomes()}
	r.Resumes, r.Fibers = e.fiberStats()
	if e.ordering != nil {
		r.Options.Order, r.arrivals, r.cut = e.ordering.turns, e.ordering.arrivals, e.cut
	}
	return r, nil
}

// prepare builds a run, in an order that d chooses if it is not nil, and installs its faults; it completes the options. The Env is to be
// killed.
func prepare(s *Scenario, o *Options, d director) (*Env, error) {
	if err := o.fill(s); err != nil {
		return nil, err
	}
	if o.Cost == nil && s.Preset != "" {
		var err error
		if o.Cost, err = sim.Preset(s.Preset); err != nil {
			return nil, err
		}
	}
	world, err := sim.New(sim.Config{Seed: o.Seed, Cost: o.Cost, KeepEvents: o.KeepEvents,
		OnEvent: o.OnEvent})
	if err != nil {
		return nil, err
	}
	s.drawDimensions(o, world.Rand("dimensions"))
	e := &Env{World: world, settings: o.Settings, Nodes: o.Nodes, Workers: o.Workers,
		Fibers: o.Fibers, Until: s.Until, Mutation: o.Mutation, schedule: o.Faults,
		crashKept: s.CrashKept, crashFor: s.CrashFor}
	if d != nil {
		e.ordering = &ordering{director: d}
	}
	if err := s.Build(e); err != nil {
		e.kill()
		return nil, fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	if o.Random {
		e.schedule = nil
		if s.Draw != nil {
			e.schedule = s.Draw(&Drawing{Rand: world.Rand("faults"), Nodes: e.names(),
				Workers: e.fewestWorkers(), Until: s.Until, Mutation: o.Mutation,
				settings: o.Settings, stream: world.Rand})
		}
	}
	err = e.checkFaults(s)
	if err == nil {
		err = world.Install(e.schedule)
	}
	if err != nil {
		e.kill()
		return nil, &FaultsError{err}
	}
	return e, nil
}

// checkFaults refuses faults that can never strike or strike nothing: at a step that is not
// marked, or of a worker that no machine has.
func (e *Env) checkFaults(s *Scenario) error {
	for i, f := range e.schedule {
		if f.Step != "" && !slices.Contains(s.Steps, f.Step) {
			known := "this scenario marks none"
			if len(s.Steps) > 0 {
				known = `known: "` + strings.Join(s.Steps, `", "`) + `"`
			}
			return fmt.Errorf("fault %d (%s): unknown step %q; %s", i+1, f, f.Step, known)
		}
		for _, m := range e.machines {
			here := f.Node == m.Node.Name() || f.Node == ""
			if f.Kind == sim.PauseWorker && here && f.Worker >= m.cfg.Workers {
				return fmt.Errorf("fault %d (%s): %s has the workers 0..%d", i+1, f, m.Node.Name(),
					m.cfg.Workers-1)
			}
		}
	}
	return nil
}

// FaultsError is a schedule that does not fit the cluster.
type FaultsError struct{ Err error }

func (e *FaultsError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *FaultsError) Unwrap() error { return e.Err }

// runBatch is the number of events after which a run looks whether it should end.
const runBatch = 4096

// run runs the world to its end. A panic inside it is a failure, not the end of the process:
// thousands of runs may be under way.
func (e *Env) run(ctx context.Context, limit uint64) (err error) {
	defer func() {
		if v := recover(); v != nil {
			e.Fail(CheckInvariant, "panic: %v\n%s", v, debug.Stack())
		}
	}()
	for done := uint64(0); done < limit; done = e.World.Stats().Events {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for range min(runBatch, limit-done) {
			if !e.World.RunOne(sim.Forever) || e.failure != nil || e.cut {
				return nil
			}
		}
	}
	e.Fail(CheckEnded, "the run goes on after %d events", e.World.Stats().Events)
	return nil
}

// finish makes the checks that are made at the end, unless the run has failed already.
func (e *Env) finish() {
	if e.failure != nil {
		return
	}
	for _, m := range e.machines {
		m.checkIdle()
	}
	for _, c := range e.atEnd {
		if e.failure != nil {
			return
		}
		c()
	}
}
