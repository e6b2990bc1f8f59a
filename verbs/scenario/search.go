package scenario

import (
	"context"
	"fmt"
	"slices"

	"drtmd/verbs/sim"
)

// SearchOptions of Search.
type SearchOptions struct {
	Options            // Seed is not used
	First, Last uint64 // seeds, both included
	Jobs        int    // runs at a time, 1 at least
	// Progress, if set, is called after each run, by one goroutine at a time.
	Progress func(done, total uint64, r *Result)
}

// SearchResult of Search.
type SearchResult struct {
	Runs    uint64 // that came to their end, up to the failure
	Events  uint64 // of all runs
	Resumes uint64
	Hash    uint64  // of the hashes of all runs
	Failure *Result // the run with the lowest seed that failed; nil if none did
	// Outcomes of Options.Faults: whether one struck in any run, and what it hit in all.
	Outcomes []sim.Outcome
}

// RangeOrderError is a range of seeds that ends before it begins.
type RangeOrderError struct{ First, Last uint64 }

func (e *RangeOrderError) Error() string {
	return fmt.Sprintf("the range of seeds %d..%d is empty: it ends before it begins", e.First, e.Last)
}

// Search runs a scenario with each seed of a range, in parallel, until one fails or ctx is done.
// Results are taken in ascending order of seeds, so that what is found and counted does not depend
// on the number of jobs: a search that fails counts the runs up to the first failure. When ctx
// ends the search, the error is its cause, and the result says how far it came.
func Search(ctx context.Context, s *Scenario, o SearchOptions) (SearchResult, error) {
	if o.Last < o.First {
		return SearchResult{}, &RangeOrderError{o.First, o.Last}
	}
	var found SearchResult
	err := inOrder(ctx, o.First, o.Last, o.Jobs,
		func(ctx context.Context, seed uint64) (*Result, error) {
			opts := o.Options
			opts.Seed = seed
			return Run(ctx, s, opts)
		},
		func(r *Result) bool {
			found.add(r)
			if o.Progress != nil {
				o.Progress(found.Runs, o.Last-o.First+1, r)
			}
			return r.Failure == nil
		})
	return found, err
}

// add takes in a run.
func (t *SearchResult) add(r *Result) {
	t.Runs++
	t.Events += r.Stats.Events
	t.Resumes += r.Resumes
	t.Hash = foldHash(t.Hash, r.Hash)
	if r.Failure != nil {
		t.Failure = r
	}
	if !r.Options.Random {
		t.Outcomes = foldOutcomes(t.Outcomes, r.Outcomes)
	}
}

// foldHash makes one hash of those of several runs, in their order.
func foldHash(all, next uint64) uint64 { return all*0x9E3779B97F4A7C15 + next }

// foldOutcomes sums up what became of the same faults in several runs.
func foldOutcomes(all, next []sim.Outcome) []sim.Outcome {
	if all == nil {
		return slices.Clone(next)
	}
	for i := range all {
		all[i].Struck = all[i].Struck || next[i].Struck
		all[i].Hits += next[i].Hits
		all[i].StepsTaken = max(all[i].StepsTaken, next[i].StepsTaken)
	}
	return all
}
