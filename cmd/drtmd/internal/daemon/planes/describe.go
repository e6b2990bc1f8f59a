package planes

import (
	"context"
	"slices"
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto"
	"drtmd/proto/member"
)

// Describe implements board.Describer: what the data plane is and does.
func (p *Planes) Describe(ctx context.Context, n *status.Node) {
	p.mu.Lock()
	n.Degraded, n.Orphans = slices.Clone(p.degraded), p.orphans
	shards, recovery := p.shards, p.recovery
	p.mu.Unlock()
	n.Data = p.described()
	if i := p.part.Info(); i != nil {
		p.describePlane(ctx, n, i, &shards)
		if recovery != nil && len(i.Members) > 0 {
			n.Recovery = describeRecovery(recovery, i.Members[0])
		}
	}
}

// describeRecovery is what a node of the placement has of the replicas.
func describeRecovery(r *load.Recovery, self proto.NodeID) *status.Recovery {
	x := &status.Recovery{Epoch: r.Epoch, Running: r.Running, Serves: []proto.ShardID{},
		Backs: []proto.ShardID{}, Fills: []proto.ShardID{}, Undecided: r.Undecided, Committed: r.Committed,
		Aborted: r.Aborted, Filled: r.Filled, TookS: r.Took.Seconds()}
	if r.Err != nil {
		x.Error = r.Err.Error()
	}
	for i := range r.Map.Shards {
		shard := proto.ShardID(i)
		switch at := &r.Map.Shards[i]; {
		case at.Primary == self:
			x.Serves = append(x.Serves, shard)
		case at.Complete(self):
			x.Backs = append(x.Backs, shard)
		case at.Holds(self):
			x.Fills = append(x.Fills, shard)
		}
	}
	return x
}

func (p *Planes) describePlane(ctx context.Context, n *status.Node, i *load.Info,
	shards *member.ShardMap) {
	n.QPs = status.QPs{RC: i.QPs.RC, UD: i.QPs.UD, InError: i.QPs.InError}
	n.Memory.RegisteredBytes = i.Registered
	n.Plane = &status.Plane{Version: shards.Version, Partitions: len(shards.Primary)}
	if len(i.Members) > 0 {
		n.Plane.Partition = int(i.Members[0])
	}
	if i.Plan != nil {
		n.Plane.Workload, n.Plane.Protocol = i.Plan.Workload, i.Plan.Protocol
		n.Plane.Workers, n.Plane.Fibers = i.Plan.Workers, i.Plan.Fibers
		n.Plane.Threads = p.o.Threads(i.Plan.Threads, i.Plan.Workers)
	}
	n.Clock = p.clocks.describe(i, int(shards.Leader.Node))
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
		st := p.o.Members.State()
		leader, _ := st.Active.Find(shards.Leader.Node)
		n.Load = &status.Load{Run: i.Run, Coordinator: int(leader.Node), OfS: i.Of.Seconds()}
		if i.Phase != 0 {
			n.Load.Phase = i.Phase.String()
		}
	}
	p.describeCounters(ctx, n)
}

// describeCounters adds what the workers say of their load and their tables.
func (p *Planes) describeCounters(ctx context.Context, n *status.Node) {
	ctx, cancel := context.WithTimeout(ctx, askPatience(ctx))
	defer cancel()
	m, err := p.part.Counters(ctx)
	if err != nil || m == nil {
		n.Load = nil // its workers did not say: not known is not 0
		return
	}
	if n.Load != nil {
		rates(n.Load, m)
	}
	if x := &m.Logs; x.Bytes > 0 {
		p.mu.Lock()
		attached := p.data != nil && p.data.Attach
		p.mu.Unlock()
		n.Logs = &status.Logs{Bytes: x.Bytes, Used: x.Used, Slots: x.Slots, Taken: x.Taken, Records: x.Records,
			Waits: x.Waits, TooLong: x.TooLong, Found: x.Found, Torn: x.Torn, Completed: x.Completed, Undone: x.Undone,
			Resumed:    x.Resumed,
			Recovering: x.Recovering, RestoredS: m.Restored.Seconds(), Attached: attached}
	}
	for _, t := range m.Tables {
		n.Tables = append(n.Tables, status.Table{Name: t.Name, Entries: uint64(t.Bound),
			Capacity: uint64(t.Entries), ValueBytes: t.ValueBytes, IndirectMax: uint64(t.IndirectBuckets),
			Indirect: uint64(t.Chained)})
	}
}

// askPatience is how long is waited for the workers: half of what whoever asks waits at most. A node whose workers are busy
// says everything else in time; else it would count as gone.
func askPatience(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(askTimeout, time.Until(end)/2)
	}
	return askTimeout
}

// rates are means over the run's present phase: what the warm-up has counted is not the
// measurement's.
func rates(l *status.Load, m *load.Metrics) {
	l.Committed, l.AbortRate = m.Span.Outcomes(proto.Committed), m.Span.AbortRate()
	l.Aborted = m.Span.Aborted()
	if s := m.Elapsed.Seconds(); s > 0 {
		l.PerSecond = float64(l.Committed) / s
	}
	l.ElapsedS = min(m.Elapsed.Seconds(), l.OfS) // the last transactions and looks come after it
}
