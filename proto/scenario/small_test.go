package scenario

import (
	"cmp"
	"context"
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

// Runs of each small world in a normal test, and with -whole.
const (
	mostOrders      = 12
	mostOrdersWhole = 20_000
)

// searchSizes are the runs of each small world in search of a mutation: first few of each, then more.
var searchSizes = []int{12, 40, 300}

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

// orders runs a small world in every order, so many at most.
func orders(t *testing.T, w world, mutation string, crashes bool, most int) scenario.OrdersResult {
	t.Helper()
	x, err := scenario.Orders(context.Background(), find(t, w.scenario),
		scenario.OrdersOptions{Options: w.options(t, mutation), Crashes: crashes, Most: most})
	if err != nil {
		t.Fatal(err)
	}
	return x
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
				if !*whole && (i+i/2)%2 > 0 {
					continue // the sizes take turns: each has every other script
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
			if sum.Orders == 0 || sum.Crashes == 0 {
				t.Errorf("%d orders, %d crashes", sum.Orders, sum.Crashes)
			}
			t.Logf("%d orders, %d with a crash, %d states", sum.Orders, sum.Crashes, sum.States)
		})
	}
}

// ordersFile has a line for each mutation and each protocol whose small worlds find it, with the order that shows it.
var ordersFile = filepath.Join("testdata", "orders.txt")

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

// TestSmallWorldsFindMutations: the orders that ordersFile names show its mutations. -whole searches all mutations of
// each of smallProtocols in its small worlds anew, and names those that no world of it shows.
func TestSmallWorldsFindMutations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector sees nothing here that the run without faults does not show")
	}
	known := map[seenIn]shown{}
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
				if lookFor(t, known, x) {
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

// lookFor runs the order that shows a mutation, or searches one.
func lookFor(t *testing.T, known map[seenIn]shown, x seenIn) bool {
	t.Helper()
	s, ok := known[x]
	if ok && shows(t, s) {
		return true
	}
	found, is := searchOrders(t, x)
	switch {
	case is:
		known[x] = found
	case ok:
		t.Errorf("no small world shows it any more")
	default:
		t.Logf("no small world shows it within %d runs of each", searchSizes[len(searchSizes)-1])
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

// searchOrders looks for an order that shows a mutation, in few runs of each world first, and without crashes first.
func searchOrders(t *testing.T, x seenIn) (shown, bool) {
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
	for _, most := range searchSizes {
		for _, crashes := range []bool{false, true} {
			for _, w := range worlds(t, x.scenario) {
				runs := most
				if !crashes {
					runs /= 4
				}
				if r := orders(t, w, x.mutation, crashes, runs); r.Failure != nil {
					s := shown{x.step, w, scenario.FormatOrder(r.Failure.Options.Order)}
					t.Logf("run %d: %v\n%s", r.Orders+r.Crashes, r.Failure.Failure, s.line())
					return s, true
				}
			}
		}
	}
	return shown{}, false
}
