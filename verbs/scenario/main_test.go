package scenario

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// hashesOnly in the environment has the test binary print the hash of each scenario's run with
// a seed, and do nothing else.
const hashesOnly = "DRTMD_TEST_PRINT_HASHES"

func TestMain(m *testing.M) {
	if os.Getenv(hashesOnly) != "" {
		for _, s := range All() {
			r, err := Run(context.Background(), s, hashedOptions(s))
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			fmt.Printf("%s %016x\n", s.Name, r.Hash)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a scenario and fails the test on a wrong option.
func run(t testing.TB, s *Scenario, o Options) *Result {
	t.Helper()
	r, err := Run(t.Context(), s, o)
	must(t, err)
	return r
}

// named finds a scenario.
func named(t testing.TB, name string) *Scenario {
	t.Helper()
	s, err := Find(All(), name)
	must(t, err)
	return s
}

// held fails the test if a check of the run failed.
func held(t testing.TB, r *Result) {
	t.Helper()
	if r == nil || r.Failure == nil {
		return
	}
	for _, e := range r.Failure.Events {
		t.Log(e)
	}
	t.Fatalf("%v\ndrtmd %s\n%s", r.Failure, r.ReplayArgs(""), r.Schedule)
}

// small are options that keep the runs of the large scenario short.
func small(s *Scenario) Options {
	if s.Name == "crowd" {
		return Options{Nodes: 3, Workers: 2, Fibers: 4}
	}
	return Options{}
}
