package scenario

import (
	"context"
	"fmt"
	"slices"

	"drtmd/verbs/sim"
)

// downFor is how long a machine that crashed at a step is down, as a part of the scenario's
// length.
const downFor = 4

// ExhaustOptions of Exhaust.
type ExhaustOptions struct {
	Options
	Jobs int // runs at a time, 1 at least
	// Most bounds the crashes: the same share of the occurrences of each step, at least one. 0: all.
	Most int
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
	lost  bool   // the memory is, and the node stays down
	other string // dies at the same time; "": no other
}

// faults are those of a point, in a scenario of some length.
func (p *point) faults(until sim.Time) sim.Schedule {
	f := sim.Fault{Kind: sim.CrashNode, Step: p.step, Count: p.count, Node: p.node, Kept: !p.lost}
	if !p.lost {
		f.For = until / downFor
	}
	if p.other == "" {
		return sim.Schedule{f}
	}
	o := f
	o.Node, o.For = p.other, until/downFor
	return sim.Schedule{o, f}
}

// Exhaust runs a scenario with o's faults, lists the marked steps that were taken, and then runs
// it once for each occurrence of each and for each node, with a crash of the node at the step.
// Nodes keep their memory and are started again later; with Scenario.Deaths they also lose it and
// stay down, alone, and two at once if o has no crash of its own. When ctx ends it, the error is its cause,
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
	points := crashPoints(base, s.Deaths)
	if o.Most > 0 {
		points = share(points, o.Most)
	}
	x.Planned = len(points)
	if len(points) == 0 {
		return x, nil
	}
	opts := base.Options
	opts.Random = false
	err = inOrder(ctx, 0, uint64(len(points)-1), o.Jobs,
		func(ctx context.Context, i uint64) (*Result, error) {
			opts := opts
			opts.Faults = append(append(sim.Schedule{}, base.Schedule...), points[i].faults(s.Until)...)
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

// crashPoints lists every occurrence of every step of a run, for each node; in each way in which it may die.
func crashPoints(r *Result, deaths bool) []point {
	var points []point
	crashed := slices.ContainsFunc(r.Schedule, func(f sim.Fault) bool { return f.Kind == sim.CrashNode })
	for _, step := range r.Steps {
		for k := 1; k <= step.Count; k++ {
			for node := range r.Options.Nodes {
				p := point{step: step.Name, count: k, node: nodeName(node)}
				points = append(points, p)
				if p.lost = true; deaths {
					points = append(points, p)
				}
				if p.other = nodeName((node + 1 + k%(r.Options.Nodes-1)) % r.Options.Nodes); deaths && !crashed {
					points = append(points, p)
				}
			}
		}
	}
	return points
}

// share takes points of each step, about so many in all, evenly.
func share(points []point, most int) (some []point) {
	steps := 0
	for i := range points {
		if i == 0 || points[i].step != points[i-1].step {
			steps++
		}
	}
	for from := 0; from < len(points); {
		to := from
		for to < len(points) && points[to].step == points[from].step {
			to++
		}
		n := min(max(most/steps, 1), to-from)
		for i := range n { // in the middle of each part
			some = append(some, points[from+(2*i+1)*(to-from)/(2*n)])
		}
		from = to
	}
	return some
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
