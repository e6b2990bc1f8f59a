package planes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"drtmd/cmd/drtmd/internal/control"
	pb "drtmd/cmd/drtmd/internal/control/controlpb"
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
	"drtmd/proto/node"
)

// progressEvery is how often a run's progress is told.
const progressEvery = 250 * time.Millisecond

// run is a benchmark that this daemon leads.
type run struct {
	name   string
	cancel context.CancelCauseFunc
	ended  chan struct{}
	once   sync.Once           // closes ended
	wrote  member.ShardVersion // its version of the shard map; 0: none yet. Its leader's goroutine's own
}

// stop ends the run early, with a report.
func (r *run) stop(cause error) { r.cancel(cause) }

// Run implements control.Backend: a version of the shard map of its own, a plane on every member,
// the clients, and what came of it.
func (p *Planes) Run(ctx context.Context, q *pb.RunRequest, send func(*pb.RunEvent) error) error {
	plan := &load.Plan{}
	if err := json.Unmarshal([]byte(q.PlanJson), plan); err != nil {
		return fmt.Errorf("the plan of the run cannot be read: %w", err)
	}
	s, err := p.o.Members.Serving()
	if err != nil {
		return err
	}
	if n := len(s.State().Active.Members); plan.Replicas > n {
		return fmt.Errorf("%d replicas of each record on %d nodes: ask for fewer, or start more nodes",
			plan.Replicas, n)
	}
	ctx, r, err := p.beginRun(ctx)
	if err != nil {
		return err
	}
	defer r.cancel(nil)
	defer p.endRun(r)
	next, kept, note, err := p.claim(ctx, s, r.name, plan)
	if err != nil {
		return err
	}
	r.wrote = next.Version
	plan.Nodes = len(next.Primary)
	cfg, err := plan.Make(p.o.Config.Has)
	if err != nil {
		return err
	}
	if cfg.Protocol.OneThread {
		return fmt.Errorf("protocol %s runs in one process only, not on a cluster of daemons",
			cfg.Protocol.Name)
	}
	if err := cfg.Protocol.CheckChips("of the daemons", false, false); err != nil {
		return err
	}
	p.o.Board.Event(status.Info, fmt.Sprintf("leads run %s: %s, %s on %d nodes", r.name, plan.Workload,
		plan.Protocol, plan.Nodes))
	out := &sender{send: send}
	if note != "" {
		out.info(note)
	}
	list, stop := p.peersOf(*next, newTransfer("collecting what the nodes recorded", out.info))
	defer stop()
	leader, tempDir := p.place()
	o := load.PeerOptions{Options: plan.Options(cfg.Workload), Nodes: plan.Nodes, Peers: list,
		Plan: plan, Run: r.name, Machine: p.o.Machine, Leader: leader, Data: kept,
		Names: node.Names(cfg.Workload), TempDir: tempDir,
		GoneTimeout: 2*p.o.Members.Lease() + time.Second}
	o.Lost = func(err error) {
		p.o.Board.Event(status.Warn, fmt.Sprintf("run %s goes on: %v", r.name, err))
		out.notify("warn", "running on: "+err.Error())
	}
	o.Interval = progressEvery
	o.Progress = out.progress
	res, err := load.RunPeers(ctx, o)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		if res != nil && res.Lost == nil {
			err = nil // it says no more than that the run was interrupted
		}
		err = errors.Join(cause, err)
	}
	done, err := p.report(res, err, out)
	if err != nil {
		return err
	}
	if !p.drains() { // or whoever waits for the run's end ends this call with it
		p.endRun(r)
		p.awaitServing(ctx, r, res != nil && res.Lost == nil && res.Unsettled == nil, out)
	}
	out.event(&pb.RunEvent{Event: &pb.RunEvent_Done{Done: done}})
	return out.err
}

// sender sends events from one goroutine at a time, until the caller is gone.
type sender struct {
	mu   sync.Mutex // guards what follows
	send func(*pb.RunEvent) error
	err  error
}

func (s *sender) event(e *pb.RunEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = s.send(e)
	}
}

// notify tells the user something.
func (s *sender) notify(level, text string) {
	s.event(&pb.RunEvent{Event: &pb.RunEvent_Notice{Notice: &pb.Notice{Level: level, Text: text}}})
}

func (s *sender) info(text string) { s.notify("info", text) }

func (s *sender) progress(p load.Progress) {
	s.event(&pb.RunEvent{Event: &pb.RunEvent_Progress{Progress: &pb.Progress{Phase: p.Phase.String(),
		ElapsedS: p.Elapsed.Seconds(), OfS: p.Of.Seconds(), CommittedPerS: p.PerSecond,
		AbortsPerAttempt: p.AbortRate}}})
}

// beginRun makes this node's run, if it has none.
func (p *Planes) beginRun(ctx context.Context) (context.Context, *run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.draining:
		return nil, nil, errors.New("this node drains: ask another one")
	case p.run != nil:
		return nil, nil, fmt.Errorf("%w: %s, led by this node; drtmd status shows it", control.ErrBusy,
			p.run.name)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	now := time.Now().UTC().Format("20060102T150405.000")
	r := &run{name: now + "-" + p.o.Config.Node.Hostname(), cancel: cancel, ended: make(chan struct{})}
	p.run = r
	return ctx, r, nil
}

// endRun lets the steward build the plane that serves again.
func (p *Planes) endRun(r *run) {
	r.once.Do(func() { p.forgetRun(r) })
}

func (p *Planes) forgetRun(r *run) {
	st := p.o.Members.State()
	p.mu.Lock()
	p.run = nil
	// The registry may not have told this node of the run's shard map yet.
	unheard := r.wrote > st.Shards.Version
	if p.shards.Run == r.name || st.Shards.Run == r.name || unheard {
		p.rebuild = true
	}
	p.mu.Unlock()
	close(r.ended)
	p.Changed()
}

// Stop implements control.Backend: it ends the run under way, here or at the node that leads it.
func (p *Planes) Stop(ctx context.Context) (bool, error) {
	p.mu.Lock()
	r := p.run
	p.mu.Unlock()
	if r != nil {
		r.stop(context.Canceled)
		return true, nil
	}
	led := p.o.Members.State().Shards
	if led.Run == "" {
		return false, nil
	}
	c, err := p.o.Members.Client(led.Leader.Control)
	if err != nil {
		return false, err
	}
	return c.Stop(ctx)
}

// EndRuns has the run that this node takes part in end in order, until ctx ends: an error is that it
// did not.
func (p *Planes) EndRuns(ctx context.Context) error {
	p.mu.Lock()
	r := p.run
	p.mu.Unlock()
	switch i := p.part.Info(); {
	case r != nil:
		r.stop(errors.New("the daemon that leads the run drains"))
		select {
		case <-r.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	case i != nil && i.Running && i.Fenced == nil:
		led := p.o.Members.State().Shards
		p.o.Board.Event(status.Info, fmt.Sprintf("asks %v to end run %s", led.Leader, led.Run))
		if _, err := p.Stop(ctx); err != nil {
			return err
		}
		return p.awaitEnd(ctx)
	}
	return nil
}

// awaitEnd waits until this node's clients have ended and were counted.
func (p *Planes) awaitEnd(ctx context.Context) error {
	tick := time.NewTicker(leaseLook)
	defer tick.Stop()
	for {
		if i := p.part.Info(); i == nil || !i.Running || i.Fenced != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// claimTimeout is how long a run waits for a plane that is being built.
const claimTimeout = 30 * time.Second

// claim writes a version of the shard map for a run, and says which data it uses, or why none. It waits while a plane
// is being built, while members come or go, and for a member that does not say what it keeps.
func (p *Planes) claim(ctx context.Context, s member.Session, name string, plan *load.Plan) (next *member.ShardMap,
	kept *load.Data, note string, err error) {
	deadline := time.Now().Add(claimTimeout)
	var silent *silentError
	for {
		st := s.State()
		phase, reason := p.o.Board.Phase()
		p.mu.Lock()
		building := p.building || phase == status.Connecting
		p.mu.Unlock()
		err := fmt.Errorf("%w: a change of the cluster's view or shard map is in progress", member.ErrStale)
		switch other := st.Shards; {
		case other.Run != "" && !other.Leader.Same(s.Self()) && st.Active.Has(other.Leader):
			return nil, nil, "", fmt.Errorf("%w: %s, led by %v; drtmd status shows it", control.ErrBusy, other.Run,
				other.Leader)
		case st.Pending == nil && !building:
			a, note, arranged := p.arrangeRun(ctx, s.Self(), st.Active.Members, plan)
			if errors.As(arranged, &silent) {
				err = arranged // it is a member: it may be busy
				break
			}
			if arranged != nil {
				return nil, nil, "", arranged
			}
			next := &member.ShardMap{Version: st.Shards.Version + 1, Primary: a.primary,
				Leader: s.Self(), Run: name, Placement: placed(len(a.primary), plan.Replicas)}
			if err = s.SetShards(*next); err == nil {
				return next, a.data, note, nil
			}
		}
		if !errors.Is(err, member.ErrStale) && !errors.As(err, &silent) || time.Now().After(deadline) {
			if reason != "" {
				err = fmt.Errorf("%w (%s)", err, reason)
			}
			return nil, nil, "", err
		}
		if _, held := s.Lease(); !held {
			return nil, nil, "", member.ErrLeaseLost
		}
		select {
		case <-ctx.Done(): // whoever asked for the run is gone
			return nil, nil, "", ctx.Err()
		case <-time.After(retryWait / 10):
		}
	}
}

// report sends the history, and gives the result.
func (p *Planes) report(res *load.Result, runErr error, out *sender) (*pb.Done, error) {
	done := &pb.Done{}
	if runErr != nil {
		done.Error = runErr.Error()
	}
	if res != nil {
		done.Lost, done.Interrupted = res.Lost != nil, res.Interrupted
		if res.History != nil {
			err := p.sendHistory(res, out)
			if err := errors.Join(err, res.History.Close()); err != nil {
				return nil, err
			}
		}
		b, err := json.Marshal(res)
		if err != nil {
			return nil, err
		}
		done.ResultJson = b
	}
	if res == nil {
		p.o.Board.Event(status.Warn, "the run failed: "+done.Error)
	} else {
		p.o.Board.Event(status.Info, "the run has ended")
	}
	return done, out.err
}

// sendHistory sends the joined history as a file, compressed.
func (p *Planes) sendHistory(res *load.Result, out *sender) (err error) {
	_, tempDir := p.place()
	name := filepath.Join(tempDir, "joined.hist")
	if err := res.History.WriteFile(name); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(name)) }()
	i, err := os.Stat(name)
	if err != nil {
		return err
	}
	z := control.Compress(control.Chunks(func(b []byte) error {
		out.event(&pb.RunEvent{Event: &pb.RunEvent_History{History: &pb.HistoryChunk{Data: b}}})
		return out.err
	}))
	t := newTransfer("sending the history", out.info)
	t.expect(i.Size())
	return errors.Join(copyFile(t.writer(z), name), z.Close())
}
