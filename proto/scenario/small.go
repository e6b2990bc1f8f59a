package scenario

import (
	"time"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/verbs/fiber"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// Small worlds: two or three nodes, two records, and one transaction of each node, of which each attempt is the only
// one. scenario.Orders runs them in every order of their messages, with a crash at every point (Dandelion §4.5, in
// place of a model in TLA+).

// dimScript is what the transactions do.
const dimScript = "script"

// smallSpan is when the clients of a small world give up at the latest, in virtual time.
const smallSpan = 30 * sim.Millisecond

// smallPause is for how long nothing arrives at most in an order that is drawn: longer than leases of members and of
// records, and than a request by RPC waits until it is sent again; shorter than RPC waits for a peer (smallTimes).
const smallPause = 6 * sim.Millisecond

// smallIdle is how long a small world has had nothing in flight when its order ends.
const smallIdle = 100 * sim.Microsecond

// small are the small worlds of a protocol.
func small(p node.Protocol) *scenario.Scenario {
	x := spec{name: "small", protocol: p, load: loadScript, nodes: 3, fibers: 1, faults: crashFaults,
		focus: "few transactions on two records"}
	if p.Offers.Has(proto.OfferRecovery) {
		x.faults, x.membership, x.replicated, x.short = deathFaults, true, true, true
	}
	x.small = true
	s := of(x)
	s.Name, s.Ordered, s.Until, s.Deaths, s.Draw = x.smallName(), true, smallSpan, false, nil
	s.Pause = smallPause
	s.Nodes, s.MinNodes, s.MaxNodes, s.Fibers = 3, 2, 3, 1
	if !x.replicated {
		s.CrashKept, s.CrashFor = true, 100*sim.Microsecond
	}
	return s
}

// smallName is the name without that of short runs.
func (x spec) smallName() string {
	x.short = false
	return x.fullName()
}

// smallDimensions are those of a small world, before the protocol's own.
func (x spec) smallDimensions() (list []scenario.Dimension) {
	var names []string
	for i := range scripts {
		names = append(names, scripts[i].name)
	}
	list = append(list, dimension(dimScript, "what the transactions do", names))
	if !x.protocol.LineWords {
		list = append(list, dimension(dimWords, wordsDoc, []string{"yes", "no"}))
	}
	if x.replicated {
		list = append(list, dimension(dimReplicas, "replicas of each record", []string{"2", "3"}))
	}
	return list
}

// smallTimes has nothing time out that waits for its turn.
func smallTimes(c *node.Config) {
	c.Connect.RTS.Timeout = 11 // 8 ms
	c.RPC.RTOMin, c.RPC.RTOFirst, c.RPC.RTOMax = 2*time.Millisecond, 2*time.Millisecond, 2*time.Millisecond
	c.RPC.PeerTimeout = 8 * time.Millisecond
}

// startSmall has the worker's one client run when lookSmall says so.
func (m *manager) startSmall(c *client, run func(*fiber.Fiber) error) {
	load, isScript := m.load.(*script)
	player, isScripted := c.Client.(*scripted)
	if m.life > 0 || !isScript || !isScripted {
		return // what has begun has begun
	}
	player.all = load.of(m.id, m.i)
	player.mark = player.mark<<8 | uint64(m.i)
	c.told = func() { m.e.Told(m.machine) }
	m.cluster.begins = append(m.cluster.begins, func() {
		if len(player.all) == 0 {
			return
		}
		m.running++
		m.e.Begin(m.machine, uint32(m.i)+1, func() {
			if m.life == m.lives-1 { // else the machine is back, and the program is of the life before
				m.machine.Go(m.i, "client", run)
			}
		})
	})
}

// played reports whether a client has run its transactions.
func (m *manager) played(c *client) bool {
	player, ok := c.Client.(*scripted)
	return !ok || c.dones == len(player.all) || m.e.Over()
}

// givesUp says, behind each attempt of a client's transaction that was aborted, whether it was the last one.
func (m *manager) givesUp(c *client) func() bool {
	most := 1
	if m.set.script == mine {
		most = 2
	}
	transaction, attempts := 0, 0
	return func() bool {
		if transaction != c.dones {
			transaction, attempts = c.dones, 0
		}
		attempts++
		return attempts >= most
	}
}

// lookSmall begins the order when the cluster is at rest, and ends it when nobody has anything to do any more, and then
// the run.
func (c *cluster) lookSmall() {
	if len(c.begins) < len(c.sites)*c.cfg.Workers || c.e.Over() {
		return
	}
	if !c.begun {
		c.begun = c.atRest()
		if c.begun {
			for _, begin := range c.begins {
				begin()
			}
		}
		return
	}
	for _, s := range c.sites {
		for _, m := range s.managers {
			if s.up() && m.running > 0 && m.life == 0 {
				return
			}
		}
	}
	if c.e.World.OrderIdle(smallIdle) {
		c.e.EndOrder()
		c.e.Until = c.e.World.Now()
	}
}

// atRest reports whether all machines have the placement, and nothing to do for it.
func (c *cluster) atRest() bool {
	for _, s := range c.sites {
		for _, m := range s.managers {
			if c.replicated() && (!m.recovered() || !m.drained()) {
				return false
			}
		}
	}
	return true
}
