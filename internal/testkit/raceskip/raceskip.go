// Package raceskip keeps tests out of the race run that cannot have a race: what a simulator runs in
// virtual time is one goroutine. Plain builds run these tests; the race detector would make the same
// instructions ten times as slow. Whole packages without goroutines are RACE_NOT in the Makefile.
package raceskip

import "testing"

// Simulated skips a test on simulated machines in builds with the race detector.
func Simulated(t testing.TB) {
	t.Helper()
	if enabled {
		t.Skip("simulated machines run in one goroutine: make test runs this, the race run has nothing to find")
	}
}
