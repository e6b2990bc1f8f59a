// Package raceskip skips tests in the race run that cannot have a race: a simulation is one goroutine. Plain
// builds run these tests; under the race detector they would take ten times as long. RACE_NOT in the
// Makefile lists whole packages without goroutines.
package raceskip

import "testing"

// Simulated skips a test on simulated machines in builds with the race detector.
func Simulated(t testing.TB) {
	t.Helper()
	skip(t, "simulated machines run in one goroutine: make test runs this, the race run has nothing to find")
}

// OneGoroutine skips a test in builds with the race detector that has nothing else than one goroutine.
func OneGoroutine(t testing.TB) {
	t.Helper()
	skip(t, "it runs in one goroutine: make test runs this, the race run has nothing to find")
}

// Counted skips a test in builds with the race detector that counts what a transaction costs: they are so slow
// that timers of the background, which cost something of their own, end between any two transactions.
func Counted(t testing.TB) {
	t.Helper()
	skip(t, "under the race detector timers end between any two transactions: make test counts")
}

// SameMemory skips a test in builds with the race detector whose threads share no memory but what another test's
// threads share in the same way.
func SameMemory(t testing.TB) {
	t.Helper()
	skip(t, "another test of the race run shares the same memory between threads in the same way")
}

// Processes skips a test in builds with the race detector whose processes share memory: these builds have it on the
// Go heap, which no other process can map.
func Processes(t testing.TB) {
	t.Helper()
	skip(t, "builds with the race detector share no memory with other processes: make test runs this")
}

func skip(t testing.TB, why string) {
	t.Helper()
	if enabled {
		t.Skip(why)
	}
}
