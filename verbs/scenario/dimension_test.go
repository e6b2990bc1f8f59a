package scenario

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"drtmd/verbs/sim"
)

// dimensional is a scenario with dimensions whose check fails for one of their values.
func dimensional() *Scenario {
	return &Scenario{Name: "dimensional", Nodes: 1, MinNodes: 1, MaxNodes: 2, Workers: 1, Fibers: 1,
		DrawnWorkers: []int{1, 2, 3}, Until: sim.Millisecond, EventLimit: 1e6,
		Dimensions: []Dimension{
			{Name: "size", Values: []string{"1", "2", "3"}, Drawn: []string{"1", "2", "3"}},
			{Name: "kind", Values: []string{"plain", "odd"}, Drawn: []string{"odd"}},
			{Name: "fixed", Values: []string{"a", "b"}}},
		Draw: func(d *Drawing) sim.Schedule {
			return sim.Schedule{{Kind: sim.PauseNode, Node: d.Nodes[0], At: sim.Microsecond,
				For: sim.Microsecond}}
		},
		Build: func(e *Env) error {
			for range e.Nodes {
				if _, err := e.AddMachine(MachineConfig{Workers: e.Workers, Boot: func(*Machine) error {
					return nil
				}}); err != nil {
					return err
				}
			}
			e.AtEnd(func() {
				if e.Setting("size") == "3" {
					e.Fail("size", "it is 3")
				}
			})
			return nil
		}}
}

// Seeds draw every value; what is set is not drawn, and changes nothing else.
func TestSeedsDrawDimensions(t *testing.T) {
	s := dimensional()
	seen := map[string]bool{}
	for seed := range uint64(50) {
		r := run(t, s, Options{Seed: seed})
		o := r.Options
		for _, x := range o.Settings {
			seen[x.String()] = true
		}
		seen["workers="+string(rune('0'+o.Workers))] = true
		set := run(t, s, Options{Seed: seed, Settings: []Setting{{"kind", "plain"}}}).Options
		if set.Workers != o.Workers || valueOf(set.Settings, "size") != valueOf(o.Settings, "size") ||
			valueOf(set.Settings, "kind") != "plain" {
			t.Errorf("seed %d: with kind=plain %v of %d workers, else %v of %d", seed, set.Settings,
				set.Workers, o.Settings, o.Workers)
		}
	}
	for _, x := range []string{"size=1", "size=2", "size=3", "kind=odd", "fixed=a", "workers=1",
		"workers=2", "workers=3"} {
		if !seen[x] {
			t.Errorf("no seed has drawn %s", x)
		}
	}
	if seen["fixed=b"] || seen["kind=plain"] {
		t.Error("a value was drawn that is not to be drawn")
	}
}

// The printed command has all that was drawn, and shrinking leaves only what the failure needs.
func TestDrawnDimensionsReplayAndShrink(t *testing.T) {
	s := dimensional()
	found, err := Search(t.Context(), s, SearchOptions{First: 1, Last: 50, Jobs: 2,
		Options: Options{Random: true, Workers: 0}})
	must(t, err)
	if found.Failure == nil {
		t.Fatal("no seed has drawn size=3")
	}
	small, _, err := Shrink(t.Context(), s, found.Failure)
	must(t, err)
	if small.Options.Workers != 1 || len(small.Schedule) != 0 {
		t.Errorf("shrunk to %d workers and %d faults", small.Options.Workers, len(small.Schedule))
	}
	const want = "--set size=3,kind=plain,fixed=a"
	args := small.ReplayArgs("")
	if !strings.Contains(args, want) || !strings.Contains(args, "--workers 1") {
		t.Errorf("%s in %q", want, args)
	}
	list, err := ParseSettings(strings.TrimPrefix(want, "--set "))
	must(t, err)
	o := Options{Seed: small.Options.Seed, Workers: 1, Settings: list}
	if r := run(t, s, o); r.Failure == nil || r.Hash != small.Hash ||
		!slices.Equal(r.Options.Settings, small.Options.Settings) {
		t.Errorf("the replay is another run: %+v", r.Options)
	}
}

func TestSettingsThatCannotBeAreRefused(t *testing.T) {
	var unknown *UnknownError
	for _, x := range []Setting{{"colour", "red"}, {"size", "4"}} {
		_, err := Run(t.Context(), dimensional(), Options{Settings: []Setting{x}})
		if !errors.As(err, &unknown) || len(unknown.Known) == 0 {
			t.Errorf("%s: %v", x, err)
		}
	}
	for _, text := range []string{"size", "size=1,size=2"} {
		if _, err := ParseSettings(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
