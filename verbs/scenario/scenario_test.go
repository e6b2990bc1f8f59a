package scenario

import (
	"errors"
	"strings"
	"testing"
	"time"

	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

func TestEveryScenarioHoldsWithoutFaults(t *testing.T) {
	for _, s := range All() {
		t.Run(s.Name, func(t *testing.T) {
			o := small(s)
			o.Seed = 1
			r := run(t, s, o)
			held(t, r)
			for _, c := range r.Counts {
				if c.Value == 0 && c.Name != "failed" && c.Name != "unknown outcomes" {
					t.Errorf("%s: none", c.Name)
				}
			}
			if r.Stats.Events == 0 || r.Resumes == 0 || r.Fibers == 0 || r.Stats.Virtual == 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// figures runs seeds under random faults and sums up a figure of theirs.
func figures(s *Scenario, t *testing.T, seeds uint64, name string) (total uint64) {
	t.Helper()
	found, err := Search(t.Context(), s, SearchOptions{Options: Options{Random: true}, First: 1,
		Last: seeds, Jobs: 2, Progress: func(_, _ uint64, r *Result) {
			for _, c := range r.Counts {
				if c.Name == name {
					total += c.Value
				}
			}
		}})
	must(t, err)
	held(t, found.Failure)
	return total
}

func TestEveryScenarioHoldsUnderRandomFaults(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() || raceEnabled {
		seeds = 4
	}
	for _, c := range []struct{ scenario, figure string }{
		{"ping-pong", "messages"}, {"rpc-echo", "failed"}, {"storm", "unknown outcomes"},
		{"pipeline", "items"}, {"lease-clock", "grants"}, {"exchange", "rounds"},
	} {
		t.Run(c.scenario, func(t *testing.T) {
			if figures(named(t, c.scenario), t, seeds, c.figure) == 0 {
				t.Errorf("%s: none in %d seeds: the faults prove nothing", c.figure, seeds)
			}
		})
	}
}

// Each kind of fault alone: under those of datagrams, no call is executed twice or answered twice;
// under the others, no update of the storm that reported success is lost or doubled, and one that
// failed is there once or not at all. Each kind hits something.
func TestChecksHoldUnderEachKindOfFault(t *testing.T) {
	seeds := uint64(4)
	if testing.Short() || raceEnabled {
		seeds = 1
	}
	for k := sim.CrashNode; k <= sim.FailAllocs; k++ {
		t.Run(k.String(), func(t *testing.T) {
			s, weights := *named(t, "storm"), []weight{{k, 2}}
			switch k {
			case sim.DropDatagrams, sim.DuplicateDatagrams, sim.DelayDatagrams,
				sim.ReorderDatagrams:
				s = *named(t, "rpc-echo")
			case sim.FailAllocs, sim.RestartNode: // memory is allocated when a node starts
				weights = append(weights, weight{sim.CrashNode, 1})
			case sim.Heal:
				weights = append(weights, weight{sim.CutLink, 2}, weight{sim.Partition, 1})
			}
			s.Draw = draw(8, weights)
			hits := uint64(0)
			r, err := Search(t.Context(), &s, SearchOptions{Options: Options{Random: true},
				First: 1, Last: seeds, Jobs: 2, Progress: func(_, _ uint64, r *Result) {
					for _, o := range r.Outcomes {
						if o.Fault.Kind == k {
							hits += o.Hits
						}
					}
				}})
			must(t, err)
			held(t, r.Failure)
			if hits == 0 {
				t.Error("it hit nothing: the test proves nothing")
			}
			t.Logf("%d hits", hits)
		})
	}
}

// Each deliberate bug is found within this many seeds.
func TestEveryMutationIsFound(t *testing.T) {
	const most = 100
	for _, s := range All() {
		if len(s.Mutations) == 0 {
			t.Errorf("%s has no mutation", s.Name)
		}
		for _, m := range s.Mutations {
			t.Run(s.Name+"/"+m.Name, func(t *testing.T) {
				o := small(s)
				o.Random, o.Mutation = true, m.Name
				r, err := Search(t.Context(), s, SearchOptions{Options: o, First: 1, Last: most,
					Jobs: 2})
				must(t, err)
				if r.Failure == nil {
					t.Fatalf("not found in %d seeds", most)
				}
				t.Logf("seed %d: %v", r.Failure.Options.Seed, r.Failure.Failure)
				if c := r.Failure.Failure.Check; c == CheckEnded || c == CheckInvariant ||
					c == CheckProgram {
					t.Errorf("found by check %s, not by one of the scenario", c)
				}
			})
		}
	}
}

// broken is a scenario of one machine with one fiber.
func broken(body func(m *Machine, f *fiber.Fiber) error) *Scenario {
	return &Scenario{Name: "broken", Nodes: 1, MinNodes: 1, MaxNodes: 1, Until: sim.Millisecond,
		EventLimit: 20_000, Build: func(e *Env) error {
			_, err := e.AddMachine(MachineConfig{Conns: 1, Boot: func(m *Machine) error {
				m.Go(0, "test", func(f *fiber.Fiber) error { return body(m, f) })
				return nil
			}})
			return err
		}}
}

func TestWhatGoesWrongInAProgramIsAFailure(t *testing.T) {
	for _, c := range []struct {
		name  string
		check string // "" = none
		text  string
		body  func(m *Machine, f *fiber.Fiber) error
	}{
		{"nothing", "", "", func(*Machine, *fiber.Fiber) error { return nil }},
		{"over", "", "", func(*Machine, *fiber.Fiber) error { return ErrOver }},
		{"an error", CheckProgram, `n0, fiber "test": oh`,
			func(*Machine, *fiber.Fiber) error { return errors.New("oh") }},
		{"a panic", CheckProgram, "panic: oh", func(*Machine, *fiber.Fiber) error { panic("oh") }},
		{"no end", CheckEnded, "goes on after", func(_ *Machine, f *fiber.Fiber) error {
			for {
				if err := f.Sleep(time.Microsecond); err != nil {
					return err
				}
			}
		}},
		{"no wake-up", CheckEnded, "1 fibers of worker n0/0 wait",
			func(_ *Machine, f *fiber.Fiber) error {
				var c fiber.Cond
				return c.Wait(f, 0)
			}},
		{"a panic of the event loop", CheckInvariant, "panic: oh",
			func(m *Machine, f *fiber.Fiber) error {
				m.Env.World.After(sim.Microsecond, func() { panic("oh") })
				return nil
			}},
		{"a failed check", "mine", "7", func(m *Machine, f *fiber.Fiber) error {
			m.Env.Fail("mine", "%d", 7)
			m.Env.Fail("other", "the first counts")
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, broken(c.body), Options{})
			if c.check == "" {
				held(t, r)
				return
			}
			f := r.Failure
			if f == nil || f.Check != c.check || !strings.Contains(f.Text, c.text) {
				t.Fatalf("%v, want %s with %q", f, c.check, c.text)
			}
			if f.Event == 0 || len(f.Events) == 0 {
				t.Errorf("no event is told: %+v", f)
			}
		})
	}
}

func TestWrongOptionsAreRefusedWithWhatThereIs(t *testing.T) {
	s := named(t, "storm")
	for _, c := range []struct {
		name string
		o    Options
		text string
	}{
		{"few nodes", Options{Nodes: 1}, "nodes 1 is not in 2..64"},
		{"many nodes", Options{Nodes: 65}, "nodes 65 is not in 2..64"},
		{"workers", Options{Workers: 2}, "this scenario has none to set"},
		{"mutation", Options{Mutation: "x"}, `unknown mutation "x"; known: blind-retry, write-back`},
		{"faults", Options{Faults: sim.Schedule{{Kind: sim.CrashNode, Node: "n7"}}},
			`unknown node "n7"; known: n0, n1, n2`},
		{"step", Options{Faults: sim.Schedule{{Kind: sim.CrashNode, Step: "x", Count: 1}}},
			`unknown step "x"; this scenario marks none`},
		{"worker", Options{Faults: sim.Schedule{{Kind: sim.PauseWorker, Node: "n1", Worker: 1,
			For: 1}}}, "n1 has the workers 0..0"},
		{"cost", Options{Cost: &sim.CostModel{}}, "cost model"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Run(t.Context(), s, c.o); err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, want %q", err, c.text)
			}
		})
	}
	var outside *RangeError
	_, err := Run(t.Context(), named(t, "crowd"), Options{Nodes: 256, Workers: 64, Fibers: 1024})
	if !errors.As(err, &outside) || !strings.Contains(err.Error(), "16777216 is not in 1..131072") {
		t.Errorf("more fibers than memory holds: %v", err)
	}
	_, err = Run(t.Context(), named(t, "ping-pong"), Options{Nodes: 3})
	if !errors.As(err, &outside) || err.Error() != "nodes 3 is not in 2..64, or not even" {
		t.Errorf("an odd number of players: %v", err)
	}
	_, err = Find(All(), "x")
	var unknown *UnknownError
	if !errors.As(err, &unknown) || len(unknown.Known) != len(All()) {
		t.Errorf("unknown scenario: %v", err)
	}
}

// A machine whose memory is short when it restarts comes up later, and its peers wait for it.
func TestMachineBootsAgainWhenMemoryWasShort(t *testing.T) {
	faults, err := ParseFaults("at 500us fail-allocs node=n1 times=5; " +
		"at 1ms crash node=n1 dram=kept; at 1.2ms restart node=n1")
	must(t, err)
	r := run(t, named(t, "storm"), Options{Seed: 3, Faults: faults})
	held(t, r)
	if r.Counts[1].Value == 0 {
		t.Error("the crash interrupted nothing")
	}
}
