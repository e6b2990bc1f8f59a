package reproduce

import (
	"context"
	"math"
	"testing"

	"drtmd/internal/testkit/raceskip"
)

// TestRunsOfHADESAreSharedAndSplit: an equal run is made once, and its phases add up to the latency that clients measure.
// The baseline waits in all of them, HADES not for its commit.
func TestRunsOfHADESAreSharedAndSplit(t *testing.T) {
	raceskip.Simulated(t)
	r := &Run{Options: Options{Quick: true, Seeds: 1}, ctx: context.Background(), progress: func(int, int) {}, trials: trials{}}
	cluster, app := paperCluster(), hadesApplications(r)[1] // HT-wA
	for _, protocol := range []string{farmName, hadesName} {
		got, err := r.runTrial(&cluster, app, protocol, 0)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := r.runTrial(&cluster, app, protocol, 0); again != got || err != nil {
			t.Errorf("%s: the same run was made again, %v", protocol, err)
		}
		sum := 0.0
		for p := range phaseEnd {
			sum += got.phases.mean(p)
			if waits := got.phases.mean(p) > 0; waits != (p != commitment || protocol == farmName) {
				t.Errorf("%s: %v takes %.0f ns", protocol, p, got.phases.mean(p))
			}
		}
		if got.phases.count != int(got.latency.Samples) || math.Abs(sum/got.latency.MeanNs-1) > partsApart {
			t.Errorf("%s: %d transactions of %.0f ns are split, %d of %.0f ns were measured", protocol, got.phases.count, sum,
				got.latency.Samples, got.latency.MeanNs)
		}
	}
	if len(r.trials) != 2 {
		t.Errorf("%d runs are kept", len(r.trials))
	}
}
