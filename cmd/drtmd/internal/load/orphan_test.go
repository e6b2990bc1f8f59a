package load

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/proto/node"
	"drtmd/proto/twopl"
	"drtmd/verbs/shm"
)

// Engines that name records which they have not met: one at which a member owes something, so that all
// of a member's workers name the same.
type (
	stuckDrTM struct {
		*drtm.Engine
		names []proto.Orphan
	}
	stuckTwoPL struct {
		*twopl.Engine
		names []proto.Orphan
	}
)

func (e stuckDrTM) Orphans(to []proto.Orphan) []proto.Orphan  { return append(to, e.names...) }
func (e stuckTwoPL) Orphans(to []proto.Orphan) []proto.Orphan { return append(to, e.names...) }

// stuck has the engines of a protocol name the record of key 7 in table 2 of node 1, and each member
// one of its own.
func stuck(p node.Protocol) node.Protocol {
	made := p.New
	p.New = func(e *node.Env) (proto.Engine, error) {
		engine, err := made(e)
		own := proto.Orphan{Node: e.Node, Table: 1, Key: 3, Owner: 9, Since: 5}
		names := []proto.Orphan{{Node: 1, Table: 2, Key: 7, Owner: 2, Since: 10}, own}
		switch x := engine.(type) {
		case *drtm.Engine:
			return stuckDrTM{x, names}, err
		case *twopl.Engine:
			return stuckTwoPL{x, names}, err
		}
		return engine, err
	}
	return p
}

// TestARunNamesWhatStaysLocked: each record once, however many workers and parts have met it, while
// the run goes on and at its end.
func TestARunNamesWhatStaysLocked(t *testing.T) {
	for _, protocol := range []string{"drtm", "twopl"} {
		t.Run(protocol, func(t *testing.T) {
			plan := testPlan(2)
			plan.Protocol, plan.Workers, plan.Record = protocol, 2, false
			provider := shm.New(shm.Options{})
			list := testPeers(t, 2, 0)
			for _, p := range list {
				p.part.cfg.Open = func(ctx context.Context, r *Request, part *node.Part) (*node.Cluster,
					*Options, error) {
					cfg, err := r.Plan.Make(composition.BuiltIn())
					if err != nil {
						return nil, nil, err
					}
					cfg.Protocol = stuck(cfg.Protocol)
					c, err := node.NewLocal(ctx, node.LocalConfig{Config: cfg, Provider: provider,
						Threads: r.Plan.Threads, Part: part})
					o := r.Plan.Options(cfg.Workload)
					return c, &o, err
				}
			}
			ctx := testContext(t)
			res, err := RunPeers(ctx, peerOptions(t, plan, list))
			if err != nil {
				t.Fatal(err)
			}
			specs := testTables(t, plan)
			want := []Orphan{{0, specs[0].Name, 3, 9, 5}, {1, specs[0].Name, 3, 9, 5},
				{1, specs[1].Name, 7, 2, 10}}
			slices.SortFunc(want, Orphan.order)
			if res.Orphans.Count != len(want) || !slices.Equal(res.Orphans.List, want) {
				t.Errorf("the run names %+v, want %+v", res.Orphans, want)
			}
			if err := BuildPeers(ctx, peerOptions(t, plan, list)); err != nil {
				t.Fatal(err)
			}
			part := list[1].part // holds node 1
			o, err := part.Orphans(ctx)
			if err != nil || o.Count != 2 {
				t.Errorf("a part in service names %+v, %v, want 2", o, err)
			}
			if m, err := part.Counters(ctx); err != nil || m.Orphans.Count != 2 {
				t.Errorf("its counters name %+v, %v, want 2", m, err)
			}
		})
	}
}

// testTables are the tables of a plan's workload.
func testTables(t *testing.T, p *Plan) []proto.TableSpec {
	t.Helper()
	cfg, err := p.Make(composition.BuiltIn())
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Workload.Tables()
}

// TestOrphansAreBoundedAndCounted when there are more than can be named.
func TestOrphansAreBoundedAndCounted(t *testing.T) {
	var all Orphans
	for k := range proto.Key(MostOrphans + 100) {
		one := Orphans{Count: 1, List: []Orphan{{Table: "t", Key: k}}}
		all = all.Plus(one)
	}
	if all.Count != MostOrphans+100 || len(all.List) != MostOrphans {
		t.Errorf("%d named of %d, want %d of %d", len(all.List), all.Count, MostOrphans, MostOrphans+100)
	}
	if s := fmt.Sprint(all.List[1]); s != "node 0, table t, key 1, locked by node 0" {
		t.Errorf("an orphan is %q", s)
	}
}

// Those that a node has locked can be left out, and what is only counted stays.
func TestOrphansWithoutAnOwner(t *testing.T) {
	o := Orphans{Count: 5, List: []Orphan{{Node: 1, Key: 1, Owner: 2}, {Node: 1, Key: 2, Owner: 3}, {Node: 3, Key: 1, Owner: 2}}}
	got := o.without([]proto.NodeID{2})
	if got.Count != 3 || len(got.List) != 1 || got.List[0].Owner != 3 || len(o.List) != 3 || o.List[0].Owner != 2 {
		t.Errorf("%+v of %+v", got, o)
	}
}
