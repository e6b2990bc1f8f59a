package planes

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/daemon/data"
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto"
	"drtmd/proto/member"
	"drtmd/proto/option"
)

// keepers makes the node keep tables, and the others answer what they keep; by node.
func keepers(t *testing.T, r *room, kept map[int]status.Data) (tables string) {
	t.Helper()
	r.p.o.Config.Data.Options = option.Settings{"durable": "true"}
	tables, err := r.p.servingTables(3)
	if err != nil || tables == "" {
		t.Fatal(tables, err)
	}
	r.p.o.Data = &data.Store{}
	if err := r.p.o.Data.Load(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	r.c.kept = map[proto.NodeID]*status.Data{}
	for n, d := range kept {
		if d.Tables == "" {
			d.Tables = tables
		}
		if n > 0 {
			r.c.kept[proto.NodeID(n)] = &d
			continue
		}
		h := data.Held{ID: d.ID, Partition: d.Partition, Partitions: d.Partitions, Tables: d.Tables}
		if _, err := r.p.o.Data.Replace(h); err != nil {
			t.Fatal(err)
		}
		if d.Loaded {
			err = r.p.o.Data.Loaded(d.ID)
		}
		for range d.Runs {
			err = r.p.o.Data.Use(d.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return tables
}

// part is what a node keeps of data of three partitions.
func part(id string, partition, runs int) status.Data {
	return status.Data{ID: id, Partition: partition, Partitions: 3, Runs: runs, Loaded: true, Workload: "w", Protocol: "p"}
}

// TestWhoHoldsKeptTables: a plane goes on with what runs have used, or nothing is built.
func TestWhoHoldsKeptTables(t *testing.T) {
	unloaded := part("a", 2, 0)
	unloaded.Loaded = false
	other := func(d status.Data) status.Data { d.Tables = `{"nodes":3}`; return d }
	for _, c := range []struct {
		name  string
		kept  map[int]status.Data
		gone  bool   // node 2 does not answer
		id    string // "": another one
		order []int
		wrong string
	}{
		{"nobody keeps anything", nil, false, "", []int{0, 1, 2}, ""},
		{"as loaded", map[int]status.Data{0: part("a", 0, 0), 1: part("a", 1, 0), 2: part("a", 2, 0)}, false, "a", []int{0, 1, 2}, ""},
		{"loaded in part", map[int]status.Data{0: part("a", 0, 0), 1: part("a", 1, 0), 2: unloaded}, false, "", []int{0, 1, 2}, ""},
		{"as loaded, a node is new", map[int]status.Data{0: part("a", 0, 0), 1: part("a", 1, 0)}, false, "", []int{0, 1, 2}, ""},
		{"as loaded, with other settings", map[int]status.Data{0: other(part("a", 0, 0)), 1: other(part("a", 1, 0)),
			2: other(part("a", 2, 0))}, false, "", []int{0, 1, 2}, ""},
		{"used, in another order", map[int]status.Data{0: part("a", 2, 1), 1: part("a", 0, 0), 2: part("a", 1, 1)}, false, "a",
			[]int{1, 2, 0}, ""},
		{"used, and a partition is missing", map[int]status.Data{0: part("a", 0, 1), 2: part("a", 2, 0)}, false, "", nil,
			"the nodes that keep partition 1 are not there: start them"},
		{"used, of another cluster beside it", map[int]status.Data{1: part("b", 1, 3), 2: part("a", 2, 0)}, false, "", nil,
			"data b (w, p) has 3 partitions, and the nodes that keep partition 0, 2 are not there"},
		{"used, with other settings", map[int]status.Data{0: other(part("a", 0, 1)), 1: other(part("a", 1, 1)),
			2: other(part("a", 2, 1))}, false, "", nil, "the settings in the section data are others: "},
		{"a copy", map[int]status.Data{0: part("a", 0, 1), 1: part("a", 1, 1), 2: part("a", 1, 1)}, false, "", nil,
			"both keep partition 1 of data a: one of them is a copy"},
		{"a node does not answer", map[int]status.Data{0: part("a", 0, 0), 1: part("a", 1, 0)}, true, "", nil,
			"does not say which tables it keeps"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRoom(t)
			keepers(t, r, c.kept)
			if c.gone {
				r.c.others[2] = status.Gone
			}
			a, err := r.p.arrange(context.Background(), lives(0)[0], lives(0, 1, 2))
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("%v, want %q", err, c.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(a.primary, lives(c.order...), member.Member.Same) {
				t.Errorf("primaries %v, want nodes %v", a.primary, c.order)
			}
			if a.data == nil || a.data.Attach != (c.id != "") || c.id != "" && a.data.ID != c.id || c.id == "" && a.data.ID == "a" {
				t.Errorf("data %+v, want %q", a.data, c.id)
			}
		})
	}
}

// TestARunUsesKeptTables if its plan has the same, and says else what differs.
func TestARunUsesKeptTables(t *testing.T) {
	r := newRoom(t)
	keepers(t, r, map[int]status.Data{0: part("a", 0, 1), 1: part("a", 1, 1), 2: part("a", 2, 1)})
	plan := func(change func(*load.Plan)) *load.Plan {
		p := ServingPlan(r.p.o.Config, 3)
		change(p)
		return p
	}
	for _, c := range []struct {
		name, note string
		plan       *load.Plan
		uses       bool
	}{
		{"the same", "", plan(func(p *load.Plan) { p.Seed, p.Duration = 7, 1 }), true},
		{"more fibers", "with fibers 16, not 9 it would use data a", plan(func(p *load.Plan) { p.Fibers = 9 }), false},
		{"nothing is logged", "those of data a (w, p) stay as they are", plan(func(p *load.Plan) { p.ProtocolOptions = nil }), false},
	} {
		a, note, err := r.p.arrangeRun(context.Background(), lives(0)[0], lives(0, 1, 2), c.plan)
		if err != nil || (a.data != nil) != c.uses || !strings.Contains(note, c.note) {
			t.Errorf("%s: %+v, %q, %v", c.name, a.data, note, err)
		}
	}
}

// TestARunWaitsForAMemberThatIsBusy: one that does not say at once what it keeps is a member, and is asked again.
func TestARunWaitsForAMemberThatIsBusy(t *testing.T) {
	r := newRoom(t)
	keepers(t, r, map[int]status.Data{0: part("a", 0, 1), 1: part("a", 1, 1), 2: part("a", 2, 1)})
	r.c.silent = 3
	s, err := r.c.Serving()
	if err != nil {
		t.Fatal(err)
	}
	next, kept, _, err := r.p.claim(t.Context(), s, "a", ServingPlan(r.p.o.Config, 3))
	if err != nil || next.Run != "a" || kept == nil || kept.ID != "a" || r.c.silent != 0 {
		t.Errorf("%v, map %+v, data %+v, and %d members are not asked again", err, next, kept, r.c.silent)
	}
}

// TestARunThatNobodyWaitsForAsksNoMore: its client has gone while members are silent.
func TestARunThatNobodyWaitsForAsksNoMore(t *testing.T) {
	r := newRoom(t)
	keepers(t, r, map[int]status.Data{0: part("a", 0, 1), 1: part("a", 1, 1), 2: part("a", 2, 1)})
	const silent = 1 << 20
	r.c.silent = silent
	s, err := r.c.Serving()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, _, err = r.p.claim(ctx, s, "a", ServingPlan(r.p.o.Config, 3))
	if asked := silent - r.c.silent; !errors.Is(err, context.Canceled) || asked > 2 {
		t.Errorf("%v, after %d members were asked", err, asked)
	}
}

// TestANodeAnswersInTimeWithoutItsWorkers: it waits for them for less than whoever asks waits for it.
func TestANodeAnswersInTimeWithoutItsWorkers(t *testing.T) {
	r := newRoom(t)
	r.part.info = &load.Info{Members: []proto.NodeID{0}}
	for _, asked := range []time.Duration{time.Minute, askTimeout, askTimeout / 4} {
		ctx, cancel := context.WithTimeout(t.Context(), asked)
		end, _ := ctx.Deadline()
		r.part.busy = func(workers context.Context) {
			if until, bounded := workers.Deadline(); (!bounded || !until.Before(end)) && ctx.Err() == nil {
				t.Errorf("asked for an answer in %v, the node gives its workers until then", asked)
			}
		}
		var n status.Node
		if r.p.Describe(ctx, &n); n.Plane == nil {
			t.Error("the rest is not said")
		}
		cancel()
	}
}

// TestDataIsUsedBeforeAnyClientStarts: in a step that all nodes have done before the next.
func TestDataIsUsedBeforeAnyClientStarts(t *testing.T) {
	r := newRoom(t)
	keepers(t, r, map[int]status.Data{0: part("a", 0, 0)})
	r.p.data = &load.Data{ID: "a", Attach: true}
	r.part.wrong["begin"] = errors.New("it cannot")
	for _, runs := range []int{0, 1} {
		if err := r.step(3, load.StepBegin); (err == nil) != (runs == 1) {
			t.Error(err)
		}
		if h := r.p.o.Data.Held(); h.Runs != runs {
			t.Errorf("%d runs are noted, want %d", h.Runs, runs)
		}
		delete(r.part.wrong, "begin")
	}
	if err := r.step(3, load.StepStart); err != nil || r.p.o.Data.Held().Runs != 1 {
		t.Errorf("%v, %d runs", err, r.p.o.Data.Held().Runs)
	}
}

// TestAPlaneOfSomeMembersStays: one that has no part in the kept tables is no reason to build it again.
func TestAPlaneOfSomeMembersStays(t *testing.T) {
	r := newRoom(t)
	d := func(partition int) status.Data { x := part("a", partition, 1); x.Partitions = 2; return x }
	r.p.o.Config.Data.Options = option.Settings{"durable": "true"}
	two, err := r.p.servingTables(2)
	if err != nil {
		t.Fatal(err)
	}
	kept := map[int]status.Data{}
	for n := range 2 {
		x := d(n)
		x.Tables = two
		kept[n] = x
	}
	keepers(t, r, kept)
	r.p.rebuild = true
	r.react(nil)
	r.did(`write shard map 4 in the name of node 0, run ""`, "build on 2 nodes")
	if m := r.c.State().Shards.Primary; !slices.EqualFunc(m, lives(0, 1), member.Member.Same) {
		t.Errorf("primaries %v", m)
	}
	r.react()
	r.did()
}
