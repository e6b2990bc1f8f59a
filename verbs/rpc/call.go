package rpc

import (
	"fmt"
	"time"

	"drtmd/internal/invariant"
	"drtmd/verbs/fiber"
)

// Call is a call that was started and can be awaited. The zero value is ready for Start, and so
// is one that has ended. It must not be copied while it is in flight.
type Call struct {
	s     *Session
	slot  uint8
	going bool
	// compact: on a flow, with id in place of slot.
	compact bool
	id      uint32
	forward *forward // of which it is the call; nil for others
	n       int
	err     error
	ended   fiber.Cond
	next    *Call // in Port.calls
}

// slot is the client's side of a slot.
type slot struct {
	call      *Call // nil: free
	seq       uint32
	typ       Type
	want      bool // say how much of the response has come
	again     bool // and ask for the rest anew
	queued    bool
	req, resp []byte // the caller's
	out       outgoing
	in        incoming
	sentAt    time.Duration // the last time that something was sent
	retried   bool          // something was sent twice
	due       time.Duration // of the next retransmission; 0 = not sent yet
	tries     int           // timeouts without a reaction of the peer
	backoff   uint
}

// Call sends a request and waits for its response, of which it says how many bytes stand in
// resp. Deadline 0 leaves only the port's own timeouts. Errors are those of this package, a
// *RemoteError, or those of waiting; see the package comment for what they mean. It does not
// allocate.
func (s *Session) Call(f *fiber.Fiber, t Type, req, resp []byte,
	deadline time.Duration) (int, error) {
	c := s.port.takeCall()
	err := s.start(f, c, t, req, resp, deadline)
	n := 0
	if err == nil {
		n, err = c.Await(f, deadline)
	}
	s.port.giveCall(c)
	return n, err
}

// takeCall and giveCall keep the calls of Session.Call and Flow.Call.
func (p *Port) takeCall() *Call {
	c := p.calls
	if c == nil {
		return &Call{}
	}
	p.calls, c.next = c.next, nil
	return c
}

func (p *Port) giveCall(c *Call) {
	c.s, c.err = nil, nil
	c.next, p.calls = p.calls, c
}

// Start sends a request without waiting for its response, but for a slot if none is free. req and
// resp belong to the call until it has ended: await it.
func (s *Session) Start(f *fiber.Fiber, c *Call, t Type, req, resp []byte) error {
	return s.start(f, c, t, req, resp, 0)
}

func (s *Session) start(f *fiber.Fiber, c *Call, t Type, req, resp []byte,
	deadline time.Duration) error {
	invariant.Assert(!c.going, "a call was started that is in flight")
	if len(req) > s.longest {
		return hint(ErrTooLong, fmt.Sprintf("the request has %d bytes, both sides take %d: "+
			"raise Config.MaxMessage", len(req), s.longest))
	}
	if err := f.Err(); err != nil {
		return err
	}
	for s.state == stateOpen && len(s.free) == 0 {
		if err := s.slotFree.Wait(f, deadline); err != nil {
			return err
		}
	}
	if s.state != stateOpen {
		return s.err
	}
	p := s.port
	last := len(s.free) - 1
	i := s.free[last]
	s.free = s.free[:last]
	if s.busy == 0 {
		s.waitSince = p.now()
	}
	s.busy++
	p.Stats.Calls++
	x := &s.calls[i]
	*x = slot{call: c, seq: x.seq + 1, typ: t, req: req, resp: resp, queued: x.queued,
		out: outgoing{count: segments(len(req), s.segment)}}
	c.s, c.slot, c.compact, c.going, c.n, c.err = s, i, false, true, 0, nil
	s.enqueue(slotRef{index: i}, &x.queued)
	p.arm(s.waitSince + p.cfg.PeerTimeout)
	return nil
}

// enqueue has a slot's messages sent at the end of the pass.
func (s *Session) enqueue(r slotRef, queued *bool) {
	if !*queued {
		*queued = true
		s.queue.push(r)
	}
	if !s.blocked {
		s.touch()
	}
}

// Await waits until the call has ended and gives the length of its response. After the deadline
// (0: none) or a cancellation the call is over too.
func (c *Call) Await(f *fiber.Fiber, deadline time.Duration) (int, error) {
	for c.going {
		if err := c.ended.Wait(f, deadline); err != nil && c.going {
			c.s.abandon(c, err)
		}
	}
	return c.n, c.err
}

// Ended reports whether the call has ended, or none was started.
func (c *Call) Ended() bool { return !c.going }

// Result is the response's length and the error of a call that has ended.
func (c *Call) Result() (int, error) { return c.n, c.err }

// endCall answers the caller and frees the slot.
func (s *Session) endCall(i int, n int, err error) {
	x := &s.calls[i]
	c := x.call
	c.going, c.n, c.err = false, n, err
	s.release(x)
	s.free = append(s.free, uint8(i))
	s.slotFree.Signal()
	c.ended.Broadcast()
}

// abandon frees the slot of a call that nobody awaits any more. The peer may be running it, so
// the slot is the last to be used again.
func (s *Session) abandon(c *Call, err error) {
	if c.compact {
		s.abandonFlowCall(c, err)
		return
	}
	c.going, c.err = false, err
	s.release(&s.calls[c.slot])
	s.free = append(s.free, 0)
	copy(s.free[1:], s.free)
	s.free[0] = c.slot
	s.slotFree.Signal()
}

func (s *Session) release(x *slot) {
	x.call, x.req, x.resp = nil, nil, nil
	x.want, x.again, x.due = false, false, 0
	s.busy--
}

// callOf finds the slot of a message that answers a request; nil if that has ended.
func (s *Session) callOf(m *message) *slot {
	if int(m.slot) >= len(s.calls) {
		s.port.drop(ReasonSlot)
		return nil
	}
	x := &s.calls[m.slot]
	if x.call == nil || x.seq != m.seq {
		s.port.Stats.Duplicates++
		return nil
	}
	return x
}

// gotResponse takes a segment of a response.
func (s *Session) gotResponse(m *message) {
	p := s.port
	x := s.callOf(m)
	if x == nil {
		return
	}
	n := int(m.length)
	switch {
	case n > s.longest:
		p.drop(ReasonSize)
		return
	case !s.fits(m), m.flags&flagError != 0 && n > maxErrorBytes,
		x.in.next > 0 && n != x.in.total:
		p.drop(ReasonSegment)
		return
	}
	x.tries = 0
	x.out.acked, x.out.sent = x.out.count, x.out.count
	if int(m.segment) != x.in.next {
		p.Stats.Duplicates++ // or one before it is missing: asked for after the timeout
		return
	}
	if m.flags&flagError != 0 {
		s.endCall(int(m.slot), 0, &RemoteError{Type: x.typ, Text: string(m.body),
			noHandler: m.flags&flagNoType != 0})
		return
	}
	if n > len(x.resp) {
		s.endCall(int(m.slot), 0, hint(ErrTooLong, fmt.Sprintf("the response has %d bytes, the "+
			"buffer %d", n, len(x.resp))))
		return
	}
	if x.in.next == 0 && !x.retried && m.flags&flagDeferred == 0 {
		s.rtt.sample(p.now()-x.sentAt, &p.cfg)
	}
	x.in.total, x.in.count = n, segments(n, s.segment)
	from, _ := bounds(x.in.next, n, s.segment)
	copy(x.resp[from:], m.body)
	x.in.next++
	if x.in.next == x.in.count {
		s.endCall(int(m.slot), n, nil)
		return
	}
	x.backoff = 0
	s.setDue(x, p.now())
	if x.in.next-x.in.told >= max(1, s.window/2) {
		x.want = true
		s.enqueue(slotRef{index: m.slot}, &x.queued)
	}
}

// gotProgress learns how much of a request has come, or that its handler runs.
func (s *Session) gotProgress(m *message) {
	x := s.callOf(m)
	if x == nil {
		return
	}
	acked := int(m.segment)
	if m.flags&flagRunning != 0 {
		acked = x.out.count
	}
	if acked > x.out.count {
		s.port.drop(ReasonSegment)
		return
	}
	x.tries = 0
	if acked > x.out.acked {
		x.out.acked = acked
		x.out.sent = max(x.out.sent, acked)
		if acked < x.out.count {
			x.backoff = 0
		}
	}
	if x.due != 0 {
		s.setDue(x, s.port.now())
	}
	if x.out.more(s.window) {
		s.enqueue(slotRef{index: m.slot}, &x.queued)
	}
}
