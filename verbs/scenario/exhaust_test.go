package scenario

import (
	"testing"
)

// A crash of either node at every marked step of the exchange leaves what recovery can repair.
func TestExchangeSurvivesACrashAtEveryStep(t *testing.T) {
	for _, nodes := range []int{2, 3} {
		if nodes > 2 && (testing.Short() || raceEnabled) {
			continue
		}
		total := 0
		x, err := Exhaust(t.Context(), named(t, "exchange"), Options{Seed: 1, Nodes: nodes},
			func(_, n int) { total = n })
		must(t, err)
		held(t, x.Failure)
		steps := 0
		for _, s := range x.Steps {
			steps += s.Count
		}
		if x.Runs != nodes*steps || x.Runs != total || x.Struck != x.Runs {
			t.Errorf("%d nodes, %d steps: %d of %d runs, %d struck", nodes, steps, x.Runs, total,
				x.Struck)
		}
		clients := nodes - 1
		if want := 6 * rounds * clients; steps < want {
			t.Errorf("%d nodes: %d steps, want at least %d", nodes, steps, want)
		}
		t.Logf("%d nodes: %d crashes, %v", nodes, x.Runs, x.Steps)
	}
}

func TestACrashAtSomeStepFindsEachMutation(t *testing.T) {
	s := named(t, "exchange")
	for _, m := range s.Mutations {
		x, err := Exhaust(t.Context(), s, Options{Seed: 1, Mutation: m.Name}, nil)
		must(t, err)
		if x.Failure == nil {
			t.Errorf("%s: not found by %d crashes", m.Name, x.Runs)
			continue
		}
		again := run(t, s, x.Failure.Options)
		if again.Failure == nil || again.Hash != x.Failure.Hash {
			t.Errorf("%s: the failure cannot be made again", m.Name)
		}
		t.Logf("%s: crash %d: %v", m.Name, x.Runs, x.Failure.Failure)
	}
}
