// Package scenario runs programs of fibers on simulated clusters, by seed, under faults, and checks their
// results.
//
// A Scenario is a name, a program and its checks. Run builds a world, installs a schedule of faults (given,
// or drawn from the seed), runs the world to its end within a number of events, and returns a Result: the
// hash of the trace, the cost, and the check that failed, if one did, with the last events before it. Search
// runs many seeds in parallel and stops at the first that fails. Shrink removes faults that the failure does
// not need. Exhaust crashes a node at each marked step in turn.
//
// # Writing a scenario
//
// Build adds machines to an Env, each with a function that boots it: once at the beginning, and again after
// each restart. Kept memory (Machine.Kept) survives crashes. The state of the checks is outside of all
// machines, in variables of Build. A check that sees a violation calls Env.Fail, during the run or, registered
// with Env.AtEnd, after it. Besides a scenario's own checks, every run fails if a fiber panics or returns an
// error, on a deadlock (all fibers are blocked and no event is pending), if an invariant is violated, or if
// the run does not end.
//
// # Mutations
//
// Each scenario has deliberate bugs, which Options.Mutation switches on. Tests use them to show that the
// checks find them.
//
// # Determinism and concurrency
//
// A run uses only its world's clock, World.Rand and the caller's goroutine: the same Options give the same
// Result. Runs share nothing, so Search runs one on each core. The caller measures wall time.
//
// Reads and Batches measure the rates that a cost model gives.
package scenario
