package scenario

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drtmd/proto"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// seedsOfTest is what the normal tests search; make soak goes on from there.
const seedsOfTest = 1000

// all are the scenarios of the built-in protocols, made once: tests look for one before each search.
var all = sync.OnceValue(func() []*scenario.Scenario { return All() })

func find(t *testing.T, name string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Find(all(), name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// search runs seeds from 1 until one fails.
func search(t *testing.T, name, mutation string, seeds uint64) scenario.SearchResult {
	t.Helper()
	return searchFrom(t, name, mutation, 1, seeds)
}

func searchFrom(t *testing.T, name, mutation string, first, last uint64) scenario.SearchResult {
	t.Helper()
	r, err := scenario.Search(context.Background(), find(t, name), scenario.SearchOptions{
		First: first, Last: last, Jobs: runtime.NumCPU(),
		Options: scenario.Options{Random: true, Mutation: mutation}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A scenario gets seedsAtOnce seeds more until they have taken its CPU time, or are as many as seedsOf says: there
// are too many scenarios for more in make test. make soak goes on from there.
const (
	cpuOfScenario = time.Second
	cpuOfSeeds    = 5 * time.Second // of scenarios in seedsOf
	seedsAtOnce   = 4
)

// cpuOf is the CPU time of the scenarios that find most.
var cpuOf = map[string]time.Duration{"smallbank": 40 * time.Second, "micro": 20 * time.Second}

// cpuTime is what this process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// replay is the command that makes a failed run again.
func replay(r *scenario.Result) string { return "drtmd " + r.ReplayArgs("") }

// seedsOf are how many seeds a normal test runs of scenarios at most, where they are not one in fifty.
var seedsOf = map[string]uint64{"smallbank": seedsOfTest, "micro": seedsOfTest / 4,
	"races": seedsOfTest / 10, "views": seedsOfTest / 20, "leases": seedsOfTest / 20,
	"reuse": seedsOfTest / 20, "crashes": seedsOfTest / 20, "crashes-twopl": seedsOfTest / 20,
	"smallbank-twopl": seedsOfTest / 20, "smallbank-twopl-local": seedsOfTest / 20,
	"micro-twopl": seedsOfTest / 20, "micro-twopl-local": seedsOfTest / 20,
	"scans": 8, "scans-twopl": 8, "scans-fasst": 2, "scans-farm": 2, "scans-drtmh": 2, "scans-drtmr": 2,
	"scans-drtmr-verbs": 2, "recovery-scans-fasst": 2, "recovery-scans-farm": 2, "recovery-scans-drtmh": 2,
	"recovery-scans-drtmr": 2, "recovery-scans-drtmr-verbs": 2,
	"recovery-tpcc-fasst": 2, "recovery-tpcc-farm": 2, "recovery-tpcc-drtmh": 2, "recovery-tpcc-drtmr": 2,
	"recovery-tpcc-drtmr-verbs": 2,
	"smallbank-dnl4":            1, "micro-dnl4": 1, "replicas-dnl4": 3, "gaps-dnl4": 3, "recovery-dnl4": 4, "smallbank-dnl2": 1,
	"micro-dnl2": 1, "replicas-dnl2": 3, "gaps-dnl2": 3, "recovery-dnl2": 4, "smallbank-dnl1": 1, "micro-dnl1": 1,
	"replicas-dnl1": 3, "gaps-dnl1": 3, "recovery-dnl1": 4,
	"cuts-dnl4": 4, "cuts-dnl2": 4, "cuts-dnl1": 4,
	"clients-dnl4": 4, "clients-dnl2": 4, "clients-dnl1": 4, "clients-farm": 2, "clients-fasst": 2, "clients-drtmh": 2,
	"clients-drtmh-nc": 2, "clients-drtm-occ": 2, "clients-drtmr": 2, "clients-drtmr-verbs": 2,
	"smallbank-hades": 2, "micro-hades": 2, "places-hades": 4, "races-hades": 2, "storms-hades": 4, "skews-hades": 4,
	"scans-hades": 2, "smallbank-hades-h": 2, "micro-hades-h": 2, "places-hades-h": 4, "races-hades-h": 2,
	"storms-hades-h": 4, "skews-hades-h": 4, "scans-hades-h": 2,
	"smallbank-xenic": 3, "micro-xenic": 2, "places-xenic": 2, "races-xenic": 2, "locals-xenic": 2, "skews-xenic": 3,
	"scans-xenic": 2, "recovery-scans-xenic": 2, "recovery-tpcc-xenic": 2,
	"roles-xenic": 2, "losses-scans-xenic": 2, "losses-tpcc-xenic": 1, "stills-xenic": 2,
	"stills-farm": 4, "stills-fasst": 4, "stills-drtmh": 4, "stills-drtmr": 4, "stills-drtmr-verbs": 4,
	"commits-farm": 1, "commits-fasst": 1, "commits-drtmh": 1, "commits-drtmr": 1, "commits-drtmr-verbs": 1,
	"pairs-farm": 1, "pairs-fasst": 1, "pairs-drtmh": 1, "pairs-drtmr": 1, "pairs-drtmr-verbs": 1,
	"atomics-twopl": 4, "atomics-twopl-local": 2, "atomics-drtmr": 2, "atomics-drtmr-verbs": 2,
	"recovery-atomics-drtmr": 2, "recovery-atomics-drtmr-verbs": 2,
	"durable-chains": 4, "durable-tpcc": 3, "barriers": 8, "durable-barriers": 4, "fields": 4, "durable-fields": 4,
	"durable-parts": 4, "durable-twice": 4, "atomics": 4, "durable-home": 4,
	"followed-clocks": seedsOfTest / 10, "members": seedsOfTest / 20, "members-twopl": seedsOfTest / 20}

// TestRunsUnderFaultsAreStrictlySerializable: every fault but the loss of memory, clocks that err
// within DELTA, workers that lose the processor in a commit.
func TestRunsUnderFaultsAreStrictlySerializable(t *testing.T) {
	for _, s := range all() {
		if strings.HasSuffix(s.Name, "-steps") || s.Ordered {
			continue // for TestCrashAtEveryStep, TestSmallWorldsHoldInEveryOrder
		}
		t.Run(s.Name, func(t *testing.T) {
			seeds := cmp.Or(seedsOf[s.Name], seedsOfTest/50)
			if raceEnabled {
				seeds = max(seeds/50, 1) // one goroutine at a time runs: there is little to see
			}
			most := cpuOfScenario
			if seedsOf[s.Name] > 0 {
				most = cmp.Or(cpuOf[s.Name], cpuOfSeeds)
			}
			begin, next := cpuTime(t), uint64(1)
			for ; next <= seeds && cpuTime(t)-begin < most; next += seedsAtOnce {
				if f := searchFrom(t, s.Name, "", next, min(next+seedsAtOnce-1, seeds)).Failure; f != nil {
					t.Fatalf("%v\n%s", f.Failure, replay(f))
				}
			}
			t.Logf("seeds 1..%d of %d", min(next-1, seeds), seeds)
		})
	}
}

// TestCrashAtEveryStep crashes each node at each occurrence of each marked step of a run.
func TestCrashAtEveryStep(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector sees nothing here that the run without faults does not show")
	}
	taken := map[string]bool{}
	for _, c := range []struct {
		scenario, words string
		seeds           []uint64 // whose runs have every kind of transaction, together
	}{
		{"smallbank-steps", "yes", []uint64{1}}, {"smallbank-steps", "no", []uint64{1}},
		{"micro-steps", "yes", []uint64{1}}, {"micro-steps", "no", []uint64{1, 3}},
		{"durable-steps", "yes", []uint64{1}}, // without line words: drtmd sim --every-step
	} {
		t.Run(c.scenario+"/words="+c.words, func(t *testing.T) {
			counts := map[string]uint64{}
			for _, seed := range c.seeds {
				r, err := scenario.Exhaust(context.Background(), find(t, c.scenario),
					scenario.ExhaustOptions{Options: scenario.Options{Seed: seed,
						Settings: []scenario.Setting{{Name: dimWords, Value: c.words}}}, Jobs: runtime.NumCPU()})
				if err != nil {
					t.Fatal(err)
				}
				if r.Failure != nil {
					t.Errorf("%v\n%s", r.Failure.Failure, replay(r.Failure))
				}
				for _, s := range r.Base.Steps {
					taken[s.Name] = true
				}
				for _, x := range r.Base.Counts {
					counts[x.Name] += x.Value
				}
				t.Logf("seed %d: %d crashes, %d events; %v", seed, r.Struck, r.Events, r.Base.Counts)
			}
			for name, n := range counts {
				if n == 0 && !slices.Contains([]string{"rolled back", "aborted", "unknown"}, name) {
					t.Errorf("the runs have no %s", name)
				}
			}
		})
	}
	for _, s := range find(t, "smallbank").Steps {
		byMutation := slices.Contains([]string{"drtm: confirmed before XEND",
			"drtm: unlocked before write-back", "drtm: before reclaim"}, s) // no line words
		// Reconnecting, and an answer that comes late, need another fault before.
		if !taken[s] && !byMutation && s != "drtm: finish" {
			t.Errorf("no run has taken the step %q", s)
		}
	}
}

// TestDeathsAtEveryStep lets machines of clusters with three replicas die at marked steps: with their memory and
// without, two at once, and one while another is recovered. A normal test takes a share of the occurrences; -whole
// takes all, as make soak does.
func TestDeathsAtEveryStep(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector sees nothing here that the run without faults does not show")
	}
	most := 48
	if *whole {
		most = 0
	}
	for _, s := range all() {
		if !s.Deaths {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			for _, first := range []sim.Schedule{nil, {{Kind: sim.CrashNode, Node: "n3", At: s.Until / 2}}} {
				r, err := scenario.Exhaust(context.Background(), s, scenario.ExhaustOptions{Most: most,
					Options: scenario.Options{Seed: 1, Faults: first}, Jobs: runtime.NumCPU()})
				if err != nil {
					t.Fatal(err)
				}
				if r.Failure != nil {
					t.Errorf("%v\n%s", r.Failure.Failure, replay(r.Failure))
				}
				t.Logf("after %d other crashes: %d crashes, %d events; %v", len(first), r.Struck, r.Events, r.Base.Counts)
			}
		})
	}
}

// TestCrashInEveryPiece crashes machines that log transactions in pieces at marked steps, and has them finish these; and
// machines that log those of TPC-C as a whole. A normal test takes a share of the occurrences; -whole takes all, as make
// soak does. The seeds have each type of transaction, together.
func TestCrashInEveryPiece(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector sees nothing here that the run without faults does not show")
	}
	most := 24
	if *whole {
		most = 0
	}
	kinds := map[string]map[string]uint64{} // by scenario: how many transactions of each type
	for _, c := range []struct {
		scenario, words, pieces string
		seed                    uint64
	}{
		{"durable-chains-steps", "yes", "", 2}, {"durable-chains-steps", "no", "", 2},
		{"durable-tpcc-steps", "yes", "yes", 7}, {"durable-tpcc-steps", "no", "yes", 7},
		{"durable-tpcc-steps", "yes", "no", 7}, {"durable-tpcc-steps", "no", "no", 7},
	} {
		settings := []scenario.Setting{{Name: dimWords, Value: c.words}}
		if c.pieces != "" {
			settings = append(settings, scenario.Setting{Name: dimPieces, Value: c.pieces})
		}
		t.Run(fmt.Sprintf("%s/words=%s,pieces=%s", c.scenario, c.words, c.pieces), func(t *testing.T) {
			r, err := scenario.Exhaust(context.Background(), find(t, c.scenario), scenario.ExhaustOptions{Most: most,
				Options: scenario.Options{Seed: c.seed, Settings: settings}, Jobs: runtime.NumCPU()})
			if err != nil {
				t.Fatal(err)
			}
			if r.Failure != nil {
				t.Errorf("%v\n%s", r.Failure.Failure, replay(r.Failure))
			}
			t.Logf("%d crashes, %d events; %v", r.Struck, r.Events, r.Base.Counts)
			all := kinds[c.scenario+c.pieces]
			if all == nil {
				all = map[string]uint64{}
				kinds[c.scenario+c.pieces] = all
			}
			for _, n := range r.Base.Counts {
				all[n.Name] += n.Value
			}
		})
	}
	for name, counts := range kinds {
		for _, kind := range []string{"new-order", "payment", "order-status", "delivery", "stock-level"} {
			if n, there := counts[kind]; there && n == 0 {
				t.Errorf("%s: no %s", name, kind)
			}
		}
	}
}

// TestSameSeedGivesTheSameRun, and a run of each scenario commits: else its checks hold whatever the code does. The
// transactions of a small world are tried once, and its first script has two that abort one another.
func TestSameSeedGivesTheSameRun(t *testing.T) {
	for _, s := range all() {
		t.Run(s.Name, func(t *testing.T) {
			o := scenario.Options{Seed: 7, Random: true}
			if strings.HasPrefix(s.Name, "small-") || s.Name == "small" {
				o.Settings = []scenario.Setting{{Name: "script", Value: "ones"}}
			}
			for last := o.Seed + 2; !commitsAlike(t, s, o); o.Seed++ { // in short runs faults may leave nothing
				if o.Seed == last {
					t.Fatalf("no run commits anything, up to seed %d", last)
				}
			}
		})
	}
}

// commitsAlike does a run twice, and reports whether it commits anything.
func commitsAlike(t *testing.T, s *scenario.Scenario, o scenario.Options) (commits bool) {
	t.Helper()
	var hashes []uint64
	for range 2 {
		r, err := scenario.Run(context.Background(), s, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range r.Steps {
			if !slices.Contains(s.Steps, step.Name) {
				t.Errorf("step %q is not in the scenario's list", step.Name)
			}
		}
		hashes = append(hashes, r.Hash)
		commits = !slices.ContainsFunc(r.Counts, func(c scenario.Count) bool {
			return c.Name == proto.Committed.String() && c.Value == 0
		})
	}
	if hashes[0] != hashes[1] {
		t.Errorf("trace %x, then %x", hashes[0], hashes[1])
	}
	return commits
}
