package planes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"drtmd/cmd/drtmd/internal/config"
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
	"drtmd/proto/placement"
	"drtmd/proto/protocol"
)

// longestPause is between two attempts to build a plane, unless an attempt itself takes longer: see
// buildWait.
const longestPause = 2 * time.Second

// lead builds a plane that serves, if that is this node's task and there is none.
func (p *Planes) lead(ctx context.Context, s member.Session, st *member.State) {
	if len(st.Active.Members) == 0 || !st.Active.Has(s.Self()) {
		return
	}
	same := slices.EqualFunc(st.Shards.Primary, st.Active.Members, member.Member.Same)
	leads := st.Active.Members[0].Same(s.Self())
	mine := st.Shards.Leader.Same(s.Self())
	leaderGone := st.Shards.Version == 0 || !st.Active.Has(st.Shards.Leader)
	running := st.Shards.Run != "" && !leaderGone
	p.mu.Lock()
	same = same || p.built == st.Shards.Version && slices.EqualFunc(p.builtOf, st.Active.Members, member.Member.Same)
	rebuild := p.rebuild && mine || p.handedLocked(s, st) // its own last one was used up, or failed
	busy := p.run != nil || p.building || p.draining
	known := p.built == st.Shards.Version
	begins := !busy && (rebuild || !running && leads && (!same || leaderGone))
	p.mu.Unlock()
	goesOn := begins && !rebuild && p.outlives(st)
	if goesOn && known {
		begins = false
	}
	if begins {
		p.mu.Lock()
		p.building = true // only the steward begins
		p.mu.Unlock()
	}
	switch {
	case begins && goesOn:
		p.calls.Go(func() {
			p.takeOver(ctx, s, st)
			p.Changed()
		})
	case begins:
		p.calls.Go(func() {
			p.tryBuild(ctx, s, st)
			p.Changed()
		})
	case !busy:
		p.waiting(st, running)
	}
}

// handedLocked reports whether the newest shard map was written in this node's name, to be built:
// whoever led a run hands that over to the leader, who may reach more members.
func (p *Planes) handedLocked(s member.Session, st *member.State) bool {
	return st.Shards.Leader.Same(s.Self()) && st.Shards.Run == "" && st.Shards.Version != p.claimed
}

// buildWait is the wait after so many failed attempts to build a plane, the last of which took so
// long. It grows to 2 s, or to half of what an attempt takes where that is more: members whose tables
// take long to load are not kept busy, and a plane is there within seconds of the end of what was in
// the way. Where the network was away, an attempt takes 2 s (the silence after which a peer is given
// up) and the loading of the tables: the plane is ready at most 4 s and twice the loading later.
func buildWait(failures int, took time.Duration) time.Duration {
	return min(retryWait<<min(failures, 8), max(longestPause, min(took/2, longestWait)))
}

// tryBuild builds once. After a failure it waits, longer each time, so that a member that cannot
// build its part is not asked all the time; other members are a reason to try again at once.
func (p *Planes) tryBuild(ctx context.Context, s member.Session, st *member.State) {
	begin := time.Now()
	err := p.build(ctx, s, st)
	session, now := p.o.Members.Now()
	p.mu.Lock()
	// Whoever drains, or has lost its membership, has said why nothing is built any more.
	told := p.draining || session != s
	p.rebuild = err != nil
	p.failures++
	if err == nil {
		p.failures, p.built, p.builtOf = 0, p.claimed, st.Active.Members
	}
	wait := buildWait(p.failures, time.Since(begin))
	p.mu.Unlock()
	newest := now.Shards.Version <= st.Shards.Version+1
	if err != nil && ctx.Err() == nil && newest && !told && !errors.Is(err, member.ErrStale) {
		p.o.Board.NotBuilt(err)
	}
	if err != nil {
		p.pause(ctx, wait, st.Active.Epoch)
	}
	p.mu.Lock()
	p.building = false
	p.mu.Unlock()
}

// pause waits before another attempt, at most until members come or go, or the node drains.
func (p *Planes) pause(ctx context.Context, wait time.Duration, e member.Epoch) {
	tick := time.NewTicker(leaseLook)
	defer tick.Stop()
	for end := time.Now().Add(wait); time.Now().Before(end) && !p.drains(); {
		if st := p.o.Members.State(); st.Newest().Epoch != e {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// waiting says what a node that is not in the plane waits for.
func (p *Planes) waiting(st *member.State, running bool) {
	s, _ := p.o.Members.Now()
	phase, _ := p.o.Board.Phase()
	switch {
	case phase != status.Connecting || s == nil || slices.ContainsFunc(st.Shards.Primary, s.Self().Same):
	case running:
		p.connecting(status.OtherRun)
	case p.beside(st):
		p.connecting(status.OtherTables)
	}
}

// beside reports whether all the nodes of the plane are there, which keep their tables over their lives: a node that
// comes in addition has no part in these once runs have used them.
func (p *Planes) beside(st *member.State) bool {
	n := len(st.Shards.Primary)
	if p.o.Data == nil || n == 0 || slices.ContainsFunc(st.Shards.Primary, func(m member.Member) bool { return !st.Active.Has(m) }) {
		return false
	}
	tables, err := p.servingTables(n)
	return err == nil && tables != ""
}

// build writes the next version of the shard map, if it was not handed over, and has every member
// build its part. Who is not the leader only writes it, in the leader's name.
func (p *Planes) build(ctx context.Context, s member.Session, st *member.State) error {
	if n, want := len(st.Active.Members), p.o.Config.Data.Replicas; n < want {
		return fmt.Errorf("data.replicas is %d, and the cluster has %d nodes: start more, the tables are loaded "+
			"then", want, n)
	}
	leader := st.Active.Members[0]
	a := arrangement{primary: st.Active.Members}
	if leader.Same(s.Self()) {
		var err error
		if a, err = p.arrange(ctx, s.Self(), st.Active.Members); err != nil {
			return err
		}
	}
	next := member.ShardMap{Version: st.Shards.Version + 1, Primary: a.primary, Leader: leader,
		Placement: placed(len(a.primary), p.o.Config.Data.Replicas)}
	p.mu.Lock()
	handed := p.handedLocked(s, st)
	p.mu.Unlock()
	if handed && slices.EqualFunc(st.Shards.Primary, next.Primary, member.Member.Same) {
		next = st.Shards
	} else if err := s.SetShards(next); err != nil || !leader.Same(s.Self()) {
		return err
	}
	p.mu.Lock()
	p.claimed = next.Version
	p.mu.Unlock()
	plan := ServingPlan(p.o.Config, len(next.Primary))
	list, stop := p.peersOf(next, nil)
	defer stop()
	control, tempDir := p.place()
	return p.o.Build(ctx, load.PeerOptions{Nodes: plan.Nodes, Peers: list, Plan: plan, Data: a.data,
		Machine: p.o.Machine, Leader: control, TempDir: tempDir})
}

// placed is where the replicas of a new plane are; nil: there is only one of each record.
func placed(nodes, replicas int) *placement.Map {
	if replicas <= 1 {
		return nil
	}
	return placement.Initial(nodes, replicas)
}

// ServingPlan is what a cluster of so many nodes holds while no benchmark runs.
func ServingPlan(cfg *config.Config, nodes int) *load.Plan {
	c := &cfg.Data
	p := load.DefaultPlan(cfg.Has)
	p.Workload, p.Protocol, p.Workers, p.Fibers = c.Workload, c.Protocol, c.Workers, c.Fibers
	p.Nodes, p.Replicas = nodes, c.Replicas
	p.Growth = protocol.Growth{Bytes: int64(c.Growth), Setting: "data.growth"}
	p.Settings, p.ProtocolOptions = c.WorkloadOptions, c.Options
	return p
}
