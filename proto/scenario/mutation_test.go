package scenario

import (
	"bufio"
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drtmd/proto/node"
	"drtmd/verbs/scenario"
)

// Flags of the tests of mutations.
var (
	whole = flag.Bool("whole", false, "search each mutation from seed 1 on, and run the equivalent "+
		"ones with all seeds")
	update = flag.Bool("update", false, "write the seeds that were found to "+caughtFile)
)

// caughtFile has a line for each mutation that must be caught: whose it is, its name, the scenario
// that catches it, and the first seed that does. A change of the code that moves steps moves seeds;
// the mutation is searched anew then, and -update writes what was found.
var caughtFile = filepath.Join("testdata", "mutations.txt")

// equivalentSeeds are run of each equivalent mutation at most, seedsAtOnce until they have taken cpuOfEquivalent,
// unless -whole asks for all.
const (
	equivalentSeeds = 10
	cpuOfEquivalent = time.Second
)

// likeliest names the scenarios where equivalent mutations would show themselves, if they did anywhere,
// by a prefix of layer and name: the longest counts.
var likeliest = map[string]string{
	"drtm ":                     "micro",
	"drtm keep-stale":           "reuse",
	"drtm no-key-in-rounds":     "reuse",
	"drtm hca-no-key-in":        "reuse",
	"drtm no-grace":             "reuse",
	"drtm no-valid-in-start":    "leases",
	"drtm no-confirm-remote":    "leases",
	"drtm no-confirm-fallback":  "leases",
	"drtm no-second-look-local": "races",
	"htm ":                      "races",
	"htm htm-confirm-last":      "leases",
	"htm htm-never-idle":        "crashes",
	"store":                     "reuse",
	"store/hopscotch":           "places-farm",
	"store/records":             "micro-dnl4",
	"store/btree":               "scans",
	"twopl ranges-":             "scans-twopl",
	"farm ":                     "breaks-farm",
	"fasst ":                    "breaks-fasst",
	"drtmh ":                    "breaks-drtmh",
	"twopl ":                    "micro-twopl",
	"rtx ":                      "repairs",
	"hades ":                    "skews-hades",
	"hades-h ":                  "skews-hades-h",
	"xenic ":                    "micro-xenic",
	"store/nicindex":            "micro-xenic",
	"twopl cpu-":                "micro-twopl-local",
}

// scenarioOf finds the scenario for an equivalent mutation.
func scenarioOf(t *testing.T, x step) string {
	t.Helper()
	longest := -1
	name := ""
	for prefix, scenario := range likeliest {
		if strings.HasPrefix(x.String(), prefix) && len(prefix) > longest {
			longest, name = len(prefix), scenario
		}
	}
	if name == "" {
		t.Fatalf("no scenario is named for %s", x)
	}
	return name
}

// step names a safety step that can be left out.
type step struct{ of, mutation string }

func (s step) String() string { return s.of + " " + s.mutation }

// caught is a line of caughtFile.
type caught struct {
	step
	scenario string
	seed     uint64
}

// linesOf are those of a file of testdata, without comments.
func linesOf(t *testing.T, file string) (list []string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if line := lines.Text(); !strings.HasPrefix(line, "#") {
			list = append(list, line)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return list
}

func readCaught(t *testing.T) (list []caught) {
	t.Helper()
	for _, line := range linesOf(t, caughtFile) {
		var c caught
		if _, err := fmt.Sscan(line, &c.of, &c.mutation, &c.scenario, &c.seed); err != nil {
			t.Fatalf("%s: %q: %v", caughtFile, line, err)
		}
		list = append(list, c)
	}
	return list
}

func writeCaught(t *testing.T, list []caught) {
	t.Helper()
	slices.SortFunc(list, func(a, b caught) int {
		return cmp.Or(cmp.Compare(a.of, b.of), cmp.Compare(a.mutation, b.mutation))
	})
	text := "# whose, mutation, scenario that catches it, first seed that does; written by\n" +
		"#   go test ./proto/scenario -run TestEachMutationIsCaught -args -update\n"
	for _, c := range list {
		text += fmt.Sprintf("%s %s %s %d\n", c.of, c.mutation, c.scenario, c.seed)
	}
	if err := os.WriteFile(caughtFile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// mutations lists all.
func mutations() map[step]scenario.Mutation {
	list := map[step]scenario.Mutation{}
	for _, s := range all() {
		for _, m := range s.Mutations {
			list[step{m.Of, m.Name}] = m
		}
	}
	return list
}

// TestEverySafetyStepHasAMutationThatIsCaught is the rule for each protocol, those to come included:
// it names mutations, and each of them is caught by a scenario or says why it cannot be.
// docs/SIM.md tells how to add one.
func TestEverySafetyStepHasAMutationThatIsCaught(t *testing.T) {
	known := mutations()
	lines := map[step]caught{}
	for _, c := range readCaught(t) {
		if _, twice := lines[c.step]; twice {
			t.Errorf("%s: %s has two lines", caughtFile, c.step)
		}
		lines[c.step] = c
		if m, ok := known[c.step]; !ok || m.Equivalent != "" {
			t.Errorf("%s: %s is no mutation that must be caught", caughtFile, c.step)
		}
	}
	for _, s := range readShown(t) {
		if m, ok := known[s.step]; !ok || m.Equivalent != "" {
			t.Errorf("%s: %s is no mutation that must be caught", ordersFile, s.step)
		}
		lines[s.step] = caught{step: s.step}
	}
	once := map[string]bool{}
	for _, x := range failedOnce() {
		once[x.mutation] = true
	}
	for x, m := range known {
		if _, ok := lines[x]; !ok && !once[x.mutation] && m.Equivalent == "" {
			t.Errorf("%s is in no line of %s: add `%s SCENARIO 1` and run the test with -update, or say "+
				"why it is equivalent", x, caughtFile, x)
		}
		if m.Doc == "" {
			t.Errorf("%s has no line that says what is wrong", x)
		}
	}
	for _, p := range node.Protocols() {
		if p.Unmutated != "" {
			continue
		}
		if len(p.Mutations) == 0 {
			t.Errorf("protocol %s has no mutation: each of its safety steps needs one", p.Name)
		}
		for _, m := range p.Mutations {
			of := cmp.Or(m.Of, p.FamilyName())
			if _, ok := known[step{of, m.Name}]; !ok {
				t.Errorf("mutation %s of protocol %s is in no scenario", m.Name, p.Name)
			}
		}
	}
}

// TestEachMutationIsCaught leaves the safety steps out, one at a time: the checks must find each
// within 1,000 seeds. One mutation is no bug of the code: clocks that are further off than DELTA
// says, which shows that the checks see what leases are for.
func TestEachMutationIsCaught(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector sees nothing here that the run without faults does not show")
	}
	list := readCaught(t)
	var seeds, moved uint64
	start := time.Now()
	for i := range list {
		c := &list[i]
		t.Run(c.of+"/"+c.mutation, func(t *testing.T) {
			if !*whole && c.seed != 0 {
				seeds++
				if f := runSeed(t, c.scenario, c.mutation, c.seed); f != nil {
					t.Logf("seed %d of %s: %v\n%s", c.seed, c.scenario, f.Failure, replay(f))
					return
				}
			}
			r := search(t, c.scenario, c.mutation, seedsOfTest)
			seeds += r.Runs
			if r.Failure == nil {
				t.Fatalf("no seed of 1..%d of %s shows it", seedsOfTest, c.scenario)
			}
			if seed := r.Failure.Options.Seed; seed != c.seed {
				moved++
				c.seed = seed
			}
			t.Logf("seed %d of %s: %v\n%s", c.seed, c.scenario, r.Failure.Failure, replay(r.Failure))
		})
	}
	t.Logf("%d mutations caught with %d seeds in %s; %d of them by another seed than %s says", len(list),
		seeds, time.Since(start).Round(time.Millisecond), moved, caughtFile)
	if *update && !t.Failed() {
		writeCaught(t, list)
	}
}

// TestEquivalentMutationsAreNotCaught: what is said to change nothing changes nothing.
func TestEquivalentMutationsAreNotCaught(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector sees nothing here that the run without faults does not show")
	}
	known := mutations()
	seeds := uint64(equivalentSeeds)
	if *whole {
		seeds = seedsOfTest
	}
	for x, m := range known {
		if m.Equivalent == "" {
			continue
		}
		t.Run(x.of+"/"+x.mutation, func(t *testing.T) {
			name, begin, next := scenarioOf(t, x), cpuTime(t), uint64(1)
			for ; next <= seeds && (*whole || cpuTime(t)-begin < cpuOfEquivalent); next += seedsAtOnce {
				last := min(next+seedsAtOnce-1, seeds)
				if f := searchFrom(t, name, x.mutation, next, last).Failure; f != nil {
					t.Fatalf("it is caught, so it is not equivalent: %v\n%s", f.Failure, replay(f))
				}
			}
			t.Logf("seeds 1..%d of %d of %s", min(next-1, seeds), seeds, name)
		})
	}
}

// runSeed runs one seed, and gives the run if it fails.
func runSeed(t *testing.T, name, mutation string, seed uint64) *scenario.Result {
	t.Helper()
	r, err := scenario.Run(context.Background(), find(t, name), scenario.Options{Seed: seed,
		Random: true, Mutation: mutation})
	if err != nil {
		t.Fatal(err)
	}
	if r.Failure == nil {
		return nil
	}
	return r
}
