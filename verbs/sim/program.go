package sim

import (
	"errors"

	"drtmd/internal/invariant"
)

// This file carries programs on NICs: it implements smartnic.NIC.

// programRetry is after what time a NIC tries again to reach another one whose link is cut. Assumed.
const programRetry = 10 * Microsecond

// ErrAttached: the NIC of a node carries one program.
var ErrAttached = errors.New("the NIC of the node carries a program already, or the node is down")

// Program is a program that the NIC of a node carries, in one life of the node.
type Program struct {
	node        *Node
	incarnation uint32
	receive     func(from int, payload []byte)
	calls       *programCall // free ones
}

// programCall is a call that a program waits for; it is used again.
type programCall struct {
	p    *Program
	f    func()
	run  func() // bound once
	next *programCall
}

// Attach has the node's NIC carry a program, until the node crashes. Messages for it are given to receive.
func (n *Node) Attach(receive func(from int, payload []byte)) (*Program, error) {
	if !n.up || n.program != nil && n.program.alive() {
		return nil, ErrAttached
	}
	n.program = &Program{node: n, incarnation: n.incarnation, receive: receive}
	return n.program, nil
}

// Alive implements smartnic.NIC.
func (p *Program) Alive() bool { return p.alive() }

// alive reports whether the life that the program belongs to goes on.
func (p *Program) alive() bool { return p.node.up && p.node.incarnation == p.incarnation }

// Send implements smartnic.NIC.
func (p *Program) Send(to int, payload []byte, afterPs int64) {
	if !p.alive() {
		return
	}
	n, w := p.node, p.node.world
	invariant.Assert(to != n.index && to >= 0 && to < len(w.nodes), "a program sends to its own node, or to none")
	m := w.newMessage()
	m.kind, m.src, m.here, m.dst, m.incarnation = mkProgram, n, n, w.nodes[to], n.incarnation
	m.seq = uint64(m.dst.incarnation)
	m.length = uint32(len(payload))
	m.buf = w.buffer(len(payload))
	copy(m.buf, payload)
	free := n.out.take(w.now.add(Time(afterPs)), n.slow(w.rate.out.send))
	path := n.to(m.dst) // a NIC that is no longer slow keeps the order, too
	path.sentProgram = max(free+n.slow(w.cost.NIC.Pipeline), path.sentProgram)
	w.post(path.sentProgram, evWire, m)
}

// AfterPs implements smartnic.NIC.
func (p *Program) AfterPs(ps int64, f func()) {
	c := p.calls
	if c == nil {
		c = &programCall{p: p}
		c.run = func() {
			f := c.f
			c.f, c.next, c.p.calls = nil, c.p.calls, c
			if c.p.alive() {
				f()
			}
		}
	} else {
		p.calls = c.next
	}
	c.f, c.next = f, nil
	w := p.node.world
	w.schedule(w.now.add(Time(ps)), event{kind: evCall, call: c.run})
}

// ordered is when the head of a message of a program is at the switch: not before those sent earlier.
func (p *path) ordered(head Time, now Time) Time {
	p.lastProgram = max(head.add(p.delayRC(now)), p.lastProgram)
	return p.lastProgram
}

// blocked keeps a message of a program while the link is cut, or others are kept, and reports whether it does.
func (l *links) blocked(m *message) bool {
	p := m.here.to(m.dst)
	if len(p.held) == 0 {
		if !l.unreachable(m.here, m.dst) {
			return false
		}
		l.retry(m.here, m.dst)
	}
	p.held = append(p.held, m)
	return true
}

func (l *links) unreachable(src, dst *Node) bool {
	return src.to(dst).cut > 0 || max(src.downUntil, dst.downUntil) > l.w.now
}

// retry sends what is kept as soon as the link is whole.
func (l *links) retry(src, dst *Node) {
	l.w.After(programRetry, func() {
		if l.unreachable(src, dst) && dst.up {
			l.retry(src, dst)
			return
		}
		p := src.to(dst)
		held := p.held
		p.held = nil
		for _, m := range held {
			l.arrive(m)
		}
	})
}

// deliver gives a message to the program that it was sent to, if that lives.
func (n *Node) deliver(m *message) {
	w := n.world
	p := n.program
	if !n.up || p == nil || !p.alive() || m.seq != uint64(n.incarnation) {
		w.drop(m)
		return
	}
	p.receive(m.src.index, m.buf)
	w.free(m)
}
