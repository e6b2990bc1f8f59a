package reproduce

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/workload/tpcc"
	"drtmd/proto/workload/workloadtest"
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
		if err := got.phases.check(protocol == farmName, got.latency.MeanNs); err != nil {
			t.Errorf("%s: %v", protocol, err)
		}
		if got.phases.check(protocol != farmName, got.latency.MeanNs) == nil {
			t.Errorf("%s: Commit takes time as under another protocol: %+v", protocol, got.phases)
		}
		if got.phases.count != int(got.latency.Samples) {
			t.Errorf("%s: %d transactions are split, %d were measured", protocol, got.phases.count, got.latency.Samples)
		}
	}
	if len(r.trials) != 2 {
		t.Errorf("%d runs are kept", len(r.trials))
	}
}

// TestLocalRequestsAreToTheOwnNode: the share of the records on the client's node is the one that a trial asks for, of
// which Table IV has all (HADES §VIII-C), Figure 12 some, and the other figures as many as of any node.
func TestLocalRequestsAreToTheOwnNode(t *testing.T) {
	raceskip.Simulated(t)
	const self = proto.NodeID(2)
	for _, app := range hadesApplications(&Run{}) {
		t.Run(app.name, func(t *testing.T) {
			for _, local := range []float64{0, 0.5, 1} {
				trial := speedTrial{nodes: 4, cores: 1, local: local}
				w, err := app.make(&trial, 100)
				if err != nil {
					t.Fatal(err)
				}
				store, err := workloadtest.Load(w, trial.nodes)
				if err != nil {
					t.Fatal(err)
				}
				own, all := 0.0, 0.0
				_, err = store.Run(w.NewClient(self, rand.New(rand.NewPCG(1, 2))), 2000, func(x *workloadtest.Transaction) {
					for _, a := range x.Touched {
						if app.name == "TPC-C" && a.Table == tpcc.Item && store.Records[workloadtest.Place{Table: a.Table, Key: a.Key}] == nil {
							continue // one order of a hundred asks for an item that there is not
						}
						if all++; w.Placement().Locate(a.Table, a.Key).Primary == self {
							own++
						}
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				want, near := local, 0.1 // the second customer of a bank is on the first one's node, or on another
				if local == 0 {
					want = 1 / float64(trial.nodes)
				}
				if local == 1 {
					near = 0
				}
				if share := own / all; math.Abs(share-want) > near {
					t.Errorf("%.3f of the records are local, want %.2f", share, want)
				}
			}
		})
	}
}

// TestATransactionIsSplitAtItsSteps: into parts that are not negative, also where a step is missing.
func TestATransactionIsSplitAtItsSteps(t *testing.T) {
	type at struct {
		name string
		now  time.Duration
	}
	for _, x := range []struct {
		name  string
		steps []at
		want  [phaseEnd]time.Duration
	}{
		{"all", []at{{"occ: before execute", 10}, {"occ: before lock", 25}, {"occ: before validate", 30}, {"occ: before commit", 60}},
			[phaseEnd]time.Duration{15, 35, 40}},
		{"again", []at{{"occ: before lock", 25}, {"occ: before execute", 50}, {"occ: before validate", 70}, {"occ: before commit", 80}},
			[phaseEnd]time.Duration{60, 10, 20}},
		{"nothing to validate", []at{{"occ: before commit", 60}}, [phaseEnd]time.Duration{50, 0, 40}},
		{"committed by the NIC", []at{{hadesName + ": before commit", 70}}, [phaseEnd]time.Duration{60, 30, 0}},
	} {
		a := split{running: true, entered: [phaseEnd]time.Duration{10}}
		for _, s := range x.steps {
			a.step(s.name, s.now)
		}
		if got := a.parts(100); got != x.want {
			t.Errorf("%s: %v, want %v", x.name, got, x.want)
		}
	}
}

// TestPhasesThatAreNotExpectedAreRefused.
func TestPhasesThatAreNotExpectedAreRefused(t *testing.T) {
	for name, x := range map[string]struct {
		phaseTimes
		latency float64
	}{
		"no transaction": {phaseTimes{}, 0},
		"no Validation":  {phaseTimes{spent: [phaseEnd]time.Duration{50, 0, 50}, count: 1}, 100},
		"no Commit":      {phaseTimes{spent: [phaseEnd]time.Duration{50, 50, 0}, count: 1}, 100},
		"a negative one": {phaseTimes{spent: [phaseEnd]time.Duration{50, 20, 30}, count: 1, negative: 1}, 100},
		"others":         {phaseTimes{spent: [phaseEnd]time.Duration{50, 20, 30}, count: 1}, 102},
	} {
		if err := x.check(true, x.latency); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	ok := phaseTimes{spent: [phaseEnd]time.Duration{50, 20, 30}, count: 1}
	if err := ok.check(true, 100); err != nil {
		t.Error(err)
	}
}
