package rpc

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"drtmd/internal/invariant"
	"drtmd/verbs/fiber"
)

// Ticket names an answer that a port expects. It is never used again by the port.
type Ticket uint64

// Target is where the answer to a forwarded request goes: to the worker of a node that expects it.
type Target struct {
	Node, Worker uint16
	Ticket       Ticket
}

// maxTickets bounds the answers that a port expects at a time.
const maxTickets = 1 << 16

const ticketBytes = 8

// Answer is an answer that a fiber expects from a third node. The zero value is ready for Port.Expect,
// and so is one that has come. It must not be copied while it is expected.
type Answer struct {
	p      *Port
	ticket Ticket
	going  bool
	resp   []byte
	n      int
	err    error
	from   Caller
	ended  fiber.Cond
}

// ticket is a place of Port.tickets.
type ticket struct {
	a     *Answer // nil: free
	round uint64  // of the place, in the high 48 bits of its tickets
}

// Expect makes a ticket for an answer of at most len(resp) bytes, and says where it is to go: pass that
// to whoever sends the request. resp belongs to the answer until it has ended: await it.
func (p *Port) Expect(a *Answer, resp []byte) (Target, error) {
	invariant.Assert(!a.going, "an answer was expected that is expected already")
	if err := p.Err(); err != nil {
		return Target{}, err
	}
	if len(p.freeTickets) == 0 {
		if len(p.tickets) == maxTickets {
			return Target{}, hint(ErrFull, fmt.Sprintf("%d answers are expected: await some", maxTickets))
		}
		p.freeTickets = append(p.freeTickets, uint16(len(p.tickets)))
		p.tickets = append(p.tickets, ticket{})
	}
	last := len(p.freeTickets) - 1
	i := p.freeTickets[last]
	p.freeTickets = p.freeTickets[:last]
	t := &p.tickets[i]
	t.a, t.round = a, t.round+1
	*a = Answer{p: p, ticket: Ticket(t.round<<16 | uint64(i)), going: true, resp: resp, ended: a.ended}
	return Target{Node: p.cfg.Self.Node, Worker: p.cfg.Self.Worker, Ticket: a.ticket}, nil
}

// Await waits for the answer and gives its length. Errors are those of Call.Await; a RemoteError is that
// of the handler whose answer it is. After any of them, one that comes later is dropped.
func (a *Answer) Await(f *fiber.Fiber, deadline time.Duration) (int, error) {
	for a.going {
		if err := a.ended.Wait(f, deadline); err != nil && a.going {
			a.end(0, err)
		}
	}
	return a.n, a.err
}

// From is who answered.
func (a *Answer) From() Caller { return a.from }

func (a *Answer) end(n int, err error) {
	a.going, a.n, a.err, a.resp = false, n, err, nil
	i := uint16(a.ticket)
	a.p.tickets[i].a = nil
	a.p.freeTickets = append(a.p.freeTickets, i)
	a.ended.Broadcast()
}

// failAnswers ends every answer that is expected.
func (p *Port) failAnswers(err error) {
	for i := range p.tickets {
		if a := p.tickets[i].a; a != nil {
			a.end(0, err)
		}
	}
}

// take gives an answer to whoever expects it.
func (p *Port) take(t Ticket, from Caller, flags uint8, typ Type, body []byte) {
	p.Stats.Answers++
	i := int(uint16(t))
	if i >= len(p.tickets) || p.tickets[i].a == nil ||
		p.tickets[i].a.ticket != t && p.cfg.Mutation != AnyTicket {
		p.Stats.Strays++
		return
	}
	a := p.tickets[i].a
	a.from = from
	switch {
	case flags&compactError != 0:
		a.end(0, &RemoteError{Type: typ, Text: string(body), noHandler: flags&compactNoType != 0})
	case len(body) > len(a.resp):
		a.end(0, hint(ErrTooLong, fmt.Sprintf("the answer has %d bytes, the buffer %d", len(body),
			len(a.resp))))
	default:
		a.end(copy(a.resp, body), nil)
	}
}

// gotAnswer takes an answer from the wire: ticket 8 | bytes. Its type is that of the request.
func (p *Port) gotAnswer(s *Session, e Epoch, m *compactMessage) {
	if len(m.body) < ticketBytes {
		p.drop(ReasonLength)
		return
	}
	p.take(Ticket(binary.LittleEndian.Uint64(m.body)),
		Caller{Identity: s.peerID, Incarnation: s.peer.Incarnation, Epoch: e, Session: s}, m.flags,
		Type(m.typ), m.body[ticketBytes:])
}

// forward brings the answer to a request to its target. There is one for each slot that was ever used so.
type forward struct {
	s    *Session // that the request came on
	slot uint8
	call Call
	body []byte // ticket 8 | the answer
	flow FlowID
}

// forward sends the answer to the request of a slot on to its target.
func (s *Session) forward(i uint8, v *flowServed) {
	p := s.port
	t := &v.target
	if self := p.cfg.Self; t.Node == self.Node && t.Worker == self.Worker {
		p.take(t.Ticket, Caller{Identity: self, Incarnation: p.cfg.Incarnation, Epoch: p.epoch}, v.errorFlags(),
			v.typ, v.resp)
		s.forwarded(i, v, nil)
		return
	}
	to := p.SessionTo(t.Node, t.Worker)
	if to == nil {
		s.forwarded(i, v, fmt.Errorf("no session with worker %d of node %d, the recipient of the answer: connect "+
			"to it first", t.Worker, t.Node))
		return
	}
	fw := v.forward
	if fw == nil {
		fw = &forward{}
		v.forward = fw
	}
	fw.s, fw.slot, fw.flow = s, i, v.flow.id
	fw.body = binary.LittleEndian.AppendUint64(fw.body[:0], uint64(t.Ticket))
	fw.body = append(fw.body, v.resp...)
	fl := to.Flow(fw.flow)
	if err := fl.check(len(fw.body)); err != nil {
		s.forwarded(i, v, err)
		return
	}
	if x := to.flows; x.busy == len(x.calls) {
		x.waiting = append(x.waiting, fw)
		return
	}
	fw.begin(to)
}

// begin sends the answer on a session with its target, on which a call is free.
func (fw *forward) begin(to *Session) {
	v := &fw.s.flows.served[fw.slot]
	fw.call.forward = fw
	to.Flow(fw.flow).begin(&fw.call, flowCall{kind: compactAnswer, flags: v.errorFlags(),
		typ: v.typ, req: fw.body})
}

func (v *flowServed) errorFlags() uint8 {
	if v.flags&compactError == 0 {
		return 0
	}
	return v.flags
}

// delivered learns that the target has the answer, or why not.
func (fw *forward) delivered(err error) {
	if fw.s.state == stateOpen {
		fw.s.forwarded(fw.slot, &fw.s.flows.served[fw.slot], err)
	}
}

// forwarded tells the sender of the request of a slot what became of the answer.
func (s *Session) forwarded(i uint8, v *flowServed, err error) {
	v.flags, v.resp = 0, v.resp[:0]
	if err != nil {
		s.port.Stats.Undelivered++
		text := "answer not delivered: " + err.Error()
		v.flags, v.resp = compactError, append(v.resp, text[:min(len(text), maxErrorBytes)]...)
	}
	s.finishFlow(i, v)
}

// route leads to a session by who its peer is.
type route struct {
	key uint32 // node, worker
	s   *Session
}

func routeKey(node, worker uint16) uint32 { return uint32(node)<<16 | uint32(worker) }

func compareRoute(r route, key uint32) int {
	switch {
	case r.key < key:
		return -1
	case r.key > key:
		return 1
	}
	return 0
}

// SessionTo gives the open session with a worker of a node, whichever side opened it; nil if there is
// none. Of several, with lives of that worker, it is the one that was opened last.
func (p *Port) SessionTo(node, worker uint16) *Session {
	i, ok := slices.BinarySearchFunc(p.routes, routeKey(node, worker), compareRoute)
	if !ok {
		return nil
	}
	return p.routes[i].s
}

// addRoute has SessionTo find a session that has been opened.
func (p *Port) addRoute(s *Session) {
	key := routeKey(s.peerID.Node, s.peerID.Worker)
	i, ok := slices.BinarySearchFunc(p.routes, key, compareRoute)
	if ok {
		p.routes[i].s = s
	} else {
		p.routes = slices.Insert(p.routes, i, route{key, s})
	}
}

// dropRoute forgets a session that has failed.
func (p *Port) dropRoute(s *Session) {
	i, ok := slices.BinarySearchFunc(p.routes, routeKey(s.peerID.Node, s.peerID.Worker), compareRoute)
	if ok && p.routes[i].s == s {
		p.routes = slices.Delete(p.routes, i, i+1)
	}
}
