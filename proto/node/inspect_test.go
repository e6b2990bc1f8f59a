package node_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"drtmd/proto/node"
)

// TestALookIsOverWhenInspectReturns: what a look writes is the caller's again, also when the caller does not
// wait until the worker comes by.
func TestALookIsOverWhenInspectReturns(t *testing.T) {
	c, err := node.NewLocal(t.Context(), node.LocalConfig{Config: node.Config{
		Nodes: 1, Workers: 1, Fibers: 1, Workload: bank(t, 1), Protocol: protocol(t, "drtm")}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	looking, release := make(chan struct{}), make(chan struct{})
	held, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	seen := 0 // without a guard: the race detector sees whether it needs one
	go func() {
		first <- c.Inspect(held, func(*node.Worker) {
			close(looking)
			<-release
			seen++
		})
	}()
	<-looking

	// One that is given up before the worker comes by is not carried out later.
	var late atomic.Bool
	soon, end := context.WithTimeout(t.Context(), time.Millisecond)
	defer end()
	err = c.Inspect(soon, func(*node.Worker) { late.Store(true) })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a look at a busy worker: %v", err)
	}

	// One that is under way is waited for.
	cancel()
	select {
	case err := <-first:
		close(release)
		t.Fatalf("returned %v before its look had ended", err)
	case <-time.After(10 * time.Millisecond):
	}
	close(release)
	if err := <-first; err != nil || seen != 1 {
		t.Errorf("%v, looked %d times, want once", err, seen)
	}

	if err := c.Inspect(t.Context(), func(*node.Worker) {}); err != nil {
		t.Fatal(err)
	}
	if late.Load() {
		t.Error("a look was carried out after Inspect had returned")
	}
}
