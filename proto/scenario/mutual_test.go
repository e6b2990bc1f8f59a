package scenario

import (
	"context"
	"fmt"
	"testing"

	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// runs of TestTwoMachinesWhoseLogsNameEachOther, for each step.
const runs = 16

// TestTwoMachinesWhoseLogsNameEachOther crash while each has locked records of the other one, or has not written
// them back yet. Both are down at once, and each needs the other to recover what its logs name.
func TestTwoMachinesWhoseLogsNameEachOther(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector sees nothing here that the run without faults does not show")
	}
	for _, step := range []string{"drtm: after lock", "drtm: after commit"} {
		for _, words := range []string{"yes", "no"} {
			t.Run(fmt.Sprintf("%s/words=%s", step, words), func(t *testing.T) {
				both := 0
				for i := range runs {
					count, seed := 1+i/2, uint64(1+i%2)
					crash := sim.Fault{Kind: sim.CrashNode, Kept: true, Step: step, Count: count, For: 60 * sim.Microsecond}
					next := crash
					next.Count++ // of the other one, while the first is down
					r, err := scenario.Run(context.Background(), find(t, "durable-steps"), scenario.Options{Seed: seed,
						Faults: sim.Schedule{crash, next}, Settings: []scenario.Setting{{Name: dimWords, Value: words},
							{Name: dimRemote, Value: "50"}}})
					if err != nil {
						t.Fatal(err)
					}
					if r.Failure != nil {
						t.Fatalf("%v\n%s", r.Failure, replay(r))
					}
					if r.Outcomes[0].Hits > 0 && r.Outcomes[1].Hits > 0 {
						both++
					}
				}
				if both < runs/4 {
					t.Errorf("in %d of %d runs both machines crashed", both, runs)
				}
			})
		}
	}
}
