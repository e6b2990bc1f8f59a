package scenario

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"drtmd/proto/member"
	"drtmd/proto/member/membersim"
	"drtmd/proto/placement"
	"drtmd/verbs/fiber"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// Membership in a registry, where the machines do not know everything: they hear of views some time after
// these were made, fence who is gone before the next view becomes active, and stop serving when their own
// lease has ended.

// Timing of the registry. A lease is some retries of a queue pair long.
const (
	memberLease = 600 * time.Microsecond
	memberDelay = 5 * time.Microsecond
	// rejoinAfter is how long a machine is away that has lost its lease.
	rejoinAfter = 100 * sim.Microsecond
	// drawnCuts are how often a run cuts a machine off from the registry at most, and mostCut for how long.
	drawnCuts = 2
	mostCut   = 2 * sim.Millisecond
)

// simWorld is virtual time for membersim.
type simWorld struct{ w *sim.World }

func (w simWorld) Now() time.Duration { return w.w.Now().Duration() }
func (w simWorld) After(d time.Duration, f func()) {
	w.w.After(sim.Of(d), f)
}

// makeRegistry makes the registry of a run, in which machines are cut off from it so often at most.
func (c *cluster) makeRegistry(cuts int) {
	w := c.e.World
	c.registry = membersim.New(simWorld{w}, membersim.Config{Cluster: "sim", Lease: memberLease,
		Delay: memberDelay})
	for range c.e.Nodes {
		c.access = append(c.access, c.registry.Node())
	}
	r := w.Rand("registry")
	for range r.IntN(cuts + 1) {
		n := c.access[r.IntN(len(c.access))]
		at, length := upTo(r, c.e.Until), upTo(r, mostCut)
		w.After(at, n.Cut)
		w.After(at+length, n.Mend)
	}
	w.After(c.e.Until+2*c.grace, c.registry.Close)
}

// seat is what a machine's life is as a member. It implements member.Listener.
type seat struct {
	site    *site
	session member.Session
	state   member.State
	lost    bool
	said    member.Epoch // the newest for which the machine has said that it is fenced
}

// Changed implements member.Listener.
func (l *seat) Changed(s member.State) { l.state = s }

// LeaseLost implements member.Listener. The machine's programs see it when they run.
func (l *seat) LeaseLost(error) { l.lost = true }

// belong makes the present life a member, and reports whether it is one.
func (s *site) belong() bool {
	if s.seat == nil {
		l := &seat{site: s}
		node := s.access[s.id]
		node.Asleep = func() bool { return !s.machine.Up() || s.machine.Node.ReadyAt(0) > s.e.World.Now() }
		session, err := node.Join(member.Candidate{Node: int(s.id), Name: s.machine.Node.Name(), Build: "sim",
			Replaces: s.replaces}, l)
		if err != nil {
			return false // it cannot be reached, or the former life's lease has not ended
		}
		l.session, l.state, s.seat, s.replaces = session, session.State(), l, session.Self().Incarnation
	}
	if s.seat.session == nil {
		return false // it is about to end
	}
	if _, held := s.seat.session.Lease(); !held || s.seat.lost {
		s.dismiss()
		return false
	}
	return true
}

// dismiss ends a life that is no member any more.
func (s *site) dismiss() {
	s.seat.session, s.seat.lost = nil, true
	lives := s.lives
	s.e.World.After(0, func() {
		if !s.up() || s.lives != lives {
			return
		}
		s.machine.Node.Crash(true)
		s.e.World.After(rejoinAfter, func() {
			if s.lives == lives {
				s.machine.Node.Restart()
			}
		})
	})
}

// holdsLease reports whether the present life holds its lease as a member, if there is a registry.
func (s *site) holdsLease() bool {
	if s.registry == nil {
		return true
	}
	if s.seat == nil || s.seat.session == nil {
		return false
	}
	_, held := s.seat.session.Lease()
	return held
}

// knowsLife reports whether the machine has heard that the peer's present life is a member.
func (s *site) knowsLife(peer *site) bool {
	return s.seat != nil && peer.seat != nil && peer.seat.session != nil &&
		s.seat.state.Newest().Has(peer.seat.session.Self())
}

// follow does what the newest state of the cluster asks of the worker, and reports whether its machine is a
// member.
func (m *manager) follow(f *fiber.Fiber) (bool, error) {
	if !m.belong() {
		return false, f.Err()
	}
	l := m.site.seat
	for _, gone := range l.state.Removed() {
		if gone.Node == m.id || m.fencedLives[gone.Node] >= gone.Incarnation {
			continue // the next life may have been met since
		}
		m.fencedLives[gone.Node] = gone.Incarnation
		if err := m.w.Fence(gone.Node); err != nil {
			m.e.Fail(checkFence, "node %d cannot fence node %d: %v", m.id, gone.Node, err)
		}
	}
	p := l.state.Pending
	if p == nil {
		return true, nil
	}
	m.fencedFor = p.Epoch
	for _, o := range m.managers {
		if o.fencedFor != p.Epoch {
			return true, nil
		}
	}
	if l.said != p.Epoch {
		switch err := l.session.Fenced(p.Epoch); {
		case err == nil:
			l.said = p.Epoch
		case !errors.Is(err, member.ErrStale) && !errors.Is(err, member.ErrUnreachable) &&
			!errors.Is(err, member.ErrNotMember) && !errors.Is(err, member.ErrLeaseLost):
			return false, fmt.Errorf("fenced for epoch %d: %w", p.Epoch, err)
		}
	}
	return true, nil
}

// admit lets two workers meet whose former lives were fenced, or are by their meeting: the queue pairs
// between these are in error from then on.
func (m *manager) admit(peer *site) {
	o := peer.managers[m.i]
	m.w.Admit(peer.id)
	o.w.Admit(m.id)
	m.fencedLives[peer.id] = max(m.fencedLives[peer.id], peer.seat.session.Self().Incarnation-1)
	o.fencedLives[m.id] = max(o.fencedLives[m.id], m.seat.session.Self().Incarnation-1)
}

// members are of machines that join, die, and are cut off from the registry.
func members(x spec) *scenario.Scenario {
	x.name, x.load, x.nodes, x.drawn = "members", loadMicro, 3, []int{1, 2}
	x.focus, x.faults, x.membership = "members of a registry that die, sleep, and are cut off", memberFaults, true
	return of(x)
}

// drawMembers draws machines that crash for long or for a moment, and such whose CPU stands still.
func drawMembers(d *scenario.Drawing) (s sim.Schedule) {
	for range 1 + d.Rand.IntN(2) {
		f := sim.Fault{Kind: sim.CrashNode, Kept: true, At: upTo(d.Rand, d.Until*3/4),
			Node: d.Nodes[d.Rand.IntN(len(d.Nodes))], For: upTo(d.Rand, sim.Millisecond)}
		if d.Rand.IntN(2) == 0 {
			f.Kind, f.Kept = sim.PauseNode, false
		}
		s = append(s, f)
	}
	return s
}

// settled reports whether no machine has anything left to do for a view.
func (c *cluster) settled() bool {
	now := c.finalPlacement()
	if c.replicated() && c.registry != nil && now == nil {
		return true // nothing has begun
	}
	for _, s := range c.sites {
		if c.replicated() && c.registry != nil && !s.up() && now != nil && now.Lives(s.id) {
			return false // the others have not noticed its death
		}
		if c.registry != nil && s.up() && (s.seat == nil || s.seat.lost || s.seat.state.Pending != nil) {
			return false
		}
		if c.replicated() && s.up() {
			for _, m := range s.managers {
				if !m.recovered() || m.filling {
					return false
				}
			}
			if p := s.seat.state.Shards.Placement; !p.Lives(s.id) || slices.ContainsFunc(p.Shards,
				func(x placement.Shard) bool { return len(x.Filling) > 0 }) {
				return false
			}
		}
	}
	return true
}

// leftOver says what is left to do when a run with replicas does not come to its end.
func (c *cluster) leftOver() string {
	now := c.finalPlacement()
	for _, s := range c.sites {
		switch {
		case !s.up() && now != nil && now.Lives(s.id):
			return fmt.Sprintf("node %d is down, and lives in epoch %d", s.id, now.Epoch)
		case s.up() && (s.seat == nil || s.seat.lost):
			return fmt.Sprintf("node %d is no member", s.id)
		case s.up() && s.seat.state.Pending != nil:
			return fmt.Sprintf("epoch %d is pending at node %d", s.seat.state.Pending.Epoch, s.id)
		case s.up() && now != nil && !now.Lives(s.id):
			return fmt.Sprintf("node %d has not come back", s.id)
		}
		for _, m := range s.managers {
			if !s.up() || m.recovered() && !m.filling && m.running == 0 && !m.owes() && m.drained() {
				continue
			}
			running, _ := m.w.Recovering()
			return fmt.Sprintf("worker %d of node %d has epoch %d of %d; it recovers: %t, fills: %t, owes: %t, has told all: %t, "+
				"clients: %d", m.i, s.id, m.w.Adopted(), now.Epoch, running, m.filling, m.owes(), m.drained(), m.running)
		}
	}
	return "replicas are not filled"
}

// noLives are those from which a worker is fenced that has just begun.
func (c *cluster) noLives() []member.Incarnation { return make([]member.Incarnation, c.e.Nodes) }
