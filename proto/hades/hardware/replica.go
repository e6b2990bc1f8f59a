package hardware

import (
	"slices"

	"drtmd/htm/bloom"
	"drtmd/htm/directory"
	"drtmd/internal/invariant"
)

// Transactions with replicas (§V-A). When all Acks are there, and HADES-H has validated, the nodes that are to hold a
// record of what the transaction writes get one, and keep it (Persist). When all have, it is committed. Validation makes
// it everyone's at the nodes that were accessed; when all these have said so, the records are applied to replicas and
// dropped (Truncate).

// Replicas are the replicas of a node, with the records that it keeps. A record that is kept outlives the program of the
// NIC, and goes with the node.
type Replicas interface {
	// Keep keeps a record of a transaction that is not over.
	Keep(id ID, body []byte)
	// Apply applies the record of a committed transaction, if there is one, and forgets it. It reports false if that is to
	// be tried again. Of the transaction's node nobody has a record any more of attempts before oldest.
	Apply(id ID, oldest uint32) bool
}

// Copy is the record of a transaction that a node keeps. It may be the own node.
type Copy struct {
	Node NodeID
	Body []byte
}

// tail is what a committed transaction has left to do. waits are nodes that have not said Done to a message of its stage.
type tail struct {
	id      ID
	stage   Kind // Validation or Truncate
	waits   []NodeID
	holders []NodeID
}

// fenced says what is not heard of a node.
type fenced struct {
	out  bool   // nothing
	from uint32 // what lives before this one have sent
}

// retryCycles is after how long a record is applied again whose table was full.
const retryCycles = 2000

// Replicate says which nodes keep a record of what a transaction writes before it is committed. The bodies are the
// caller's until it has ended.
func (n *Node) Replicate(tx directory.TX, copies []Copy) {
	t := n.running(tx)
	t.copies = append(t.copies[:0], copies...)
}

// persist has records kept: nothing can squash the transaction any more.
func (n *Node) persist(tx directory.TX) {
	t := &n.txs[tx]
	if t.missing = 0; len(t.copies) == 0 {
		n.finish(tx)
		return
	}
	t.phase = persisting
	n.store(t)
	cycles := 0
	if !n.cfg.Hybrid {
		cycles = n.dir.Untag(tx)
	}
	for i := range t.copies {
		c := &t.copies[i]
		if c.Node == n.cfg.Node {
			n.cfg.Replicas.Keep(t.id, c.Body)
			continue
		}
		t.missing++
		m := n.message(Persist, c.Node, t.id)
		m.Body = append(m.Body, c.Body...)
		n.send(m, cycles)
	}
	n.persisted(tx)
}

// Persists reports whether a transaction that writes a line of the own node has stored it, and waits until its records
// are kept.
func (n *Node) Persists(line bloom.Line) bool {
	for i := range n.txs {
		if t := &n.txs[i]; t.phase == persisting && slices.ContainsFunc(t.local, func(l localLine) bool { return l.line == line }) {
			return true
		}
	}
	return false
}

// persisted commits a transaction if its records are all kept.
func (n *Node) persisted(tx directory.TX) {
	if n.txs[tx].missing == 0 {
		n.finish(tx)
	}
}

// trail notes what a committed transaction with replicas has left to do. Its Validations are about to be sent.
func (n *Node) trail(t *transaction) {
	if len(t.copies) == 0 {
		return
	}
	x := &tail{}
	if last := len(n.spares) - 1; last >= 0 {
		x, n.spares = n.spares[last], n.spares[:last]
	}
	x.id, x.stage, x.waits, x.holders = t.id, Validation, x.waits[:0], x.holders[:0]
	for _, node := range t.nodes {
		if !n.fence[node].out {
			x.waits = append(x.waits, node)
		}
	}
	for i := range t.copies {
		x.holders = append(x.holders, t.copies[i].Node)
	}
	n.tails = append(n.tails, x)
	n.goOn(x)
}

// goOn goes on with a tail for which nobody is waited.
func (n *Node) goOn(x *tail) {
	if len(x.waits) == 0 && x.stage == Validation {
		x.stage = Truncate
		oldest := n.oldest()
		for _, node := range x.holders {
			own := node == n.cfg.Node
			if !own && n.fence[node].out {
				continue
			}
			m := n.message(Truncate, node, x.id)
			if m.Request = oldest; own {
				n.truncate(m)
				continue
			}
			x.waits = append(x.waits, node)
			n.send(m, 0)
		}
	}
	if len(x.waits) > 0 {
		return
	}
	at := slices.Index(n.tails, x)
	n.tails = slices.Delete(n.tails, at, at+1)
	n.spares = append(n.spares, x)
	if n.Unsettled() == 0 {
		n.cfg.Hooks.Settled()
	}
}

// oldest is the number of the oldest attempt of the node, with its life, that may have a record anywhere, now or when
// this number arrives somewhere, however late: one that still executes may persist until then.
func (n *Node) oldest() uint32 {
	least := n.attempts + 1
	for i := range n.txs {
		if t := &n.txs[i]; t.phase != 0 {
			least = min(least, t.id.Attempt)
		}
	}
	for _, x := range n.tails {
		least = min(least, x.id.Attempt)
	}
	return least
}

// Unsettled is how many transactions of the node are committed, or about to be, and not applied everywhere.
func (n *Node) Unsettled() (count int) {
	for i := range n.txs {
		if n.txs[i].phase == persisting {
			count++
		}
	}
	return count + len(n.tails) + len(n.late)
}

// receiveReplica takes a message of this file.
func (n *Node) receiveReplica(m *Message) {
	invariant.Assert(n.cfg.Replicas != nil, "hardware: a message for replicas, of which there are none")
	switch m.Kind {
	case Persist:
		if n.lacks(AckBeforePersist) {
			n.done(m)
		}
		n.cfg.Hooks.Later(Step{keepCopy, m}, n.cfg.Cycles.Keep)
		return
	case Truncate:
		n.truncate(m)
		return
	case Mail:
		n.cfg.Hooks.Mail(m.From, m.Body)
	case Done:
		n.isDone(m)
	}
	n.cfg.Pool.Put(m)
}

// runReplica does a step of this file.
func (n *Node) runReplica(s Step) {
	if s.kind == keepCopy {
		if !n.fenced(s.m) && !n.lacks(AckBeforePersist) {
			n.cfg.Replicas.Keep(s.m.ID, s.m.Body)
			n.cfg.Hooks.Marked(Persist)
			n.done(s.m)
		}
		n.cfg.Pool.Put(s.m)
		return
	}
	late := n.late
	n.late = nil
	for _, m := range late {
		n.truncate(m)
	}
	if n.Unsettled() == 0 {
		n.cfg.Hooks.Settled()
	}
}

// truncate applies a record, or will.
func (n *Node) truncate(m *Message) {
	if !n.cfg.Replicas.Apply(m.ID, m.Request) {
		if n.late = append(n.late, m); len(n.late) == 1 {
			n.cfg.Hooks.Later(Step{applyLate, nil}, retryCycles)
		}
		return
	}
	n.cfg.Hooks.Marked(Truncate)
	if m.ID.Node != n.cfg.Node {
		n.done(m)
	}
	n.cfg.Pool.Put(m)
}

// done tells the transaction's node that what a message says is done.
func (n *Node) done(m *Message) {
	if n.cfg.Replicas == nil {
		return
	}
	r := n.message(Done, m.ID.Node, m.ID)
	r.Request = uint32(m.Kind)
	n.send(r, 0)
}

// isDone takes a Done.
func (n *Node) isDone(m *Message) {
	if Kind(m.Request) == Persist {
		t := n.attempt(m.ID)
		if t != nil && t.phase == persisting && n.dropCopy(t, m.From) {
			t.missing--
			n.persisted(m.ID.TX)
		}
		return
	}
	for _, x := range n.tails {
		if x.id == m.ID && x.stage == Kind(m.Request) {
			n.isGone(x, m.From)
			return
		}
	}
}

// dropCopy notes that a node keeps its record, and reports whether that is new.
func (n *Node) dropCopy(t *transaction, node NodeID) bool {
	for i := range t.copies {
		if c := &t.copies[i]; c.Node == node && c.Body != nil {
			c.Body = nil
			return true
		}
	}
	return false
}

// isGone has a tail wait for a node no more.
func (n *Node) isGone(x *tail, node NodeID) {
	if at := slices.Index(x.waits, node); at >= 0 {
		x.waits = slices.Delete(x.waits, at, at+1)
		n.goOn(x)
	}
}

// Mail sends bytes to the hook of another node.
func (n *Node) Mail(to NodeID, body []byte) {
	m := n.message(Mail, to, ID{Node: n.cfg.Node, Attempt: n.cfg.Life << lifeShift})
	m.Body = append(m.Body, body...)
	n.send(m, 0)
}

// Stop ends every transaction of the node that has not begun to persist: the members of the cluster change. Who persists
// goes on.
func (n *Node) Stop() {
	for i := range n.txs {
		if p := n.txs[i].phase; p != 0 && p != persisting {
			n.drop(directory.TX(i), Moved)
		}
	}
	n.settle()
}

// Fence has the node hear nothing of another one that is out, or only what that sends in a life or a later one.
func (n *Node) Fence(node NodeID, out bool, life uint32) {
	n.fence[node] = fenced{out, life}
}

// fenced reports whether a message is one that the node does not hear. Mail says by itself of which view it is: who is back
// may have heard of a later one.
func (n *Node) fenced(m *Message) bool {
	if m.Kind == Mail {
		return false
	}
	f := n.fence[m.From]
	return f.out || m.ID.Node == m.From && m.ID.Life() < f.from
}

// Adopt has the node's transactions wait for nobody who is out: who persists needs the records of those that are left.
func (n *Node) Adopt() {
	if n.lacks(ValidationForgotten) {
		n.tails = nil
	}
	for node := range n.fence {
		if !n.fence[node].out {
			continue
		}
		for i := range n.txs {
			if t := &n.txs[i]; t.phase == persisting && n.dropCopy(t, NodeID(node)) {
				t.missing--
				n.persisted(directory.TX(i))
			}
		}
		for _, x := range slices.Clone(n.tails) {
			n.isGone(x, NodeID(node))
		}
	}
	n.settle()
}

// Gone reports whether a transaction is of a node that is out, or of an earlier life.
func (n *Node) Gone(id ID) bool {
	f := n.fence[id.Node]
	return f.out || id.Life() < f.from
}

// Holds reports whether the node has a pair of filters of another node's transaction.
func (n *Node) Holds(id ID) bool { return n.pairFor(id) != nil }

// Forget ends what the node has of transactions of nodes that are out, or of earlier lives.
func (n *Node) Forget() {
	for i := range n.pairs {
		p := &n.pairs[i]
		if p.used && n.Gone(p.id) {
			n.free(p)
		}
	}
	n.settle()
}
