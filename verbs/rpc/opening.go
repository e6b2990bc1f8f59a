package rpc

import (
	"encoding/binary"

	"drtmd/verbs"
)

// gotHello opens a session that a peer asks for.
func (p *Port) gotHello(h *header, m *message, srcQPN uint32) {
	var o opening
	if !o.get(m.body) || !p.isFrom(&o, srcQPN) || h.src == 0 || h.srcIncarnation == 0 ||
		o.endpoint.Provider != p.w.PD().Context().Attr().Provider {
		p.drop(ReasonOpening)
		return
	}
	s := p.find(&o.endpoint, h.srcIncarnation)
	if s != nil && s.remoteID != 0 && s.remoteID != h.src {
		if h.src < s.remoteID {
			p.Stats.Duplicates++ // a hello of before that was under way for long
			return
		}
		s.fail(hint(ErrPeerReset, "the peer opened a new session in its place"))
		s = nil
	}
	if s == nil {
		var err error
		s, err = p.newSession(Address{Endpoint: o.endpoint, Incarnation: h.srcIncarnation})
		if err != nil {
			p.refuse(h, m, srcQPN, resetFull)
			return
		}
	}
	s.heard = p.now()
	s.peerID, s.peerEpoch = identityOf(m), max(s.peerEpoch, h.epoch)
	s.adopt(&o, h.src)
	s.sayWelcome = true
	s.touch()
}

// adopt takes what the peer grants, once.
func (s *Session) adopt(o *opening, remoteID uint32) {
	if s.state != stateOpening {
		return
	}
	p := s.port
	s.state, s.remoteID = stateOpen, remoteID
	s.window, s.limit = o.window, o.window
	s.longest = min(s.longest, o.maxMessage)
	n := min(p.cfg.Slots, o.slots)
	s.calls, s.free = make([]slot, n), make([]uint8, 0, n)
	for i := n - 1; i >= 0; i-- {
		s.free = append(s.free, uint8(i))
	}
	s.sayHello, s.backoff = false, 0
	p.addRoute(s)
	s.opened.Broadcast()
}

// isFrom reports whether the datagram that is being dealt with comes from the endpoint that it
// names, as far as the device tells: an address handle to whatever a stranger names could take
// seconds to make, or fail the queue pair later.
//
// On InfiniBand and RoCE over IPv6 the GRH has the source GID at byte 8; on RoCE over IPv4 it is an
// IPv4 header in the last 20 bytes, the source at 12. The simulator leaves it zero.
func (p *Port) isFrom(o *opening, srcQPN uint32) bool {
	if o.endpoint.QPN != srcQPN {
		return false
	}
	if p.grh == nil || [verbs.GRHBytes]byte(p.grh) == [verbs.GRHBytes]byte{} {
		return true
	}
	mapped := verbs.GID{10: 0xff, 11: 0xff}
	copy(mapped[12:], p.grh[32:36])
	return o.endpoint.GID == verbs.GID(p.grh[8:24]) || o.endpoint.GID == mapped
}

// refuse answers a datagram that carries a hello, and so says whence it came, with a reset.
func (p *Port) refuse(h *header, m *message, srcQPN uint32, code resetCode) {
	var o opening
	if !o.get(m.body) || !p.isFrom(&o, srcQPN) {
		p.drop(ReasonOpening)
		return
	}
	ah, err := p.handleTo(&o.endpoint)
	if err != nil {
		return // the peer will time out
	}
	back := header{dstIncarnation: h.srcIncarnation, dst: h.src}
	p.sendReset(ah, &o.endpoint, &back, h.dstIncarnation, h.dst, code)
}

// sendReset queues a reset that answers what was meant for an incarnation and session.
func (p *Port) sendReset(ah *verbs.AH, e *verbs.Endpoint, h *header, incarnation uint64,
	session uint32, code resetCode) {
	b := p.claim(e.ActiveMTU)
	if b == nil {
		return // the peer will ask again
	}
	p.Stats.Resets++
	h.srcIncarnation, h.epoch = p.cfg.Incarnation, p.epoch
	var body [resetBytes]byte
	binary.LittleEndian.PutUint64(body[:], incarnation)
	binary.LittleEndian.PutUint32(body[8:], session)
	m := message{kind: kindReset, typ: uint8(code), body: body[:]}
	n := headerBytes + putMessage(b[headerBytes:cap(b)], &m)
	b = b[:n]
	putHeader(b, h, 1)
	p.queueDatagram(b, ah, e)
}

// gotReset ends the session that a peer does not know.
func (p *Port) gotReset(h *header, m *message, srcQPN uint32) {
	s := p.sessions[h.dst&p.mask]
	le := binary.LittleEndian
	if s == nil || s.id != h.dst || h.dstIncarnation != p.cfg.Incarnation ||
		s.peer.QPN != srcQPN || le.Uint64(m.body) != s.peer.Incarnation ||
		le.Uint32(m.body[8:]) != s.remoteID || le.Uint32(m.body[12:]) != 0 {
		p.drop(ReasonSession)
		return
	}
	switch resetCode(m.typ) {
	case resetFull:
		s.fail(hint(ErrRefused, "raise Config.Peers there"))
	case resetIncarnation:
		s.fail(hint(ErrPeerReset, "it restarted: ask for its new address and connect again"))
	case resetClosed:
		s.fail(hint(ErrPeerReset, "it closed the session"))
	default:
		s.fail(hint(ErrPeerReset, "it has forgotten the session: connect again"))
	}
}
