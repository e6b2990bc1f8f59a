package load

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"drtmd/proto"
)

// A process that is gone while clients run does not end the run: the others go on, with transactions
// that need its nodes, or records that its clients had locked, given up for that reason. In the
// end the run fails with a LostError, and what the process knew is missing in the result: what it
// had counted since the last look, its tables, and its part of the history, so that nothing can be
// checked. Records that have replicas make a difference: see recovered.go.

// LostError names the processes that were lost while clients ran.
type LostError struct{ Processes []error }

func (e *LostError) Error() string {
	return fmt.Sprintf("%v; the others ran on: sums and history cannot be checked without it",
		errors.Join(e.Processes...))
}

// lost is the error that says how a peer was lost.
func (p *peer) lost() error {
	return fmt.Errorf("%s of the cluster has ended, with nodes %v: %w", p.Name(), p.members, p.Err())
}

// OpenError is a process that was lost while the parts were opened and connected, before clients ran:
// there is no result.
type OpenError struct {
	Process string // its name
	Members []proto.NodeID
	Step    Step // that it did not finish
	Err     error
}

func (e *OpenError) Error() string {
	return fmt.Sprintf("%s, with nodes %v, was lost in step %s, before clients ran: %v", e.Process,
		e.Members, e.Step, e.Err)
}

func (e *OpenError) Unwrap() error { return e.Err }

// dropPeer removes a lost peer, so that the run goes on without it. It is an error if clients do not run
// yet, or if no other peer is left. Dropping a peer twice is harmless. step is the step in progress.
func (s *peers) dropPeer(step Step, p *peer) error {
	i := slices.Index(s.list, p)
	switch {
	case i < 0:
		return nil
	case !s.runs:
		return &OpenError{Process: p.Name(), Members: p.members, Step: step, Err: p.Err()}
	case len(s.list) == 1:
		return p.lost()
	}
	s.list = slices.Delete(slices.Clone(s.list), i, i+1)
	s.dead = append(s.dead, p)
	if s.o.Lost != nil {
		s.o.Lost(p.lost())
	}
	return nil
}

// gone lists the nodes of the lost peers.
func (s *peers) gone() (nodes []proto.NodeID) {
	for _, p := range s.dead {
		nodes = append(nodes, p.members...)
	}
	return nodes
}

// dropLostPeers drops the peers whose error of a step means that they are gone, and returns the other
// errors. errs is by place in the list. It waits for at most GoneTimeout in all to learn which peers are
// gone. The loss of a peer comes before other errors: while parts are opened, it is their cause.
func (s *peers) dropLostPeers(step Step, errs []error) error {
	list := s.list
	patience, cancel := context.WithTimeout(context.Background(), s.o.GoneTimeout)
	defer cancel()
	var ends, left []error
	for i, err := range errs {
		if err == nil {
			continue
		}
		p := list[i]
		if isGone(patience, p, err) {
			ends = append(ends, s.dropPeer(step, p))
		} else {
			left = append(left, fmt.Errorf("%s: %w", p.Name(), err))
		}
	}
	return errors.Join(append(ends, left...)...)
}

// isGone reports whether an error of a peer is that it is gone, as is known when ctx ends at the latest.
func isGone(ctx context.Context, p *peer, err error) bool {
	var refused *Refusal
	if errors.As(err, &refused) {
		return false // it lives: that was its answer
	}
	select {
	case <-p.Gone():
		return true
	case <-ctx.Done():
	}
	select {
	case <-p.Gone(): // with ctx, or before it
		return true
	default:
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
