package rpc

import (
	"errors"
	"time"

	"drtmd/verbs"
)

// Flush sends what the sessions have gathered, and gives receive buffers back first, since what
// is sent tells the peers that there is room (fiber.Part). A few may wait for more to come, so that
// a lone datagram is not held up by the post: there are repostBatch more than were promised.
func (p *Port) Flush() {
	if p.closed || p.broken != nil {
		return
	}
	if len(p.reposts) >= repostBatch && p.down == nil {
		if err := p.postReceives(); err != nil {
			p.fail(err)
			return
		}
	}
	if len(p.dirty) > 0 {
		now := p.now()
		p.dirty, p.idle = p.idle[:0], p.dirty
		for i, s := range p.idle {
			s.isDirty = false
			if s.state != stateFailed && !s.pump(now) {
				s.touch() // no send buffer is free: again when one is
			}
			p.idle[i] = nil
		}
	}
	p.ring()
}

// ring posts the datagrams that are complete with one doorbell. The last one is signaled once a
// quarter of the send buffers is waiting for that: its completion frees those of all before it.
func (p *Port) ring() {
	n := len(p.wrs)
	switch {
	case n == 0:
		return
	case p.down != nil: // lost, as a datagram may be: timeouts send it again
		p.wrs, p.sendHead = p.wrs[:0], p.sendTail
		return
	}
	if p.unsignaled += n; p.unsignaled >= max(1, p.cfg.SendDepth/4) {
		p.unsignaled = 0
		p.wrs[n-1].Flags |= verbs.FlagSignaled
	}
	took, err := p.qp.PostSend(p.wrs)
	p.Stats.Doorbells++
	p.Stats.DatagramsSent += uint64(took)
	p.w.Rung(p.wrs[:took])
	p.wrs = p.wrs[:0]
	if took < n {
		p.fail(errors.Join(err, errors.New("a datagram was refused")))
	}
}

// claim gives the next free send buffer, for a datagram of at most n bytes; nil if all are in
// use. What is claimed must be queued before the next is claimed.
func (p *Port) claim(n int) []byte {
	if int(p.sendTail-p.sendHead) >= p.cfg.SendDepth || p.closed || p.broken != nil {
		return nil
	}
	at := (p.recvDepth + int(p.sendTail%uint32(p.cfg.SendDepth))) * p.stride
	n = min(n, p.mtu)
	return p.mr.Bytes()[at : at : at+n]
}

// queueDatagram takes the buffer that was claimed last, filled, for the next doorbell.
func (p *Port) queueDatagram(b []byte, ah *verbs.AH, e *verbs.Endpoint) {
	slot := int(p.sendTail % uint32(p.cfg.SendDepth))
	p.wrs = p.wrs[:len(p.wrs)+1]
	wr := &p.wrs[len(p.wrs)-1]
	*wr = verbs.WR{ID: p.base | uint64(p.sendTail), Op: verbs.OpSend, NumSGE: 1,
		RemoteQPN: e.QPN, RemoteQKey: e.QKey, AH: ah.Handle()}
	wr.SGE[0] = p.mr.SGE((p.recvDepth+slot)*p.stride, len(b))
	p.Stats.BytesSent += uint64(len(b))
	if len(b) <= p.inline {
		wr.Flags = verbs.FlagInline
		p.Stats.DatagramsInlined++
	}
	p.sendTail++
}

// pump fills datagrams with what the session has to say. It is false when it stopped for want of
// a send buffer; when the window stopped it, an acknowledgement or a timeout goes on.
func (s *Session) pump(now time.Duration) bool {
	s.blocked = false
	ok := s.pumpOpening(now)
	for ok && s.state == stateOpen && !s.queue.empty() {
		r := s.queue.front()
		if r.served {
			ok = s.sendServed(r.index)
		} else {
			ok = s.sendCall(r.index, now)
		}
		if ok {
			s.queue.pop()
		}
	}
	s.seal(now)
	if x := s.flows; x != nil && s.state == stateOpen {
		for i := 1; ok && i < len(x.list); i++ {
			ok = x.list[i] == nil || x.list[i].pumpApart(now)
		}
		for i := 1; ok && i < len(x.list); i++ {
			ok = x.list[i] == nil || x.list[i].pump(now)
		}
	}
	if s.owes() && s.begin(true) {
		s.port.Stats.AcksSent++
		s.seal(now)
	}
	s.stalled(now)
	return ok || s.blocked
}

// stalled has a timeout go on if the window holds messages back.
func (s *Session) stalled(now time.Duration) {
	if s.blocked {
		s.port.Stats.Stalls++
		s.port.arm(now + s.rtt.timeout(s.backoff, &s.port.cfg))
	}
}

// pumpOpening sends hello and welcome, which no window holds back.
func (s *Session) pumpOpening(now time.Duration) bool {
	if !s.sayHello && !s.sayWelcome {
		return true
	}
	body := s.port.opening[:]
	if s.sayHello {
		m := message{kind: kindHello, body: body}
		s.port.cfg.Self.put(&m)
		if !s.put(&m, true) {
			return false
		}
		s.sayHello = false
		if s.state == stateOpening {
			s.helloAt = max(s.helloAt, now+s.rtt.timeout(s.backoff, &s.port.cfg))
			s.port.arm(s.helloAt)
		}
	}
	if s.sayWelcome {
		m := message{kind: kindWelcome, body: body}
		s.port.cfg.Self.put(&m)
		if !s.put(&m, true) {
			return false
		}
		s.sayWelcome = false
	}
	return true
}

// sendCall sends what a slot's call has to say.
func (s *Session) sendCall(i uint8, now time.Duration) bool {
	x := &s.calls[i]
	if x.call == nil {
		x.queued = false
		return true
	}
	if x.want {
		m := message{kind: kindWant, slot: i, seq: x.seq, segment: uint16(x.in.next)}
		if x.again {
			m.flags = flagAgain
		}
		if !s.put(&m, false) {
			return false
		}
		x.want, x.again, x.in.told = false, false, x.in.next
		s.sentCall(x, now)
	}
	for x.out.more(s.window) {
		from, to := bounds(x.out.sent, len(x.req), s.segment)
		m := message{kind: kindRequest, typ: uint8(x.typ), slot: i, seq: x.seq,
			length: uint32(len(x.req)), segment: uint16(x.out.sent), body: x.req[from:to]}
		if !s.put(&m, false) {
			return false
		}
		x.out.sent++
		s.sentCall(x, now)
	}
	if x.due == 0 { // what was to be sent again has been acknowledged meanwhile
		s.setDue(x, now)
	}
	x.queued = false
	return true
}

// sentCall notes that something of a call was sent.
func (s *Session) sentCall(x *slot, now time.Duration) {
	x.sentAt = now
	s.setDue(x, now)
}

// sendServed sends what the server has to say of a slot.
func (s *Session) sendServed(i uint8) bool {
	v := &s.served[i]
	if v.progress {
		m := message{kind: kindProgress, slot: i, seq: v.seq, segment: uint16(v.in.next)}
		if v.state == servedRunning {
			m.flags, m.segment = flagRunning, 0
		}
		if !s.put(&m, false) {
			return false
		}
		v.progress, v.in.told = false, v.in.next
	}
	if v.newer != 0 { // wait: the slot's earlier request runs
		m := message{kind: kindProgress, slot: i, seq: v.newer}
		if !s.put(&m, false) {
			return false
		}
		v.newer = 0
	}
	for v.state == servedDone && v.out.more(s.window) {
		from, to := bounds(v.out.sent, len(v.resp), s.segment)
		m := message{kind: kindResponse, flags: v.flags, typ: uint8(v.typ), slot: i, seq: v.seq,
			length: uint32(len(v.resp)), segment: uint16(v.out.sent), body: v.resp[from:to]}
		if !s.put(&m, false) {
			return false
		}
		v.out.sent++
	}
	v.queued = false
	return true
}

// put adds a message to the datagram, or to a new one. force goes past the window.
func (s *Session) put(m *message, force bool) bool {
	p := s.port
	if s.buf != nil && (len(s.buf)+sizeOf(len(m.body)) > cap(s.buf) || s.count == maxMessages ||
		p.cfg.NoBatch && s.payloads > 0) {
		s.seal(p.now())
	}
	if s.buf == nil && !s.begin(force) {
		return false
	}
	at := len(s.buf)
	s.buf = s.buf[:at+sizeOf(len(m.body))]
	putMessage(s.buf[at:], m)
	s.count++
	if !force {
		s.payloads++
	}
	p.Stats.MessagesSent++
	p.w.RPCWork(1, 0)
	return true
}

// begin opens a datagram.
func (s *Session) begin(force bool) bool {
	if !force && int(s.sent-s.acked) >= s.limit {
		s.blocked = true
		return false
	}
	b := s.port.claim(s.datagram)
	if b == nil {
		return false
	}
	s.buf, s.count, s.payloads = b[:headerBytes], 0, 0
	return true
}

// seal completes the datagram that is open, if any.
func (s *Session) seal(now time.Duration) {
	if s.buf == nil {
		return
	}
	if s.count > 0 { // one without a message is not acknowledged, so that this ends
		s.sent++
	}
	s.told, s.lastSent = s.got, now
	if s.flows != nil && s.flows.open != nil {
		s.sealCompact()
	} else {
		s.sealWide()
	}
	s.port.queueDatagram(s.buf, s.ah, &s.peer.Endpoint)
	s.buf = nil
}

func (s *Session) sealWide() {
	h := header{srcIncarnation: s.port.cfg.Incarnation, dstIncarnation: s.peer.Incarnation,
		src: s.id, dst: s.remoteID, number: s.sent,
		ack: uint16(s.got), epoch: s.port.epoch}
	putHeader(s.buf, &h, s.count)
}
