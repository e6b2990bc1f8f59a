package hardware

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"drtmd/htm/directory"
)

var whole = flag.Bool("whole", false, "try every pair of programs of the small world, for some minutes")

// program reads "! Ra Pb Fc": "!" locks everything first.
func program(text string) (ops []op) {
	for _, word := range strings.Fields(text) {
		if word == "!" {
			ops = append(ops, op{kind: first})
			continue
		}
		kind := map[byte]opKind{'R': reads, 'P': partly, 'F': fully}[word[0]]
		ops = append(ops, op{kind, int(word[1] - 'a')})
	}
	return ops
}

// Places of the small world. In the first one each line is on another node than its readers and writers: two data
// nodes, and the two of the transactions.
func apart() place {
	return place{name: "lines on other nodes", homes: []NodeID{0, 1}, cores: [2]NodeID{2, 3}, nodes: 4}
}

func beside() place {
	return place{name: "each transaction beside a line", homes: []NodeID{0, 1}, cores: [2]NodeID{0, 1}, nodes: 2}
}

func together() place {
	return place{name: "both transactions beside a line", homes: []NodeID{0, 1}, cores: [2]NodeID{0, 0}, nodes: 2}
}

func between() place {
	return place{name: "one transaction beside a line", homes: []NodeID{1, 2}, cores: [2]NodeID{0, 1}, nodes: 3}
}

// hybrid are the places as those of HADES-H.
func hybrid(places ...place) []place {
	for i := range places {
		places[i].hybrid = true
		places[i].name += ", HADES-H"
	}
	return places
}

// telling pairs of programs: each reads what the other one writes, or writes it, too.
func telling() [][2]string {
	return [][2]string{{"Ra Fb", "Rb Fa"}, {"Fa Fb", "Ra Rb"}, {"Ra Pb", "Rb Pa"}, {"Ra Rb", "Pb Fa"}, {"Pa Pb", "Pa Pb"}}
}

// pairs of programs for a place: all of a few programs where orders are few.
func pairs(p place) (all [][2]string) {
	if (p.nodes > 2 || p.hybrid) && !*whole {
		return telling()
	}
	programs := []string{"Ra Rb", "Ra Pb", "Rb Pa", "Ra Fb", "Rb Fa", "Pa Pb", "Fa Fb", "Pb Fa"}
	if *whole {
		programs = nil
		for _, a := range []string{"", "Ra", "Pa", "Fa"} {
			for _, b := range []string{"", "Rb", "Pb", "Fb"} {
				if one := strings.TrimSpace(a + " " + b); one != "" {
					programs = append(programs, one)
				}
				if a != "" && b != "" {
					programs = append(programs, b+" "+a)
				}
			}
		}
	}
	for _, one := range programs {
		for _, two := range programs {
			all = append(all, [2]string{one, two})
		}
	}
	return all
}

// TestEveryOrderIsStrictlySerializable: two transactions that read and write two lines, and every order in which their
// operations, the messages and the steps of the nodes can come. Whatever commits is as if it had run alone; both may
// commit, and nothing stays behind.
func TestEveryOrderIsStrictlySerializable(t *testing.T) {
	for _, p := range append(hybrid(beside(), together(), between()), apart(), beside(), together(), between()) {
		t.Run(p.name, func(t *testing.T) {
			states, ends, both := 0, 0, 0
			for _, x := range pairs(p) {
				e := explore(t, p, [2][]op{program(x[0]), program(x[1])}, 0, 0)
				if e.finding != "" {
					t.Fatalf("%q: %s", x, e.finding)
				}
				if e.both == 0 {
					t.Errorf("%q: in no order both commit", x)
				}
				states, ends, both = states+len(e.seen), ends+e.ends, both+e.both
			}
			t.Logf("%d pairs of programs, %d states, %d ends; both commit in %d", len(pairs(p)), states, ends, both)
		})
	}
}

// TestWhoHasLockedEverythingCommits: the livelock rule (§VI). In every order of everything, nothing squashes a
// transaction that has reserved what it accesses, and two of them do not wait for each other for ever.
func TestWhoHasLockedEverythingCommits(t *testing.T) {
	for _, p := range append(hybrid(beside(), together(), between()), beside(), together(), between()) {
		t.Run(p.name, func(t *testing.T) {
			states := 0
			for _, x := range [][2]string{{"! Ra Fb", "Rb Fa"}, {"! Ra Fb", "! Rb Fa"}, {"! Fa Fb", "Ra Rb"},
				{"! Ra Rb", "Pb Fa"}, {"! Pb Pa", "! Pa Pb"}} {
				e := explore(t, p, [2][]op{program(x[0]), program(x[1])}, 0, 0)
				if e.finding != "" || e.both == 0 {
					t.Errorf("%q: both commit in %d of %d ends; %s", x, e.both, e.ends, e.finding)
				}
				states += len(e.seen)
			}
			t.Logf("%d states", states)
		})
	}
}

// Every message twice in a row is as every message once.
func TestRepeatedMessagesChangeNothing(t *testing.T) {
	for _, p := range append(hybrid(beside()), beside(), together()) {
		for _, x := range [][2]string{{"Ra Fb", "Rb Fa"}, {"Ra Rb", "Pb Fa"}, {"Pa Pb", "Pa Pb"}} {
			p.twice = true
			e := explore(t, p, [2][]op{program(x[0]), program(x[1])}, 0, 0)
			if e.finding != "" || e.both == 0 {
				t.Errorf("%s, %q: both commit in %d of %d ends; %s", p.name, x, e.both, e.ends, e.finding)
			}
		}
	}
}

// The two rules that save a later committer's reads (package comment): with two transactions that each read what the
// other one writes, on two data nodes, both commit if either is broken.
func TestLockAndProbeAreOneStepAndASquashPrecedesTheAck(t *testing.T) {
	skew := [2][]op{program("Ra Fb"), program("Rb Fa")}
	for _, c := range []struct {
		name     string
		lagging  bool
		mutation Mutation
	}{
		{"an Ack overtakes the Squash", true, 0},
		{"an Intend-to-commit comes between lock and probe", false, ProbeAfterLock},
	} {
		p := apart()
		p.lagging = c.lagging
		e := explore(t, p, skew, c.mutation, 0)
		if !strings.Contains(e.finding, "transaction 1 [Ra Fb] [committed] found [[0 0]]") ||
			!strings.Contains(e.finding, "transaction 2 [Rb Fa] [committed] found [[0 0]]") {
			t.Errorf("%s: %d states, found %q", c.name, len(e.seen), e.finding)
		}
		t.Logf("%s: found after %d states", c.name, len(e.seen))
	}
	e := explore(t, apart(), skew, 0, 0)
	if e.finding != "" {
		t.Error(e.finding)
	}
	t.Logf("with both rules: %d states, %d ends", len(e.seen), e.ends)
}

// notHere are mutations of the directory that the small world has no use for: package directory finds them.
var notHere = map[directory.Mutation]string{
	directory.EvictionWithoutSquash: "no line is evicted",
}

func TestTheSmallWorldFindsEachMutation(t *testing.T) {
	search := func(m Mutation, dm directory.Mutation, reason string) {
		places := []place{beside(), together(), apart()}
		switch {
		case reason != "" && m >= LocalLockMissing:
			places = hybrid(beside())
		case reason != "":
			places = places[:1] // in some seconds less
		case m >= LocalLockMissing:
			places = hybrid(beside(), together(), between())
		}
		name, found := fmt.Sprint(m, " ", dm), ""
		for _, p := range places {
			for _, x := range pairs(p) {
				if found != "" {
					break
				}
				if e := explore(t, p, [2][]op{program(x[0]), program(x[1])}, m, dm); e.finding != "" {
					found = fmt.Sprintf("%s, %q: %s", p.name, x, e.finding)
				}
			}
		}
		if (found == "") != (reason != "") {
			t.Errorf("%s: found %q, not to be found: %q", name, found, reason)
		}
		t.Logf("%s: %s%s", name, reason, found)
	}
	for _, m := range Mutations().All() {
		if m >= AckBeforePersist { // of transactions with replicas
			continue // package scenario has them
		}
		reason := Mutations()[m].Equivalent
		if m == AnothersBitsCleared {
			reason = "it takes a third transaction: TestFiltersOutliveTheEndOfAnother"
		}
		search(m, 0, reason)
	}
	for _, m := range directory.Mutations().All() {
		search(0, m, notHere[m])
	}
}

// The end of a remote transaction leaves the filters of the others alone: a third transaction finds the reader.
func TestFiltersOutliveTheEndOfAnother(t *testing.T) {
	run := func(m Mutation) (reader []End) {
		p := place{homes: []NodeID{0, 0}, cores: [2]NodeID{1, 2}, nodes: 3}
		w := newWorld(t, p, [2][]op{program("Rb"), program("Ra")}, m, 0)
		settle := func() {
			for options := w.choices(nil); len(options) > 0 && options[0].kind != 'c'; options = w.choices(nil) {
				w.do(options[0])
			}
		}
		for i := range w.clients {
			w.advance(i)
			settle()
			w.advance(i)
		}
		w.advance(0) // commits
		settle()
		tx, _ := w.nodes[0].Begin(0)
		w.nodes[0].Write(tx, lineOf(0), 0, []byte{9})
		w.nodes[0].Commit(tx)
		settle()
		if len(w.clients[1].told) == 0 {
			w.advance(1)
			settle()
		}
		return w.clients[1].told
	}
	if told := run(0); len(told) != 1 || told[0] != RemoteSquash {
		t.Errorf("the reader was told %v", told)
	}
	if told := run(AnothersBitsCleared); len(told) != 1 || told[0] != Committed {
		t.Errorf("with the mutation, the reader was told %v", told)
	}
}
