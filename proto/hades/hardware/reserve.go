package hardware

import (
	"drtmd/htm/bloom"
	"drtmd/htm/directory"
	"drtmd/internal/invariant"
)

// Reservation are the lines of a node that a transaction will read, and those that it will write.
type Reservation struct {
	Node          NodeID
	Reads, Writes []bloom.Line
}

// Reserve has a transaction lock all that it will need, before it executes: HADES' rule against livelock (§VI). The
// set is what its last attempts have accessed, in ascending order of nodes, and stays as it is until Hooks.Reserved or
// Hooks.Ended is called. Where another commit is in the way it waits: who waits holds locks of lower nodes only, so
// nobody waits for ever. After that nobody else squashes the transaction, as long as it stays in the set and its
// written lines in the LLC. A node whose lines are others than those of the set is locked again at the commit, which may
// fail.
func (n *Node) Reserve(tx directory.TX, set []Reservation) {
	t := n.running(tx)
	invariant.Assert(len(t.nodes) == 0 && len(t.local) == 0, "hardware: a transaction reserves after an access")
	for i := 1; i < len(set); i++ {
		invariant.Assert(set[i-1].Node < set[i].Node, "hardware: nodes are reserved in ascending order")
	}
	t.phase, t.set, t.at = reserving, set, 0
	n.reserveNext(tx)
	n.settle()
}

// reserveNext goes on with the next node of the set.
func (n *Node) reserveNext(tx directory.TX) {
	t := &n.txs[tx]
	t.waits = false
	for t.at < len(t.set) {
		r := &t.set[t.at]
		if r.Node != n.cfg.Node {
			t.touch(r.Node)
			m := n.message(Reserve, r.Node, t.id)
			m.Lines = append(append(m.Lines, r.Reads...), r.Writes...)
			m.Reads = len(r.Reads)
			n.send(m, 0)
			return
		}
		if !n.reserveLocal(tx, r) {
			t.waits = true
			return
		}
		t.ownReads, t.ownWrites = append(t.ownReads, r.Reads...), append(t.ownWrites, r.Writes...)
		t.at++
	}
	t.phase, t.set, t.reserved = executing, nil, true
	n.cfg.Hooks.Reserved(tx)
}

// reserveLocal locks lines of the own node, and reports whether no commit was in the way. Local transactions that would
// squash this one at its accesses are squashed.
func (n *Node) reserveLocal(tx directory.TX, r *Reservation) bool {
	n.reads.Clear()
	n.writes.Clear()
	for _, line := range r.Reads {
		n.reads.Insert(line)
	}
	for _, line := range r.Writes {
		n.writes.Insert(line)
	}
	if n.dir.Buffers().Reserve(directory.Owner(tx), n.reads, n.writes, r.Reads, r.Writes) != directory.Granted {
		return false
	}
	n.squashRemote(n.txs[tx].id, r.Writes, n.cfg.Cycles.Lock+n.cfg.Cycles.Line*len(r.Writes))
	n.squashLocal(r.Writes, tx)
	for _, line := range r.Reads {
		if other, ok := n.dir.Writer(line); ok {
			n.dir.Squash(other, directory.Asked)
		}
	}
	return true
}

// reserve locks lines for a transaction of another node. While a commit is in the way it waits, with empty filters, so
// that the commit does not squash it.
func (n *Node) reserve(p *pair, m *Message) {
	if p.locked { // a repetition
		n.send(n.message(Reserved, m.From, m.ID), 0)
		n.cfg.Pool.Put(m)
		return
	}
	reads, writes := m.Lines[:m.Reads], m.Lines[m.Reads:]
	for _, line := range reads {
		p.read.Insert(line)
	}
	for _, line := range writes {
		p.write.Insert(line)
	}
	if n.dir.Buffers().Reserve(p.owner, p.read, p.write, reads, writes) != directory.Granted {
		p.read.Clear()
		p.write.Clear()
		n.stall(m)
		return
	}
	p.reads, p.writes = append(p.reads, reads...), append(p.writes, writes...)
	p.locked, p.reserved, p.outside = true, true, false
	p.keptReads, p.keptWrites = len(p.reads), len(p.writes)
	cycles := n.cfg.Cycles.Lock + n.cfg.Cycles.Line*len(m.Lines)
	n.squashRemote(m.ID, writes, cycles)
	n.squashLocal(writes, directory.Nobody)
	n.send(n.message(Reserved, m.From, m.ID), cycles)
	n.cfg.Pool.Put(m)
}

// reservedAt goes on after a node has locked.
func (n *Node) reservedAt(m *Message) {
	t := n.attempt(m.ID)
	if t == nil || t.phase != reserving || t.set[t.at].Node != m.From {
		return // over, or a repetition
	}
	t.at++
	n.reserveNext(m.ID.TX)
}

// denied is what becomes of an access that a Locking Buffer denies: it is tried again, or it ends the transaction, if that
// has reserved others and the buffer is of one that has as well. Each might wait for the other one.
func (n *Node) denied(tx directory.TX, lines []bloom.Line, write bool, a directory.Access) directory.Access {
	if n.txs[tx].reserved && n.dir.Buffers().Reserved(directory.Owner(tx), lines, write) {
		a.Verdict = directory.Conflict
		n.drop(tx, LockFailed)
		n.settle()
	}
	return a
}
