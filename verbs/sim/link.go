package sim

import "drtmd/verbs"

// links is the network: every node's cable to one switch, and what faults do to it.
type links struct {
	w      *World
	healed uint64 // counts Heals
}

func (l *links) init(w *World) { l.w = w }

// path is the way from one node to another.
type path struct {
	cut     int // faults that cut it now
	rcDelay Time
	rcCount int // requests to be delayed; -1 = all until rcUntil
	rcUntil Time
	rules   []udRule

	rcOutcome *Outcome // of the fault behind rcDelay

	lastProgram Time       // arrival of the last message of a program
	sentProgram Time       // when it left the NIC
	held        []*message // of programs, while the link is cut; in order
}

// udRule is what happens to datagrams on a path.
type udRule struct {
	kind  FaultKind
	ppm   int // probability in millionths
	by    Time
	count int // datagrams left to be hit; -1 = any number
	until Time

	outcome *Outcome
}

// to is the path to another node.
func (n *Node) to(dst *Node) *path {
	for len(n.paths) <= dst.index {
		n.paths = append(n.paths, path{})
	}
	return &n.paths[dst.index]
}

// depart is a message ready for the uplink of its source.
func (l *links) depart(m *message) {
	w, src := l.w, m.here
	if !src.up || src.incarnation != m.incarnation {
		w.drop(m) // the NIC died with the message inside
		return
	}
	w.stats.Messages++
	if m.dst.adapter == src.adapter {
		w.stats.Bytes += uint64(m.length)
		l.sent(m, w.now)
		w.fly(m, w.now+w.cost.NIC.Pipeline)
		return
	}
	bytes := w.cost.wireBytes(int(m.length))
	w.stats.Bytes += uint64(bytes)
	d := src.slow(span(bytes, w.rate.linkPerByte))
	start := max(w.now, src.uplink.busy)
	end := src.uplink.take(w.now, d)
	l.sent(m, end)
	head := start + min(d, span(int(w.cost.Link.MTU+w.cost.Link.Header), w.rate.linkPerByte)) +
		w.cost.Link.Propagation + w.cost.Link.Switch
	p := src.to(m.dst)
	switch m.kind {
	case mkDatagram:
		l.datagram(p, m, head)
	case mkRequest:
		// RC travels in order: what is behind a delayed request waits for it.
		q := src.qpAt(m.srcQPN)
		head = head.add(p.delayRC(w.now))
		if q != nil {
			head = max(head, q.lastArrival)
			q.lastArrival = head
		}
		w.fly(m, head)
	case mkProgram, mkPacket:
		w.fly(m, p.ordered(head, w.now))
	default:
		w.fly(m, head)
	}
}

// delayRC is the extra delay of an RC request.
func (p *path) delayRC(now Time) Time {
	if p.rcCount == 0 || now > p.rcUntil {
		return 0
	}
	if p.rcCount > 0 {
		p.rcCount--
	}
	p.rcOutcome.Hits++
	return p.rcDelay
}

// sent completes a datagram at its sender: it is on the wire.
func (l *links) sent(m *message, t Time) {
	if m.kind == mkDatagram {
		if q := m.src.qpAt(m.srcQPN); q != nil {
			l.w.schedule(t+l.w.cost.PCIe.Write, event{kind: evSent, qp: q, arg: m.seq})
		}
	}
}

// datagram applies the rules of a path and sends what is left.
func (l *links) datagram(p *path, m *message, head Time) {
	w := l.w
	kept := p.rules[:0]
	lost, twice := false, Time(-1)
	for _, r := range p.rules {
		if w.now > r.until || r.count == 0 {
			continue
		}
		if r.ppm >= 1e6 || w.Rand("fabric/datagrams").IntN(1e6) < r.ppm {
			if r.count > 0 {
				r.count--
			}
			r.outcome.Hits++
			switch r.kind {
			case DropDatagrams:
				lost = true
			case DuplicateDatagrams:
				twice = r.by
			case DelayDatagrams:
				head = head.add(r.by)
			case ReorderDatagrams:
				head = head.add(Time(w.Rand("fabric/reorder").Int64N(int64(r.by) + 1)))
			}
		}
		kept = append(kept, r)
	}
	p.rules = kept
	if lost {
		w.drop(m)
		return
	}
	if twice >= 0 {
		w.fly(w.clone(m), head.add(twice))
	}
	w.fly(m, head)
}

// arrive is the head of a message at the switch's port to its destination.
func (l *links) arrive(m *message) {
	w, src, dst := l.w, m.here, m.dst
	if (m.kind == mkProgram || m.kind == mkPacket) && dst.up && l.blocked(m) {
		return
	}
	if !dst.up || src.to(dst).cut > 0 {
		w.drop(m)
		return
	}
	m.here = dst
	in := w.now
	if src.adapter != dst.adapter {
		d := span(w.cost.wireBytes(int(m.length)), w.rate.linkPerByte)
		in = dst.downlink.take(w.now, dst.slow(d)) + w.cost.Link.Propagation
	}
	if m.kind != mkResponse && m.kind != mkPacket {
		in = dst.in.take(in, dst.slow(w.rate.in.of(m.op, m.kind)))
	}
	w.post(in+w.cost.NIC.Pipeline, evExec, m)
}

// of is the occupancy of an engine by a message.
func (v *verbTimes) of(op verbs.Opcode, kind messageKind) Time {
	switch op {
	case verbs.OpRead:
		return v.read
	case verbs.OpWrite, verbs.OpWriteImm:
		return v.write
	case verbs.OpCAS, verbs.OpFAA:
		return v.atomic
	}
	if kind == mkDatagram {
		return v.datagram
	}
	return v.send
}

// drop loses a message.
func (w *World) drop(m *message) {
	w.stats.Dropped++
	w.free(m)
}
