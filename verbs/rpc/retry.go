package rpc

import "time"

// never is later than any time.
const never = time.Duration(1<<63 - 1)

// arm has the port look at its timeouts at a time, or before.
func (p *Port) arm(at time.Duration) {
	at = max(at, p.now()+1)
	if p.timerAt == 0 || at < p.timerAt {
		p.timerAt = at
		p.timer.Set(at)
	}
}

// setDue starts the timeout of a call anew.
func (s *Session) setDue(x *slot, now time.Duration) {
	x.due = now + s.rtt.timeout(x.backoff, &s.port.cfg)
	s.port.arm(x.due)
}

// tick deals with every timeout that is due. It runs when the earliest may be, and costs a look at
// each slot of the sessions that wait for something.
func (p *Port) tick() {
	late := p.now() - p.timerAt
	p.timerAt = 0
	if p.closed || p.broken != nil {
		return
	}
	if late >= p.cfg.PeerTimeout/2 {
		p.stoodStill(late)
	}
	next := never
	if p.down != nil {
		if p.now() >= p.healAt {
			p.heal()
		}
		if p.down != nil {
			next = p.healAt
		}
	}
	for _, s := range p.sessions {
		if s != nil {
			next = min(next, s.tick(p.now()))
		}
	}
	if next != never {
		p.arm(next)
	}
}

// stoodStill takes a time out of the silence of peers: the own thread did not run, so that it says nothing of them. A peer on the
// same machine may have stood still as well.
func (p *Port) stoodStill(span time.Duration) {
	for _, s := range p.sessions {
		if s != nil {
			s.waitSince = min(max(s.heard, s.waitSince)+span, p.now())
		}
	}
}

// tick is the session's part; it says when to look again.
func (s *Session) tick(now time.Duration) time.Duration {
	if s.state != stateOpening && s.busy == 0 && !s.blocked {
		return never
	}
	gone := s.goneAt()
	if s.state == stateOpening || s.busy > 0 {
		if now >= gone {
			s.fail(s.silence())
			return never
		}
	} else {
		gone = never
	}
	if s.state == stateOpening {
		if now >= s.helloAt {
			s.sayHello = true
			s.touch()
			s.helloAt = now + s.rtt.timeout(s.backoff, &s.port.cfg)
			s.backoff++
		}
		return min(gone, s.helloAt)
	}
	return min(gone, s.tickCalls(now), s.tickFlows(now), s.tickWindow(now))
}

// goneAt is when the peer is gone unless it is heard: after Config.PeerTimeout, and while the session opens not before
// the last deadline of those that wait for it.
func (s *Session) goneAt() time.Duration {
	gone := max(s.heard, s.waitSince) + s.port.cfg.PeerTimeout
	if s.state == stateOpening {
		gone = max(gone, s.patience)
	}
	return gone
}

// silence is the error of a peer that is gone.
func (s *Session) silence() error {
	d := s.goneAt() - max(s.heard, s.waitSince)
	return hint(ErrPeerGone, "it was silent for "+d.Round(time.Microsecond).String()+
		": is it running, does it get CPU time, and is this its present address?")
}

// unanswered counts a timeout of a call, and says why the call ends with it; nil: it is sent again.
func (s *Session) unanswered(tries *int, advice string) error {
	if s.peerEpoch > s.port.epoch {
		return s.behind()
	}
	if *tries++; *tries > s.port.cfg.Tries {
		return hint(ErrUnanswered, advice)
	}
	return nil
}

// tickCalls retransmits what is due.
func (s *Session) tickCalls(now time.Duration) time.Duration {
	next := never
	for i := range s.calls {
		x := &s.calls[i]
		if x.call == nil || x.due == 0 {
			continue
		}
		if now < x.due {
			next = min(next, x.due)
			continue
		}
		if err := s.unanswered(&x.tries, "the peer is alive: does the path lose long datagrams?"); err != nil {
			s.endCall(i, 0, err)
			continue
		}
		s.again(x.sentAt, now)
		x.backoff++
		x.retried = true
		x.due = 0 // until it is sent
		if x.out.acked == x.out.count {
			x.want, x.again = true, true
		} else {
			x.out.sent = x.out.acked
		}
		s.enqueue(slotRef{index: uint8(i)}, &x.queued)
	}
	return next
}

// again prepares that something is sent again.
func (s *Session) again(sentAt, now time.Duration) {
	s.port.Stats.Retransmissions++
	if s.heard < sentAt && now >= s.lastSent+s.rtt.timeout(s.backoff, &s.port.cfg) {
		s.backoff++ // one for all calls, so that few datagrams pile up before a stalled peer
		s.reclaim()
	}
	s.sayHello = true // a peer that restarted can answer only this
}

// tickWindow gives up on datagrams in flight that hold back others.
func (s *Session) tickWindow(now time.Duration) time.Duration {
	if !s.blocked {
		return never
	}
	due := s.lastSent + s.rtt.timeout(s.backoff, &s.port.cfg)
	if now < due {
		return due
	}
	s.backoff++
	s.reclaim()
	return now + s.rtt.timeout(s.backoff, &s.port.cfg)
}

// reclaim takes what is in flight for lost; until the peer is heard, one datagram at a time.
func (s *Session) reclaim() {
	s.port.Stats.Reclaimed += uint64(s.sent - s.acked)
	s.acked = s.sent
	s.limit = 1
	s.blocked = false
	s.touch()
}
