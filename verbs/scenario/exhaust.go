package scenario

import (
	"context"
	"fmt"

	"drtmd/verbs/sim"
)

// downFor is how long a machine that crashed at a step is down, as a part of the scenario's
// length.
const downFor = 4

// ExhaustOptions of Exhaust.
type ExhaustOptions struct {
	Options
	Jobs int // runs at a time, 1 at least
	// Progress, if set, is called after each crash, by one goroutine at a time.
	Progress func(done, total int)
}

// ExhaustResult of Exhaust.
type ExhaustResult struct {
	Base    *Result // the run without crashes; nil if there was no time for it
	Planned int     // crashes
	Runs    int     // with a crash, up to the failure
	Struck  int     // in which it happened
	Events  uint64  // of all runs, the one without crashes included
	Resumes uint64
	Hash    uint64  // of the hashes of all runs
	Failure *Result // the first run that failed; nil if none did
}

// NoStepsError is a scenario whose programs mark no step to crash at.
type NoStepsError struct{ Scenario string }

func (e *NoStepsError) Error() string {
	return fmt.Sprintf("scenario %s marks no step", e.Scenario)
}

// point is a crash: of a node, at an occurrence of a step.
type point struct {
	step  string
	count int
	node  string
}

// Exhaust runs a scenario with o's faults, lists the marked steps that were taken, and then runs
// it once for each occurrence of each and for each node, with a crash of the node at the step.
// Nodes keep their memory and are started again later. When ctx ends it, the error is its cause,
// and the result says how far it came.
func Exhaust(ctx context.Context, s *Scenario, o ExhaustOptions) (ExhaustResult, error) {
	if len(s.Steps) == 0 {
		return ExhaustResult{}, &NoStepsError{s.Name}
	}
	base, err := Run(ctx, s, o.Options)
	if err != nil {
		return ExhaustResult{}, err
	}
	x := ExhaustResult{Base: base}
	x.count(base)
	if base.Failure != nil {
		return x, nil
	}
	points := crashPoints(base)
	x.Planned = len(points)
	if len(points) == 0 {
		return x, nil
	}
	opts := base.Options
	opts.Random = false
	err = inOrder(ctx, 0, uint64(len(points)-1), o.Jobs,
		func(ctx context.Context, i uint64) (*Result, error) {
			p, opts := points[i], opts
			opts.Faults = append(append(sim.Schedule{}, base.Schedule...), sim.Fault{
				Kind: sim.CrashNode, Step: p.step, Count: p.count, Node: p.node, Kept: true,
				For: s.Until / downFor})
			return Run(ctx, s, opts)
		},
		func(r *Result) bool {
			x.Runs++
			if r.Outcomes[len(r.Outcomes)-1].Struck {
				x.Struck++
			}
			x.count(r)
			if o.Progress != nil {
				o.Progress(x.Runs, x.Planned)
			}
			return r.Failure == nil
		})
	return x, err
}

// crashPoints lists every occurrence of every step of a run, for each node.
func crashPoints(r *Result) []point {
	var points []point
	for _, step := range r.Steps {
		for k := 1; k <= step.Count; k++ {
			for node := range r.Options.Nodes {
				points = append(points, point{step.Name, k, nodeName(node)})
			}
		}
	}
	return points
}

// count takes in a run.
func (x *ExhaustResult) count(r *Result) {
	x.Events += r.Stats.Events
	x.Resumes += r.Resumes
	x.Hash = foldHash(x.Hash, r.Hash)
	if r.Failure != nil {
		x.Failure = r
	}
}
