package scenario

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a scenario and fails the test on a wrong option.
func run(t testing.TB, s *Scenario, o Options) *Result {
	t.Helper()
	r, err := Run(s, o)
	must(t, err)
	return r
}

// held fails the test if a check of the run failed.
func held(t testing.TB, r *Result) {
	t.Helper()
	if r.Failure == nil {
		return
	}
	for _, e := range r.Failure.Events {
		t.Log(e)
	}
	t.Fatalf("%v\ndrtmd %s\n%s", r.Failure, r.ReplayArgs(""), r.Schedule)
}

func TestEveryScenarioHoldsWithoutFaults(t *testing.T) {
	for _, s := range All() {
		t.Run(s.Name, func(t *testing.T) {
			r := run(t, s, Options{Seed: 1})
			held(t, r)
			t.Logf("%d events, %d resumes of %d fibers, %s; %v; hash %016x", r.Stats.Events, r.Resumes, r.Fibers,
				r.Stats.Virtual, r.Counts, r.Hash)
		})
	}
}
