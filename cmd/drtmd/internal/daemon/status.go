package daemon

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/service"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto"
	"drtmd/proto/member"
)

const (
	// askTimeout is what another node gets to say how it is.
	askTimeout = 2 * time.Second
	// cacheTime is how long what it said counts.
	cacheTime = 900 * time.Millisecond
	// keptGone is how long a former member is shown.
	keptGone = 10 * time.Minute
)

// statusCache has what the others have last said.
type statusCache struct {
	one   sync.Mutex // held while the others are asked
	at    time.Time
	nodes map[proto.NodeID]seenNode
}

type seenNode struct {
	status.Node
	at time.Time
}

// Status implements control.Backend.
func (d *Daemon) Status(ctx context.Context, self bool) (*status.Cluster, error) {
	c := &status.Cluster{Schema: status.Schema, Date: time.Now().UTC()}
	own := d.ownStatus(ctx)
	c.From = own.Member.Node
	d.mu.Lock()
	c.State = d.state.Clone()
	d.mu.Unlock()
	c.Nodes = []status.Node{own}
	if !self {
		c.Nodes = append(c.Nodes, d.otherStatus(ctx)...)
		slices.SortFunc(c.Nodes, func(a, b status.Node) int {
			return int(a.Member.Node) - int(b.Member.Node)
		})
	}
	linksToGone(c)
	c.Problem = problemOf(c)
	return c, nil
}

// linksToGone marks links to nodes that do not answer: what is posted there is not yet known to fail.
func linksToGone(c *status.Cluster) {
	gone := map[proto.NodeID]bool{}
	for i := range c.Nodes {
		gone[c.Nodes[i].Member.Node] = c.Nodes[i].Phase == status.Gone
	}
	for i := range c.Nodes {
		links := slices.Clone(c.Nodes[i].Links) // they may be those of a cache
		for j := range links {
			if gone[links[j].Peer] {
				links[j].State = "gone"
			}
		}
		c.Nodes[i].Links = links
	}
}

// problemOf is the most pressing thing that is wrong; "" is nothing. The loss of a member is, until
// the others serve again without it.
func problemOf(c *status.Cluster) string {
	members, again := c.State.Newest(), serves(c)
	for _, n := range c.Nodes {
		gone := n.Phase == status.Gone && (members.Has(n.Member) || !again)
		if n.Phase == status.Refusing || gone {
			return fmt.Sprintf("node %d (%s) is %s: %s", n.Member.Node, n.Member.Name, n.Phase, n.Reason)
		}
	}
	if c.State.Pending != nil {
		return fmt.Sprintf("epoch %d is pending until every member is fenced off",
			c.State.Pending.Epoch)
	}
	for _, n := range c.Nodes {
		if n.Phase == status.Connecting && n.Wait == "" {
			return fmt.Sprintf("node %d (%s) is connecting: %s", n.Member.Node, n.Member.Name, n.Reason)
		}
		if n.Phase != status.Gone && len(n.Degraded) > 0 {
			return n.Degraded[0]
		}
	}
	return ""
}

// serves reports whether the data plane is of members only, and whole: all of them are ready or
// running, none is about to go, and nothing is left of those that went.
func serves(c *status.Cluster) bool {
	st := &c.State
	lost := slices.ContainsFunc(st.Shards.Primary, func(m member.Member) bool {
		return !st.Active.Has(m)
	})
	degraded := slices.ContainsFunc(c.Nodes, func(n status.Node) bool {
		return n.Phase != status.Gone && len(n.Degraded) > 0
	})
	return st.Pending == nil && !lost && !degraded && c.Unready() == nil
}

// ownStatus is what this node says of itself.
func (d *Daemon) ownStatus(ctx context.Context) status.Node {
	d.mu.Lock()
	n := status.Node{Phase: d.phase, Reason: d.reason, Wait: d.wait, Epoch: d.state.Active.Epoch,
		HoldsEtcd: d.embeds, Degraded: slices.Clone(d.degraded), SlowDisk: d.slowDisk, Device: d.device}
	n.Orphans = d.orphans
	down := d.portDown
	if down != "" {
		n.Degraded = append(n.Degraded, down)
	}
	s, shards, st := d.session, d.shards, d.state.Clone()
	d.mu.Unlock()
	n.Member = member.Member{Name: d.cfg.Node.Hostname(), Control: d.control, Build: d.o.Build}
	n.Lease = d.lease().Seconds()
	if s != nil {
		n.Member = s.Self()
		if until, held := s.Lease(); held {
			n.LeaseLeft = (until - d.clock.Now()).Seconds()
		}
	} else if id, err := d.readIdentity(); err == nil && id.Node >= 0 {
		n.Member.Node, n.Member.Incarnation = proto.NodeID(id.Node), id.Incarnation
	}
	n.PID, n.Started, n.Admin = os.Getpid(), d.started.UTC(), d.admin
	if d.placed.Why != "" {
		n.CPUs = &status.CPUs{List: service.CPUList(d.placed.CPUs), Why: d.placed.Why}
	}
	n.Host, _ = os.Hostname() // "" if the system does not tell
	n.Memory.ResidentBytes, n.Memory.CacheBytes = resident(), uint64(d.cfg.Data.Cache)
	n.Events = d.events.last()
	i := d.part.Info()
	if i == nil {
		return n
	}
	d.describePlane(ctx, &n, i, &shards, &st)
	for j := range n.Links {
		if down != "" {
			n.Links[j].State = "down"
		}
	}
	return n
}

// describePlane adds what the data plane is and does.
func (d *Daemon) describePlane(ctx context.Context, n *status.Node, i *load.Info,
	shards *member.ShardMap, st *member.State) {
	n.QPs = status.QPs{RC: i.QPs.RC, UD: i.QPs.UD, InError: i.QPs.InError}
	n.Memory.RegisteredBytes = i.Registered
	p := &status.Plane{Version: shards.Version, Partitions: len(shards.Primary)}
	if len(i.Members) > 0 {
		p.Partition = int(i.Members[0])
	}
	if i.Plan != nil {
		p.Workload, p.Protocol, p.Workers, p.Fibers = i.Plan.Workload, i.Plan.Protocol, i.Plan.Workers,
			i.Plan.Fibers
		p.Threads = d.threads(i.Plan.Threads, i.Plan.Workers)
	}
	n.Plane = p
	n.Clock = d.describeClock(i)
	for peer, m := range shards.Primary {
		up, ok := i.Links[proto.NodeID(peer)]
		if !ok {
			continue
		}
		l := status.Link{Peer: m.Node, State: "up"}
		if !up {
			l.State = "error"
		}
		n.Links = append(n.Links, l)
	}
	if i.Running {
		leader, _ := st.Active.Find(shards.Leader.Node)
		n.Load = &status.Load{Run: i.Run, Coordinator: int(leader.Node), OfS: i.Of.Seconds()}
		if i.Phase != 0 {
			n.Load.Phase = i.Phase.String()
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	m, err := d.part.Counters(ctx)
	if err != nil || m == nil {
		n.Load = nil // its workers did not say: not known is not 0
		return
	}
	if n.Load != nil {
		d.rates(n.Load, m)
	}
	for _, t := range m.Tables {
		n.Tables = append(n.Tables, status.Table{Name: t.Name, Entries: uint64(t.Bound),
			Capacity: uint64(t.Entries), ValueBytes: t.ValueBytes, IndirectMax: uint64(t.IndirectBuckets),
			Indirect: uint64(t.Chained)})
	}
}

// rates are means over the run's present phase: what the warm-up has counted is not the
// measurement's.
func (d *Daemon) rates(l *status.Load, m *load.Metrics) {
	l.Committed, l.AbortRate = m.Span.Outcomes(proto.Committed), m.Span.AbortRate()
	if s := m.Elapsed.Seconds(); s > 0 {
		l.PerSecond = float64(l.Committed) / s
	}
	l.ElapsedS = min(m.Elapsed.Seconds(), l.OfS) // the last transactions and looks come after it
}

// resident is the memory of the process, in bytes; 0 if the system does not tell.
func resident() uint64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseUint(f[1], 10, 64) // 0 if it is none
	return pages * uint64(os.Getpagesize())
}

// otherStatus asks the other nodes, all at once, and shows those that lately were members.
func (d *Daemon) otherStatus(ctx context.Context) []status.Node {
	c := &d.seen
	c.one.Lock()
	defer c.one.Unlock()
	if c.nodes == nil {
		c.nodes = map[proto.NodeID]seenNode{}
	}
	others := d.others()
	news := slices.ContainsFunc(others, func(m member.Member) bool {
		n, ok := c.nodes[m.Node]
		return !ok || !n.Member.Same(m)
	})
	for _, n := range c.nodes { // who becomes ready is asked until it is
		news = news || n.Phase != status.Ready && n.Phase != status.Gone
	}
	if news || time.Since(c.at) >= cacheTime {
		d.askOthers(ctx, c, others)
		c.at = time.Now()
	}
	for id, n := range c.nodes { // members no more
		if n.Phase != status.Gone && !slices.ContainsFunc(others, n.Member.Same) {
			n.Node = n.Departed("its membership has ended")
			c.nodes[id] = n
		}
	}
	var list []status.Node
	for id, n := range c.nodes {
		if d.isSelf(id) || time.Since(n.at) > keptGone {
			delete(c.nodes, id)
			continue
		}
		list = append(list, n.Node)
	}
	return list
}

func (d *Daemon) isSelf(n proto.NodeID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.session != nil && d.session.Self().Node == n
}

func (d *Daemon) askOthers(ctx context.Context, c *statusCache, others []member.Member) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answers := make([]status.Node, len(others))
	var wg sync.WaitGroup
	for i, m := range others {
		wg.Go(func() { answers[i] = d.askOne(ctx, m) })
	}
	wg.Wait()
	for _, n := range answers {
		at := time.Now()
		if old, ok := c.nodes[n.Member.Node]; ok && n.Phase == status.Gone {
			m, reason := n.Member, n.Reason
			n = old.Departed(reason)
			n.Member = m
		}
		c.nodes[n.Member.Node] = seenNode{n, at}
	}
}

func (d *Daemon) askOne(ctx context.Context, m member.Member) status.Node {
	fail := func(err error) status.Node {
		return status.Node{Member: m, Phase: status.Gone, Reason: err.Error()}
	}
	c, err := d.client(m.Control)
	if err != nil {
		return fail(err)
	}
	st, err := c.Status(ctx, true)
	if err != nil {
		return fail(err)
	}
	if len(st.Nodes) != 1 || !st.Nodes[0].Member.Same(m) {
		return fail(fmt.Errorf("somebody else answers at %s", m.Control))
	}
	return st.Nodes[0]
}
