package rpc

import (
	"errors"
	"fmt"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// sessionState of a Session.
type sessionState uint8

const (
	stateOpening sessionState = iota + 1 // hello was sent
	stateOpen
	stateFailed // err says why; not in the table any more
)

// Session is a port's side of its conversation with one other port. Either side may call.
type Session struct {
	port     *Port
	peer     Address
	peerID   Identity // as its opening said
	ah       *verbs.AH
	id       uint32 // ours; rises with each session of the port
	remoteID uint32 // the peer's; 0 = not known yet
	state    sessionState
	err      error
	// peerEpoch is the highest that the peer is known to have reached.
	peerEpoch Epoch
	opened    fiber.Cond

	datagram int // bytes of the longest one that both ports take
	segment  int // bytes of a message that one carries at most
	longest  int // bytes of a message that both sides take

	// Datagrams. Numbers count up and wrap.
	window   int    // what the peer granted
	limit    int    // what is used of it: 1 after silence
	sent     uint32 // number of the last one
	acked    uint32 // the highest that the peer has acknowledged, or that was given up
	got      uint32 // the highest that came
	told     uint32 // the highest that was acknowledged
	buf      []byte // the one that is being filled
	count    int    // messages in it
	payloads int    // those of calls
	isDirty  bool
	blocked  bool // the window holds messages back
	lastSent time.Duration
	heard    time.Duration // when the last one came

	rtt rtt

	sayHello, sayWelcome bool
	helloAt              time.Duration // next one while opening
	backoff              uint          // of hellos and of a blocked window

	calls     []slot  // requests to the peer
	free      []uint8 // slots of calls; the last is taken first
	slotFree  fiber.Cond
	busy      int           // slots in use
	waitSince time.Duration // since when there have been calls in flight
	patience  time.Duration // the latest deadline of those that wait for the opening; 0: none has one

	served []served // requests of the peer
	queue  slotQueue
	flows  *flows // nil until one is used
}

// Connect opens a session with another port, or gives the one that is open, and waits until the
// peer has answered, at most until the deadline: one that is later than Config.PeerTimeout leaves the
// peer more time, and deadline 0 leaves it only that. It fails with ErrPeerGone, ErrPeerReset (the
// address is of an earlier incarnation), ErrRefused or ErrFull, and with fiber.ErrDeadline where the
// deadline is earlier.
func (p *Port) Connect(f *fiber.Fiber, a Address, deadline time.Duration) (*Session, error) {
	if err := p.Err(); err != nil {
		return nil, err
	}
	if _, err := a.MarshalBinary(); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", a, err)
	}
	if own := p.w.PD().Context().Attr().Provider; a.Provider != own {
		return nil, fmt.Errorf("connect to %s: %w: it is on %s, this port on %s: use the same "+
			"transport on both sides", a, verbs.ErrBadEndpoint, a.Provider, own)
	}
	s := p.find(&a.Endpoint, a.Incarnation)
	if s == nil {
		var err error
		if s, err = p.newSession(a); err != nil {
			return nil, fmt.Errorf("connect to %s: %w", a, err)
		}
		s.sayHello = true
		s.waitSince = p.now()
		s.touch()
	}
	s.patience = max(s.patience, deadline)
	for s.state == stateOpening {
		err := s.opened.Wait(f, deadline)
		if err == nil || s.state != stateOpening {
			continue
		}
		if gone := s.goneAt(); !errors.Is(err, fiber.ErrDeadline) || p.now() < gone {
			return nil, fmt.Errorf("connect to %s: %w", a, err)
		}
		s.fail(s.silence())
	}
	if s.state == stateFailed {
		return nil, fmt.Errorf("connect to %s: %w", a, s.err)
	}
	return s, nil
}

// find gives the session with a port; nil if there is none.
func (p *Port) find(e *verbs.Endpoint, incarnation uint64) *Session {
	for _, s := range p.sessions {
		if s != nil && s.peer.QPN == e.QPN && s.peer.GID == e.GID && s.peer.LID == e.LID &&
			s.peer.Incarnation == incarnation {
			return s
		}
	}
	return nil
}

// newSession makes a session in the table, in place of one that has been silent if need be.
func (p *Port) newSession(a Address) (*Session, error) {
	index, live := -1, 0
	for i, s := range p.sessions {
		switch {
		case s != nil:
			live++
		case index < 0:
			index = i
		}
	}
	if live >= p.cfg.Peers {
		if index = p.evict(); index < 0 {
			return nil, hint(ErrFull, fmt.Sprintf("raise Config.Peers, which is %d", p.cfg.Peers))
		}
	}
	round := p.opened + 1
	if uint64(round)*uint64(len(p.sessions)) >= 1<<32-uint64(len(p.sessions)) {
		return nil, hint(ErrFull, "the numbers of sessions are used up: make a new port")
	}
	ah, err := p.handleTo(&a.Endpoint)
	if err != nil {
		return nil, err
	}
	p.opened = round
	d := min(p.mtu, a.ActiveMTU)
	s := &Session{port: p, peer: a, ah: ah, state: stateOpening,
		id: round*uint32(len(p.sessions)) + uint32(index), datagram: d,
		segment: (d - headerBytes - messageBytes) &^ (align - 1), limit: 1, window: 1,
		served: make([]served, p.cfg.Slots), longest: p.cfg.MaxMessage,
		heard: p.now(), rtt: rtt{rto: p.cfg.RTOFirst}}
	s.queue.init(2 * p.cfg.Slots)
	p.sessions[index] = s
	return s, nil
}

// evict removes the session that has been silent the longest, at least the peer timeout, and has
// nothing going on; its place, or -1.
func (p *Port) evict() int {
	var oldest *Session
	for _, s := range p.sessions {
		if s != nil && s.state == stateOpen && s.busy == 0 && !s.serving() &&
			p.now()-s.heard >= p.cfg.PeerTimeout && (oldest == nil || s.heard < oldest.heard) {
			oldest = s
		}
	}
	if oldest == nil {
		return -1
	}
	p.Stats.Evicted++
	oldest.fail(hint(ErrClosed, "it was silent and made room for another: raise Config.Peers"))
	return int(oldest.id & p.mask)
}

func (s *Session) serving() bool {
	for i := range s.served {
		if s.served[i].state == servedRunning {
			return true
		}
	}
	if s.flows != nil {
		for i := range s.flows.served {
			if s.flows.served[i].state == servedRunning {
				return true
			}
		}
	}
	return false
}

// Err is why the session has ended; nil while it is open.
func (s *Session) Err() error { return s.err }

// Close ends the session on both sides: calls in flight fail with ErrClosed here and with
// ErrPeerReset there.
func (s *Session) Close() {
	if s.state == stateFailed {
		return
	}
	if s.remoteID != 0 {
		h := header{dstIncarnation: s.peer.Incarnation, dst: s.remoteID}
		s.port.sendReset(s.ah, &s.peer.Endpoint, &h, s.port.cfg.Incarnation, s.id, resetClosed)
	}
	s.fail(ErrClosed)
}

// fail ends the session and everything that waits for it.
func (s *Session) fail(err error) {
	if s.state == stateFailed {
		return
	}
	s.state, s.err = stateFailed, err
	s.port.sessions[s.id&s.port.mask] = nil
	for i := range s.calls {
		if s.calls[i].call != nil {
			s.endCall(i, 0, err)
		}
	}
	s.failFlows(err)
	s.port.dropRoute(s)
	s.opened.Broadcast()
	s.slotFree.Broadcast()
}

// touch has the session looked at when the port flushes.
func (s *Session) touch() {
	if !s.isDirty {
		s.isDirty = true
		s.port.dirty = append(s.port.dirty, s)
	}
}
