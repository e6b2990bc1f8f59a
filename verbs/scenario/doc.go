// Package scenario runs programs of fibers on simulated clusters, by seed, under faults, and
// checks what they may rely on.
//
// A Scenario is a name, a program and its checks. Run builds a world, installs a schedule of
// faults (given, or drawn from the seed), runs the world to its end within a number of events,
// and returns a Result: the hash of the trace, what it took, and the check that failed, if one
// did, with the last events before it. Search runs many seeds in parallel and stops at the first
// that fails; Shrink leaves out faults that the failure does not need; Exhaust crashes a node at
// each marked step in turn.
//
// # Writing one
//
// Build adds machines to an Env, each with a function that boots it: once at the beginning, and
// again after each restart. What must survive a crash is kept memory (Machine.Kept); what the
// checks know is outside all machines, in variables of Build. A check that sees a violation calls
// Env.Fail, in the middle of the run or, registered with Env.AtEnd, after it. Beside a scenario's
// own checks, every run fails if a fiber panics or returns an error, if one still waits when
// nothing more can happen, if an invariant is violated, or if the run does not end.
//
// # Mutations
//
// Each scenario has deliberate bugs, which Options.Mutation names. They exist so that tests can
// show that the checks find them; nothing but Options switches them on.
//
// # Determinism and concurrency
//
// A run uses no clock but its world's, no random source but World.Rand, and no goroutine beside
// the caller's: the same Options give the same Result. Runs share nothing, so that Search has one
// on each core. Time that a run takes on the wall is for the caller to measure.
//
// The package also measures what the cost models give: see Reads and Batches.
package scenario
