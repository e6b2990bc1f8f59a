package daemon

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
	once   sync.Once // closes ended
}

// stop ends the run early, with a report.
func (r *run) stop(cause error) { r.cancel(cause) }

// Run implements control.Backend: a version of the shard map of its own, a plane on every member,
// the clients, and what came of it.
func (d *Daemon) Run(ctx context.Context, q *pb.RunRequest, send func(*pb.RunEvent) error) error {
	plan := &load.Plan{}
	if err := json.Unmarshal([]byte(q.PlanJson), plan); err != nil {
		return fmt.Errorf("the plan of the run cannot be read: %w", err)
	}
	s, err := d.member()
	if err != nil {
		return err
	}
	ctx, r, err := d.beginRun(ctx)
	if err != nil {
		return err
	}
	defer r.cancel(nil)
	defer d.endRun(r)
	next, err := d.claim(s, r.name)
	if err != nil {
		return err
	}
	plan.Nodes = len(next.Primary)
	cfg, err := plan.Make()
	if err != nil {
		return err
	}
	if cfg.Protocol.OneThread {
		return fmt.Errorf("protocol %s runs in one process only, not on a cluster of daemons",
			cfg.Protocol.Name)
	}
	d.event(status.Info, fmt.Sprintf("leads run %s: %s, %s on %d nodes", r.name, plan.Workload,
		plan.Protocol, plan.Nodes))
	out := &sender{send: send}
	list, stop := d.peersOf(*next, newTransfer("collecting what the nodes recorded", out.info))
	defer stop()
	o := load.PeerOptions{Options: plan.Options(cfg.Workload), Nodes: plan.Nodes, Peers: list,
		Plan: plan, Run: r.name, Machine: d.machine, Leader: d.control,
		Names: node.Names(cfg.Workload), TempDir: d.tempDir,
		GoneTimeout: 2*d.lease() + time.Second}
	o.Lost = func(err error) {
		d.event(status.Warn, fmt.Sprintf("run %s goes on: %v", r.name, err))
		out.tell(&pb.RunEvent{Event: &pb.RunEvent_Notice{Notice: &pb.Notice{Level: "warn",
			Text: "running on: " + err.Error()}}})
	}
	o.Interval = progressEvery
	o.Progress = func(p load.Progress) {
		out.tell(&pb.RunEvent{Event: &pb.RunEvent_Progress{Progress: &pb.Progress{Phase: p.Phase.String(),
			ElapsedS: p.Elapsed.Seconds(), OfS: p.Of.Seconds(), CommittedPerS: p.PerSecond,
			AbortsPerAttempt: p.AbortRate}}})
	}
	res, err := load.RunPeers(ctx, o)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		if res != nil && res.Lost == nil {
			err = nil // it says no more than that the run was interrupted
		}
		err = errors.Join(cause, err)
	}
	done, err := d.report(res, err, out)
	if err != nil {
		return err
	}
	if !d.stops() { // or whoever waits for the run's end ends this call with it
		d.endRun(r)
		d.awaitServing(ctx, r, res != nil && res.Lost == nil && res.Unsettled == nil, out)
	}
	out.tell(&pb.RunEvent{Event: &pb.RunEvent_Done{Done: done}})
	return out.err
}

// sender sends events from one goroutine at a time, until the caller is gone.
type sender struct {
	mu   sync.Mutex
	send func(*pb.RunEvent) error
	err  error
}

func (s *sender) tell(e *pb.RunEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = s.send(e)
	}
}

// info tells the user something.
func (s *sender) info(text string) {
	s.tell(&pb.RunEvent{Event: &pb.RunEvent_Notice{Notice: &pb.Notice{Level: "info", Text: text}}})
}

// beginRun makes this daemon's run, if it has none.
func (d *Daemon) beginRun(ctx context.Context) (context.Context, *run, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.draining:
		return nil, nil, errors.New("this node drains: ask another one")
	case d.run != nil:
		return nil, nil, fmt.Errorf("%w: %s, led by this node; drtmd status shows it", control.ErrBusy,
			d.run.name)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	now := time.Now().UTC().Format("20060102T150405.000")
	r := &run{name: now + "-" + d.cfg.Node.Hostname(), cancel: cancel, ended: make(chan struct{})}
	d.run = r
	return ctx, r, nil
}

// endRun lets the steward build the plane that serves again.
func (d *Daemon) endRun(r *run) {
	r.once.Do(func() { d.forgetRun(r) })
}

func (d *Daemon) forgetRun(r *run) {
	d.mu.Lock()
	d.run = nil
	if d.shards.Run == r.name || d.state.Shards.Run == r.name {
		d.rebuild = true
	}
	d.mu.Unlock()
	close(r.ended)
	d.poke()
}

// claimTimeout is how long a run waits for a plane that is being built.
const claimTimeout = 30 * time.Second

// claim writes a version of the shard map for a run. It waits while a plane is being built, and
// while members come or go.
func (d *Daemon) claim(s member.Session, name string) (*member.ShardMap, error) {
	deadline := time.Now().Add(claimTimeout)
	for {
		st := s.State()
		d.mu.Lock()
		building := d.building || d.phase == status.Connecting
		d.mu.Unlock()
		err := fmt.Errorf("%w: the cluster is between two states", member.ErrStale)
		switch other := st.Shards; {
		case other.Run != "" && !other.Leader.Same(s.Self()) && st.Active.Has(other.Leader):
			return nil, fmt.Errorf("%w: %s, led by %v; drtmd status shows it", control.ErrBusy, other.Run,
				other.Leader)
		case st.Pending == nil && !building:
			next := &member.ShardMap{Version: st.Shards.Version + 1, Primary: st.Active.Members,
				Leader: s.Self(), Run: name}
			if err = s.SetShards(*next); err == nil {
				return next, nil
			}
		}
		if !errors.Is(err, member.ErrStale) || time.Now().After(deadline) {
			d.mu.Lock()
			reason := d.reason
			d.mu.Unlock()
			if reason != "" {
				err = fmt.Errorf("%w (%s)", err, reason)
			}
			return nil, err
		}
		if _, held := s.Lease(); !held {
			return nil, member.ErrLeaseLost
		}
		time.Sleep(retryWait / 10)
	}
}

// report sends the history, and gives the result.
func (d *Daemon) report(res *load.Result, runErr error, out *sender) (*pb.Done, error) {
	done := &pb.Done{}
	if runErr != nil {
		done.Error = runErr.Error()
	}
	if res != nil {
		done.Lost, done.Interrupted = res.Lost != nil, res.Interrupted
		if res.History != nil {
			err := d.sendHistory(res, out)
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
		d.event(status.Warn, "the run failed: "+done.Error)
	} else {
		d.event(status.Info, "the run has ended")
	}
	return done, out.err
}

// sendHistory sends the joined history as a file, compressed.
func (d *Daemon) sendHistory(res *load.Result, out *sender) (err error) {
	name := filepath.Join(d.tempDir, "joined.hist")
	if err := res.History.WriteFile(name); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(name)) }()
	i, err := os.Stat(name)
	if err != nil {
		return err
	}
	z := control.Compress(control.Chunks(func(b []byte) error {
		out.tell(&pb.RunEvent{Event: &pb.RunEvent_History{History: &pb.HistoryChunk{Data: b}}})
		return out.err
	}))
	t := newTransfer("sending the history", out.info)
	t.expect(i.Size())
	return errors.Join(copyFile(t.writer(z), name), z.Close())
}
