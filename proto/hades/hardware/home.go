package hardware

import (
	"slices"

	"drtmd/htm/bloom"
	"drtmd/htm/directory"
	"drtmd/internal/invariant"
)

// pair of filters of a remote transaction: its part of module (4a).
type pair struct {
	used   bool
	locked bool
	// reserved: locked before the transaction executes. The first keptReads of reads and keptWrites of writes are what is
	// locked. outside: it has read others.
	reserved              bool
	keptReads, keptWrites int
	outside               bool
	id                    ID
	owner                 directory.Owner // of a Locking Buffer
	read, write           *bloom.Filter
	// reads and writes are what the filters have. Hardware does not have them: they tell false conflicts from real
	// ones, and nothing else.
	reads, writes []bloom.Line
}

// Step is something that a node does some cycles after what has caused it: Run.
type Step struct {
	kind stepKind
	m    *Message
}

type stepKind uint8

const (
	readLines   stepKind = iota + 1
	insertLines          // by a mutation, after the lines were read
	probeLines           // by mutations, after the lock
	probeAndAck
	pushLines // by a mutation, after the unlock
	keepCopy
	applyLate // records that could not be applied before
)

// Run does a step that the node has asked for.
func (n *Node) Run(s Step) {
	m := s.m
	if s.kind == keepCopy || s.kind == applyLate {
		n.runReplica(s)
		n.settle()
		return
	}
	p := n.pairFor(m.ID)
	switch {
	case s.kind == pushLines:
		n.push(m)
		n.cfg.Pool.Put(m)
	case p == nil: // the transaction was aborted meanwhile
		n.cfg.Pool.Put(m)
	case s.kind == readLines:
		n.answer(p, m)
	case s.kind == insertLines:
		n.insert(p, m)
		n.cfg.Pool.Put(m)
	case s.kind == probeLines, s.kind == probeAndAck:
		n.probe(m)
		if s.kind == probeAndAck {
			n.send(n.message(Ack, m.From, m.ID), 0)
		}
		n.cfg.Pool.Put(m)
	}
	n.settle()
}

// Receive takes a message from another node.
func (n *Node) Receive(m *Message) {
	invariant.Assert(m.To == n.cfg.Node && m.From != n.cfg.Node, "hardware: a message for another node")
	if n.fenced(m) {
		n.cfg.Pool.Put(m)
		return
	}
	switch m.Kind {
	case Persist, Truncate, Done, Mail:
		n.receiveReplica(m)
		n.settle()
		return
	case Read, WriteFetch:
		n.request(m)
		n.settle()
		return
	case IntendToCommit:
		n.intend(m)
		n.settle()
		return
	case Reserve:
		if p := n.take(m); p != nil {
			n.reserve(p, m)
		}
		n.settle()
		return
	case Reserved:
		n.reservedAt(m)
	case Fetched:
		n.fetched(m)
	case Ack:
		n.acknowledged(m)
	case Squash:
		n.squash(m)
	case Validation:
		if n.validate(m) {
			n.settle()
			return
		}
	case Abort:
		n.abort(m)
	}
	n.cfg.Pool.Put(m)
	n.settle()
}

// again tries a message that a Locking Buffer has denied.
func (n *Node) again(m *Message) {
	p := n.pairFor(m.ID)
	invariant.Assert(p != nil, "hardware: a stalled message of no transaction")
	switch m.Kind {
	case IntendToCommit:
		n.lock(p, m)
	case Reserve:
		n.reserve(p, m)
	default:
		n.answer(p, m)
	}
}

// slot is where pairOf has the pair of an attempt.
func (n *Node) slot(id ID) int { return int(id.Node)*len(n.txs) + int(id.TX) }

// pairFor is the pair of an attempt, or nil.
func (n *Node) pairFor(id ID) *pair {
	i := n.pairOf[n.slot(id)]
	if i < 0 || n.pairs[i].id != id {
		return nil
	}
	return &n.pairs[i]
}

// take is the pair of an attempt, a new one if it has none. If none is free, the transaction is squashed.
func (n *Node) take(m *Message) *pair {
	if p := n.pairFor(m.ID); p != nil {
		return p
	}
	invariant.Assert(n.pairOf[n.slot(m.ID)] < 0, "hardware: an attempt begins before the end of the last one has arrived")
	for i := range n.pairs {
		if p := &n.pairs[i]; !p.used {
			p.used, p.locked, p.reserved, p.id = true, false, false, m.ID
			n.pairOf[n.slot(m.ID)] = int32(i)
			return p
		}
	}
	n.stats.Exhausted++
	n.send(n.message(Squash, m.From, m.ID), 0)
	n.cfg.Pool.Put(m)
	return nil
}

// request inserts lines into a filter; they are read after that.
func (n *Node) request(m *Message) {
	p := n.take(m)
	if p == nil {
		return
	}
	if !n.lacks(ReadBeforeInsert) {
		n.insert(p, m)
	}
	n.cfg.Hooks.Later(Step{readLines, m}, n.cfg.Cycles.Line*len(m.accessed()))
}

func (n *Node) insert(p *pair, m *Message) {
	for _, line := range m.accessed() {
		if m.Kind == WriteFetch {
			p.write.Insert(line)
			p.writes = append(p.writes, line)
			continue
		}
		if p.reserved && !slices.Contains(p.reads[:p.keptReads], line) && !slices.Contains(p.writes[:p.keptWrites], line) {
			p.outside = true
		}
		p.reads = append(p.reads, line)
		if n.lacks(WrongHash) {
			line ^= 1 << 20
		}
		p.read.Insert(line)
	}
}

// answer reads the lines and sends them, unless a Locking Buffer is in the way.
func (n *Node) answer(p *pair, m *Message) {
	cycles := 0
	for _, line := range m.accessed() {
		a := n.dir.RemoteRead(p.owner, line)
		if a.Verdict == directory.Denied {
			if m.Holds && n.dir.Buffers().Reserved(p.owner, m.accessed(), false) { // see denied
				n.send(n.message(Squash, m.From, m.ID), a.Cycles)
				n.cfg.Pool.Put(m)
				return
			}
			n.stall(m)
			return
		}
		cycles = max(cycles, a.Cycles)
	}
	r := n.message(Fetched, m.From, m.ID)
	r.Request, r.Shadows = m.Request, m.Shadows
	for _, line := range m.Lines {
		r.Lines = append(r.Lines, line)
		r.Data = append(r.Data, Data{})
		n.load(line, &r.Data[len(r.Data)-1])
	}
	n.send(r, cycles)
	if n.lacks(ReadBeforeInsert) {
		n.cfg.Hooks.Later(Step{insertLines, m}, n.cfg.Cycles.Line*len(m.accessed()))
		return
	}
	n.cfg.Pool.Put(m)
}

// load gives the committed content of a line.
func (n *Node) load(line bloom.Line, to *Data) {
	n.cfg.Memory.Load(line, to)
	if !n.lacks(SpeculativeVisible) {
		return
	}
	for i := range n.txs {
		if own := n.txs[i].wrote(line); own != nil {
			*to = own.data
		}
	}
}

func (n *Node) stall(m *Message) {
	n.stats.Stalled++
	n.stalled = append(n.stalled, m)
}

// intend has steps 1 to 3 at a node that another node's transaction has accessed.
func (n *Node) intend(m *Message) {
	p := n.take(m)
	if p == nil {
		return
	}
	if p.reserved && !p.keeps(m.Lines) {
		n.dir.Buffers().Unlock(p.owner) // and locked again in the same step
		p.locked, p.reserved = false, false
	}
	if p.locked { // by a reservation, or this is a repetition
		n.send(n.message(Ack, m.From, m.ID), 0)
		n.cfg.Pool.Put(m)
		return
	}
	if !n.lacks(FullLinesUnlocked) {
		for _, line := range m.Lines {
			p.write.Insert(line)
			p.writes = append(p.writes, line)
		}
	}
	n.lock(p, m)
}

// keeps reports whether what is reserved covers what was read, and lines that were written.
func (p *pair) keeps(written []bloom.Line) bool {
	for _, line := range written {
		if !slices.Contains(p.writes[:p.keptWrites], line) {
			return false
		}
	}
	return !p.outside
}

// lock takes a Locking Buffer and compares the lines with all filters, in one step.
func (n *Node) lock(p *pair, m *Message) {
	cycles := n.cfg.Cycles.Lock + n.cfg.Cycles.Line*len(m.Lines)
	if !n.lacks(NoLockAtReader) || len(m.Lines) > 0 {
		switch n.dir.Buffers().Lock(p.owner, p.read, p.write, m.Lines) {
		case directory.Denied:
			n.stall(m)
			return
		case directory.Conflict:
			n.send(n.message(Squash, m.From, m.ID), cycles)
			n.cfg.Pool.Put(m)
			return
		}
	}
	p.locked = true
	if n.cfg.Replicas != nil {
		n.cfg.Hooks.Marked(IntendToCommit)
	}
	switch {
	case n.lacks(AckBeforeProbe):
		n.send(n.message(Ack, m.From, m.ID), cycles)
		n.cfg.Hooks.Later(Step{probeLines, m}, cycles)
		return
	case n.lacks(ProbeAfterLock):
		n.cfg.Hooks.Later(Step{probeAndAck, m}, cycles)
		return
	}
	n.probe(m)
	n.send(n.message(Ack, m.From, m.ID), cycles)
	n.cfg.Pool.Put(m)
}

// probe squashes every other transaction that has accessed lines which a remote one has written.
func (n *Node) probe(m *Message) {
	n.squashRemote(m.ID, m.Lines, n.cfg.Cycles.Line*len(m.Lines))
	if !n.lacks(LocalNotProbed) {
		n.squashLocal(m.Lines, directory.Nobody)
	}
}

// squashLocal squashes every local transaction, but for one, that has accessed one of the lines.
func (n *Node) squashLocal(lines []bloom.Line, except directory.TX) {
	if len(lines) == 0 {
		return
	}
	for _, tx := range n.dir.Probe(lines, except) {
		if n.txs[tx].phase != persisting { // its lock keeps real conflicts away
			n.dir.Squash(tx, directory.Asked)
		}
	}
}

// squashRemote sends a Squash for every remote transaction, but for one, whose filters have one of the lines.
func (n *Node) squashRemote(except ID, lines []bloom.Line, cycles int) {
	if len(lines) == 0 {
		return
	}
	local := except.Node == n.cfg.Node
	if local && n.lacks(RemoteNotProbed) {
		return
	}
	n.stats.Compared += uint64(len(lines))
	for i := range n.pairs {
		p := &n.pairs[i]
		if !p.used || p.id == except {
			continue
		}
		for _, line := range lines {
			reads := !(local && n.lacks(RemoteReadsNotProbed)) && n.matches(p.read, p.reads, line)
			writes := !n.lacks(WritesNotProbed) && n.matches(p.write, p.writes, line)
			if reads || writes {
				n.send(n.message(Squash, p.id.Node, p.id), cycles)
				break
			}
		}
	}
}

func (n *Node) matches(f *bloom.Filter, really []bloom.Line, line bloom.Line) bool {
	n.stats.Checks++
	if !f.Contains(line) {
		return false
	}
	if !slices.Contains(really, line) {
		n.stats.FalseConflicts++
	}
	return true
}

// validate has steps 4 and 5 at a node that another node's transaction has accessed. It reports whether the node
// keeps the message.
func (n *Node) validate(m *Message) bool {
	p := n.pairFor(m.ID)
	if p == nil {
		return false // a repetition
	}
	if n.cfg.Replicas != nil {
		n.cfg.Hooks.Marked(Validation)
	}
	if n.lacks(UnlockBeforeUpdate) {
		n.free(p)
		n.cfg.Hooks.Later(Step{pushLines, m}, n.cfg.Cycles.Line*len(m.Lines))
		return true
	}
	n.push(m)
	n.free(p)
	n.done(m)
	return false
}

func (n *Node) push(m *Message) {
	for i, line := range m.Lines {
		n.dir.Push(line)
		n.cfg.Memory.Store(line, &m.Data[i])
	}
}

// abort forgets a transaction of another node.
func (n *Node) abort(m *Message) {
	if p := n.pairFor(m.ID); p != nil {
		n.free(p)
	}
}

// free gives a pair of filters back, and its Locking Buffer. Requests of it that wait are over, too.
func (n *Node) free(p *pair) {
	kept := n.stalled[:0]
	for _, s := range n.stalled {
		if s.ID == p.id {
			n.cfg.Pool.Put(s)
		} else {
			kept = append(kept, s)
		}
	}
	n.stalled = kept
	n.pairOf[n.slot(p.id)] = -1
	p.used, p.locked, p.reserved = false, false, false
	p.read.Clear()
	p.write.Clear()
	p.reads, p.writes = p.reads[:0], p.writes[:0]
	if n.lacks(AnothersBitsCleared) {
		next := &n.pairs[(int(p.owner)-len(n.txs)+1)%len(n.pairs)]
		next.read.Clear()
		next.write.Clear()
	}
	n.dir.Buffers().Unlock(p.owner)
}
