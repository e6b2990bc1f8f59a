package load

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"drtmd/proto"
)

// A process that dies while clients run does not end the run: the others go on, with transactions
// that need its nodes, or records that its clients had locked, given up for that reason. In the
// end the run fails with a LostError, and what the process knew is missing in the result: what it
// had counted since the last look, its tables, and its part of the history, so that nothing can be
// checked.

// LostError names the processes that died while clients ran.
type LostError struct{ Processes []error }

func (e *LostError) Error() string {
	return fmt.Sprintf("%v; the others ran on: sums and history cannot be checked without it",
		errors.Join(e.Processes...))
}

// deathTimeout is how long a process whose socket has failed may take to be known as dead.
const deathTimeout = time.Second

// died is how a process ended.
func (p *process) died() error {
	how := "by itself"
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("process %d of the cluster has ended, with nodes %v: %s", p.cmd.Process.Pid,
		p.members, how)
}

// bury goes on without a process that has ended, if clients run and there are others. It may be
// told of the same one twice.
func (s *processes) bury(p *process) error {
	i := slices.Index(s.list, p)
	if i < 0 {
		return nil
	}
	if !s.runs || len(s.list) == 1 {
		return p.died()
	}
	s.list = slices.Delete(slices.Clone(s.list), i, i+1)
	s.dead = append(s.dead, p)
	if s.o.Lost != nil {
		s.o.Lost(p.died())
	}
	return nil
}

// gone are the nodes of the processes that died.
func (s *processes) gone() (nodes []proto.NodeID) {
	for _, p := range s.dead {
		nodes = append(nodes, p.members...)
	}
	return nodes
}

// sift keeps of the errors, by place in the list, those that are not the death of a process.
func (s *processes) sift(errs []error) error {
	list := s.list
	var left []error
	for i, err := range errs {
		if err == nil {
			continue
		}
		p := list[i]
		if dead := p.dead(err); dead {
			err = s.bury(p)
		} else {
			err = fmt.Errorf("process %d: %w", p.cmd.Process.Pid, err)
		}
		left = append(left, err)
	}
	return errors.Join(left...)
}

// dead reports whether an error of the conversation is that the process has ended.
func (p *process) dead(err error) bool {
	var refused *refusal
	if errors.As(err, &refused) {
		return false // it lives: that was its answer
	}
	select {
	case <-p.ended:
		return true
	case <-time.After(deathTimeout):
		return false
	}
}

// loss is nil while no process was lost.
func (s *processes) loss() error {
	if len(s.dead) == 0 {
		return nil
	}
	e := &LostError{}
	for _, p := range s.dead {
		e.Processes = append(e.Processes, p.died())
	}
	return e
}
