// Package raceskip skips tests in the race run that cannot have a race: a simulation is one goroutine. Plain
// builds run these tests; under the race detector they would take ten times as long. RACE_NOT in the
// Makefile lists whole packages without goroutines.
package raceskip

import "testing"

// Simulated skips a test on simulated machines in builds with the race detector.
func Simulated(t testing.TB) {
	t.Helper()
	if enabled {
		t.Skip("simulated machines run in one goroutine: make test runs this, the race run has nothing to find")
	}
}
