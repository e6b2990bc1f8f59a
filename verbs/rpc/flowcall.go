package rpc

import (
	"fmt"
	"time"

	"drtmd/internal/invariant"
	"drtmd/verbs/fiber"
)

// flowCall is the client's side of a request on a flow.
type flowCall struct {
	call      *Call // nil: free
	flow      *Flow
	id        uint32
	kind      compactKind
	flags     uint8 // of an answer
	typ       Type
	target    Target
	req, resp []byte // the caller's
	unsent    bool
	queued    bool
	retried   bool
	sentAt    time.Duration
	due       time.Duration // of the next retransmission; 0 = not sent yet
	tries     int
	backoff   uint
}

// mostGivenUp is how many calls may be given up on a session whose peer is silent: then it is gone. It
// keeps the IDs of a slot comparable.
const mostGivenUp = 1 << 24

func (fl *Flow) start(f *fiber.Fiber, c *Call, x flowCall, deadline time.Duration) error {
	invariant.Assert(!c.going, "a call was started that is in flight")
	if err := fl.check(len(x.req)); err != nil {
		return err
	}
	if err := f.Err(); err != nil {
		return err
	}
	s := fl.s
	for s.state == stateOpen && s.flows.busy == len(s.flows.calls) {
		if err := s.flows.free.Wait(f, deadline); err != nil {
			return err
		}
	}
	if s.state != stateOpen {
		return s.err
	}
	fl.begin(c, x)
	return nil
}

// begin takes a slot, of which one is free.
func (fl *Flow) begin(c *Call, x flowCall) {
	s := fl.s
	p, y := s.port, s.flows
	i := y.nextID & y.mask
	for y.calls[i].call != nil || y.nextID == 0 { // IDs rise; one whose slot is in use is left out
		y.nextID++
		i = y.nextID & y.mask
	}
	if old := &y.calls[i]; old.queued && old.flow != fl { // of a call that was given up
		old.flow.forget(slotRef{index: uint8(i)})
		old.queued = false
	}
	if s.busy == 0 {
		s.waitSince = p.now()
	}
	s.busy++
	y.busy++
	p.Stats.Calls++
	x.call, x.flow, x.id, x.unsent, x.queued = c, fl, y.nextID, true, y.calls[i].queued
	y.calls[i] = x
	y.nextID++
	c.s, c.id, c.compact, c.going, c.n, c.err = s, x.id, true, true, 0, nil
	fl.enqueue(slotRef{index: uint8(i)}, &y.calls[i].queued)
	p.arm(s.waitSince + p.cfg.PeerTimeout)
}

// sendCall sends the request of a slot.
func (fl *Flow) sendCall(i uint8, now time.Duration) bool {
	s := fl.s
	x := &s.flows.calls[i]
	if x.call != nil && x.unsent {
		m := compactMessage{kind: x.kind, flags: x.flags, typ: uint8(x.typ), id: x.id, target: x.target,
			body: x.req}
		if !fl.put(&m) {
			return false
		}
		x.unsent, x.sentAt = false, now
		x.due = now + s.rtt.timeout(x.backoff, &s.port.cfg)
		s.port.arm(x.due)
	}
	x.queued = false
	return true
}

// callOf finds the request that a message answers; nil if that has ended.
func (x *flows) callOf(p *Port, m *compactMessage) *flowCall {
	c := &x.calls[m.id&x.mask]
	if c.call == nil || c.id != m.id && p.cfg.Mutation != AnyResponse {
		p.Stats.Duplicates++
		return nil
	}
	return c
}

func (fl *Flow) gotResponse(m *compactMessage) {
	s := fl.s
	p := s.port
	x := s.flows.callOf(p, m)
	if x == nil {
		return
	}
	switch {
	case m.flags&compactError != 0:
		s.endFlowCall(x, 0, &RemoteError{Type: x.typ, Text: string(m.body),
			noHandler: m.flags&compactNoType != 0})
	case len(m.body) > len(x.resp):
		s.endFlowCall(x, 0, hint(ErrTooLong, fmt.Sprintf("the response has %d bytes, the buffer %d",
			len(m.body), len(x.resp))))
	default:
		if !x.retried && m.flags&compactDeferred == 0 {
			s.rtt.sample(p.now()-x.sentAt, &p.cfg)
		}
		s.endFlowCall(x, copy(x.resp, m.body), nil)
	}
}

// gotRunning learns that a request has come and waits for its handler.
func (s *Session) gotRunning(m *compactMessage) {
	if x := s.flows.callOf(s.port, m); x != nil {
		x.tries = 0
		if x.due != 0 {
			x.due = s.port.now() + s.rtt.timeout(x.backoff, &s.port.cfg)
			s.port.arm(x.due)
		}
	}
}

// endFlowCall answers the caller and frees the slot.
func (s *Session) endFlowCall(x *flowCall, n int, err error) {
	c := x.call
	c.going, c.n, c.err = false, n, err
	s.releaseFlowCall(x)
	c.ended.Broadcast()
	if c.forward != nil {
		c.forward.delivered(err)
	}
}

func (s *Session) releaseFlowCall(x *flowCall) {
	x.call, x.req, x.resp, x.due = nil, nil, nil, 0
	s.busy--
	s.flows.busy--
	if w := s.flows.waiting; len(w) > 0 && s.state == stateOpen {
		fw := w[0]
		s.flows.waiting = w[:copy(w, w[1:])]
		fw.begin(s)
		return
	}
	s.flows.free.Signal()
}

// abandonFlowCall frees the slot of a call that nobody awaits any more. The peer may be running it: it
// tells the slot's next request to wait.
func (s *Session) abandonFlowCall(c *Call, err error) {
	c.going, c.err = false, err
	s.releaseFlowCall(&s.flows.calls[c.id&s.flows.mask])
	if s.flows.gaveUp++; s.flows.gaveUp > mostGivenUp {
		s.fail(hint(ErrPeerGone, "it was silent while calls were given up: connect again"))
	}
}

// tickFlows retransmits what is due.
func (s *Session) tickFlows(now time.Duration) time.Duration {
	if s.flows == nil || s.flows.busy == 0 {
		return never
	}
	next := never
	for i := range s.flows.calls {
		x := &s.flows.calls[i]
		if x.call == nil || x.due == 0 {
			continue
		}
		if now < x.due {
			next = min(next, x.due)
			continue
		}
		if err := s.unanswered(&x.tries, "the peer is alive: does the path lose datagrams?"); err != nil {
			s.endFlowCall(x, 0, err)
			continue
		}
		s.again(x.sentAt, now)
		x.backoff++
		x.retried, x.unsent, x.due = true, true, 0
		x.flow.enqueue(slotRef{index: uint8(i)}, &x.queued)
	}
	return next
}
