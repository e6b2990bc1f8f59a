package scenario

import (
	"math/rand/v2"
	"testing"
	"time"

	"drtmd/verbs/sim"
)

// With every clock within DELTA of the truth, however they err, no two clients see the lease
// valid at once; beyond it the check sees that they do.
func TestLeaseNeedsClocksWithinDelta(t *testing.T) {
	s := named(t, "lease-clock")
	seeds := uint64(120)
	if testing.Short() || raceEnabled {
		seeds = 10
	}
	if n := figures(s, t, seeds, "grants"); n < 20*seeds {
		t.Errorf("%d grants in %d seeds: the runs prove little", n, seeds)
	}
	o := Options{Random: true, Mutation: mutationBeyondDelta}
	r, err := Search(t.Context(), s, SearchOptions{Options: o, First: 1, Last: 20, Jobs: 2})
	must(t, err)
	if r.Failure == nil || r.Failure.Failure.Check != "one-holder" {
		t.Fatalf("clocks beyond DELTA: %+v", r.Failure)
	}
}

// Two clocks that err by DELTA in opposite directions are harmless; by twice as much they are not.
func TestPairwiseSkewOfTwiceDeltaIsHarmless(t *testing.T) {
	s := named(t, "lease-clock")
	opposite := func(err time.Duration) sim.Schedule {
		return sim.Schedule{{Kind: sim.StepClock, At: sim.Millisecond, Node: "n1", Shift: err},
			{Kind: sim.StepClock, At: sim.Millisecond, Node: "n2", Shift: -err},
			{Kind: sim.StepClock, At: sim.Millisecond, Node: "n3", Shift: -err}}
	}
	broken := 0
	for seed := range uint64(10) {
		held(t, run(t, s, Options{Seed: seed, Faults: opposite(leaseDelta)}))
		if run(t, s, Options{Seed: seed, Faults: opposite(2 * leaseDelta)}).Failure != nil {
			broken++
		}
	}
	if broken == 0 {
		t.Error("clocks that differ by four times DELTA did no harm: the check sees nothing")
	}
}

// Whatever is left out of a drawn schedule, the clocks stay within the bound to the end.
func TestDrawnClocksStayWithinDelta(t *testing.T) {
	const until = 10 * sim.Millisecond
	for seed := range uint64(200) {
		d := &Drawing{Rand: rand.New(rand.NewPCG(seed, 1)), Nodes: []string{"n0", "n1", "n2"},
			Until: until}
		worst := [3]float64{}
		for _, f := range drawClocks(d, until) {
			i := int(f.Node[1] - '0')
			switch f.Kind {
			case sim.StepClock:
				worst[i] += max(float64(f.Shift), -float64(f.Shift))
			case sim.DriftClock:
				lasts := float64(2*until-f.At) / float64(sim.Second)
				worst[i] += max(float64(f.Drift), -float64(f.Drift)) * lasts
			}
		}
		for i, e := range worst {
			if e > float64(leaseDelta) || i > 0 && e == 0 {
				t.Fatalf("seed %d: the clock of n%d errs by up to %g ns", seed, i, e)
			}
		}
	}
}
