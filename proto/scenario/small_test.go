package scenario

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drtmd/verbs/scenario"
)

// smallProtocols are those whose small worlds are run in every order.
var smallProtocols = []string{"small-dnl4", "small-dnl2", "small-dnl1", "small-farm", "small"}

// classified are those of which each mutation has a line in ordersFile or unfitFile.
var classified = []string{"small-dnl4", "small-dnl2", "small-dnl1", "small-farm"}

// Runs of each small world in a normal test, and with -whole.
const (
	mostOrders      = 12
	mostOrdersWhole = 20_000
	steppedOrders   = 200 // of each world of stepped, drawn
)

// searches are the runs of each small world in search of a mutation: first few of each, then more. Those that are drawn
// find what the first orders of all do not come to.
var searches = []struct {
	runs    int
	drawn   bool
	stepped bool // in the worlds of stepped
}{{runs: 60, drawn: true}, {runs: 12}, {runs: 8, drawn: true, stepped: true}, {runs: 40}, {runs: 300},
	{runs: 1000, drawn: true}}

// rounds bounds the searches.
var rounds = flag.Int("rounds", 0, "with -whole, make only so many of the searches for a mutation in small worlds; 0: all")

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

// worlds are those of a scenario: every script with two and three replicas, or on devices with line words and without.
func worlds(t *testing.T, name string) (all []world) {
	t.Helper()
	var replicas, words []string
	for _, d := range find(t, name).Dimensions {
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
		for _, r := range sizes {
			set := "script=" + scripts[i].name + r
			if scripts[i].name == moved {
				if name != "small-farm" {
					continue // others move no records
				}
				set += ",slots=enough"
			}
			all = append(all, world{name, 3, 1, set, ""})
		}
	}
	if name == "small-dnl2" || name == "small-dnl4" {
		// Its coordinator is told, and loses the processor; the node's other worker has not.
		all = append(all, world{name, 2, 2, "script=own,replicas=2",
			`at step "occ: before commit" #1 pause-worker for=300us`})
	}
	return all
}

// stepped are worlds of two nodes and two workers each, in which a worker loses the processor, or its machine crashes, when
// a marked step is taken for the first time: what a CPU does between two arrivals is one step of a small world otherwise.
func stepped(t *testing.T, name string) (all []world) {
	t.Helper()
	s := find(t, name)
	set, crash := "", "crash dram=kept for=100us"
	words := []string{""}
	for _, d := range s.Dimensions {
		switch d.Name {
		case dimReplicas:
			set, crash = ",replicas=2", "crash dram=lost"
		case dimWords:
			words = []string{",words=yes", ",words=no"}
		}
	}
	for _, step := range s.Steps {
		for _, script := range []string{"home", "own", "moves"} {
			for _, w := range words {
				for _, fault := range []string{"pause-worker for=300us", crash} {
					all = append(all, world{name, 2, 2, "script=" + script + set + w,
						fmt.Sprintf("at step %q #1 %s", step, fault)})
				}
			}
		}
	}
	return all
}

// orders runs a small world in every order, so many at most.
func orders(t *testing.T, w world, mutation string, crashes bool, most int) scenario.OrdersResult {
	t.Helper()
	return ordersBy(t, scenario.Orders, w, mutation, crashes, most)
}

// ordersBy is orders by scenario.Orders or scenario.Wander.
func ordersBy(t *testing.T, run func(context.Context, *scenario.Scenario, scenario.OrdersOptions) (scenario.OrdersResult, error),
	w world, mutation string, crashes bool, most int) scenario.OrdersResult {
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
// other script, and every sixth of those behind the eleventh.
func sampled(i int, w world) bool {
	return w.faults != "" || (i+i/2)%2 == 0 && (i < 22 || i/2%3 == 0)
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
	most := mostOrders
	if *whole {
		most = mostOrdersWhole
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
				for _, crashes := range []bool{false, true} {
					x := orders(t, w, "", crashes, most)
					if x.Failure != nil {
						t.Fatalf("%v\n%s", x.Failure.Failure, replay(x.Failure))
					}
					if *whole {
						t.Logf("%s: %d orders, %d with a crash, %d states; whole: %t", w, x.Orders, x.Crashes, x.States,
							x.Whole)
					}
					sum.Orders, sum.Crashes, sum.States = sum.Orders+x.Orders, sum.Crashes+x.Crashes, sum.States+x.States
				}
			}
			if *whole {
				for _, w := range stepped(t, name) {
					if x := ordersBy(t, scenario.Wander, w, "", true, steppedOrders); x.Failure != nil {
						t.Fatalf("%v\n%s", x.Failure.Failure, replay(x.Failure))
					}
				}
			}
			if sum.Orders == 0 || sum.Crashes == 0 {
				t.Errorf("%d orders, %d crashes", sum.Orders, sum.Crashes)
			}
			t.Logf("%d orders, %d with a crash, %d states", sum.Orders, sum.Crashes, sum.States)
		})
	}
}

// ordersFile has a line for each mutation and each protocol whose small worlds find it, with the order that shows it;
// unfitFile has one for each mutation, or layer, that does not fit into small worlds of a protocol, or of all, and why.
var (
	ordersFile = filepath.Join("testdata", "orders.txt")
	unfitFile  = filepath.Join("testdata", "unfit.txt")
)

// unfit is a line of unfitFile.
type unfit struct {
	step     // of any mutation, if that is *
	scenario string
	reason   string
	used     bool
}

func readUnfit(t *testing.T) (list []*unfit) {
	t.Helper()
	for _, line := range linesOf(t, unfitFile) {
		words := strings.SplitN(line, " ", 4)
		if len(words) < 4 || len(strings.Fields(words[3])) < 3 {
			t.Fatalf("%s: %q: want whose, mutation or *, scenario or *, and the reason", unfitFile, line)
		}
		list = append(list, &unfit{step: step{words[0], words[1]}, scenario: words[2], reason: words[3]})
	}
	return list
}

// reasonOf finds why a mutation does not fit; nil: it fits.
func reasonOf(list []*unfit, x seenIn) *unfit {
	for _, u := range list {
		if u.of == x.of && (u.mutation == x.mutation || u.mutation == "*") && (u.scenario == x.scenario || u.scenario == "*") {
			u.used = true
			return u
		}
	}
	return nil
}

// TestMutationsFitIntoSmallWorldsOrNot: each mutation of a classified protocol has an order that shows it, or a reason why
// no world of so few transactions can (Dandelion §4.5: all that fits is found).
func TestMutationsFitIntoSmallWorldsOrNot(t *testing.T) {
	known, reasons := map[seenIn]bool{}, readUnfit(t)
	for _, s := range readShown(t) {
		known[seenIn{s.step, s.scenario}] = true
	}
	for _, name := range classified {
		for _, m := range find(t, name).Mutations {
			x := seenIn{step{m.Of, m.Name}, name}
			if m.Equivalent != "" {
				continue
			}
			switch u := reasonOf(reasons, x); {
			case u == nil && !known[x]:
				t.Errorf("%s %s: no line of %s or %s. Search it: go test ./proto/scenario -run 'TestSmallWorldsFindMutations/%s/.*/%s$' "+
					"-args -whole -update; or say why it does not fit", x.step, name, ordersFile, unfitFile, name, m.Name)
			case u != nil && known[x] && u.mutation != "*":
				t.Errorf("%s %s: %s says that it does not fit, and %s has an order that shows it", x.step, name, unfitFile, ordersFile)
			}
		}
	}
	for _, u := range reasons {
		if !u.used {
			t.Errorf("%s: %s %s names no mutation of a protocol with small worlds", unfitFile, u.step, u.scenario)
		}
	}
}

// shown is a line of ordersFile.
type shown struct {
	step
	world
	order string
}

func readShown(t *testing.T) (list []shown) {
	t.Helper()
	for _, line := range linesOf(t, ordersFile) {
		var s shown
		head, faults, _ := strings.Cut(line, " faults ")
		if _, err := fmt.Sscan(head, &s.of, &s.mutation, &s.scenario, &s.nodes, &s.workers, &s.set, &s.order); err != nil {
			t.Fatalf("%s: %q: %v", ordersFile, line, err)
		}
		s.faults = faults
		list = append(list, s)
	}
	return list
}

// line is what readShown reads.
func (s shown) line() string {
	line := fmt.Sprintf("%s %s %s", s.step, s.world, s.order)
	if s.faults != "" {
		line += " faults " + s.faults
	}
	return line
}

func writeShown(t *testing.T, list []shown) {
	t.Helper()
	slices.SortFunc(list, func(a, b shown) int {
		return cmp.Or(strings.Compare(a.step.String(), b.step.String()), strings.Compare(a.scenario, b.scenario))
	})
	text := "# whose, mutation, small world that shows it (scenario, nodes, workers, dimensions), order, faults; written by\n" +
		"#   go test ./proto/scenario -run TestSmallWorldsFindMutations -args -whole -update\n"
	for _, s := range list {
		text += s.line() + "\n"
	}
	if err := os.WriteFile(ordersFile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// seenIn is a mutation in small worlds of one scenario.
type seenIn struct {
	step
	scenario string
}

// TestSmallWorldsFindMutations: the orders that ordersFile names show its mutations. -whole searches the other mutations of
// each protocol in its small worlds, and fails if one is found that has no line there, or if one is not found that fits.
func TestSmallWorldsFindMutations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector sees nothing here that the run without faults does not show")
	}
	known, reasons := map[seenIn]shown{}, readUnfit(t)
	for _, s := range readShown(t) {
		known[seenIn{s.step, s.scenario}] = s
	}
	names := slices.Clone(smallProtocols)
	for x := range known {
		names = append(names, x.scenario) // of others, those mutations alone
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		found, searched := 0, 0
		for _, m := range find(t, name).Mutations {
			x := seenIn{step{m.Of, m.Name}, name}
			all := *whole && slices.Contains(smallProtocols, name)
			if _, ok := known[x]; m.Equivalent != "" || !all && !ok {
				continue
			}
			searched++
			t.Run(name+"/"+strings.ReplaceAll(x.of, "/", "-")+"/"+x.mutation, func(t *testing.T) {
				if lookFor(t, known, reasonOf(reasons, x), x) {
					found++
				}
			})
		}
		t.Logf("%s: %d of %d mutations are found", name, found, searched)
	}
	if *update && !t.Failed() {
		var list []shown
		for _, s := range known {
			list = append(list, s)
		}
		writeShown(t, list)
	}
}

// lookFor runs the order that shows a mutation, or searches one. reason says that it does not fit; nil: it does.
func lookFor(t *testing.T, known map[seenIn]shown, reason *unfit, x seenIn) bool {
	t.Helper()
	s, ok := known[x]
	if ok && shows(t, s) {
		return true
	}
	found, is := searchOrders(t, x)
	switch {
	case is && !ok && !*update:
		t.Errorf("a small world shows it, and %s has no line: add `%s`, or run go test ./proto/scenario -run '%s' -args -whole "+
			"-update, and take its line out of %s", ordersFile, found.line(), t.Name(), unfitFile)
		fallthrough
	case is:
		known[x] = found
	case ok:
		t.Errorf("no small world shows it any more")
	case reason == nil && !slices.Contains(classified, x.scenario):
		t.Log("no small world shows it")
	case reason == nil:
		t.Errorf("no small world shows it; add a world that does (proto/scenario/script.go), or say in %s why it does not fit",
			unfitFile)
	default:
		t.Logf("no small world shows it, as %s says: %s", unfitFile, reason.reason)
	}
	return is
}

// shows reports whether the one run of a line fails.
func shows(t *testing.T, s shown) bool {
	t.Helper()
	o := s.options(t, s.mutation)
	var err error
	if o.Order, err = scenario.ParseOrder(s.order); err != nil {
		t.Fatal(err)
	}
	r, err := scenario.Run(context.Background(), find(t, s.scenario), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Failure == nil || r.Failure.Check == scenario.CheckOrder {
		return false
	}
	t.Logf("%v", r.Failure)
	return true
}

// newestFirst is how many arrivals come before an older one at most, in the orders that are tried before all others: what
// waits meanwhile has gone out of date.
const newestFirst = 12

// newest looks for a mutation in the first orders of each world, and in those that begin with its newest arrivals.
func newest(t *testing.T, x seenIn) (shown, bool) {
	t.Helper()
	for _, w := range worlds(t, x.scenario) {
		for n := range newestFirst {
			s := shown{x.step, w, strings.Repeat("1,", n) + "0"}
			if shows(t, s) {
				t.Logf("%s", s.line())
				return s, true
			}
		}
	}
	return shown{}, false
}

// searchOrders looks for an order that shows a mutation, in few runs of each world first, and without crashes first.
func searchOrders(t *testing.T, x seenIn) (shown, bool) {
	t.Helper()
	if s, is := newest(t, x); is {
		return s, true
	}
	for _, s := range searches[:cmp.Or(*rounds, len(searches))] {
		for _, crashes := range []bool{false, true} {
			run, runs := scenario.Orders, s.runs
			switch {
			case s.drawn && !crashes:
				continue // every other run has none
			case s.drawn:
				run = scenario.Wander
			case !crashes:
				runs /= 4
			}
			list := worlds
			if s.stepped {
				list = stepped
			}
			for _, w := range list(t, x.scenario) {
				if r := ordersBy(t, run, w, x.mutation, crashes, runs); r.Failure != nil {
					found := shown{x.step, w, scenario.FormatOrder(r.Failure.Options.Order)}
					t.Logf("run %d: %v\n%s", r.Orders+r.Crashes, r.Failure.Failure, found.line())
					return found, true
				}
			}
		}
	}
	return shown{}, false
}
