package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto"
	"drtmd/proto/member"
)

// steward reacts to each state of the registry, and now and then looks by itself: fences the node
// off from members that are gone, and leads the building of planes where that is its task.
func (d *Daemon) steward(ctx context.Context) {
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.changed:
		case <-wait.C:
		}
		d.turned.Store(int64(d.clock.Now()))
		again := d.react(ctx)
		wait.Reset(again)
	}
}

// react does what the state asks for, and says when to look again at the latest.
func (d *Daemon) react(ctx context.Context) time.Duration {
	d.mu.Lock()
	s, st := d.session, d.state.Clone()
	d.mu.Unlock()
	if s == nil {
		return time.Second
	}
	d.tellGone(&st)
	if st.Pending != nil {
		d.cutOff(s, &st)
		return retryWait / 5
	}
	d.loseLeader(&st)
	d.lead(ctx, s, &st)
	return time.Second
}

// cutOff moves the queue pairs to everybody who is not in the pending view to the error state, and
// says so.
func (d *Daemon) cutOff(s member.Session, st *member.State) {
	if !st.Pending.Has(s.Self()) {
		return // this node is the one that goes
	}
	removed := st.Removed()
	d.named = slices.DeleteFunc(d.named, func(m member.Member) bool {
		return !slices.ContainsFunc(removed, m.Same)
	})
	for _, m := range removed {
		for i, p := range d.partitions() {
			if !p.Same(m) {
				continue
			}
			cause := fmt.Errorf("%v was removed from the cluster in epoch %d", m, st.Pending.Epoch)
			if err := d.disconnect(proto.NodeID(i), cause); err != nil {
				d.log.Error("queue pairs were not moved to the error state", zap.Stringer("member", m),
					zap.Error(err))
				return // the epoch must not become active
			}
			if i := d.part.Info(); i != nil && i.Running {
				d.degrade(m)
			} else if !slices.ContainsFunc(d.named, m.Same) {
				d.named = append(d.named, m)
				d.event(status.Info, cause.Error())
			}
		}
	}
	if slices.Contains(st.Fenced, s.Self().Node) {
		return // it has said so: the others are waited for
	}
	err := s.Fenced(st.Pending.Epoch)
	if err != nil && !errors.Is(err, member.ErrStale) {
		d.log.Warn("the epoch was not acknowledged", zap.Uint64("epoch", uint64(st.Pending.Epoch)),
			zap.Error(err))
	}
	d.mu.Lock()
	d.state = s.State()
	d.mu.Unlock()
	d.poke()
}

// disconnect ends the connections to a partition. A plane that is still being connected is closed:
// when this returns, nothing of it connects any more.
func (d *Daemon) disconnect(n proto.NodeID, cause error) error {
	if i := d.part.Info(); i == nil || i.Open {
		return d.part.Disconnect(n, cause)
	}
	return errors.Join(d.part.Fence(cause), d.part.Close())
}

// partitions are the primaries of the plane that the node holds.
func (d *Daemon) partitions() []member.Member {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.version == 0 {
		return nil
	}
	return slices.Clone(d.shards.Primary)
}

// degrade notes what is left of a member that is gone while clients run.
func (d *Daemon) degrade(m member.Member) {
	text := fmt.Sprintf("partition of %v is gone; records that its clients had locked stay locked until "+
		"the tables are loaded again: recovery comes with durability", m)
	d.mu.Lock()
	known := slices.Contains(d.degraded, text)
	if !known {
		d.degraded = append(d.degraded, text)
	}
	d.mu.Unlock()
	if !known {
		d.event(status.Warn, text)
	}
}

// loseLeader ends the clients of a run whose leader is gone.
func (d *Daemon) loseLeader(st *member.State) {
	d.mu.Lock()
	led, version := d.shards, d.version
	d.mu.Unlock()
	if version == 0 || led.Run == "" || st.Active.Has(led.Leader) {
		return
	}
	if i := d.part.Info(); i != nil && i.Fenced == nil {
		cause := fmt.Errorf("%v, which led run %s, is gone", led.Leader, led.Run)
		d.event(status.Warn, cause.Error())
		d.fence(cause)
	}
}

// fence takes the plane out of service at once.
func (d *Daemon) fence(cause error) {
	if err := d.part.Fence(cause); err != nil {
		d.log.Error("queue pairs were not moved to the error state", zap.Error(err))
	}
}

// lead builds a plane that serves, if that is this node's task and there is none.
func (d *Daemon) lead(ctx context.Context, s member.Session, st *member.State) {
	if len(st.Active.Members) == 0 || !st.Active.Has(s.Self()) {
		return
	}
	same := slices.EqualFunc(st.Shards.Primary, st.Active.Members, member.Member.Same)
	leads := st.Active.Members[0].Same(s.Self())
	d.mu.Lock()
	mine := st.Shards.Leader.Same(s.Self())
	rebuild := d.rebuild && mine // its own last one was used up, or failed
	busy := d.run != nil || d.building || d.draining
	d.mu.Unlock()
	leaderGone := st.Shards.Version == 0 || !st.Active.Has(st.Shards.Leader)
	running := st.Shards.Run != "" && !leaderGone
	switch {
	case busy:
		return
	case rebuild, d.handed(s, st):
	case running || !leads:
		d.waiting(st, running)
		return
	case same && !leaderGone:
		d.waiting(st, running)
		return
	}
	d.mu.Lock()
	d.building = true
	d.mu.Unlock()
	d.calls.Add(1)
	go func() {
		defer d.calls.Done()
		d.tryBuild(ctx, s, st)
		d.poke()
	}()
}

// handed reports whether the newest shard map was written in this node's name, to be built: whoever
// led a run hands that over to the leader, who may reach more members.
func (d *Daemon) handed(s member.Session, st *member.State) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return st.Shards.Leader.Same(s.Self()) && st.Shards.Run == "" && st.Shards.Version != d.claimed
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
func (d *Daemon) tryBuild(ctx context.Context, s member.Session, st *member.State) {
	begin := time.Now()
	err := d.build(ctx, s, st)
	d.mu.Lock()
	// Whoever drains, or has lost its membership, has said why nothing is built any more.
	told := d.draining || d.session != s
	newest := d.state.Shards.Version <= st.Shards.Version+1
	d.rebuild = err != nil
	d.failures++
	if err == nil {
		d.failures = 0
	}
	wait := buildWait(d.failures, time.Since(begin))
	says := err != nil && ctx.Err() == nil && newest && !told && !errors.Is(err, member.ErrStale)
	due := false
	if says {
		d.failed, due = err.Error(), d.unbuilt.due(time.Now(), err.Error())
	}
	d.mu.Unlock()
	if says {
		d.setPhase(status.Connecting, err.Error())
	}
	if due {
		d.event(status.Warn, "the data plane was not built: "+err.Error())
	}
	tick := time.NewTicker(leaseLook)
	defer tick.Stop()
	same := func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.state.Newest().Epoch == st.Active.Epoch && !d.draining
	}
	for end := time.Now().Add(wait); err != nil && time.Now().Before(end) && same(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			err = nil
		}
	}
	d.mu.Lock()
	d.building = false
	d.mu.Unlock()
}

// waiting says what a node that is not in the plane waits for.
func (d *Daemon) waiting(st *member.State, running bool) {
	d.mu.Lock()
	in := d.version == st.Shards.Version && d.phase != status.Connecting
	connecting := d.phase == status.Connecting
	self := d.session
	d.mu.Unlock()
	if in || !connecting || self == nil {
		return
	}
	if running && !slices.ContainsFunc(st.Shards.Primary, self.Self().Same) {
		d.connecting(status.OtherRun)
	}
}

// build writes the next version of the shard map, if it was not handed over, and has every member
// build its part. Who is not the leader only writes it, in the leader's name.
func (d *Daemon) build(ctx context.Context, s member.Session, st *member.State) error {
	leader := st.Active.Members[0]
	next := member.ShardMap{Version: st.Shards.Version + 1, Primary: st.Active.Members, Leader: leader}
	if d.handed(s, st) && slices.EqualFunc(st.Shards.Primary, next.Primary, member.Member.Same) {
		next = st.Shards
	} else if err := s.SetShards(next); err != nil || !leader.Same(s.Self()) {
		return err
	}
	d.mu.Lock()
	d.claimed = next.Version
	d.mu.Unlock()
	plan := d.servingPlan(len(next.Primary))
	list, stop := d.peersOf(next, nil)
	defer stop()
	return load.BuildPeers(ctx, load.PeerOptions{Nodes: plan.Nodes, Peers: list, Plan: plan,
		Machine: d.machine, Leader: d.control, TempDir: d.tempDir})
}

// servingPlan is what the cluster holds while no benchmark runs.
func (d *Daemon) servingPlan(nodes int) *load.Plan {
	c := &d.cfg.Data
	p := load.DefaultPlan()
	p.Workload, p.Protocol, p.Workers, p.Fibers, p.Nodes = c.Workload, c.Protocol, c.Workers, c.Fibers,
		nodes
	p.Settings.Accounts, p.ProtocolOptions = c.Accounts, c.Options
	return p
}
