package occ

import (
	"errors"
	"fmt"
	"time"

	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/proto/placement"
	"drtmd/proto/recovery"
	"drtmd/store/log"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
)

// view is what an engine with replicas knows of the members, and of what a change of them has left to do. A
// phase of a transaction begins and ends by it: between two placements no phase is under way.
type view struct {
	e     *Engine
	epoch uint64
	lives []bool         // by node
	home  []proto.NodeID // by shard: its primary
	moved []uint64       // by shard: the epoch in which that became its primary
	holds []bool         // by shard: this node has a replica
	whole []bool         // by shard: this node has a complete one
	backs [][]span       // by shard and node: the epochs in which the node was, or is, a backup
	ready []bool         // by shard: this worker may reach it at its primary
	count proto.Recovery

	pausing bool // no phase begins
	busy    int  // phases under way
	idle    fiber.Cond
	resumed fiber.Cond
	// running is how much is under way that Pause ends: Recover, filling, transactions of an older view.
	running    int
	recovering bool   // Recover is under way
	turn       uint64 // counts pauses

	// known are the transactions that are not decided, as far as this node holds records of them or has locked
	// records for them, by name, with the names in order.
	known map[recovery.Name]*noted
	names []recovery.Name
	// restoring are the shards, by id, whose primary this node has become, and for which this worker has not
	// locked yet what is undecided.
	restoring []bool
	// scanned is the epoch for which known has everything of the hosted logs, settled the one for which nothing
	// of the dead is left.
	scanned, settled uint64
	// decided is the epoch for which this worker has decided about all transactions of the dead.
	decided uint64
	// over are the transactions that were aborted in this view: who was asked what it knows may have answered before.
	over map[recovery.Name]bool
	// carried are the transactions that recovery has committed here last: see carry.
	carried []carried
	// coming are transactions of which another node tells in parts.
	coming map[recovery.Name]*noted
}

// place names a record of a replica here.
type place = recovery.Place

// span is the last epochs in which something was so.
type span struct {
	from, end uint64
	is        bool
}

// note notes whether it is so in an epoch.
func (s *span) note(epoch uint64, is bool) {
	switch {
	case is && !s.is:
		s.from = epoch
	case !is && s.is:
		s.end = epoch
	}
	s.is = is
}

// was reports whether it was so in an epoch.
func (s *span) was(epoch uint64) bool { return epoch >= s.from && (s.is || epoch < s.end) }

// newView makes the view of an engine; nil without backups.
func (e *Engine) newView() {
	if e.backups == nil {
		return
	}
	m := e.Env.Placed.Map()
	v := &view{e: e, known: map[recovery.Name]*noted{}, over: map[recovery.Name]bool{},
		coming: map[recovery.Name]*noted{}, restoring: make([]bool, m.Nodes()),
		lives: make([]bool, m.Nodes()), home: make([]proto.NodeID, m.Nodes()), moved: make([]uint64, m.Nodes()),
		holds: make([]bool, m.Nodes()), whole: make([]bool, m.Nodes()), backs: make([][]span, m.Nodes()), ready: make([]bool, m.Nodes())}
	for n := range v.lives {
		v.lives[n], v.home[n], v.ready[n] = true, m.Shards[n].Primary, true
		v.holds[n] = m.Holds(e.Env.Node, proto.ShardID(n))
		v.whole[n] = m.Shards[n].Complete(e.Env.Node)
		v.backs[n] = make([]span, m.Nodes())
		v.noteBackups(0, m, proto.ShardID(n))
	}
	e.view = v
	e.serveRecovery()
}

// noteBackups notes which nodes are backups of a shard in an epoch.
func (v *view) noteBackups(epoch uint64, m *placement.Map, s proto.ShardID) {
	for n := range v.backs[s] {
		n := proto.NodeID(n)
		v.backs[s][n].note(epoch, m.Holds(n, s) && m.Shards[s].Primary != n)
	}
}

// backed reports whether this node was a backup of a shard in an epoch.
func (v *view) backed(s proto.ShardID, epoch uint64) bool { return v.backs[s][v.e.Env.Node].was(epoch) }

// held reports whether this node had to hold a record of a transaction that writes to a shard (recovery.Holders).
func (v *view) held(n *noted, s proto.ShardID) bool {
	if v.e.strategy.LogsPrimary && v.home[s] == v.e.Env.Node && n.name.Node() != v.e.Env.Node {
		return true
	}
	if v.home[s] == v.e.Env.Node && v.moved[s] <= n.epoch {
		return v.backs[s][n.name.Node()].was(n.epoch)
	}
	return v.backed(s, n.epoch)
}

// errMoved is the abort of an attempt that was begun in another view, or needs a shard that is not served yet.
var errMoved = proto.Aborting(proto.ReasonMoved)

// begin begins a phase of an attempt, when none is to wait for a change of the view. It is an abort if the view
// is another one than the attempt's.
func (v *view) begin(t *tx) error {
	switch {
	case v == nil:
		return nil
	case t.placed: // in a phase that is not over
		v.busy++
		return nil
	}
	if err := v.await(t.F); err != nil {
		return err
	}
	// A node that is back runs no transaction before it is one of the placement: until then nobody decides about
	// it when it dies again.
	if t.epoch != v.epoch && !v.e.lacks(oldEpoch) || !v.lives[v.e.Env.Node] {
		return errMoved
	}
	v.busy++
	return nil
}

// beginRelease begins the end of an attempt without effect, in whichever view: locks at nodes that are gone, and
// at those that serve the shard no more, are gone. It is false if the node was killed.
func (v *view) beginRelease(t *tx) bool {
	if v == nil {
		return true
	}
	if v.await(t.F) != nil {
		return false
	}
	v.forgetGone(t)
	v.busy++
	return true
}

// forgetGone forgets the locks of an attempt that went with the primary that had them.
func (v *view) forgetGone(t *tx) {
	if t.epoch == v.epoch {
		return
	}
	for i := range t.Records {
		r := &t.Records[i]
		if s := int(r.At.Shard); r.Node != v.e.Env.Node && s < len(v.moved) && v.moved[s] > t.epoch {
			r.Own.Hold = onesided.Nothing
		}
	}
}

// await waits until phases may begin.
func (v *view) await(f *fiber.Fiber) error {
	for v.pausing {
		if err := v.resumed.Wait(f, 0); err != nil {
			return err
		}
	}
	return nil
}

// end ends a phase.
func (v *view) end() {
	if v == nil {
		return
	}
	if v.busy--; v.busy == 0 {
		v.idle.Broadcast()
	}
}

// reaches is the abort of records from index from to before index to that cannot be reached now.
func (v *view) reaches(t *tx, from, to int) error {
	if v == nil {
		return nil
	}
	for i := from; i < to; i++ {
		switch at := &t.Records[i].At; {
		case at.Primary == proto.NoNode:
			return proto.Aborting(proto.ReasonLost)
		case int(at.Shard) < len(v.ready) && !v.ready[at.Shard]:
			return errMoved
		case !v.reached(at):
			return errMoved // its memory is not known yet: it was made after the primary was met
		}
	}
	return nil
}

// reachesRange is the abort of a range that cannot be reached now.
func (v *view) reachesRange(at *proto.Location) error {
	if v == nil {
		return nil
	}
	switch {
	case at.Primary == proto.NoNode:
		return proto.Aborting(proto.ReasonLost)
	case int(at.Shard) < len(v.ready) && !v.ready[at.Shard],
		at.Primary == v.e.Env.Node && !v.serves(at),
		!v.reached(at):
		return errMoved
	}
	return nil
}

// reached reports whether the memory of a shard's primary is known. Tables that are everywhere are in the own one.
func (v *view) reached(at *proto.Location) bool {
	if at.Primary == v.e.Env.Node && len(at.Backups()) == 0 {
		return true
	}
	shares := v.e.Env.Peers[at.Primary].Shares
	return int(at.Shard) < len(shares) && shares[at.Shard] != nil
}

// serves reports whether a shard's records may be served here. Tables that are everywhere are.
func (v *view) serves(at *proto.Location) bool {
	if v == nil || v.e.lacks(serveEarly) {
		return true
	}
	return at.Primary == v.e.Env.Node && (len(at.Backups()) == 0 || v.e.Env.Serving.Serves(at.Shard))
}

// Pause implements proto.Recoverer.
func (e recoverer) Pause(f *fiber.Fiber) error {
	v := e.view
	if v == nil {
		return nil
	}
	v.pausing = true
	v.turn++
	for v.busy > 0 || v.running > 0 {
		switch err := v.idle.Wait(f, f.Now()+pausePatience); {
		case errors.Is(err, fiber.ErrDeadline):
			// A peer that has missed the epoch of these calls answers with an older one, which does not count, and
			// gets no newer one before this node has paused.
			v.cutCalls()
		case err != nil:
			return err
		}
	}
	// What is decided was for the replicas as they were.
	for _, h := range e.hosts {
		if h != nil {
			h.read()
			h.apply()
		}
	}
	return nil
}

// pausePatience is how long Pause waits for calls to nodes that live: some round trips.
const pausePatience = time.Millisecond

// cutCalls ends the calls that are under way. What they have done is decided when the view has changed.
func (v *view) cutCalls() {
	for n := range v.e.Env.Peers {
		if s := v.e.Env.Peers[n].Session; s != nil {
			s.Close()
		}
	}
}

// Recovery implements proto.Recoverer.
func (e recoverer) Recovery() proto.Recovery {
	v := e.view
	if v == nil {
		return proto.Recovery{Done: true}
	}
	r := v.count
	r.Epoch, r.Done, r.Undecided = v.epoch, v.running == 0 && v.settled == v.epoch, len(v.names)
	return r
}

// errStopped ends what is done for a view when another one comes.
var errStopped = fmt.Errorf("%w: another view has come", errConfig)

// adopt takes the placement of an epoch into use, and lets transactions go on. It gives the shards whose
// primary this node has become.
func (v *view) adopt(epoch uint64, m *placement.Map, lives func(proto.NodeID) bool) (promoted []proto.ShardID,
	err error) {
	e := v.e
	if e.Env.Port != nil && !e.lacks(oldEpoch) {
		if err := e.setEpoch(rpc.Epoch(epoch)); err != nil {
			return nil, err
		}
	}
	for n := range v.lives {
		was := v.lives[n]
		if v.lives[n] = lives(proto.NodeID(n)); was && !v.lives[n] {
			v.forgetDead(proto.NodeID(n))
		}
		if x := e.backups.at[n]; x != nil {
			x.writer.SetEpoch(log.Epoch(epoch))
		}
	}
	for s := range m.Shards {
		shard, to := proto.ShardID(s), m.Shards[s].Primary
		v.holds[s], v.whole[s] = m.Holds(e.Env.Node, shard), m.Shards[s].Complete(e.Env.Node)
		v.noteBackups(epoch, m, shard)
		if to != v.home[s] {
			v.moved[s] = epoch
		}
		switch {
		case to == v.home[s] && (to != e.Env.Node || e.Env.Serving.Serves(shard)):
			continue // else the last view ended before the shard was recovered
		case to == e.Env.Node:
			promoted = append(promoted, shard)
			v.restoring[s] = true
			e.Env.Serving.Promote(shard, epoch)
		}
		v.home[s], v.ready[s] = to, false
	}
	v.epoch = epoch
	clear(v.coming)
	clear(v.over)
	for _, h := range e.hosts {
		if h != nil {
			h.raisePromoted()
		}
	}
	for _, t := range e.made {
		if t.inLog {
			e.raisePromoted(&t.own)
		}
	}
	e.dropSwaps()
	v.scan()
	return promoted, nil
}

// setEpoch raises the epoch of all messages.
func (e *Engine) setEpoch(epoch rpc.Epoch) error {
	if err := e.Env.Port.SetEpoch(epoch); err != nil || e.rings == nil {
		return err
	}
	return e.rings.SetEpoch(epoch)
}

// resume lets phases begin.
func (v *view) resume() {
	v.pausing = false
	v.resumed.Broadcast()
}

// forgetDead forgets what a node that is gone would still have to do, or be told.
func (v *view) forgetDead(n proto.NodeID) {
	e := v.e
	e.forgetDebts(n)
	if x := e.backups.at[n]; x != nil {
		x.hostDied()
	}
	for _, name := range v.names {
		if name.Node() == n {
			v.known[name].dead = true
		}
	}
}

// recoverer is an engine that recovers.
type recoverer struct{ *Engine }

var _ proto.Recoverer = recoverer{}
