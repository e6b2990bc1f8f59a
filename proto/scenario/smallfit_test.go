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

// TestMutationsFitIntoSmallWorldsOrNot: each mutation of their protocols has an order that shows it, or a reason why
// no world of so few transactions can (Dandelion §4.5: all that fits is found).
func TestMutationsFitIntoSmallWorldsOrNot(t *testing.T) {
	known, reasons := map[seenIn]bool{}, readUnfit(t)
	for _, s := range readShown(t) {
		known[seenIn{s.step, s.scenario}] = true
	}
	for _, name := range smallProtocols {
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
	var found shown
	is := false
	if ok { // a change of the code has moved a step: most likely another order of its world shows it
		found, is = searchIn(t, scenario.Wander, x, s.world, true, ordersAgain)
	}
	if !is {
		found, is = searchOrders(t, x)
	}
	switch {
	case is && !ok && !*update:
		t.Errorf("a small world shows it, and %s has no line: add `%s`, or run go test ./proto/scenario -run '%s' -args -whole "+
			"-update, and take its line out of %s", ordersFile, found.line(), t.Name(), unfitFile)
		fallthrough
	case is:
		known[x] = found
	case ok:
		t.Errorf("no small world shows it any more")
	case reason == nil && !slices.Contains(smallProtocols, x.scenario):
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
			run, runs := runOrders(scenario.Orders), s.runs
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
				if found, is := searchIn(t, run, x, w, crashes, runs); is {
					return found, true
				}
			}
		}
	}
	return shown{}, false
}

// ordersAgain are drawn of the world in which a mutation was found, when its order does not show it any more.
const ordersAgain = 3000

// searchIn looks for an order of one world.
func searchIn(t *testing.T, run runOrders, x seenIn, w world, crashes bool, runs int) (shown, bool) {
	t.Helper()
	r := ordersBy(t, run, w, x.mutation, crashes, runs)
	if r.Failure == nil {
		return shown{}, false
	}
	found := shown{x.step, w, scenario.FormatOrder(r.Failure.Options.Order)}
	t.Logf("run %d: %v\n%s", r.Orders+r.Crashes, r.Failure.Failure, found.line())
	return found, true
}
