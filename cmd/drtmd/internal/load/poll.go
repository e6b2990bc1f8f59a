package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// While clients run, peers are asked again and again, and one that does not answer must not hold up
// what the others say: a run whose process dies would be one point of several seconds, and measure
// for longer than it was asked to. So each peer has at most one question outstanding, nobody waits
// for it longer than pollPatience, and what a silent one has counted is what it said last.

const (
	// pollPatience is what peers get to answer in a poll. One that takes longer is left out until it has.
	pollPatience = 500 * time.Millisecond
	// resetPatience is the same at the end of the warm-up, which is so much longer at most. Peers that
	// have not answered for a while are not waited for at all.
	resetPatience = 2 * time.Second
)

// reply is what a peer has said to a poll.
type reply struct {
	step   Step
	reset  bool          // its latencies began anew
	at     time.Duration // on the site's clock
	answer *Answer
	err    error
}

// poll asks every peer that owes no answer, and notes the counters of those that answer in time. A peer
// is silent from its first error or missing answer on; one that is so for too long without being gone
// ends the run. It gives the time at which the last of those that answered did; 0: none has.
func (s *peers) poll(r *Request) (time.Duration, error) { return s.pollFor(pollPatience, r) }

func (s *peers) pollFor(bound time.Duration, r *Request) (time.Duration, error) {
	patience := time.NewTimer(bound)
	defer patience.Stop()
	for _, p := range s.list {
		if p.owes == nil {
			s.inquire(p, r)
		}
	}
	var errs []error
	at, late := time.Duration(0), false
	for _, p := range s.list {
		x := p.await(patience.C, &late)
		if x != nil && x.err == nil && (x.step != r.Step || p.toReset(r) && !x.reset) { // to the one before
			errs = append(errs, s.heard(p, x))
			s.inquire(p, r)
			x = p.await(patience.C, &late)
		}
		if x == nil {
			errs = append(errs, s.silent(p, r.Step, nil))
			continue
		}
		if errs = append(errs, s.heard(p, x)); x.err == nil {
			at = max(at, x.at)
		}
	}
	return at, errors.Join(errs...)
}

// inquire asks a peer in a goroutine of its own, which ends with the site.
func (s *peers) inquire(p *peer, r *Request) {
	owes := make(chan *reply, 1)
	p.owes = owes
	q := *r
	q.Reset = p.toReset(r)
	s.wg.Go(func() {
		a, err := s.ask(s.life, p, lookTimeout, &q)
		owes <- &reply{q.Step, q.Reset, s.now(), a, err}
	})
}

// toReset reports whether a question is to have the peer's latencies begin anew.
func (p *peer) toReset(r *Request) bool { return r.Step == StepLook && p.warm }

// begin ends the warm-up: latencies begin anew, and sum is what peers had counted before. One that does
// not answer soon may be gone, and to wait until that is known would make the warm-up longer. It takes
// part from when it answers on: what it has counted until then is left out.
func (s *peers) begin(sum *Snapshot) (time.Duration, error) {
	for _, p := range s.list {
		p.warm = true
	}
	at, err := s.pollFor(resetPatience, &Request{Step: StepLook, Gone: s.gone()})
	s.measures = true
	for _, p := range s.list {
		p.base = p.last
	}
	s.add(sum)
	if at == 0 { // nobody has answered
		at = s.now()
	}
	return at, errors.Join(err, s.dropDeadPeers())
}

// counted is what the peer has counted, without what it did after begin before it took part.
func (s *peers) counted(p *peer) *Snapshot {
	if p.warm && s.measures {
		return &p.base
	}
	return p.last.minus(&p.late)
}

// await waits for what the peer owes until patience ends, and not at all when it is late already, or
// the peer is silent.
func (p *peer) await(patience <-chan time.Time, late *bool) *reply {
	if !*late && p.since == 0 {
		select {
		case x := <-p.owes:
			p.owes = nil
			return x
		case <-patience:
			*late = true
		}
	}
	select {
	case x := <-p.owes:
		p.owes = nil
		return x
	default:
		return nil
	}
}

// heard takes a reply.
func (s *peers) heard(p *peer, x *reply) error {
	var refused *Refusal
	switch {
	case x.err == nil:
		if p.since = 0; x.answer.Sum != nil {
			p.last = *x.answer.Sum
		}
		if x.reset && p.warm && s.measures {
			p.late = *p.last.minus(&p.base)
		}
		p.warm = p.warm && !x.reset
		return nil
	case errors.As(x.err, &refused):
		return fmt.Errorf("%s: %w", p.Name(), x.err)
	}
	return s.silent(p, x.step, x.err)
}

// silent notes that a peer did not answer: nil while that may still be its end.
func (s *peers) silent(p *peer, step Step, err error) error {
	select {
	case <-p.Gone():
		return nil // the next sleep buries it
	default:
	}
	now := s.now()
	if p.since == 0 {
		p.since = now
	}
	bound := s.o.GoneTimeout
	if err == nil {
		bound, err = bound+lookTimeout, context.DeadlineExceeded
	}
	if now-p.since < bound {
		return nil
	}
	return fmt.Errorf("%s: no answer in step %s for %v, although it is not known to be gone: %w", p.Name(),
		step, (now - p.since).Round(time.Second), err)
}

// catchUp takes the answers that have come since the last poll.
func (s *peers) catchUp() error {
	var errs []error
	late := true
	for _, p := range s.list {
		if p.owes == nil {
			continue
		}
		if x := p.await(nil, &late); x != nil {
			errs = append(errs, s.heard(p, x))
		}
	}
	return errors.Join(errs...)
}

// dropDeadPeers drops the peers that are known to be gone, without waiting.
func (s *peers) dropDeadPeers() error {
	var errs []error
	for {
		select {
		case p := <-s.died:
			errs = append(errs, s.dropPeer(StepLook, p))
		default:
			return errors.Join(errs...)
		}
	}
}

// answered is when the last of several peers did.
type answered struct {
	mu sync.Mutex
	at time.Duration
}

func (a *answered) note(at time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = max(a.at, at)
}
