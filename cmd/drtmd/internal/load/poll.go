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

// pollPatience is what peers get to answer in a poll. One that takes longer is left out until it has.
const pollPatience = 500 * time.Millisecond

// reply is what a peer has said to a poll.
type reply struct {
	step   Step
	at     time.Duration // on the site's clock
	answer *Answer
	err    error
}

// poll asks every peer that owes no answer, and notes the counters of those that answer in time. A peer
// is silent from its first error or missing answer on; one that is so for too long without being gone
// ends the run. It gives the time at which the last of those that answered did; 0: none has.
func (s *peers) poll(r *Request) (time.Duration, error) {
	patience := time.NewTimer(pollPatience)
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
		if x != nil && x.err == nil && x.step != r.Step { // to the question before
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
	s.wg.Go(func() {
		a, err := s.ask(s.life, p, lookTimeout, r)
		owes <- &reply{r.Step, s.now(), a, err}
	})
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

// buryDead goes on without those that are known to be gone, without waiting.
func (s *peers) buryDead() error {
	var errs []error
	for {
		select {
		case p := <-s.died:
			errs = append(errs, s.bury(StepLook, p))
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
