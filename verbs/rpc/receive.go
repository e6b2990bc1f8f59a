package rpc

// receive deals with a datagram: b is what follows the GRH, srcQPN whom the device says it is
// from. Everything in it may be garbage.
func (p *Port) receive(b []byte, srcQPN uint32) {
	if len(b) > 2 && b[2]&compactMark != 0 && b[0] == byte(magic&0xff) && b[1] == byte(magic>>8) {
		p.receiveCompact(b, srcQPN)
		return
	}
	h := &p.head
	n, garbage := parse(b, h, &p.msgs)
	if garbage != 0 {
		p.drop(garbage)
		return
	}
	if n == 1 && p.msgs[0].kind == kindReset {
		p.gotReset(h, &p.msgs[0], srcQPN)
		return
	}
	hello := p.helloAmong(n)
	if h.dstIncarnation != p.cfg.Incarnation {
		p.drop(ReasonIncarnation)
		if hello != nil {
			p.refuse(h, hello, srcQPN, resetIncarnation)
		}
		return
	}
	if h.dst == 0 && n == 1 && hello != nil {
		p.gotHello(h, hello, srcQPN)
		return
	}
	s := p.sessions[h.dst&p.mask]
	if s == nil || s.id != h.dst || s.peer.Incarnation != h.srcIncarnation ||
		s.peer.QPN != srcQPN || s.remoteID != 0 && s.remoteID != h.src {
		p.drop(ReasonSession)
		if hello != nil {
			p.refuse(h, hello, srcQPN, resetUnknown)
		}
		return
	}
	s.receive(h, p.msgs[:n])
}

// helloAmong finds a hello in the datagram.
func (p *Port) helloAmong(n int) *message {
	for i := range n {
		if p.msgs[i].kind == kindHello {
			return &p.msgs[i]
		}
	}
	return nil
}

// receive deals with a datagram that its peer sent.
func (s *Session) receive(h *header, msgs []message) {
	p := s.port
	if !s.heardFrom(h.number, h.ack, h.epoch) {
		return
	}
	if h.epoch < p.epoch && p.cfg.Mutation != OldEpochAccepted {
		p.drop(ReasonEpoch)
		s.receiveOld(h, msgs)
		return
	}
	p.Stats.MessagesReceived += uint64(len(msgs))
	for i := range msgs {
		s.dispatch(h, &msgs[i])
	}
	s.runBatch()
}

// heardFrom takes what the header of a datagram says of those sent and received; false if it cannot be.
func (s *Session) heardFrom(number uint32, ack uint16, epoch Epoch) bool {
	p := s.port
	// At most maxWindow datagrams are in flight, so that half of a number says which.
	acked := int16(ack - uint16(s.acked))
	if acked > 0 && uint32(acked) > s.sent-s.acked {
		p.drop(ReasonNumber)
		return false
	}
	s.heard = p.now()
	s.backoff = 0
	s.limit = s.window
	if acked > 0 {
		s.acked += uint32(acked)
	}
	if int32(number-s.got) > 0 {
		s.got = number
	}
	if s.blocked || s.owes() {
		s.blocked = false
		s.touch()
	}
	s.peerEpoch = max(s.peerEpoch, epoch)
	return true
}

// receiveOld deals with what an older epoch does not devalue: openings, which carry no work. A peer
// that is behind learns from the answer that it is.
func (s *Session) receiveOld(h *header, msgs []message) {
	for i := range msgs {
		if k := msgs[i].kind; k == kindHello || k == kindWelcome {
			s.dispatch(h, &msgs[i])
		}
	}
}

// owes reports whether the peer should be told what came even if there is nothing else to say.
func (s *Session) owes() bool {
	return s.state == stateOpen && int(s.got-s.told) >= max(1, s.port.cfg.Window/2)
}

func (s *Session) dispatch(h *header, m *message) {
	p := s.port
	if s.state == stateOpening && m.kind != kindWelcome {
		return // its welcome got lost: the peer will send this again
	}
	switch m.kind {
	case kindRequest:
		s.gotRequest(h, m)
	case kindResponse:
		s.gotResponse(m)
	case kindProgress:
		s.gotProgress(m)
	case kindWant:
		s.gotWant(m)
	case kindHello: // is the session still there? It is.
		s.sayWelcome = true
		s.touch()
	case kindWelcome:
		if s.state != stateOpening {
			return // it is still there: that is what was asked
		}
		var o opening
		if !o.get(m.body) || h.src == 0 {
			p.drop(ReasonOpening)
			return
		}
		s.peerID = identityOf(m)
		s.adopt(&o, h.src)
	default: // a reset comes alone
		p.drop(ReasonKind)
	}
}
