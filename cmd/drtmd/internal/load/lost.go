package load

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"drtmd/proto"
)

// A process that is gone while clients run does not end the run: the others go on, with transactions
// that need its nodes, or records that its clients had locked, given up for that reason. In the
// end the run fails with a LostError, and what the process knew is missing in the result: what it
// had counted since the last look, its tables, and its part of the history, so that nothing can be
// checked.

// LostError names the processes that were lost while clients ran.
type LostError struct{ Processes []error }

func (e *LostError) Error() string {
	return fmt.Sprintf("%v; the others ran on: sums and history cannot be checked without it",
		errors.Join(e.Processes...))
}

// lost is how a peer was lost.
func (p *peer) lost() error {
	return fmt.Errorf("%s of the cluster has ended, with nodes %v: %w", p.Name(), p.members, p.Err())
}

// bury goes on without a peer that is gone, if clients run and there are others. It may be told of
// the same one twice.
func (s *peers) bury(p *peer) error {
	i := slices.Index(s.list, p)
	if i < 0 {
		return nil
	}
	if !s.runs || len(s.list) == 1 {
		return p.lost()
	}
	s.list = slices.Delete(slices.Clone(s.list), i, i+1)
	s.dead = append(s.dead, p)
	if s.o.Lost != nil {
		s.o.Lost(p.lost())
	}
	return nil
}

// gone are the nodes of the peers that are gone.
func (s *peers) gone() (nodes []proto.NodeID) {
	for _, p := range s.dead {
		nodes = append(nodes, p.members...)
	}
	return nodes
}

// sift keeps of the errors, by place in the list, those that are not the end of a peer.
func (s *peers) sift(errs []error) error {
	list := s.list
	var left []error
	for i, err := range errs {
		if err == nil {
			continue
		}
		p := list[i]
		if s.isGone(p, err) {
			err = s.bury(p)
		} else {
			err = fmt.Errorf("%s: %w", p.Name(), err)
		}
		left = append(left, err)
	}
	return errors.Join(left...)
}

// isGone reports whether an error of a peer is that it is gone.
func (s *peers) isGone(p *peer, err error) bool {
	var refused *Refusal
	if errors.As(err, &refused) {
		return false // it lives: that was its answer
	}
	select {
	case <-p.Gone():
		return true
	case <-time.After(s.o.GoneTimeout):
		return false
	}
}

// loss is nil while no peer was lost.
func (s *peers) loss() error {
	if len(s.dead) == 0 {
		return nil
	}
	e := &LostError{}
	for _, p := range s.dead {
		e.Processes = append(e.Processes, p.lost())
	}
	return e
}
