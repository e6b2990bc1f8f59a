package scenario

import (
	"context"
	"runtime"
	"testing"

	"drtmd/verbs/scenario"
)

// A client that crashes at any marked step, its own commit's or a repair's, and the memory node too, leave nothing
// that the others and its next life cannot repair; and nobody waits longer than a lease and a repair.
func TestRepairsAfterACrashAtEveryStep(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector sees nothing here that the run without faults does not show")
	}
	for _, x := range []struct{ scenario, phases string }{
		{"repairs-steps", "chained"}, {"repairs-steps", "awaited"}, {"trees-steps", "awaited"}, {"trees-early-steps", "chained"},
		{"tables-steps", "awaited"},
		{"distributed-steps", "awaited"}} {
		r, err := scenario.Exhaust(context.Background(), find(t, x.scenario),
			scenario.ExhaustOptions{Options: scenario.Options{Seed: 1,
				Settings: []scenario.Setting{{Name: dimPhases, Value: x.phases}}}, Jobs: runtime.NumCPU()})
		if err != nil {
			t.Fatal(err)
		}
		if r.Failure != nil {
			t.Errorf("%v\n%s", r.Failure.Failure, replay(r.Failure))
		}
		t.Logf("%s, %s: %d crashes, %d events; %v; %v", x.scenario, x.phases, r.Struck, r.Events, r.Base.Steps, r.Base.Counts)
	}
}
