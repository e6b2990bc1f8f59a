package tabletest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// OneOrder runs functions as threads and fails unless some order of their operations explains, by the model, what
// all of them saw. A thread calls do for each operation: run executes it and returns what it gave; an error ends the
// test. round names the run.
func OneOrder(t *testing.T, round int, model porcupine.Model,
	threads ...func(do func(input any, run func() (any, error)) bool)) {
	t.Helper()
	var clock atomic.Int64
	var running sync.WaitGroup
	histories := make([][]porcupine.Operation, len(threads))
	for i, thread := range threads {
		running.Go(func() {
			thread(func(input any, run func() (any, error)) bool {
				call := clock.Add(1)
				out, err := run()
				if err != nil {
					t.Error(err)
					return false
				}
				histories[i] = append(histories[i], porcupine.Operation{ClientId: i, Input: input, Call: call,
					Output: out, Return: clock.Add(1)})
				return true
			})
		})
	}
	running.Wait()
	var all []porcupine.Operation
	for _, h := range histories {
		all = append(all, h...)
	}
	if r := porcupine.CheckOperationsTimeout(model, all, time.Minute); r != porcupine.Ok {
		t.Fatalf("round %d: no order explains what %d threads saw: %v", round, len(threads), r)
	}
}
