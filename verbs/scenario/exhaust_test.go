package scenario

import (
	"errors"
	"slices"
	"testing"

	"drtmd/verbs/sim"
)

// A crash of either node at every marked step of the exchange leaves what recovery can repair.
func TestExchangeSurvivesACrashAtEveryStep(t *testing.T) {
	for _, nodes := range []int{2, 3} {
		if nodes > 2 && (testing.Short() || raceEnabled) {
			continue
		}
		total := 0
		x, err := Exhaust(t.Context(), named(t, "exchange"), ExhaustOptions{Jobs: 2,
			Options: Options{Seed: 1, Nodes: nodes}, Progress: func(_, n int) { total = n }})
		must(t, err)
		held(t, x.Failure)
		steps := 0
		for _, s := range x.Base.Steps {
			steps += s.Count
		}
		if x.Runs != nodes*steps || x.Runs != total || x.Runs != x.Planned || x.Struck != x.Runs {
			t.Errorf("%d nodes, %d steps: %d of %d runs, %d struck", nodes, steps, x.Runs, total,
				x.Struck)
		}
		clients := nodes - 1
		if want := 6 * rounds * clients; steps < want {
			t.Errorf("%d nodes: %d steps, want at least %d", nodes, steps, want)
		}
		t.Logf("%d nodes: %d crashes, %v", nodes, x.Runs, x.Base.Steps)
	}
}

func TestACrashAtSomeStepFindsEachMutation(t *testing.T) {
	s := named(t, "exchange")
	for _, m := range s.Mutations {
		x, err := Exhaust(t.Context(), s, ExhaustOptions{Jobs: 2,
			Options: Options{Seed: 1, Mutation: m.Name}})
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

// What crashes at all steps find and count does not depend on the number of jobs.
func TestExhaustDoesNotDependOnTheJobs(t *testing.T) {
	for _, mutation := range []string{"", mutationUnlockFirst} {
		var first ExhaustResult
		for i, jobs := range []int{1, 3} {
			x, err := Exhaust(t.Context(), named(t, "exchange"), ExhaustOptions{Jobs: jobs,
				Options: Options{Seed: 2, Mutation: mutation}})
			must(t, err)
			if (x.Failure != nil) != (mutation != "") || x.Events == 0 || x.Resumes == 0 {
				t.Fatalf("%+v", x)
			}
			if i == 0 {
				first = x
			}
			if x.Hash != first.Hash || x.Runs != first.Runs || x.Struck != first.Struck ||
				x.Events != first.Events || x.Resumes != first.Resumes {
				t.Errorf("%d jobs: %+v, one: %+v", jobs, x, first)
			}
		}
	}
}

// A scenario names the steps that its programs mark, so that a misspelled one can be refused.
func TestScenariosNameTheirSteps(t *testing.T) {
	for _, s := range All() {
		seen := map[string]bool{}
		for seed := range uint64(10) {
			o := small(s)
			o.Seed, o.Random = seed, true
			for _, step := range run(t, s, o).Steps {
				seen[step.Name] = true
				if !slices.Contains(s.Steps, step.Name) {
					t.Errorf("%s marks %q and does not name it", s.Name, step.Name)
				}
			}
		}
		if len(seen) != len(s.Steps) {
			t.Errorf("%s names %q and marks %v", s.Name, s.Steps, seen)
		}
	}
	_, err := Exhaust(t.Context(), named(t, "storm"), ExhaustOptions{})
	var none *NoStepsError
	if !errors.As(err, &none) {
		t.Errorf("crashes at the steps of a scenario without: %v", err)
	}
}

// A schedule's outcome says which faults never struck, and which struck in vain.
func TestOutcomesTellFaultsThatDidNothing(t *testing.T) {
	faults, err := ParseFaults(`at step "exchange: after lock" #2 crash dram=kept for=50us; ` +
		`at step "exchange: after lock" #999 crash dram=kept; ` +
		`at 0ns drop from=* to=* ppm=1000000`)
	must(t, err)
	s := named(t, "exchange")
	o := Options{Seed: 1, Faults: faults}
	check := func(got []sim.Outcome) {
		t.Helper()
		if len(got) != 3 || !got[0].Struck || got[0].Hits == 0 || got[1].Struck ||
			!got[2].Struck || got[2].Hits != 0 {
			t.Errorf("%+v", got)
		}
	}
	r := run(t, s, o)
	held(t, r)
	check(r.Outcomes)
	found, err := Search(t.Context(), s, SearchOptions{Options: o, First: 1, Last: 5, Jobs: 2})
	must(t, err)
	held(t, found.Failure)
	check(found.Outcomes)
	if found.Outcomes[0].Hits != 5 {
		t.Errorf("%d crashes in 5 runs", found.Outcomes[0].Hits)
	}
}

// A fault that strikes when the programs have ended says nothing about them.
func TestFaultsBehindTheEndHitNothing(t *testing.T) {
	faults, err := ParseFaults("at 30us crash node=n1 dram=kept for=10us; at 3ms crash node=n0")
	must(t, err)
	r := run(t, named(t, "exchange"), Options{Seed: 1, Faults: faults})
	held(t, r)
	if o := r.Outcomes; o[0].Hits != 1 || !o[1].Struck || o[1].Hits != 0 {
		t.Errorf("%+v", o)
	}
}
