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

// PolledLogs skips a test in builds with the race detector, in which nodes of one process WRITE into the logs that
// others of it read: polling memory is a race in the terms of Go's memory model. Records have checksums.
func PolledLogs(t testing.TB) {
	t.Helper()
	if enabled {
		t.Skip("reading logs that nodes of this process WRITE is a race to the detector: make test runs this")
	}
}
