package scenario

import (
	"context"
	"fmt"
	"sync"
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
	Runs    uint64 // that came to their end
	Events  uint64 // of all runs
	Resumes uint64
	Hash    uint64  // of the hashes of all runs, whatever their order
	Failure *Result // the run with the lowest seed that failed; nil if none did
}

// RangeOrderError is a range of seeds that ends before it begins.
type RangeOrderError struct{ First, Last uint64 }

func (e *RangeOrderError) Error() string {
	return fmt.Sprintf("the range of seeds %d..%d is empty: it ends before it begins", e.First, e.Last)
}

// Search runs a scenario with each seed of a range, in parallel, until one fails or ctx is done.
// Seeds are begun in ascending order and those under way are completed, so that the failure that
// is found does not depend on the number of jobs. When ctx ends the search, the error is its
// cause, and the result says how far it came.
func Search(ctx context.Context, s *Scenario, o SearchOptions) (SearchResult, error) {
	if o.Last < o.First {
		return SearchResult{}, &RangeOrderError{o.First, o.Last}
	}
	h := &search{o: o, next: o.First}
	var jobs sync.WaitGroup
	for range max(1, o.Jobs) {
		jobs.Go(func() {
			for {
				seed, ok := h.take(ctx)
				if !ok {
					return
				}
				opts := o.Options
				opts.Seed = seed
				h.give(Run(ctx, s, opts))
			}
		})
	}
	jobs.Wait()
	if h.err == nil && h.result.Failure == nil && ctx.Err() != nil {
		h.err = context.Cause(ctx)
	}
	return h.result, h.err
}

// search is what the jobs share.
type search struct {
	o SearchOptions

	mu     sync.Mutex // guards all below
	next   uint64
	ended  bool // no seed is left
	result SearchResult
	err    error
}

// take gives the next seed.
func (h *search) take(ctx context.Context) (uint64, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended || h.err != nil || h.result.Failure != nil || ctx.Err() != nil {
		return 0, false
	}
	seed := h.next
	h.next++
	h.ended = seed == h.o.Last
	return seed, true
}

// give takes in a run.
func (h *search) give(r *Result, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		if h.err == nil {
			h.err = err
		}
		return
	}
	t := &h.result
	t.Runs++
	t.Events += r.Stats.Events
	t.Resumes += r.Resumes
	t.Hash += r.Hash*0x9E3779B97F4A7C15 ^ r.Options.Seed
	if r.Failure != nil && (t.Failure == nil || r.Options.Seed < t.Failure.Options.Seed) {
		t.Failure = r
	}
	if h.o.Progress != nil {
		h.o.Progress(t.Runs, h.o.Last-h.o.First+1, r)
	}
}
