package scenario

import (
	"errors"
	"slices"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/member"
	"drtmd/proto/node"
	"drtmd/proto/placement"
	"drtmd/proto/protocol"
	"drtmd/proto/workload"
	"drtmd/proto/workload/micro"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// Clusters whose records have replicas. A machine that crashes comes back with nothing, whether its memory was
// kept or lost; the others decide its transactions, go on at backups, and fill its replicas again.

// Names of the checks.
const (
	checkReplicas = "replicas"
	checkRecovery = "recovery"
)

// replicated reports whether there is more than one replica of each record.
func (c *cluster) replicated() bool { return c.cfg.Replicas > 1 }

// place has the first machine place the replicas, once all are members.
func (m *manager) place() error {
	l := m.seat
	if m.id != 0 || m.i != 0 || len(l.state.Active.Members) < m.e.Nodes || l.state.Shards.Version > 0 {
		return nil
	}
	for _, s := range m.sites {
		if !s.up() || s.seat == nil || s.seat.session == nil || !l.state.Active.Has(s.seat.session.Self()) {
			return nil // not all members are those that were loaded
		}
	}
	for _, s := range m.sites {
		if s.joins { // it came when the placement could not be set
			s.dismiss()
			return nil
		}
	}
	was := m.placed
	m.placed = true
	err := l.session.SetShards(member.ShardMap{Version: 1, Primary: l.state.Active.Members,
		Leader: l.session.Self(), Placement: placement.Initial(m.e.Nodes, m.cfg.Replicas)})
	m.placed = was || err == nil
	return passing(err)
}

// passing are the errors of a session that a later try may not meet.
func passing(err error) error {
	for _, e := range []error{member.ErrStale, member.ErrUnreachable, member.ErrNotMember, member.ErrLeaseLost} {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}

// view takes the worker to the newest view, and reports whether it uses the placement of that.
func (m *manager) view(f *fiber.Fiber) (bool, error) {
	if !m.belong() {
		return false, f.Err()
	}
	l := m.seat
	if p := l.state.Pending; p != nil {
		return false, m.pauseFor(f, p)
	}
	now := l.state.Shards.Placement
	if now == nil {
		return false, m.place()
	}
	if m.w.Engine == nil || m.joins && m.w.Adopted() == 0 && !m.connected {
		// A machine that is back meets the others first.
		return false, m.w.Follow(uint64(l.state.Active.Epoch))
	}
	ok, err := m.w.Adopt(f, now)
	if !ok || err != nil || m.i > 0 {
		return ok, err
	}
	m.member.Replaced(now)
	m.losses.note(now, m.death)
	return true, m.fill(now)
}

// pauseFor fences the worker off from those who are not in a pending view, and says so when all workers of
// its machine are.
func (m *manager) pauseFor(f *fiber.Fiber, p *member.View) error {
	l := m.seat
	if m.fencedFor != p.Epoch {
		var gone []proto.NodeID
		for _, x := range l.state.Removed() {
			if x.Node != m.id && m.fencedLives[x.Node] < x.Incarnation {
				m.fencedLives[x.Node] = x.Incarnation
				gone = append(gone, x.Node)
			}
		}
		if err := m.w.Pause(f, gone...); err != nil {
			return err
		}
		m.fencedFor = p.Epoch
	}
	for _, o := range m.managers {
		if o.fencedFor != p.Epoch {
			return nil
		}
	}
	if l.said == p.Epoch || l.session == nil {
		return nil
	}
	err := l.session.Fenced(p.Epoch)
	if err == nil {
		l.said = p.Epoch
	}
	return passing(err)
}

// fill has a machine that is back become a node of the placement, and replicas be filled that are to be.
func (m *manager) fill(now *placement.Map) error {
	l := m.seat
	for _, o := range m.managers {
		if o.w.Adopted() != now.Epoch {
			return nil
		}
	}
	if !now.Lives(m.id) {
		return passing(l.session.Return())
	}
	r, ok := m.w.Engine.(proto.Recoverer)
	if running, err := m.w.Recovering(); !ok || running || err != nil || m.filling {
		return err
	}
	for s := range now.Shards {
		if slices.Contains(now.Shards[s].Filling, m.id) {
			m.filling = true
			m.machine.Go(m.i, "fill", func(f *fiber.Fiber) error {
				defer func() { m.filling = false }()
				if err := r.Fill(f, proto.ShardID(s)); err != nil || l.session == nil {
					return f.Err() // another view: again then
				}
				return passing(l.session.Filled(proto.ShardID(s)))
			})
			return nil
		}
	}
	return nil
}

// meets reports whether two workers may be connected: both have heard of the other's life, and neither has
// still to recover what a former life of the other has left.
func (m *manager) meets(peer *site) bool {
	if m.registry == nil {
		return true
	}
	if !m.knowsLife(peer) || !peer.knowsLife(m.site) {
		return false
	}
	if !m.replicated() || !m.joins && !peer.joins {
		return true
	}
	return m.clean() && peer.managers[m.i].clean()
}

// clean reports whether the worker has nothing to recover: it has recovered, or has no engine yet, which a cluster never
// had whose machines die before all have met.
func (m *manager) clean() bool { return m.w.Engine == nil || m.recovered() }

// recovered reports whether the worker has the newest placement that its machine knows, and nothing is left of
// the dead.
func (m *manager) recovered() bool {
	l := m.seat
	if l == nil || l.state.Pending != nil || l.state.Shards.Placement == nil {
		return false
	}
	if m.joins && m.w.Adopted() == 0 {
		return true // it has just come
	}
	running, _ := m.w.Recovering()
	return !running && m.w.Adopted() == l.state.Shards.Placement.Epoch
}

// late reports whether the present life has begun after the managers and the registry had ended: nobody has made it a
// member or given it anything, and the last placement still means the life before, whose memory is gone.
func (s *site) late() bool { return s.ended && s.seat == nil }

// checkHeld: a machine has memory for each replica that the last placement gives it. The other checks look into that.
func (c *cluster) checkHeld() bool {
	now := c.finalPlacement()
	if now == nil {
		return true
	}
	for _, s := range c.sites {
		if !s.up() {
			continue
		}
		for _, shard := range now.Held(s.id) {
			if s.member.Workers[0].Shares[shard] == nil {
				c.e.Fail(checkReplicas, "%s holds nothing of shard %d, of which it has a replica in epoch %d",
					s.machine.Node.Name(), shard, now.Epoch)
				return false
			}
		}
	}
	return true
}

// checkReplicated looks at the replicas when nothing can happen any more.
func (c *cluster) checkReplicated() {
	now := c.finalPlacement()
	if now == nil {
		return
	}
	crashes := 0
	for _, s := range c.sites {
		crashes += s.lives - 1
		if !s.up() && !s.late() {
			crashes++
		}
	}
	if lost := now.Lost(); len(lost) > 0 && crashes < c.cfg.Replicas {
		c.e.Fail(checkReplicas, "shards %v are lost after %d crashes, with %d replicas", lost, crashes, c.cfg.Replicas)
	}
	var recovered proto.Recovery
	for _, s := range c.sites {
		if !s.counts() || !now.Lives(s.id) {
			continue
		}
		for _, m := range s.managers {
			running, err := m.w.Recovering()
			if err != nil || running || m.w.Adopted() != now.Epoch {
				c.e.Fail(checkRecovery, "node %d, worker %d: epoch %d of %d, recovering %t, %v", s.id, m.i,
					m.w.Adopted(), now.Epoch, running, err)
				return
			}
			if r, ok := m.w.Engine.(proto.Recoverer); ok {
				x := r.Recovery()
				recovered.Committed += x.Committed
				recovered.Aborted += x.Aborted
				recovered.Filled += x.Filled
			}
		}
		for shard := range now.Shards {
			if now.Shards[shard].Holds(s.id) {
				s.checkUnlocked(proto.ShardID(shard))
			}
		}
	}
	if c.registry == nil {
		var members []*node.Member
		for _, s := range c.sites {
			members = append(members, s.member)
		}
		if err := node.Audit(members); err != nil {
			c.e.Fail(checkReplicas, "%v", err)
		}
	}
	filling := 0
	for i := range now.Shards {
		filling += len(now.Shards[i].Filling)
	}
	c.e.Count("epochs", now.Epoch)
	c.e.Count("lost shards", uint64(len(now.Lost())))
	c.e.Count("replicas to be filled", uint64(filling))
	c.e.Count("committed by survivors", recovered.Committed)
	c.e.Count("aborted by survivors", recovered.Aborted)
	c.e.Count("records filled", recovered.Filled)
}

// finalPlacement is the newest that a machine knows which is up.
func (c *cluster) finalPlacement() (now *placement.Map) {
	if c.registry == nil {
		return c.sites[0].member.Map() // the first one
	}
	for _, s := range c.sites {
		if !s.up() || s.seat == nil || s.seat.state.Shards.Placement == nil {
			continue
		}
		if p := s.seat.state.Shards.Placement; now == nil || p.Epoch > now.Epoch {
			now = p
		}
	}
	return now
}

// checkUnlocked: nothing is locked any more, by whomever.
func (s *site) checkUnlocked(shard proto.ShardID) {
	s.member.Entries(shard, func(t proto.TableID, h layout.Head, _ []byte) bool {
		if owner, locked := s.protocol.Holder(h.State); locked {
			s.e.Fail(checkLocks, "%s, shard %d, table %d, key %d: locked by node %d (state word %#x)",
				s.machine.Node.Name(), shard, t, h.Key, owner, h.State)
			return false
		}
		return true
	})
}

// replicatedRun is cluster.run with replicas.
func (c *cluster) replicatedRun() history.Run {
	r := history.Run{Names: node.Names(c.load), Versions: history.Counting}
	now := c.finalPlacement()
	for _, s := range c.sites {
		if s.initial != nil {
			r.Initial = append(r.Initial, s.initial)
		}
	}
	if now == nil {
		r.Partial = true
		return r
	}
	r.Final = []*history.Snapshot{}
	for shard := range now.Shards {
		x := &now.Shards[shard]
		if x.Lost() {
			r.Partial = true
		}
		for _, s := range c.sites {
			if x.Complete(s.id) && s.up() {
				r.Final = append(r.Final, s.member.Holds(proto.ShardID(shard), nil))
			}
		}
	}
	return r
}

// primary is the machine that serves a shard in the end; nil: it is lost.
func (c *cluster) primary(shard proto.ShardID) *site {
	if now := c.finalPlacement(); now != nil && !now.Shards[shard].Lost() {
		if s := c.sites[now.Shards[shard].Primary]; s.up() {
			return s
		}
	}
	return nil
}

// checkReplicatedSums: as checkSums, with every shard read at its primary.
func (c *cluster) checkReplicatedSums() {
	var initial, final workload.Quantities
	for shard := range c.sites {
		p := c.primary(proto.ShardID(shard))
		if p == nil {
			return // what it held is lost
		}
		first, last, err := c.load.Check(proto.NodeID(shard), p.member.Contents(proto.ShardID(shard)))
		if err != nil {
			c.e.Fail(checkSums, "%v", err)
			return
		}
		initial, final = initial.Plus(first), final.Plus(last)
	}
	var did workload.Ledger
	for _, s := range c.sites {
		for _, cl := range s.clients {
			if cl.open && cl.shipped {
				return // only the history knows what the function has done
			}
			cl.AddTo(&did)
		}
	}
	if err := did.Explains(initial, final, c.load.Sums()...); err != nil {
		c.e.Fail(checkSums, "%v", err)
	}
}

// drained reports whether the worker's engine has told all backups what is decided.
func (m *manager) drained() bool {
	t, ok := m.w.Engine.(interface{ Untruncated() int })
	return !ok || t.Untruncated() == 0
}

// recoveries are of replicated clusters in which machines die.
func recoveries(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "recovery", protocol: p, load: loadMicro, nodes: 4, drawn: []int{1, 1, 2},
		focus:  "replicas, machines that die and come back with nothing, and others that recover",
		faults: deathFaults, membership: true, replicated: true,
		grace:   30 * sim.Millisecond, // HADES tells nodes what is decided again and again while messages are lost
		drawnOf: map[string][]string{dimRemote: {"50", "50", "10"}}})
}

// clients are recoveries of transactions whose records nobody declares: their clients ask for several at once, poll, and
// put (Dandelion §3). Up to three workers of a machine share what it knows of the others.
func clients(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "clients", protocol: p, load: loadClients, nodes: 4, drawn: []int{1, 2, 3},
		focus:  "clients that ask for records without a declaration, replicas, and machines that die and come back with nothing",
		faults: deathFaults, membership: true, replicated: true, grace: 30 * sim.Millisecond}) // as above
}

// orderedRecoveries are recoveries of ordered tables: rows come and go in the ranges that others scan.
func orderedRecoveries(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "recovery-scans", protocol: p, load: loadRanges, nodes: 4, drawn: []int{1, 1, 2},
		focus:  "replicas of ordered tables, and machines that die and come back with nothing",
		faults: deathFaults, membership: true, replicated: true,
		grace:   30 * sim.Millisecond, // as above
		drawnOf: map[string][]string{dimRemote: {"50", "10"}}})
}

// tpccRecoveries are recoveries of TPC-C: ordered tables with long transactions, and one table on all machines.
func tpccRecoveries(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "recovery-tpcc", protocol: p, load: loadTPCC, nodes: 4, drawn: []int{1, 1, 2},
		focus:  "three replicas, and machines that die and come back with nothing",
		faults: deathFaults, membership: true, replicated: true,
		grace:   60 * sim.Millisecond,                                                                 // to fill so many records, one shard after another
		drawnOf: map[string][]string{dimReplicas: {"3"}, dimRemote: {"10", "2"}, "rings": {"large"}}}) // of farm
}

// deaths are of replicated clusters in which machines die at marked steps, one or two of them.
func deaths(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "recovery", protocol: p, load: loadMicro, nodes: 4, short: true, keys: few,
		focus:  "three replicas",
		faults: deathFaults, membership: true, replicated: true,
		drawnOf: map[string][]string{dimReplicas: {"3"}}})
}

// drawDeaths has machines crash for good or for some time, at marked steps and between, one or two in a run;
// half of the second ones come while the first is recovered. Some stand still for longer than a lease.
func drawDeaths(d *scenario.Drawing, steps *protocol.Steps) (s sim.Schedule) {
	r := d.Stream("deaths")
	first := upTo(r, d.Until/2)
	for i := range 1 + r.IntN(2) {
		f := sim.Fault{Kind: sim.CrashNode, Kept: r.IntN(2) == 0, At: first,
			Node: d.Nodes[r.IntN(len(d.Nodes))]}
		if i > 0 {
			f.At += upTo(r, sim.Of(3*memberLease))
		}
		if r.IntN(3) > 0 {
			f.For = upTo(r, 2*sim.Millisecond)
		}
		if r.IntN(2) == 0 {
			f.At, f.Node, f.Step, f.Count = 0, "", steps.All[r.IntN(len(steps.All))], 1+r.IntN(4*pauseCounts)
			if i > 0 && r.IntN(2) == 0 {
				f.Step, f.Count = steps.Recovering[r.IntN(len(steps.Recovering))], 1+r.IntN(pauseCounts/8)
			}
		}
		if f.Step == "" && r.IntN(4) == 0 {
			f.Kind, f.Kept, f.For = sim.PauseNode, false, sim.Of(memberLease)+upTo(r, sim.Of(memberLease))
		}
		s = append(s, f)
	}
	return append(s, drawFlying(d, &s[0])...)
}

// drawLostMemories has two machines crash and come back without their memory, the second one while the others recover from
// the death of the first or soon after: with three replicas no shard is lost.
func drawLostMemories(d *scenario.Drawing, _ *protocol.Steps) (s sim.Schedule) {
	r := d.Stream("losses of memory")
	i, at := r.IntN(len(d.Nodes)), upTo(r, d.Until/3)
	for range 2 {
		s = append(s, sim.Fault{Kind: sim.CrashNode, At: at, Node: d.Nodes[i], For: upTo(r, 2*sim.Millisecond)})
		i = (i + 1 + r.IntN(len(d.Nodes)-1)) % len(d.Nodes)
		at += upTo(r, sim.Of(3*memberLease))
	}
	return s
}

// stills are of machines that go on after their lease has ended, with memory that is nobody's any more.
func stills(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "stills", protocol: p, load: loadMicro, nodes: 4, drawn: []int{1, 2},
		focus:  "two of four machines that stand still for longer than their lease, and go on to read their own memory",
		faults: stillFaults, membership: true, replicated: true, grace: 30 * sim.Millisecond, keys: few,
		mix: micro.Mix{40, 0, 0, 0, 0, 20, 0, 0, 40},
		drawnOf: map[string][]string{dimRemote: {"10", "2"}, dimReads: {"50", "80"}, dimReuse: {"no"}, dimPlans: {"few"},
			dimRollback: {"0"}, dimReplicas: {"3"}, "local": {"yes"}}}) // of xenic
}

// drawStandStills has two machines stand still for longer than their lease lasts, now one and now the other, or both: with
// three replicas no shard is lost.
func drawStandStills(d *scenario.Drawing, _ *protocol.Steps) (s sim.Schedule) {
	r := d.Stream("stand-stills")
	first := r.IntN(len(d.Nodes))
	machines := []string{d.Nodes[first], d.Nodes[(first+1+r.IntN(len(d.Nodes)-1))%len(d.Nodes)]}
	for at := upTo(r, d.Until/8); at < d.Until*3/4; at += sim.Of(memberLease) + upTo(r, sim.Of(memberLease)) {
		s = append(s, sim.Fault{Kind: sim.PauseNode, At: at, Node: machines[r.IntN(2)],
			For: sim.Of(memberLease) + upTo(r, sim.Of(memberLease))})
	}
	return s
}

// drawFlying has, in some runs, the last requests of a machine fly for longer than it takes until it is a member no
// more: they arrive in the middle of the recovery, or behind it.
func drawFlying(d *scenario.Drawing, death *sim.Fault) sim.Schedule {
	r := d.Stream("flying")
	if r.IntN(3) > 0 || death.Node == "" {
		return nil
	}
	at := death.At - min(death.At, upTo(r, 20*sim.Microsecond))
	return sim.Schedule{{Kind: sim.DelayRC, At: at, From: death.Node, To: "*", Times: 1 + r.IntN(4),
		By: sim.Of(memberLease) + upTo(r, sim.Of(memberLease))}}
}
