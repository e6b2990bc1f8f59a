package load

import (
	"context"
	"fmt"
	"net"
	"time"

	"drtmd/proto/node"
)

// Join serves a supervisor over c until it says quit or is gone: the side of one process of
// RunProcesses. open builds the process's part of the cluster.
func Join(ctx context.Context, c net.Conn, o Options,
	open func(ctx context.Context, p *node.Part) (*node.Cluster, error)) error {
	t := newTalk(c)
	s, err := joinCluster(ctx, t, &o, open)
	if err != nil {
		return t.send(&answer{Error: err.Error()})
	}
	for {
		r, err := t.take()
		if err != nil || r.Step == stepQuit { // gone: whoever had asked wants nothing any more
			return s.close()
		}
		a, err := s.carryOut(ctx, r)
		if err != nil {
			a = &answer{Error: err.Error()}
		}
		if err := t.send(a); err != nil {
			return s.close()
		}
	}
}

// joinCluster opens the process's part, step by step with the others.
func joinCluster(ctx context.Context, t *talk, o *Options,
	open func(ctx context.Context, p *node.Part) (*node.Cluster, error)) (*local, error) {
	r, err := t.expect(stepOpen)
	if err != nil {
		return nil, err
	}
	clock, clockError, err := node.NewMachineClock(time.Duration(r.EpochNs))
	if err != nil {
		return nil, err
	}
	p := &node.Part{Members: r.Members, Clock: clock, ClockError: clockError}
	p.Exchange = func(own []node.Descriptor) ([]node.Descriptor, error) {
		a := &answer{}
		for i := range own {
			b, err := own[i].MarshalBinary()
			if err != nil {
				return nil, err
			}
			a.Own = append(a.Own, b)
		}
		if err := t.send(a); err != nil {
			return nil, err
		}
		r, err := t.expect(stepConnect)
		if err != nil {
			return nil, err
		}
		all := make([]node.Descriptor, len(r.All))
		for i, b := range r.All {
			if err := all[i].UnmarshalBinary(b); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	p.Connected = func() error {
		if err := t.send(&answer{}); err != nil {
			return err
		}
		_, err := t.expect(stepGo)
		return err
	}
	c, err := open(ctx, p)
	if err != nil {
		return nil, err
	}
	s := &local{o: o, cluster: c}
	device := s.device()
	return s, t.send(&answer{Device: &device})
}

// expect waits for a request of one kind.
func (t *talk) expect(s step) (*request, error) {
	r, err := t.take()
	if err == nil && r.Step != s {
		err = fmt.Errorf("asked to %s, not to %s", r.Step, s)
	}
	return r, err
}

// carryOut does what a request asks for.
func (s *local) carryOut(ctx context.Context, r *request) (*answer, error) {
	a := &answer{}
	switch r.Step {
	case stepStart:
		return a, s.start()
	case stepFailed:
		return a, s.failure(ctx)
	case stepLook:
		for _, n := range r.Gone {
			if err := s.cluster.Disconnect(n); err != nil {
				return nil, err
			}
		}
		var h histograms
		if r.Latencies {
			h = newHistograms(len(s.o.Workload.Kinds()))
		}
		a.Sum = &Snapshot{}
		err := s.look(ctx, a.Sum, h, r.Reset)
		for _, x := range h {
			a.Latencies = append(a.Latencies, x.Export())
		}
		return a, err
	case stepEnd:
		return a, s.end(ctx)
	case stepFinish:
		x, err := s.finish(ctx)
		if err != nil {
			return nil, err
		}
		a.Initial, a.Final, a.Did = x.initial, x.final, x.did
		if x.history == nil {
			return a, nil
		}
		a.Recorded = true
		if err := x.history.WriteFile(r.History); err != nil {
			return nil, err
		}
		return a, x.history.Close()
	}
	return nil, fmt.Errorf("unknown step %q", r.Step)
}
