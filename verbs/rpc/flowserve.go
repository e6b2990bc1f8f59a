package rpc

import (
	"fmt"

	"drtmd/internal/invariant"
)

// flowServed is the server's side of a slot of a flow's requests: the last one, and its response.
type flowServed struct {
	state   servedState // none, running or done
	kind    compactKind
	typ     Type
	flags   uint8 // of the response
	flow    *Flow
	id      uint32
	epoch   Epoch
	target  Target // of a forwarded one
	queued  bool
	send    bool   // the response is to be sent
	running bool   // say that the handler runs
	newer   uint32 // ID of a request that waits for the running one; 0 = none
	req     []byte // of a fiber
	resp    []byte // saved until the next request
	forward *forward
}

// gotRequest takes a request, forwarded request or answer.
func (fl *Flow) gotRequest(h *compactHeader, m *compactMessage) {
	s := fl.s
	p := s.port
	if len(m.body) > p.cfg.MaxMessage {
		p.drop(ReasonSize)
		return
	}
	i := uint8(m.id & s.flows.mask)
	v := &s.flows.served[i]
	d := int32(m.id - v.id)
	switch {
	case v.state != servedNone && d < 0:
		p.Stats.Duplicates++
		return
	case v.state != servedNone && d == 0 && !(p.cfg.ForgetServed && v.state == servedDone):
		p.Stats.Duplicates++
		v.send = v.state == servedDone && (v.epoch >= p.epoch || p.cfg.Mutation != 0)
		v.running = v.state == servedRunning
		v.flow.enqueue(slotRef{index: i, served: true}, &v.queued)
		return
	case v.state == servedRunning: // of a caller that gave up
		v.newer = m.id
		v.flow.enqueue(slotRef{index: i, served: true}, &v.queued)
		return
	}
	queued := v.queued
	if queued && v.flow != fl { // what it had to say is not wanted any more
		v.flow.forget(slotRef{index: i, served: true})
		queued = false
	}
	*v = flowServed{state: servedRunning, kind: m.kind, typ: Type(m.typ), flow: fl, id: m.id,
		epoch: h.epoch, target: m.target, queued: queued, req: v.req, resp: v.resp, forward: v.forward}
	if m.kind == compactAnswer {
		p.gotAnswer(s, h.epoch, m)
		s.respondFlow(i, nil, 0, nil)
		return
	}
	body := m.body
	if p.handlers[m.typ].isFiber() {
		v.req = append(v.req[:0], body...) // the receive buffer is given back before it runs
		body = v.req
	}
	p.batch = append(p.batch, request{Type: v.typ, Session: s, Body: body, Epoch: h.epoch, flow: fl,
		slot: i})
}

// forget takes a slot out of the queue, in which it is.
func (fl *Flow) forget(r slotRef) {
	q := fl.queueOf(r)
	to := q.head
	mask := uint32(len(q.ring) - 1)
	for from := q.head; from != q.tail; from++ {
		if q.ring[from&mask] != r {
			q.ring[to&mask] = q.ring[from&mask]
			to++
		}
	}
	q.tail = to
}

// respondFlow saves the response to the request that the slot runs and sends it, or has it forwarded.
func (s *Session) respondFlow(i uint8, resp []byte, n int, err error) {
	if s.state != stateOpen {
		return
	}
	v := &s.flows.served[i]
	invariant.Assert(v.state == servedRunning, "response to a request that does not run")
	if err == nil && (n < 0 || n > len(resp)) {
		err = fmt.Errorf("handler returned a length of %d for a buffer of %d bytes", n, len(resp))
	}
	if err == nil && n > v.flow.Longest() {
		err = fmt.Errorf("%w: response of %d bytes on a flow, which takes %d", ErrTooLong, n,
			v.flow.Longest())
	}
	if err != nil {
		v.flags = compactError
		if err == ErrNoHandler {
			v.flags |= compactNoType
		}
		text := err.Error()
		v.resp = append(v.resp[:0], text[:min(len(text), maxErrorBytes)]...)
	} else {
		v.resp = append(v.resp[:0], resp[:n]...)
	}
	if v.kind == compactForward && v.epoch >= s.port.epoch {
		s.forward(i, v)
		return
	}
	s.finishFlow(i, v)
}

// finishFlow sends the response.
func (s *Session) finishFlow(i uint8, v *flowServed) {
	v.state, v.running = servedDone, false
	if v.epoch < s.port.epoch && s.port.cfg.Mutation == 0 { // its caller has been told ErrEpoch
		return
	}
	v.send = true
	v.flow.enqueue(slotRef{index: i, served: true}, &v.queued)
}

// sendServed sends what the server has to say of a slot.
func (fl *Flow) sendServed(i uint8) bool {
	v := &fl.s.flows.served[i]
	if v.running {
		if !fl.put(&compactMessage{kind: compactRunning, id: v.id}) {
			return false
		}
		v.running = false
	}
	if v.newer != 0 { // wait: the slot's earlier request runs
		if !fl.put(&compactMessage{kind: compactRunning, id: v.newer}) {
			return false
		}
		v.newer = 0
	}
	if v.send && v.state == servedDone {
		flags := v.flags
		if flags&compactError == 0 && v.kind == compactForward {
			flags |= compactDeferred
		}
		if !fl.put(&compactMessage{kind: compactResponse, flags: flags, id: v.id, body: v.resp}) {
			return false
		}
		v.send = false
	}
	v.queued = false
	return true
}

// newFlowEpoch ends what belongs to an older epoch.
func (s *Session) newFlowEpoch(err error) {
	x := s.flows
	for _, fw := range x.waiting {
		fw.delivered(err)
	}
	x.waiting = x.waiting[:0]
	for i := range x.calls {
		if x.calls[i].call != nil {
			s.endFlowCall(&x.calls[i], 0, err)
		}
	}
	for i := range x.served {
		if v := &x.served[i]; v.epoch < s.port.epoch {
			v.send, v.running, v.newer = false, false, 0
		}
	}
	for _, fl := range x.list {
		if fl != nil && len(fl.staged) > 0 {
			s.port.Stats.Stale += uint64(fl.count())
			fl.staged = fl.staged[:0]
			fl.room.Broadcast()
		}
	}
}

// count is the number of one-way messages that wait.
func (fl *Flow) count() (n int) {
	for b := fl.staged; len(b) > 0; n++ {
		b = b[stagedBytes+(int(b[1])|int(b[2])<<8):]
	}
	return n
}

// failFlows ends what waits for the session, which has failed.
func (s *Session) failFlows(err error) {
	x := s.flows
	if x == nil {
		return
	}
	waiting := x.waiting
	x.waiting = nil
	for _, fw := range waiting {
		fw.delivered(err)
	}
	for i := range x.calls {
		if x.calls[i].call != nil {
			s.endFlowCall(&x.calls[i], 0, err)
		}
	}
	x.free.Broadcast()
	for _, fl := range x.list {
		if fl != nil {
			fl.room.Broadcast()
		}
	}
}
