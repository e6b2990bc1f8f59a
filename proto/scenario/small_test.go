package scenario

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"drtmd/verbs/scenario"
)

// smallProtocols are those whose small worlds are run in every order.
var smallProtocols = []string{"small-dnl4", "small-dnl2", "small-dnl1", "small-farm", "small"}

// Runs of each small world in a normal test, and with -whole.
const (
	mostOrders      = 12
	mostOrdersWhole = 20_000
	steppedOrders   = 200 // of each world of stepped, drawn
	steppedSampled  = 24  // of so many worlds of stepped a normal test runs one
)

// most bounds the runs of each small world without mutations.
var most = flag.Int("most", mostOrdersWhole, "with -whole, make at most so many runs of each small world without crashes, "+
	"and as many with")

// world is a small world: a scenario with its script, size and faults.
type world struct {
	scenario       string
	nodes, workers int
	set            string
	faults         string
}

func (w world) String() string {
	return fmt.Sprintf("%s %d %d %s", w.scenario, w.nodes, w.workers, w.set)
}

func (w world) options(t *testing.T, mutation string) scenario.Options {
	t.Helper()
	settings, err := scenario.ParseSettings(w.set)
	if err != nil {
		t.Fatal(err)
	}
	o := scenario.Options{Seed: 1, Nodes: w.nodes, Workers: w.workers, Settings: settings, Mutation: mutation}
	if w.faults != "" {
		if o.Faults, err = scenario.ParseFaults(w.faults); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// pairs are the scripts of two transactions on two records that two nodes suffice for.
var pairs = []string{"cross", "skew", "look", "swap"}

// worlds are those of a scenario: every script with two and three replicas, or on devices with line words and without;
// those of pairs with two nodes, too.
func worlds(t *testing.T, name string) (all []world) {
	t.Helper()
	var replicas, words []string
	known := []string{""}
	for _, d := range find(t, name).Dimensions {
		known = append(known, d.Name)
		switch d.Name {
		case dimReplicas:
			replicas = []string{",replicas=3", ",replicas=2"}
		case dimWords:
			words = []string{",words=yes", ",words=no"}
		}
	}
	sizes := replicas
	switch {
	case replicas == nil && words == nil:
		sizes = []string{""}
	case replicas == nil:
		sizes = words
	}
	for i := range scripts {
		script := scripts[i].name
		if !slices.Contains(known, dimensionOf(script)) {
			continue
		}
		for _, r := range sizes {
			set := "script=" + script + r
			switch script {
			case moved, shifted, evicted:
				set += ",slots=enough"
			case mine:
				set += ",fallback=soon"
			}
			all = append(all, world{name, 3, workersOf(scripts[i].transactions), set, ""})
		}
	}
	for _, script := range pairs {
		for _, r := range sizes {
			if r != ",replicas=3" {
				all = append(all, world{name, 2, 1, "script=" + script + r, ""})
			}
		}
	}
	if name == "small-dnl2" || name == "small-dnl4" {
		// Its coordinator is told, and loses the processor; the node's other worker has not.
		all = append(all, world{name, 2, 2, "script=own,replicas=2",
			`at step "occ: before commit" #1 pause-worker for=300us`})
	}
	return all
}

// protocolOf is the protocol of which the small worlds of a scenario are.
func protocolOf(scenario string) string {
	if name, is := strings.CutPrefix(scenario, "small-"); is {
		return name
	}
	return defaultName()
}

// stepped are worlds of two nodes and two workers each, in which a worker loses the processor, or its machine crashes, when
// a marked step is taken for the first time: what a CPU does between two arrivals is one step of a small world otherwise.
func stepped(t *testing.T, name string) (all []world) {
	t.Helper()
	s := find(t, name)
	set, crash := "", "crash dram=kept for=100us"
	words := []string{""}
	var more []string // scripts of leases, whose ends pass while a worker has lost the processor
	for _, d := range s.Dimensions {
		switch d.Name {
		case dimReplicas:
			set, crash = ",replicas=2", "crash dram=lost"
		case dimWords:
			words = []string{",words=yes", ",words=no"}
		}
	}
	if protocolOf(name) == defaultName() {
		more = []string{"leased", "third", "undone", "both", "vacant", "vain", "replaced"}
	}
	for _, step := range s.Steps {
		for _, w := range words {
			for _, script := range []string{"home", "own", "moves"} {
				for _, fault := range []string{"pause-worker for=300us", crash} {
					all = append(all, world{name, 2, 2, "script=" + script + set + w,
						fmt.Sprintf("at step %q #1 %s", step, fault)})
				}
			}
			for _, script := range more {
				for count := 1; count <= 2; count++ {
					all = append(all, world{name, 3, workersOf(scriptNamed(script)), "script=" + script + set + w,
						fmt.Sprintf("at step %q #%d pause-worker for=300us", step, count)})
				}
			}
		}
	}
	return all
}

// runOrders is scenario.Orders or scenario.Wander.
type runOrders func(context.Context, *scenario.Scenario, scenario.OrdersOptions) (scenario.OrdersResult, error)

// ordersBy runs a small world in orders, so many at most.
func ordersBy(t *testing.T, run runOrders, w world, mutation string, crashes bool, most int) scenario.OrdersResult {
	t.Helper()
	x, err := run(context.Background(), find(t, w.scenario),
		scenario.OrdersOptions{Options: w.options(t, mutation), Crashes: crashes && !strings.Contains(w.faults, " crash "),
			Most: most})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// sampled reports whether a normal test runs a world, the i-th of its scenario: the sizes take turns, so that each has every
// other script, and every tenth of those behind the eleventh.
func sampled(i int, w world) bool {
	return w.faults != "" || (i+i/2)%2 == 0 && (i < 22 || i/2%5 == 0)
}

// TestDocumentationCountsSmallWorlds: docs/SIM.md says how many worlds and orders a normal test runs.
func TestDocumentationCountsSmallWorlds(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "SIM.md"))
	if err != nil {
		t.Fatal(err)
	}
	count, orders := 0, map[string]int{}
	for _, name := range smallProtocols {
		for i, w := range worlds(t, name) {
			if sampled(i, w) {
				count++
			}
		}
	}
	for _, s := range readShown(t) {
		orders[strings.TrimPrefix(s.scenario, "small-")]++
	}
	orders["drtm"] = orders["small"]
	delete(orders, "small")
	doc := strings.Join(strings.Fields(string(text)), " ")
	want := []string{fmt.Sprintf("each of %d worlds", count)}
	for name, n := range orders {
		want = append(want, fmt.Sprintf("%d of `%s`", n, name))
	}
	for _, s := range want {
		if !strings.Contains(doc, s) {
			t.Errorf("docs/SIM.md does not say %q", s)
		}
	}
}

// TestSmallWorldsHoldInEveryOrder (Dandelion §4.5): one transaction of each node, in every order of their messages, with
// a crash at every point.
func TestSmallWorldsHoldInEveryOrder(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector sees nothing here that the run without faults does not show")
	}
	runs := mostOrders
	if *whole {
		runs = *most
	}
	for _, name := range smallProtocols {
		t.Run(name, func(t *testing.T) {
			if *whole {
				t.Parallel()
			}
			var sum scenario.OrdersResult
			for i, w := range worlds(t, name) {
				if !*whole && !sampled(i, w) {
					continue
				}
				for _, how := range []struct {
					run     runOrders
					crashes bool
					runs    int
				}{{scenario.Orders, false, runs}, {scenario.Orders, true, runs}, {scenario.Wander, true, max(runs/4, 2)}} {
					x := ordersBy(t, how.run, w, "", how.crashes, how.runs)
					if x.Failure != nil {
						t.Fatalf("%v\n%s", x.Failure.Failure, replay(x.Failure))
					}
					if *whole {
						t.Logf("%s: %d orders, %d cut, %d missed, %d with a crash, %d states; whole: %t", w, x.Orders, x.Cut,
							x.Missed, x.Crashes, x.States, x.Whole)
					}
					sum.Orders, sum.Crashes, sum.States = sum.Orders+x.Orders, sum.Crashes+x.Crashes, sum.States+x.States
				}
			}
			if sum.Orders == 0 || sum.Crashes == 0 {
				t.Errorf("%d orders, %d crashes", sum.Orders, sum.Crashes)
			}
			t.Logf("%d orders, %d with a crash, %d states", sum.Orders, sum.Crashes, sum.States)
		})
	}
}

// TestPairsAreWhole: with two nodes, two records and two transactions the orders of Dandelion's protocols come to their end,
// and docs/SIM.md says how many there are, and states; -whole has crashes at every point, too.
func TestPairsAreWhole(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector sees nothing here that the run without faults does not show")
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "SIM.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"small-dnl4", "small-dnl2", "small-dnl1"} {
		row := "\\| `" + protocolOf(name) + "` "
		for _, script := range pairs {
			w := world{name, 2, 1, "script=" + script + ",replicas=2", ""}
			x := ordersBy(t, scenario.Orders, w, "", *whole, 0)
			if x.Failure != nil || !x.Whole {
				t.Fatalf("%s: whole: %t; %+v", w, x.Whole, x.Failure)
			}
			crashes := "[0-9,]+"
			if *whole {
				crashes = fmt.Sprint(x.Crashes)
			}
			row += fmt.Sprintf("\\| %d, %s, %d ", x.Orders, crashes, x.States)
		}
		if !regexp.MustCompile(row + "\\|").Match(text) {
			t.Errorf("docs/SIM.md has no row %s", row)
		}
	}
}

// TestSmallWorldsHoldWithFaultsAtSteps: the same with a worker that loses the processor, or a machine that crashes, in the
// middle of what is one step otherwise; in orders that are drawn.
func TestSmallWorldsHoldWithFaultsAtSteps(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector sees nothing here that the run without faults does not show")
	}
	for _, name := range smallProtocols {
		t.Run(name, func(t *testing.T) {
			runs := 1
			if *whole {
				runs = min(steppedOrders, *most)
				t.Parallel()
			}
			made := 0
			for i, w := range stepped(t, name) {
				if !*whole && i%steppedSampled != 0 {
					continue
				}
				x := ordersBy(t, scenario.Wander, w, "", true, runs)
				if x.Failure != nil {
					t.Fatalf("%v\n%s", x.Failure.Failure, replay(x.Failure))
				}
				made += x.Orders + x.Crashes
			}
			if t.Logf("%d orders", made); made == 0 {
				t.Error("no order was run")
			}
		})
	}
}
