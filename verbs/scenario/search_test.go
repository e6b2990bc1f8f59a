package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"drtmd/verbs/sim"
)

// hashedOptions are those of the runs whose hashes are compared.
func hashedOptions(s *Scenario) Options {
	o := small(s)
	o.Seed, o.Random = 5, true
	return o
}

// The same options give the same run: again, at every GOMAXPROCS, and in another process.
func TestRunsAreReproducible(t *testing.T) {
	var want strings.Builder
	seen := map[uint64]string{}
	for _, s := range All() {
		first := run(t, s, hashedOptions(s))
		fmt.Fprintf(&want, "%s %016x\n", s.Name, first.Hash)
		if other, ok := seen[first.Hash]; ok {
			t.Errorf("%s has the hash of %s", s.Name, other)
		}
		seen[first.Hash] = s.Name
		for _, procs := range []int{1, 4} {
			before := runtime.GOMAXPROCS(procs)
			again := run(t, s, hashedOptions(s))
			runtime.GOMAXPROCS(before)
			if again.Hash != first.Hash || again.Stats != first.Stats ||
				again.Resumes != first.Resumes || !slices.Equal(again.Counts, first.Counts) {
				t.Errorf("%s at GOMAXPROCS=%d: another run", s.Name, procs)
			}
		}
		o := hashedOptions(s)
		if o.Seed++; run(t, s, o).Hash == first.Hash {
			t.Errorf("%s: another seed, the same hash", s.Name)
		}
	}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), hashesOnly+"=1")
	out, err := c.Output()
	must(t, err)
	if string(out) != want.String() {
		t.Errorf("another process:\n%swant\n%s", out, want.String())
	}
}

// What a search finds and counts does not depend on the number of jobs.
func TestSearchDoesNotDependOnTheJobs(t *testing.T) {
	s := named(t, "exchange")
	for _, mutation := range []string{"", mutationUnlockFirst} {
		var first SearchResult
		for i, jobs := range []int{1, 2, 5} {
			done := uint64(0)
			r, err := Search(t.Context(), s, SearchOptions{First: 3, Last: 40, Jobs: jobs,
				Options: Options{Random: true, Mutation: mutation},
				Progress: func(n, total uint64, _ *Result) {
					if done++; n != done || total != 38 {
						t.Errorf("progress %d of %d, want %d of 38", n, total, done)
					}
				}})
			must(t, err)
			if i == 0 {
				first = r
			}
			if mutation == "" {
				held(t, r.Failure)
				if r.Runs != 38 {
					t.Errorf("%d runs", r.Runs)
				}
			} else if r.Failure == nil || r.Failure.Hash != first.Failure.Hash ||
				r.Runs != r.Failure.Options.Seed-3+1 {
				t.Fatalf("%d jobs found another failure, after %d runs", jobs, r.Runs)
			}
			if r.Runs != first.Runs || r.Events != first.Events || r.Resumes != first.Resumes ||
				r.Hash != first.Hash {
				t.Errorf("%d jobs: %+v, one: %+v", jobs, r, first)
			}
		}
	}
}

func TestSearchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	r, err := Search(ctx, named(t, "storm"), SearchOptions{Last: 1 << 40, Jobs: 2,
		Progress: func(uint64, uint64, *Result) { cancel(why) }})
	if !errors.Is(err, why) || r.Runs == 0 || r.Failure != nil {
		t.Errorf("%d runs, %v", r.Runs, err)
	}
	if _, err := Run(ctx, named(t, "storm"), Options{}); !errors.Is(err, why) {
		t.Errorf("a run with an ended context: %v", err)
	}
}

func TestSearchRefusesWhatCannotBe(t *testing.T) {
	s := named(t, "storm")
	var order *RangeOrderError
	if _, err := Search(t.Context(), s, SearchOptions{First: 2, Last: 1}); !errors.As(err, &order) {
		t.Errorf("a reversed range: %v", err)
	}
	var unknown *UnknownError
	_, err := Search(t.Context(), s, SearchOptions{First: 1, Last: 9, Jobs: 2,
		Options: Options{Mutation: "x"}})
	if !errors.As(err, &unknown) {
		t.Errorf("an unknown mutation: %v", err)
	}
	r, err := Search(t.Context(), named(t, "exchange"), SearchOptions{First: 1<<64 - 2,
		Last: 1<<64 - 1, Jobs: 4})
	if err != nil || r.Runs != 2 {
		t.Errorf("the last two seeds: %d runs, %v", r.Runs, err)
	}
}

// A shrunk schedule fails in the same check, and without any one of its faults it does not. The
// command that replays it is the same run.
func TestShrunkScheduleFailsAndEachOfItsFaultsIsNeeded(t *testing.T) {
	s := named(t, "exchange")
	found, err := Search(t.Context(), s, SearchOptions{First: 1, Last: 200, Jobs: 2,
		Options: Options{Random: true, Mutation: mutationNoRecovery}})
	must(t, err)
	if found.Failure == nil {
		t.Fatal("nothing to shrink")
	}
	small, runs, err := Shrink(t.Context(), s, found.Failure)
	must(t, err)
	check := found.Failure.Failure.Check
	if small.Failure.Check != check || len(small.Schedule) == 0 || runs == 0 ||
		len(small.Schedule) >= len(found.Failure.Schedule) {
		t.Fatalf("from %d faults to %d after %d runs", len(found.Failure.Schedule),
			len(small.Schedule), runs)
	}
	for i := range small.Schedule {
		o := small.Options
		o.Faults = slices.Delete(slices.Clone(small.Schedule), i, i+1)
		if r := run(t, s, o); r.Failure != nil && r.Failure.Check == check {
			t.Errorf("fault %d (%s) is not needed", i, small.Schedule[i])
		}
	}
	_, text, _ := strings.Cut(small.ReplayArgs("--preset cx5-100g"), "--faults '")
	faults, err := ParseFaults(strings.TrimSuffix(text, "'"))
	must(t, err)
	o := small.Options
	o.Faults = faults
	if r := run(t, s, o); r.Hash != small.Hash {
		t.Error("the replay is another run")
	}
}

func TestReplayArgsNameAllThatMatters(t *testing.T) {
	faults := sim.Schedule{{Kind: sim.CrashNode, Step: "it's; here", Count: 2, Kept: true},
		{Kind: sim.RestartNode, At: sim.Millisecond, Node: "n1"}}
	r := &Result{Scenario: "crowd", Schedule: faults, Options: Options{Seed: 9, Nodes: 4,
		Workers: 2, Fibers: 3, Mutation: "x"}}
	want := `sim --scenario crowd --seed 9 --nodes 4 --workers 2 --fibers 3 --mutation x ` +
		`--cost a.yaml --faults 'at step "it'\''s; here" #2 crash dram=kept; ` +
		`at 1ms restart node=n1'`
	if got := r.ReplayArgs("--cost a.yaml"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	text := `at step "it's; here" #2 crash dram=kept; at 1ms restart node=n1`
	parsed, err := ParseFaults(text)
	must(t, err)
	if parsed.String() != faults.String() {
		t.Errorf("%s\nwant\n%s", parsed, faults)
	}
	r.Options.Random = true
	if got := r.ReplayArgs(""); !strings.HasSuffix(got, "--mutation x --faults random") {
		t.Error(got)
	}
	r.Options.Random, r.Schedule = false, nil
	if got := r.ReplayArgs(""); !strings.HasSuffix(got, "--mutation x --faults none") {
		t.Error(got)
	}
}

// What is read prints as what is read again, and nothing panics.
func FuzzParseFaults(f *testing.F) {
	f.Add(`at step "a;b" #2 crash dram=kept; at 1ms restart node=n1`)
	f.Add("at 1us drop from=* to=n0 ppm=5;;at 2us heal\n# nothing")
	f.Add(`at step "`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseFaults(text)
		if err != nil {
			return
		}
		again, err := ParseFaults(strings.ReplaceAll(s.String(), "\n", "; "))
		if err != nil || again.String() != s.String() {
			t.Fatalf("%q reads as %q and then %q, %v", text, s, again, err)
		}
	})
}
