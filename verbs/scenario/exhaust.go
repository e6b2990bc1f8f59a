package scenario

import (
	"context"

	"drtmd/verbs/sim"
)

// restartAfter is when the machines that crashed at a step are started again, as a part of the
// scenario's length.
const restartAfter = 4

// ExhaustResult of Exhaust.
type ExhaustResult struct {
	Steps   []sim.StepCount // of the run without crashes
	Runs    int             // with a crash
	Struck  int             // in which it happened
	Hash    uint64          // of the hashes of all runs
	Failure *Result         // the first run that failed; nil if none did
}

// Exhaust runs a scenario with o's faults, lists the marked steps that were taken, and then runs
// it once for each occurrence of each and for each node, with a crash of the node at the step.
// Nodes keep their memory and are started again later. progress may be nil.
func Exhaust(ctx context.Context, s *Scenario, o Options,
	progress func(done, total int)) (ExhaustResult, error) {
	whole, err := Run(ctx, s, o)
	if err != nil {
		return ExhaustResult{}, err
	}
	x := ExhaustResult{Steps: whole.Steps, Hash: whole.Hash}
	if whole.Failure != nil {
		x.Failure = whole
		return x, nil
	}
	o = whole.Options
	o.Random, o.Faults = false, nil
	total := 0
	for _, step := range x.Steps {
		total += step.Count * o.Nodes
	}
	for _, step := range x.Steps {
		for k := 1; k <= step.Count; k++ {
			for node := range o.Nodes {
				name := nodeName(node)
				o.Faults = append(append(sim.Schedule{}, whole.Schedule...),
					sim.Fault{Kind: sim.CrashNode, Step: step.Name, Count: k, Node: name, Kept: true},
					sim.Fault{Kind: sim.RestartNode, At: s.Until / restartAfter, Node: name})
				r, err := Run(ctx, s, o)
				if err != nil {
					return x, err
				}
				x.add(r, step.Name, k)
				if progress != nil {
					progress(x.Runs, total)
				}
				if x.Failure != nil {
					return x, nil
				}
			}
		}
	}
	return x, nil
}

// add takes in a run with a crash at the k-th occurrence of a step.
func (x *ExhaustResult) add(r *Result, step string, k int) {
	x.Runs++
	x.Hash = x.Hash*0x9E3779B97F4A7C15 + r.Hash
	for _, s := range r.Steps {
		if s.Name == step && s.Count >= k {
			x.Struck++
		}
	}
	if r.Failure != nil {
		x.Failure = r
	}
}
