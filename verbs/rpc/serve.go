package rpc

import (
	"fmt"

	"drtmd/internal/invariant"
	"drtmd/verbs/fiber"
)

// servedState of a slot of the peer's requests.
type servedState uint8

const (
	servedNone      servedState = iota // nothing came yet
	servedReceiving                    // segments are missing
	servedRunning                      // the handler runs
	servedDone                         // resp is the response
)

// served is the server's side of a slot: the last request, and its response.
type served struct {
	state    servedState
	typ      Type
	flags    uint8  // of the response
	seq      uint32 // of the last request that began to come
	queued   bool
	epoch    Epoch  // of the request
	progress bool   // say how much has come
	newer    uint32 // sequence of a request that waits for the running one; 0 = none
	in       incoming
	out      outgoing
	req      []byte // a request in segments, or of a fiber
	resp     []byte // saved until the next request
}

// gotRequest takes a segment of a request.
func (s *Session) gotRequest(h *header, m *message) {
	p := s.port
	switch {
	case int(m.slot) >= len(s.served):
		p.drop(ReasonSlot)
		return
	case int(m.length) > p.cfg.MaxMessage:
		p.drop(ReasonSize)
		return
	case !s.fits(m):
		p.drop(ReasonSegment)
		return
	}
	v := &s.served[m.slot]
	if !s.isCurrent(v, m) {
		return
	}
	if int(m.length) != v.in.total || Type(m.typ) != v.typ {
		p.drop(ReasonSegment)
		return
	}
	if int(m.segment) != v.in.next { // came already, or one before it is missing
		p.Stats.Duplicates++
		s.tellProgress(v, m.slot)
		return
	}
	body := m.body
	if v.in.count > 1 {
		from, _ := bounds(v.in.next, v.in.total, s.segment)
		v.req = grown(v.req, v.in.total)
		copy(v.req[from:], m.body)
		body = v.req
	}
	v.in.next++
	if v.in.next < v.in.count {
		if v.in.next-v.in.told >= max(1, p.cfg.Window/2) {
			s.tellProgress(v, m.slot)
		}
		return
	}
	v.state, v.epoch = servedRunning, h.epoch
	if p.handlers[m.typ].isFiber() && v.in.count == 1 {
		v.req = append(v.req[:0], body...) // the receive buffer is given back before it runs
		body = v.req
	}
	p.batch = append(p.batch, request{Type: v.typ, Session: s, Body: body, Epoch: h.epoch,
		slot: m.slot})
}

// isCurrent reports whether a segment belongs to the request that the slot receives; it begins
// with a newer one, and answers those that came before.
func (s *Session) isCurrent(v *served, m *message) bool {
	switch d := int32(m.seq - v.seq); {
	case v.state != servedNone && d < 0:
		s.port.Stats.Duplicates++ // an older one: its caller has gone on
		return false
	case v.state == servedNone || d > 0 || s.port.cfg.ForgetServed && v.state == servedDone:
		if v.state == servedRunning { // of a caller that gave up
			v.newer = m.seq
			s.tellProgress(v, m.slot)
			return false
		}
		v.seq, v.typ, v.state, v.flags, v.newer = m.seq, Type(m.typ), servedReceiving, 0, 0
		v.in = incoming{total: int(m.length), count: segments(int(m.length), s.segment)}
		v.out = outgoing{}
		v.progress = false
		return true
	case v.state == servedReceiving:
		return true
	}
	s.port.Stats.Duplicates++
	s.answerAgain(v, m.slot)
	return false
}

// answerAgain tells a client that asks once more what there is.
func (s *Session) answerAgain(v *served, i uint8) {
	if v.state == servedDone {
		v.out.sent = v.out.acked
		s.enqueue(slotRef{index: i, served: true}, &v.queued)
		return
	}
	s.tellProgress(v, i)
}

func (s *Session) tellProgress(v *served, i uint8) {
	v.progress = true
	s.enqueue(slotRef{index: i, served: true}, &v.queued)
}

// gotWant learns how much of a response has come.
func (s *Session) gotWant(m *message) {
	if int(m.slot) >= len(s.served) {
		s.port.drop(ReasonSlot)
		return
	}
	v := &s.served[m.slot]
	if m.seq != v.seq || v.state == servedNone {
		s.port.Stats.Duplicates++
		return
	}
	if v.state == servedDone {
		if int(m.segment) > v.out.count {
			s.port.drop(ReasonSegment)
			return
		}
		v.out.acked = max(v.out.acked, int(m.segment))
		v.out.sent = max(v.out.sent, v.out.acked)
	}
	if m.flags&flagAgain != 0 {
		s.port.Stats.Duplicates++
		s.answerAgain(v, m.slot)
	} else if v.state == servedDone && v.out.more(s.window) {
		s.enqueue(slotRef{index: m.slot, served: true}, &v.queued)
	}
}

// Ahead has a function called with the requests of each datagram that has several, before any of their handlers runs.
// request gives the i-th of n; its bytes are valid during the call.
func (p *Port) Ahead(f func(n int, request func(i int) (Type, []byte))) {
	p.ahead = f
	p.inBatch = func(i int) (Type, []byte) { return p.batch[i].Type, p.batch[i].Body }
}

// lookAhead calls the function of Ahead. The error of a panic is not answered: the handler of the request that it comes
// from meets the same.
func (p *Port) lookAhead() (err error) {
	defer func() { err = p.caught(recover()) }()
	p.ahead(len(p.batch), p.inBatch)
	return nil
}

// caught is the error that a panic is for who has called: a bug of the program fences the worker.
func (p *Port) caught(v any) error {
	switch v := v.(type) {
	case nil:
		return nil
	case invariant.Violation:
		p.w.Fence(v)
		return v
	default:
		return fmt.Errorf("handler panicked: %v", v)
	}
}

// runBatch runs the handlers of a datagram's requests.
func (s *Session) runBatch() {
	p := s.port
	if len(p.batch) == 0 {
		return
	}
	if p.ahead != nil && len(p.batch) > 1 {
		_ = p.lookAhead()
	}
	for i := range p.batch {
		r := &p.batch[i]
		if s.state != stateOpen { // a handler closed it
			break
		}
		p.Stats.Requests++
		switch h := &p.handlers[r.Type]; {
		case h.inline != nil || h.from != nil:
			n, err := p.runInline(h, r)
			if r.flow == nil && !r.oneWay {
				s.respond(r.slot, p.scratch, n, err)
			} else {
				r.respond(p.scratch, n, err)
			}
		case h.isFiber():
			p.startJob(s, r, h)
		default:
			if r.flow == nil {
				s.served[r.slot].flags = flagNoType
			}
			r.respond(nil, 0, ErrNoHandler)
		}
	}
	clear(p.batch)
	p.batch = p.batch[:0]
}

// respond answers the request, if it is to be answered.
func (r *request) respond(resp []byte, n int, err error) {
	switch {
	case r.oneWay:
		if err != nil {
			r.Session.port.Stats.OneWaysFailed++
		}
	case r.flow != nil:
		r.Session.respondFlow(r.slot, resp, n, err)
	default:
		r.Session.respond(r.slot, resp, n, err)
	}
}

// runInline runs a handler in the receive loop. A panic of it is an error to the caller; a failed
// invariant of ours fences the node.
func (p *Port) runInline(h *handler, r *request) (n int, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = p.caught(v)
		}
	}()
	if h.inline != nil {
		return h.inline(r.Body, p.scratch)
	}
	p.caller = r.caller()
	return h.from(&p.caller, r.Body, p.scratch)
}

// respond saves the response to the request that the slot runs and sends it.
func (s *Session) respond(i uint8, resp []byte, n int, err error) {
	if s.state != stateOpen {
		return
	}
	v := &s.served[i]
	invariant.Assert(v.state == servedRunning, "response to a request that does not run")
	if v.epoch < s.port.epoch && s.port.cfg.Mutation == 0 { // its caller has been told ErrEpoch
		v.state, v.progress, v.out = servedDone, false, outgoing{}
		return
	}
	if err == nil && (n < 0 || n > len(resp)) {
		err = fmt.Errorf("handler returned a length of %d for a buffer of %d bytes", n, len(resp))
	}
	if err == nil && n > s.longest {
		err = fmt.Errorf("%w: response of %d bytes, both sides take %d", ErrTooLong, n, s.longest)
	}
	if err != nil {
		v.flags |= flagError
		text := err.Error()
		v.resp = append(v.resp[:0], text[:min(len(text), maxErrorBytes)]...)
	} else {
		v.resp = append(v.resp[:0], resp[:n]...)
	}
	v.state, v.progress = servedDone, false
	v.out = outgoing{count: segments(len(v.resp), s.segment)}
	s.enqueue(slotRef{index: i, served: true}, &v.queued)
}

// job runs a fiber handler.
type job struct {
	next *job // in Port.jobs
	p    *Port
	r    request // its Body is not used
	h    handler
	from Caller
	req  []byte
	own  []byte // of a one-way message, which has no slot
	resp []byte
	body func(*fiber.Fiber) error // j.run
}

// startJob starts a fiber for a request. Jobs are kept and used again.
func (p *Port) startJob(s *Session, r *request, h *handler) {
	j := p.jobs
	if j == nil {
		j = &job{p: p, resp: make([]byte, p.cfg.MaxMessage)}
		j.body = j.run
	} else {
		p.jobs = j.next
	}
	j.next, j.r, j.h, j.req, j.from = nil, *r, *h, r.Body, r.caller()
	switch {
	case r.oneWay: // the receive buffer is given back before it runs
		j.own = append(j.own[:0], r.Body...)
		j.req = j.own
	case r.flow != nil:
		s.flows.served[r.slot].flags = compactDeferred
	default:
		s.served[r.slot].flags |= flagDeferred
	}
	p.w.Go("rpc handler", nil, j.body)
}

// run is the fiber's body.
func (j *job) run(f *fiber.Fiber) error {
	answered := false
	f.Defer(func(*fiber.Fiber) { // also when the handler panics
		if !answered {
			j.r.respond(nil, 0, fmt.Errorf("handler panicked"))
		}
		j.r, j.h, j.req, j.from = request{}, handler{}, nil, Caller{}
		j.next, j.p.jobs = j.p.jobs, j
	})
	var n int
	var err error
	if j.h.fiber != nil {
		n, err = j.h.fiber(f, j.req, j.resp)
	} else {
		n, err = j.h.fiberFrom(f, &j.from, j.req, j.resp)
	}
	answered = true
	j.r.respond(j.resp, n, err)
	return nil
}
