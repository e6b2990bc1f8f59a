package membertest

import (
	"errors"
	"strings"

	"drtmd/proto"
	"drtmd/proto/member"
	"drtmd/proto/placement"
)

// Cases are the suite.
func Cases() []Case {
	return []Case{
		{"members join one after the other", joining},
		{"a view without a member waits until every survivor is fenced", fencing},
		{"a survivor that dies before it is fenced is not waited for", fencingDeath},
		{"a member that is removed knew before that its lease was over", safety},
		{"a member that is cut off for a short while goes on", shortCut},
		{"a member that is cut off for long loses its lease once, and returns as another", longCut},
		{"leaving takes effect at once", leaving},
		{"a node takes its own former life over, and nobody else's", replacing},
		{"of two shard maps for one version one is taken", shards},
		{"the placement of replicas follows the views", replicas},
		{"another build is refused", builds},
		{"without the registry members serve until their leases end", outage},
		{"a registry that is back in time finds its members", shortOutage},
		{"a member can be removed before its lease ends", removing},
	}
}

func joining(t TB, e Env) {
	all := members(t, e, 3)
	for i, l := range all {
		self := l.Self()
		if self.Node != proto.NodeID(i) || self.Incarnation == 0 {
			t.Errorf("member %d is %v", i, self)
		}
		s := l.w.state()
		if s.Pending != nil || s.Active.Epoch != 3 || !s.Active.Has(self) ||
			s.Cluster != all[0].w.state().Cluster || s.Cluster == "" {
			t.Errorf("member %d sees %+v", i, s)
		}
		if until, held := l.Lease(); !held || until <= e.Now() || until > e.Now()+e.Lease() {
			t.Errorf("member %d: lease until %v, held %v, now %v", i, until, held, e.Now())
		}
	}
	if a, b := all[0].Self().Incarnation, all[1].Self().Incarnation; a == b {
		t.Errorf("two lives have incarnation %d", a)
	}
}

func fencing(t TB, e Env) {
	all := members(t, e, 3)
	dead := all[2].Self()
	all[2].node.Cut()
	s := removed(t, e, all[0], dead)
	if s.Pending == nil || s.Active.Epoch != 3 || !s.Active.Has(dead) {
		t.Fatalf("nobody is fenced, and the state is %+v", s)
	}
	if gone := s.Removed(); len(gone) != 1 || !gone[0].Same(dead) {
		t.Errorf("removed: %v", gone)
	}
	want(t, "fenced for an epoch that is not pending", all[0].Fenced(s.Pending.Epoch+1), member.ErrStale)
	if err := all[0].Fenced(s.Pending.Epoch); err != nil {
		t.Fatalf("fenced: %v", err)
	}
	e.Pass(e.Lease() / 2)
	if s := all[0].w.state(); s.Active.Epoch != 3 {
		t.Fatalf("one of two is fenced, and epoch %d is active", s.Active.Epoch)
	}
	removed(t, e, all[1], dead)
	if err := all[1].Fenced(s.Pending.Epoch); err != nil {
		t.Fatalf("fenced: %v", err)
	}
	for i, l := range all[:2] {
		await(t, e, "the view becomes active", func() bool {
			s := l.w.state()
			return s.Pending == nil && s.Active.Epoch == 4 && !s.Active.Has(dead)
		})
		if err := l.Fenced(4); err != nil {
			t.Errorf("member %d says it again: %v", i, err)
		}
	}
}

func fencingDeath(t TB, e Env) {
	all := members(t, e, 3)
	all[2].node.Cut()
	first := removed(t, e, all[0], all[2].Self())
	all[1].node.Cut()
	s := removed(t, e, all[0], all[1].Self())
	if s.Pending == nil || s.Pending.Epoch <= first.Newest().Epoch || len(s.Pending.Members) != 1 {
		t.Fatalf("after the second death: %+v", s)
	}
	if err := all[0].Fenced(s.Pending.Epoch); err != nil {
		t.Fatalf("fenced: %v", err)
	}
	await(t, e, "the last one's view becomes active", func() bool {
		s := all[0].w.state()
		return s.Pending == nil && len(s.Active.Members) == 1
	})
}

func safety(t TB, e Env) {
	all := members(t, e, 2)
	e.Pass(e.Lease() * 7 / 6) // until the last renewal was answered a while ago
	all[1].node.Cut()
	removed(t, e, all[0], all[1].Self())
	if until, held := all[1].Lease(); held || until > e.Now() {
		t.Errorf("removed at %v, and it thinks that it may serve until %v", e.Now(), until)
	}
}

func shortCut(t TB, e Env) {
	all := members(t, e, 2)
	all[1].node.Cut()
	e.Pass(e.Lease() / 8)
	want(t, "a change without the registry", all[1].SetShards(member.ShardMap{Version: 1,
		Primary: []member.Member{all[1].Self()}}), member.ErrUnreachable)
	all[1].node.Mend()
	e.Pass(2 * e.Lease())
	if _, held := all[1].Lease(); !held || len(all[1].w.losses()) > 0 {
		t.Errorf("the lease is lost: %v", all[1].w.losses())
	}
	s := all[0].w.state()
	if s.Active.Epoch != 2 || !s.Active.Has(all[1].Self()) {
		t.Errorf("it was removed: %+v", s)
	}
}

func longCut(t TB, e Env) {
	all := members(t, e, 2)
	old := all[1].Self()
	all[1].node.Cut()
	await(t, e, "the loss is told", func() bool { return len(all[1].w.losses()) == 1 })
	want(t, "the loss", all[1].w.losses()[0], member.ErrLeaseLost)
	want(t, "a change after it", all[1].Fenced(1), member.ErrLeaseLost)
	if _, held := all[1].Lease(); held {
		t.Errorf("the lease is held")
	}
	s := removed(t, e, all[0], old)
	if err := all[0].Fenced(s.Newest().Epoch); err != nil {
		t.Fatalf("fenced: %v", err)
	}
	all[1].node.Mend()
	again := join(t, e, all[1].node, member.Candidate{Node: int(old.Node), Build: "b",
		Replaces: old.Incarnation})
	if now := again.Self(); now.Node != old.Node || now.Incarnation <= old.Incarnation {
		t.Errorf("was %v, is %v", old, now)
	}
	await(t, e, "the other one sees it", func() bool {
		v := all[0].w.state().Active
		return v.Has(again.Self()) && !v.Has(old)
	})
	if n := len(all[1].w.losses()); n != 1 || all[1].w.late > 0 {
		t.Errorf("told of the loss %d times, of %d changes after it", n, all[1].w.late)
	}
}

func leaving(t TB, e Env) {
	all := members(t, e, 2)
	begin := e.Now()
	if err := all[1].Leave(); err != nil {
		t.Fatalf("leave: %v", err)
	}
	s := removed(t, e, all[0], all[1].Self())
	if spent := e.Now() - begin; spent > e.Lease()*3/4 {
		t.Errorf("it took %v of a lease of %v", spent, e.Lease())
	}
	if err := all[0].Fenced(s.Newest().Epoch); err != nil {
		t.Errorf("fenced: %v", err)
	}
	if n := len(all[1].w.losses()); n > 0 {
		t.Errorf("who left is told of a loss: %v", all[1].w.losses())
	}
	want(t, "a change after leaving", all[1].Fenced(1), member.ErrNotMember)
}

func replacing(t TB, e Env) {
	all := members(t, e, 2)
	old := all[1].Self()
	_, err := e.Node().Join(member.Candidate{Node: int(old.Node), Build: "b"}, &watcher{})
	want(t, "the id of a member that lives", err, member.ErrTaken)
	_, err = e.Node().Join(member.Candidate{Node: int(old.Node), Build: "b", Replaces: 99}, &watcher{})
	want(t, "in place of another life", err, member.ErrTaken)
	if _, err = e.Node().Join(member.Candidate{Node: member.MaxNodes, Build: "b"}, &watcher{}); err == nil {
		t.Errorf("an id out of range is taken")
	}
	all[1].node.Cut() // its process has died
	begin := e.Now()
	again := join(t, e, e.Node(), member.Candidate{Node: int(old.Node), Build: "b",
		Replaces: old.Incarnation})
	s := removed(t, e, all[0], old)
	if spent := e.Now() - begin; spent > e.Lease()*3/4 {
		t.Errorf("it took %v of a lease of %v", spent, e.Lease())
	}
	for _, l := range []*life{all[0], again} {
		if err := l.Fenced(s.Newest().Epoch); err != nil {
			t.Errorf("fenced: %v", err)
		}
	}
	await(t, e, "the new life is active", func() bool {
		v := all[0].w.state().Active
		return v.Has(again.Self()) && len(v.Members) == 2
	})
}

func shards(t TB, e Env) {
	all := members(t, e, 2)
	first := member.ShardMap{Version: 1, Primary: []member.Member{all[0].Self(), all[1].Self()},
		Leader: all[0].Self(), Run: "r"}
	if err := all[0].SetShards(first); err != nil {
		t.Fatalf("the first one: %v", err)
	}
	want(t, "another one for version 1", all[1].SetShards(first), member.ErrStale)
	stranger := all[0].Self()
	stranger.Incarnation = 77
	want(t, "a primary that is no member", all[0].SetShards(member.ShardMap{Version: 2,
		Primary: []member.Member{stranger}}), member.ErrStale)
	if err := all[0].SetShards(member.ShardMap{Version: 2}); err == nil {
		t.Errorf("a map without partitions is taken")
	}
	await(t, e, "the other one sees it", func() bool {
		s := all[1].w.state().Shards
		return s.Version == 1 && len(s.Primary) == 2 && s.Run == "r" && s.Leader.Same(all[0].Self())
	})
	first.Version = 2
	if err := all[1].SetShards(first); err != nil {
		t.Errorf("version 2 after 1: %v", err)
	}
}

func replicas(t TB, e Env) {
	all := members(t, e, 3)
	m := member.ShardMap{Version: 1, Placement: placement.Initial(3, 2)}
	for _, l := range all {
		m.Primary = append(m.Primary, l.Self())
	}
	if err := all[0].SetShards(m); err != nil {
		t.Fatalf("placing replicas: %v", err)
	}
	want(t, "a return of a node that is not gone", all[1].Return(), member.ErrStale)
	want(t, "a complete replica", all[1].Filled(0), member.ErrStale)
	placed := func(l *life) *placement.Map { return l.w.state().Shards.Placement }
	await(t, e, "another one sees it", func() bool { return placed(all[1]) != nil })
	if s := all[1].w.state(); placed(all[1]).Epoch != uint64(s.Active.Epoch) {
		t.Errorf("the placement is of epoch %d, the view of %d", placed(all[1]).Epoch, s.Active.Epoch)
	}
	dead := all[2].Self()
	if err := all[0].Remove(dead); err != nil {
		t.Fatalf("removing: %v", err)
	}
	again := join(t, e, all[2].node, member.Candidate{Node: int(dead.Node), Build: "b"})
	for _, l := range []*life{all[0], all[1], again} {
		await(t, e, "the view without the old life is seen", func() bool {
			s := l.w.state()
			return s.Pending != nil && s.Pending.Has(again.Self()) || s.Pending == nil && !s.Active.Has(dead)
		})
		if s := l.w.state(); s.Pending != nil {
			if p := s.Shards.Placement; !p.Lives(2) {
				t.Errorf("the placement is without node 2 before everybody is fenced: %v", p)
			}
			want(t, "a return while a view is pending", again.Return(), member.ErrStale)
			if err := l.Fenced(s.Pending.Epoch); err != nil {
				t.Errorf("fenced: %v", err)
			}
		}
	}
	await(t, e, "the placement is without the old life", func() bool {
		p := placed(again)
		return p != nil && !p.Lives(2) && p.Shards[2].Primary == 0 && len(p.Shards[2].Filling) == 1
	})
	epoch := again.w.state().Active.Epoch
	if err := again.Return(); err != nil {
		t.Fatalf("returning: %v", err)
	}
	await(t, e, "the new life is a node of the placement", func() bool {
		s := all[0].w.state()
		return s.Active.Epoch == epoch+1 && s.Shards.Placement.Lives(2) && s.Shards.Primary[2].Same(again.Self())
	})
	// Two nodes were left for two replicas of each: the third has nothing to fill.
	s := all[0].w.state()
	shard, node := proto.ShardID(0), proto.NodeID(0)
	for i, x := range s.Shards.Placement.Shards {
		if len(x.Filling) > 0 {
			shard, node = proto.ShardID(i), x.Filling[0]
		}
	}
	filler := []*life{all[0], all[1], again}[node]
	other := []*life{all[0], all[1], again}[(node+1)%3]
	want(t, "a replica that another fills", other.Filled(shard), member.ErrStale)
	if err := filler.Filled(shard); err != nil {
		t.Errorf("filled: %v", err)
	}
	await(t, e, "the replica is complete", func() bool {
		p := placed(other)
		return p.Shards[shard].Complete(node) && p.Epoch == uint64(epoch+1)
	})
}

func builds(t TB, e Env) {
	members(t, e, 1)
	_, err := e.Node().Join(member.Candidate{Node: member.AnyNode, Build: "c"}, &watcher{})
	want(t, "another build", err, member.ErrBuild)
	if err != nil && !strings.Contains(err.Error(), `"c"`) {
		t.Errorf("it does not name the builds: %v", err)
	}
}

func outage(t TB, e Env) {
	all := members(t, e, 2)
	begin := e.Now() // stopping takes time as well
	e.Stop()
	for i, l := range all {
		if _, held := l.Lease(); !held && e.Now()-begin < e.Lease()/4 {
			t.Errorf("member %d serves no longer, at once", i)
		}
	}
	_, err := e.Node().Join(member.Candidate{Node: member.AnyNode, Build: "b"}, &watcher{})
	want(t, "joining without the registry", err, member.ErrUnreachable)
	for i, l := range all {
		await(t, e, "the lease ends", func() bool { return len(l.w.losses()) == 1 })
		if _, held := l.Lease(); held {
			t.Errorf("member %d holds what it has lost", i)
		}
	}
	e.Restart()
	var again []*life
	for _, l := range all {
		again = append(again, join(t, e, l.node, member.Candidate{Node: int(l.Self().Node), Build: "b",
			Replaces: l.Self().Incarnation}))
	}
	for i, l := range again {
		if l.Self().Incarnation <= all[i].Self().Incarnation {
			t.Errorf("was %v, is %v", all[i].Self(), l.Self())
		}
	}
	await(t, e, "both are active again", func() bool {
		for _, l := range again { // removed lives have to be fenced off
			s := l.w.state()
			if s.Pending == nil {
				continue
			}
			if err := l.Fenced(s.Pending.Epoch); err != nil && !errors.Is(err, member.ErrStale) {
				t.Fatalf("fenced: %v", err)
			}
		}
		v := again[0].w.state().Active
		return v.Has(again[0].Self()) && v.Has(again[1].Self()) && len(v.Members) == 2
	})
}

func shortOutage(t TB, e Env) {
	e.Lengthen()
	all := members(t, e, 2)
	begin := e.Now()
	e.Stop()
	e.Pass(e.Lease() / 10)
	e.Restart()
	if took := e.Now() - begin; took > e.Lease()/2 {
		t.Fatalf("stopped for %v, of a lease of %v: no short outage", took, e.Lease())
	}
	e.Pass(e.Lease() + e.Lease()/4) // who has not renewed its lease since has lost it
	for i, l := range all {
		if _, held := l.Lease(); !held || len(l.w.losses()) > 0 {
			t.Errorf("member %d has lost its lease: %v", i, l.w.losses())
		}
	}
	if err := all[0].SetShards(member.ShardMap{Version: 1,
		Primary: []member.Member{all[0].Self()}}); err != nil {
		t.Errorf("a change afterwards: %v", err)
	}
}

func removing(t TB, e Env) {
	all := members(t, e, 2)
	m := all[1].Self()
	if err := all[0].Remove(m); err != nil {
		t.Fatalf("remove: %v", err)
	}
	want(t, "a second time", all[0].Remove(m), member.ErrNotMember)
	await(t, e, "it is told", func() bool { return len(all[1].w.losses()) == 1 })
	s := removed(t, e, all[0], m)
	if err := all[0].Fenced(s.Newest().Epoch); err != nil {
		t.Errorf("fenced: %v", err)
	}
}
