package hades

import (
	"drtmd/proto"
	"drtmd/proto/hades/hardware"
	"drtmd/proto/placement"
	"drtmd/proto/protocol"
	"drtmd/verbs/fiber"
)

// view is what a chip knows of the members of a cluster with replicas. Between two placements no transaction runs: a
// change of the members ends all that have not begun to persist, and others begin when the dead have nothing left
// anywhere.
type view struct {
	c      *Chip
	mark   func(step string)
	epoch  uint64
	lives  []bool         // by node
	homes  []proto.NodeID // by shard: its primary
	moved  []uint64       // by shard: the epoch since which the node is its primary
	stops  bool           // Pause was called since the last placement
	halted bool           // no transaction may begin
	done   uint64         // the epoch in which nothing of the dead is left
	turn   uint64         // counts placements and pauses
	count  proto.Recovery
	// engines are those of the member's workers that wait for any of this.
	engines []*Engine

	// Records of transactions that are not over, and those that were applied last, by coordinator.
	kept    []kept
	applied [][]hardware.ID
	tombs   []tomb

	quiet    []uint64 // by node: the newest epoch in which its transactions are applied
	recovery recovering
	copies   []*copying // of replicas that are filled
	asks     uint32     // counts them
	trouble  error      // what ends the node's part in recovery
}

// newView makes that of a chip which is about to be made.
func (c *Chip) newView(e *protocol.ChipEnv) {
	v := &view{c: c, mark: e.Step, lives: make([]bool, e.Nodes), moved: make([]uint64, e.Nodes),
		homes: make([]proto.NodeID, e.Nodes), quiet: make([]uint64, e.Nodes), applied: make([][]hardware.ID, e.Nodes)}
	for n := range v.lives {
		v.lives[n], v.homes[n] = true, proto.NodeID(n)
	}
	c.view = v
}

// placed is the placement in use.
func (v *view) placed() *placement.Map { return v.c.first.Placed.Map() }

func (v *view) self() proto.NodeID { return v.c.first.Node }

// paused reports whether no transaction may begin.
func (v *view) paused() bool { return v != nil && (v.halted || !v.lives[v.self()]) }

// serves reports whether the node has been the primary of a shard since an epoch.
func (v *view) serves(s proto.ShardID, since uint64) bool {
	return v.placed().Shards[s].Primary == v.self() && v.moved[s] <= since
}

// wake lets fibers go on that wait for the view.
func (v *view) wake() {
	for _, e := range v.engines {
		e.moved.Broadcast()
		e.env.Worker.Kick()
	}
}

// settledOwn is the hook of the model: all that the node's transactions have committed is applied.
func (v *view) settledOwn() { v.wake() }

// stop ends the node's transactions: the members change. It is of each worker, and also ends what another one has begun
// since the first one stopped: a fill, or a part of the recovery.
func (v *view) stop() {
	v.turn++
	if !v.stops {
		v.stops, v.halted = true, true
		if !v.c.lacks(runOn) {
			v.c.Stop()
		}
	}
	v.wake()
}

// resume lets transactions begin.
func (v *view) resume(epoch uint64) {
	v.done, v.halted = epoch, false
	v.count.Done = true
	v.c.sweep()
	for _, waiting := range v.c.idle {
		if len(waiting) > 0 {
			waiting[0].wake()
		}
	}
	v.wake()
}

// adopt takes a placement into use: who is gone is not heard any more, and promoted replicas are opened.
func (v *view) adopt(e *Engine, epoch uint64, lives func(proto.NodeID) bool) {
	if v.epoch >= epoch {
		return
	}
	v.epoch, v.stops, v.halted = epoch, false, true
	v.turn++
	v.recovery = recovering{}
	v.count.Epoch, v.count.Done = epoch, false
	for n := range v.lives {
		v.lives[n] = lives(proto.NodeID(n))
		life := uint32(0)
		if c := chipOf(e.env, proto.NodeID(n)); v.lives[n] {
			life = c.first.Life
		}
		if proto.NodeID(n) != v.self() {
			v.c.Fence(hardware.NodeID(n), !v.lives[n], life)
		}
	}
	now := v.placed()
	for s := range now.Shards {
		p := now.Shards[s].Primary
		if p == v.self() && v.homes[s] != p {
			v.moved[s] = epoch
			v.c.banks[s] = nil
			v.c.open(proto.ShardID(s))
		}
		v.homes[s] = p
	}
	v.c.Adopt()
}

var _ proto.Recoverer = (*Engine)(nil)

// Untruncated implements proto.Truncator.
func (e *Engine) Untruncated() int {
	if e.env.Index > 0 || e.chip.view == nil {
		return 0
	}
	return e.chip.Unsettled()
}

// Pause implements proto.Recoverer: it ends transactions. Workers of one node pause one after the other, and take a
// placement into use so; the chip has only one.
func (e *Engine) Pause(f *fiber.Fiber) error {
	if v := e.chip.view; v != nil && e.adopted == v.epoch {
		v.stop()
	}
	for e.running > 0 {
		if err := e.moved.Wait(f, 0); err != nil {
			return err
		}
	}
	return nil
}

// Trouble implements proto.Troubled.
func (e *Engine) Trouble() error {
	if v := e.chip.view; v != nil {
		return v.trouble
	}
	return nil
}

// run notes that Recover or Fill runs, which Pause awaits the end of.
func (e *Engine) run() (end func()) {
	e.running++
	return func() {
		e.running--
		e.moved.Broadcast()
	}
}

// Recovery implements proto.Recoverer.
func (e *Engine) Recovery() proto.Recovery {
	v := e.chip.view
	if v == nil {
		return proto.Recovery{Done: true}
	}
	r := v.count
	if e.env.Index > 0 {
		r = proto.Recovery{Epoch: r.Epoch, Done: r.Done}
	}
	return r
}

// Recover implements proto.Recoverer. The first worker does it for the node; all wait until nothing of the dead is left
// anywhere.
func (e *Engine) Recover(f *fiber.Fiber, epoch uint64, lives func(proto.NodeID) bool) error {
	v := e.chip.view
	if v == nil {
		return nil
	}
	defer e.run()()
	v.adopt(e, epoch, lives)
	e.adopted = epoch
	if !v.lives[v.self()] {
		return nil // the others give it replicas to fill first
	}
	turn := v.turn
	f.Step(stepRecover)
	if e.env.Index == 0 {
		if err := e.lead(f, turn); err != nil {
			return err
		}
	}
	return e.awaitView(f, turn, func() bool { return v.done >= epoch })
}

// awaitView waits until something is so, or the members have changed since a turn.
func (e *Engine) awaitView(f *fiber.Fiber, turn uint64, is func() bool) error {
	v := e.chip.view
	for turn == v.turn && !is() {
		if err := e.moved.Wait(f, 0); err != nil {
			return err
		}
	}
	return nil
}

// marked is the hook of the model: a step at this node of another one's transaction.
func (v *view) marked(k hardware.Kind) {
	if v.mark != nil {
		v.mark(markedAt + k.String())
	}
}
