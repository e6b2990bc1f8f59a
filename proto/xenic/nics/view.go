package nics

import (
	"maps"
	"slices"

	"drtmd/proto"
	"drtmd/proto/placement"
	"drtmd/proto/recovery"
	"drtmd/verbs/fiber"
	"drtmd/verbs/smartnic"
)

// This file is what a NIC knows of the members. A change of them has three steps. Pause: nothing of the view is served
// any more, and transactions under way stop where they wait. When that is so on all nodes, Adopt takes the next placement
// into use, and recover.go does the rest. A transaction's name has the epoch of its view, so a message tells by itself of
// which view it is.

// members is what a NIC knows of them.
type members struct {
	epoch    uint64
	replicas [][]proto.NodeID // by shard: its backups
	primary  []int            // by shard; -1: it is lost
	lost     []proto.ShardID
	holds    []bool   // by shard: the node has a replica
	moved    []uint64 // by shard: the epoch in which its primary became that
	lives    []bool
	joined   []uint64 // by node: the epoch in which it came

	paused bool
	turn   uint64 // counts pauses
	busy   int    // fibers that a change of the members waits for
	parked []func()
	left   []*coordination // transactions of earlier views that are not decided
	// overtaken are the records of new primaries here that a transaction has not locked, because one after it has.
	overtaken map[uint64][]Ref
	// dropped are the transactions that were aborted in this view: who was asked what it holds may have answered before.
	dropped map[uint64]bool
	owed    []uint64 // transactions of earlier views that are decided, as some holder may not know
	asks    map[uint64]*asked
	asked   uint64 // number of the last
	told    fiber.Cond
	done    uint64 // the epoch for which this node has decided what it decides
	settled uint64 // the epoch for which nothing of earlier views is left
	trouble error
	counts  proto.Recovery
}

// begin takes the first placement.
func (n *NIC) begin(m *placement.Map) {
	n.moved, n.joined, n.lives = make([]uint64, m.Nodes()), make([]uint64, m.Nodes()), make([]bool, m.Nodes())
	n.asks, n.dropped = map[uint64]*asked{}, map[uint64]bool{}
	for i := range n.lives {
		n.lives[i] = true
	}
	n.use(m)
	n.settled, n.done = n.epoch, n.epoch
}

func (n *NIC) use(m *placement.Map) {
	self := proto.NodeID(n.cfg.Node)
	n.epoch, n.lost = m.Epoch, m.Lost()
	n.replicas, n.primary, n.holds = nil, nil, nil
	for s := range m.Shards {
		x := &m.Shards[s]
		primary := int(x.Primary)
		if x.Lost() {
			primary = -1
		}
		n.primary = append(n.primary, primary)
		n.replicas = append(n.replicas, slices.Clone(x.Backups))
		n.holds = append(n.holds, x.Holds(self))
	}
}

// holders are the nodes that hold a record of a shard which a coordinator writes (recovery.Holders).
func (n *NIC) holders(shard, coordinator int) (nodes []int) {
	for _, b := range n.replicas[shard] {
		nodes = append(nodes, int(b))
	}
	if slices.Contains(nodes, coordinator) {
		nodes = append(nodes, n.primary[shard])
	}
	return nodes
}

// shardsOf are the shards of updates, in order.
func (n *NIC) shardsOf(list []Update) (shards []int) {
	for _, u := range list {
		if s := n.cfg.Shard(u.Ref); !slices.Contains(shards, s) {
			shards = append(shards, s)
		}
	}
	slices.Sort(shards)
	return shards
}

// ofShard are the updates of a shard.
func (n *NIC) ofShard(list []Update, shard int) (some []Update) {
	for _, u := range list {
		if n.cfg.Shard(u.Ref) == shard {
			some = append(some, u)
		}
	}
	return some
}

// ofNode are the updates of records that a node is the primary of.
func (n *NIC) ofNode(list []Update, node int) (some []Update) {
	for _, u := range list {
		if n.node(u.Ref) == node {
			some = append(some, u)
		}
	}
	return some
}

// views are how far the view of a transaction is from the present one: negative if it is older.
func (n *NIC) views(tx uint64) int {
	const half = recovery.MaxLives / 2
	d := (int(recovery.Name(tx).Life()) - int(n.epoch%recovery.MaxLives) + recovery.MaxLives) % recovery.MaxLives
	if d >= half {
		d -= recovery.MaxLives
	}
	return d
}

// begun is the epoch in which a transaction was begun.
func (n *NIC) begun(tx uint64) uint64 { return uint64(int64(n.epoch) + int64(n.views(tx))) }

// dead reports whether the coordinator of a transaction is gone.
func (n *NIC) dead(tx uint64) bool {
	node := recovery.Name(tx).Node()
	return int(node) >= len(n.lives) || !n.lives[node] || n.begun(tx) < n.joined[node]
}

// admits says whether a message is to be taken now.
func (n *NIC) admits(x *core, m *smartnic.Message) bool {
	if m.From == smartnic.Host || len(m.Payload) < 8 {
		return true
	}
	tx := (&decoder{b: m.Payload}).u64()
	switch d := n.views(tx); {
	case d > 0:
		from, kind, payload := m.From, m.Kind, append([]byte(nil), m.Payload...)
		n.park(x, func() { x.again(from, kind, payload) })
		return false
	case n.lacks(OldEpoch):
		return true
	default:
		return d == 0 && !n.paused
	}
}

// park keeps what is for a later view.
func (n *NIC) park(x *core, f func()) {
	n.parked = append(n.parked, func() {
		x.c.Worker().Submit("parked", func(*fiber.Fiber) error { f(); return nil }, nil)
	})
}

// again has a message handled that was parked.
func (x *core) again(from int, kind uint8, payload []byte) {
	x.kinds[kind](&smartnic.Message{From: from, Kind: kind, Payload: payload})
}

// Pause stops to serve the present view. Transactions under way stop where they wait, and what else is done comes to its
// end: Quiet says when that is so.
func (n *NIC) Pause() {
	if n.paused {
		return
	}
	n.paused = true
	n.turn++
	for _, x := range n.cores {
		for _, tx := range slices.Sorted(maps.Keys(x.txs)) {
			x.txs[tx].told.Broadcast()
		}
		x.c.Worker().Kick()
	}
	n.told.Broadcast()
}

// Quiet reports whether nothing is under way, and the host has read all logs to their ends.
func (n *NIC) Quiet() bool {
	for _, x := range n.cores {
		if len(x.appends) > 0 || x.log.Tail() != x.log.Head() {
			return false
		}
	}
	return n.paused && n.busy == 0
}

// Adopt takes the next placement into use, and begins to recover.
func (n *NIC) Adopt(m *placement.Map) error {
	old := n.primary
	for i := range n.lives {
		was := n.lives[i]
		if n.lives[i] = m.Lives(proto.NodeID(i)); n.lives[i] && !was {
			n.joined[i] = m.Epoch
		}
	}
	n.use(m)
	n.dropped = map[uint64]bool{}
	for s, primary := range n.primary {
		if primary != old[s] {
			n.moved[s] = m.Epoch
		}
		switch {
		case primary != n.cfg.Node:
			n.shards[s] = nil
		case n.shards[s] == nil:
			d, err := n.cfg.Take(s)
			if err == nil {
				n.shards[s], err = serve(d)
			}
			if err != nil {
				return err
			}
			n.shards[s].restoring = true
		}
	}
	for _, x := range n.cores {
		n.owed = append(n.owed, slices.Sorted(maps.Keys(x.untold))...)
		x.settling = settling{}
	}
	n.paused = false
	parked := n.parked
	n.parked = nil
	for _, f := range parked {
		f()
	}
	x, turn := n.cores[0], n.turn
	n.busy++
	x.c.Worker().Submit("recover", func(f *fiber.Fiber) error {
		defer func() { n.busy-- }()
		n.recover(f, turn)
		return nil
	}, nil)
	return nil
}

// Recovery is how far the recovery is; why it has failed, if it has.
func (n *NIC) Recovery() (proto.Recovery, error) {
	r := n.counts
	r.Epoch, r.Done, r.Undecided = n.epoch, n.settled == n.epoch && !n.paused, len(n.left)
	return r, n.trouble
}

// Serves reports whether the node is the primary of a shard, for its NIC.
func (n *NIC) Serves(shard int) bool { return n.shards[shard] != nil }

// Epoch of the placement in use, and whether transactions of it may begin.
func (n *NIC) Epoch() (epoch uint64, serves bool) { return n.epoch, !n.paused && n.lives[n.cfg.Node] }
