package hardware

import (
	"slices"

	"drtmd/htm/bloom"
	"drtmd/htm/directory"
	"drtmd/internal/invariant"
)

// phase of a local transaction; 0: there is none.
type phase uint8

const (
	executing phase = iota + 1
	committing
	validating // HADES-H: all Acks are there
	reserving  // locks what it will need
	persisting // its replicas keep what it writes
)

// transaction is a local one, with its part of module (4b).
type transaction struct {
	phase    phase
	id       ID
	core     int
	last     End      // how the attempt before ended
	requests uint32   // so far
	open     []uint32 // of these, not answered
	nodes    []NodeID // that it has read or written
	acked    []bool   // one for each
	missing  int      // Acks
	remote   []remoteLine
	local    []localLine
	// Of HADES-H: the local records that it has read, and their lines.
	records   []localRecord
	readLines []bloom.Line
	// Of the livelock rule: what it locks, the index of the node that is next, whether a commit of the own node is in
	// the way, whether all is locked, which lines of the own node are, and whether it has accessed others there.
	set                 []Reservation
	at                  int
	waits               bool
	reserved            bool
	ownReads, ownWrites []bloom.Line
	outside             bool
	copies              []Copy // see Replicate
}

// access notes one of a line of the own node.
func (t *transaction) access(line bloom.Line, write bool) {
	if t.reserved && !slices.Contains(t.ownWrites, line) && (write || !slices.Contains(t.ownReads, line)) {
		t.outside = true
	}
}

// remoteLine is the copy of a line of another node.
type remoteLine struct {
	node    NodeID
	line    bloom.Line
	written bool
	data    Data
}

// localLine is what a transaction has written to a line of its own node: what the LLC has under its tag.
type localLine struct {
	line bloom.Line
	data Data
}

// Begin starts a transaction on a core. It reports false if no pair of filters of the core is free: try again when
// another transaction of that core has ended.
func (n *Node) Begin(core int) (directory.TX, bool) {
	if n.Spent() {
		return 0, false
	}
	tx, ok := n.number(core)
	if !ok {
		return 0, false
	}
	t := &n.txs[tx]
	invariant.Assert(t.phase == 0, "hardware: a transaction begins twice")
	n.attempts++
	t.phase, t.core, t.id = executing, core, ID{n.cfg.Node, tx, n.attempts}
	return tx, true
}

// Spent reports whether the node has begun as many attempts as an ID can count: no transaction begins in this life.
func (n *Node) Spent() bool { return n.attempts&MaxAttempts == MaxAttempts }

// number is a free one of a local transaction. HADES-H needs no filters of a core.
func (n *Node) number(core int) (directory.TX, bool) {
	if !n.cfg.Hybrid {
		return n.dir.Begin(core)
	}
	m := n.cfg.Directory.PerCore
	for i := core * m; i < (core+1)*m; i++ {
		if n.txs[i].phase == 0 {
			return directory.TX(i), true
		}
	}
	return 0, false
}

// ID of the attempt that a local transaction is in.
func (n *Node) ID(tx directory.TX) ID { return n.txs[tx].id }

// running is the transaction, which executes.
func (n *Node) running(tx directory.TX) *transaction {
	t := &n.txs[tx]
	invariant.Assert(t.phase == executing, "hardware: an access of a transaction that does not execute")
	return t
}

// Read is a load of a line of the own node. After a conflict the transaction has ended.
func (n *Node) Read(tx directory.TX, line bloom.Line, to *Data) directory.Access {
	t := n.running(tx)
	a := n.dir.Read(tx, line)
	if a.Verdict == directory.Granted {
		t.access(line, false)
		if own := t.wrote(line); own != nil {
			*to = own.data
		} else {
			n.cfg.Memory.Load(line, to)
		}
	}
	if a.Verdict == directory.Denied {
		a = n.denied(tx, n.one(line), false, a)
	}
	n.settle()
	return a
}

// Write is a store to bytes of a line of the own node. No bytes only make the line the transaction's.
func (n *Node) Write(tx directory.TX, line bloom.Line, offset int, bytes []byte) directory.Access {
	t := n.running(tx)
	a := n.dir.Write(tx, line)
	if a.Verdict == directory.Granted {
		t.access(line, true)
		if len(bytes) > 0 {
			copy(n.buffer(t, line).data[offset:], bytes)
		}
	}
	if a.Verdict == directory.Denied {
		a = n.denied(tx, n.one(line), true, a)
	}
	n.settle()
	return a
}

// one is a list of one line.
func (n *Node) one(line bloom.Line) []bloom.Line {
	n.written = append(n.written[:0], line)
	return n.written
}

// buffer is the transaction's copy of a line of the own node that it writes.
func (n *Node) buffer(t *transaction, line bloom.Line) *localLine {
	if own := t.wrote(line); own != nil {
		return own
	}
	t.local = append(t.local, localLine{line: line})
	own := &t.local[len(t.local)-1]
	n.cfg.Memory.Load(line, &own.data)
	return own
}

func (t *transaction) wrote(line bloom.Line) *localLine {
	for i := range t.local {
		if t.local[i].line == line {
			return &t.local[i]
		}
	}
	return nil
}

// Fetch asks another node for lines: to be read, or to be written in part. The answer is Hooks.Fetched with the
// number that Fetch returns, unless the transaction ends before. Shadows are lines that come along for a checker: no filter
// has them, and their way over the wire is all that they cost.
func (n *Node) Fetch(tx directory.TX, node NodeID, lines []bloom.Line, write bool, shadows ...bloom.Line) (request uint32) {
	t := n.running(tx)
	invariant.Assert(node != n.cfg.Node && len(lines) > 0, "hardware: a request to the own node, or for nothing")
	t.touch(node)
	t.requests++
	t.open = append(t.open, t.requests)
	kind := Read
	if write {
		kind = WriteFetch
	}
	m := n.message(kind, node, t.id)
	m.Request, m.Holds = t.requests, t.reserved
	m.Lines = append(append(m.Lines, lines...), shadows...)
	m.Shadows = len(shadows)
	n.send(m, 0)
	return t.requests
}

// touch puts a node on the list of those that the transaction has accessed.
func (t *transaction) touch(node NodeID) {
	if !slices.Contains(t.nodes, node) {
		t.nodes = append(t.nodes, node)
		t.acked = append(t.acked, false)
	}
}

// Copy gives the transaction's copy of a line of another node, if it has one.
func (n *Node) Copy(tx directory.TX, node NodeID, line bloom.Line, to *Data) bool {
	r := n.running(tx).copyOf(node, line)
	if r == nil {
		return false
	}
	*to = r.data
	return true
}

func (t *transaction) copyOf(node NodeID, line bloom.Line) *remoteLine {
	for i := range t.remote {
		if r := &t.remote[i]; r.line == line && r.node == node {
			return r
		}
	}
	return nil
}

// Update changes bytes of a line of another node in the transaction's copy. Of a line that was not fetched, all
// bytes have to be written.
func (n *Node) Update(tx directory.TX, node NodeID, line bloom.Line, offset int, bytes []byte) {
	t := n.running(tx)
	r := t.copyOf(node, line)
	if r == nil {
		invariant.Assert(offset == 0 && len(bytes) == len(Data{}), "hardware: part of a line that was not fetched")
		t.touch(node)
		t.remote = append(t.remote, remoteLine{node: node, line: line})
		r = &t.remote[len(t.remote)-1]
	}
	r.written = true
	copy(r.data[offset:], bytes)
}

// Undo drops what a transaction has written: a Commit after it says whether what it has read is a valid view, and changes
// nothing. Its lines stay tagged and in filters until then.
func (n *Node) Undo(tx directory.TX) {
	t := n.running(tx)
	for i := range t.remote {
		t.remote[i].written = false
	}
	t.local = t.local[:0]
	for i := range t.records {
		t.records[i].written = false
	}
}

// Abort ends a transaction without an effect.
func (n *Node) Abort(tx directory.TX) {
	n.running(tx)
	n.drop(tx, ByProgram)
	n.settle()
}

// Commit begins the commit of a transaction: steps 1 to 3 at its own node. The end is Hooks.Ended, perhaps before
// Commit returns. If it is denied, an atomic read is in the way: try again when a Locking Buffer was given back. Cycles are
// those of steps 1 to 3, after which the messages leave.
func (n *Node) Commit(tx directory.TX) directory.Access {
	t := n.running(tx)
	invariant.Assert(len(t.open) == 0, "hardware: a commit with lines on their way")
	lines, cycles, v := n.lockLocal(tx)
	switch v {
	case directory.Denied:
		return directory.Access{Verdict: v, Cycles: cycles}
	case directory.Conflict:
		n.drop(tx, LockFailed)
		n.settle()
		return directory.Access{Verdict: v, Cycles: cycles}
	}
	t.phase = committing
	cycles += n.cfg.Cycles.Lock + n.cfg.Cycles.Line*len(lines)
	n.squashRemote(t.id, lines, cycles)
	if n.lacks(TagsClearedEarly) {
		n.store(t)
	}
	t.missing = len(t.nodes)
	for _, node := range t.nodes {
		m := n.message(IntendToCommit, node, t.id)
		for i := range t.remote {
			if r := &t.remote[i]; r.written && r.node == node {
				m.Lines = append(m.Lines, r.line)
			}
		}
		n.send(m, cycles)
	}
	if t.missing == 0 {
		n.acquired(tx)
	}
	n.settle()
	return directory.Access{Verdict: directory.Granted, Cycles: cycles}
}

// lockLocal locks the directory of the own node, and gives the lines that the transaction has written there.
func (n *Node) lockLocal(tx directory.TX) (lines []bloom.Line, cycles int, v directory.Verdict) {
	if t := &n.txs[tx]; t.reserved {
		if !t.outside {
			return nil, 0, directory.Granted // it is locked, and was compared
		}
		n.dir.Buffers().Unlock(directory.Owner(tx)) // and locked again in the same step
	}
	if n.cfg.Hybrid {
		return n.lockRecords(tx)
	}
	lines, cycles = n.dir.Find(tx)
	read, write := n.dir.Filters(tx)
	return lines, cycles, n.dir.Buffers().Lock(directory.Owner(tx), read, write, lines)
}

// acquired: all Acks are there.
func (n *Node) acquired(tx directory.TX) {
	if n.cfg.Hybrid {
		n.txs[tx].phase = validating
		n.cfg.Hooks.Acked(tx)
		return
	}
	n.persist(tx)
}

// store makes what a transaction has written to its own node the content of memory.
func (n *Node) store(t *transaction) {
	for i := range t.local {
		n.cfg.Memory.Store(t.local[i].line, &t.local[i].data)
	}
}

// finish has steps 4 to 6 at the own node: nothing can squash the transaction any more.
func (n *Node) finish(tx directory.TX) {
	t := &n.txs[tx]
	cycles, stored := 0, t.phase == persisting
	if n.trail(t); !stored {
		n.store(t)
	}
	if !n.cfg.Hybrid {
		if cycles = n.dir.Commit(tx); stored {
			cycles = 0
		}
	}
	for _, node := range t.nodes {
		m := n.message(Validation, node, t.id)
		for i := range t.remote {
			if r := &t.remote[i]; r.written && r.node == node {
				m.Lines, m.Data = append(m.Lines, r.line), append(m.Data, r.data)
			}
		}
		n.send(m, cycles)
	}
	n.end(tx, Committed)
}

// drop ends a transaction without an effect.
func (n *Node) drop(tx directory.TX, why End) {
	t := &n.txs[tx]
	invariant.Assert(t.phase != persisting, "hardware: a transaction is dropped that persists")
	for _, node := range t.nodes {
		n.send(n.message(Abort, node, t.id), 0)
	}
	n.end(tx, why)
	if !n.cfg.Hybrid && n.dir.Active(tx) {
		n.dir.Squash(tx, directory.Asked)
		n.dropped = n.dropped[:len(n.dropped)-1] // this was it
	}
}

// end forgets a transaction and gives its Locking Buffer back.
func (n *Node) end(tx directory.TX, how End) {
	t := &n.txs[tx]
	*t = transaction{id: t.id, last: how, open: t.open[:0], nodes: t.nodes[:0], acked: t.acked[:0], remote: t.remote[:0],
		local: t.local[:0], records: t.records[:0], readLines: t.readLines[:0],
		ownReads: t.ownReads[:0], ownWrites: t.ownWrites[:0], copies: t.copies[:0]}
	n.dir.Buffers().Unlock(directory.Owner(tx))
	n.cfg.Hooks.Ended(tx, how)
}

// attempt is the local transaction that a message is of, or nil if that attempt is over.
func (n *Node) attempt(id ID) *transaction {
	if id.Node != n.cfg.Node || int(id.TX) >= len(n.txs) {
		return nil
	}
	if t := &n.txs[id.TX]; t.phase != 0 && t.id == id {
		return t
	}
	return nil
}

// fetched takes lines that the transaction has asked for.
func (n *Node) fetched(m *Message) {
	t := n.attempt(m.ID)
	if t == nil {
		return
	}
	at := slices.Index(t.open, m.Request)
	if at < 0 {
		return // a repetition
	}
	t.open = slices.Delete(t.open, at, at+1)
	for i, line := range m.Lines {
		if t.copyOf(m.From, line) == nil {
			t.remote = append(t.remote, remoteLine{node: m.From, line: line, data: m.Data[i]})
		}
	}
	n.cfg.Hooks.Fetched(m.ID.TX, m.Request)
}

// acknowledged counts an Ack. After the last one the transaction has committed.
func (n *Node) acknowledged(m *Message) {
	t := n.attempt(m.ID)
	if t == nil || t.phase != committing {
		return
	}
	at := slices.Index(t.nodes, m.From)
	if at < 0 || t.acked[at] {
		return // a repetition
	}
	t.acked[at] = true
	if t.missing--; t.missing == 0 || t.missing == 1 && len(t.copies) > 0 && n.lacks(AckMissing) {
		n.acquired(m.ID.TX)
	}
}

// squash ends the transaction that a Squash is for, unless it has ended.
func (n *Node) squash(m *Message) {
	t := n.attempt(m.ID)
	late := &n.txs[m.ID.TX]
	switch {
	case t == nil && n.lacks(LateSquashHonoured) && late.id == m.ID && late.last == Committed:
		n.cfg.Hooks.Ended(m.ID.TX, RemoteSquash)
	case t == nil, t.phase == committing && n.lacks(SquashIgnored), t.phase == validating, t.phase == persisting:
	default:
		n.drop(m.ID.TX, RemoteSquash)
	}
}
