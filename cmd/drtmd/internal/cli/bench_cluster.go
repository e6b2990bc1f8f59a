package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/control"
	pb "drtmd/cmd/drtmd/internal/control/controlpb"
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/proto/history"
)

// ofDaemons are flags that mean nothing to a cluster of daemons: they are the daemons' own.
var ofDaemons = []string{"nodes", "processes", "transport", "device", "run-dir", "preset", "cost"}

// plan of the run, for daemons.
func (r *benchRun) plan() *load.Plan {
	p := r.flags
	return &load.Plan{Workload: p.workload, Settings: r.loadOptions, Protocol: p.protocol,
		Mutation: p.mutation, Nodes: p.nodes, Replicas: p.replicas, Workers: p.workers, Threads: p.threads, Fibers: p.fibers,
		ClientNodes: p.clientNodes, Growth: r.growth, ProtocolOptions: p.options, Seed: p.seed, Warmup: p.warmup,
		Duration: p.duration, SampleEvery: p.sampleEvery, YieldEvery: p.yieldEvery,
		Record: r.recorded()}
}

// loadCluster has the daemons run the workload. What they recorded ends up in a history here.
func (r *benchRun) loadCluster(ctx context.Context, progress func(load.Progress)) (*load.Result,
	error) {
	plan, err := json.Marshal(r.plan())
	if err != nil {
		return nil, err
	}
	// The file goes at once, and stays open: nothing is left of a process that is killed.
	file, err := os.CreateTemp(r.scratch, "drtmd-bench-*.hist")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	defer file.Close()
	// An interrupt stops the run and waits for its report; a second one ends the process.
	stop := context.AfterFunc(ctx, func() {
		if _, err := r.client.Stop(context.Background()); err != nil {
			r.log.Warn("the run was not stopped", zap.Error(err))
		}
	})
	defer stop()
	recorded := false
	expand := control.Expand(file)
	defer func() { _ = expand.Close() }() // what matters of it is looked at below
	done, err := r.client.Run(context.WithoutCancel(ctx),
		&pb.RunRequest{PlanJson: string(plan)},
		func(e *pb.RunEvent) error {
			switch {
			case e.GetProgress() != nil:
				progress(progressOf(e.GetProgress()))
			case e.GetNotice() != nil:
				if e.GetNotice().Level == "info" {
					r.log.Info(e.GetNotice().Text)
				} else {
					r.log.Warn(e.GetNotice().Text)
				}
			case e.GetHistory() != nil:
				recorded = true
				_, err := expand.Write(e.GetHistory().Data)
				return err
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	res := &load.Result{}
	if len(done.ResultJson) == 0 {
		return nil, errors.New(done.Error)
	}
	if err := json.Unmarshal(done.ResultJson, res); err != nil {
		return nil, fmt.Errorf("the result cannot be read: %w", err)
	}
	if recorded {
		if err := expand.Close(); err != nil {
			return nil, fmt.Errorf("the history that the cluster sent: %w", err)
		}
		name := fmt.Sprintf("/proc/self/fd/%d", file.Fd())
		if res.History, err = history.Open(name); err != nil {
			return nil, err
		}
	}
	switch {
	case res.Lost != nil:
		err = res.Lost
	case done.Error != "" && !done.Interrupted:
		err = errors.New(done.Error)
	case done.Interrupted:
		err = errors.Join(ctx.Err(), stoppedElsewhere(ctx, done.Error))
	case res.Unsettled != nil:
		err = res.Unsettled
	}
	return res, err
}

// stoppedElsewhere is an error unless the interrupt was this process's. cause is the leader's.
func stoppedElsewhere(ctx context.Context, cause string) error {
	if ctx.Err() != nil {
		return nil
	}
	if cause != "" && cause != context.Canceled.Error() {
		return fmt.Errorf("the run was ended early: %s", cause)
	}
	return errors.New("another client stopped the run, or its node drained")
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func progressOf(p *pb.Progress) load.Progress {
	phase := load.Measuring
	if p.Phase == load.Warming.String() {
		phase = load.Warming
	}
	return load.Progress{Phase: phase, Elapsed: seconds(p.ElapsedS), Of: seconds(p.OfS),
		PerSecond: p.CommittedPerS, AbortRate: p.AbortsPerAttempt}
}

// describeCluster fills in what the daemons know better than the command line.
func (r *benchRun) describeCluster(ctx context.Context, client *control.Client) error {
	st, err := client.Status(ctx, false)
	if err != nil {
		return err
	}
	p := r.flags
	if p.nodes = len(st.State.Active.Members); p.nodes == 0 {
		return fmt.Errorf("the cluster has no members: %s", st.Problem)
	}
	p.processes = p.nodes
	for _, n := range st.Nodes {
		if n.Device.Name != "" {
			p.transport = n.Device.Transport
		}
		if n.Plane != nil && r.threads == 0 {
			r.threads = max(1, min(n.Plane.Threads, p.workers))
		}
	}
	return nil
}
