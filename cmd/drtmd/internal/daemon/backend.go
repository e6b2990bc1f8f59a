package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/control"
	pb "drtmd/cmd/drtmd/internal/control/controlpb"
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/service"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
	"drtmd/proto/node"
)

// Check implements control.Backend: a member of another cluster, or one that was removed, may do
// nothing here. One whose view is behind is not refused for that: what it asks for has a version.
func (d *Daemon) Check(c control.Caller) error {
	if !c.IsMember {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.session == nil {
		return nil // it knows no newer epoch
	}
	v := d.state.Newest()
	switch {
	case c.Cluster != d.state.Cluster:
		return fmt.Errorf("%w: %v is of cluster %s, this node of %s", member.ErrNotMember, c.Self,
			c.Cluster, d.state.Cluster)
	case !v.Has(c.Self) && c.Epoch < v.Epoch:
		return fmt.Errorf("%w: %v calls from epoch %d, it is %d without it", member.ErrNotMember, c.Self,
			c.Epoch, v.Epoch)
	}
	return nil
}

// Admit implements control.Backend.
func (d *Daemon) Admit(_ context.Context, r *pb.AdmitRequest) (*pb.AdmitReply, error) {
	d.mu.Lock()
	cluster, ok := d.state.Cluster, d.session != nil
	d.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("%w: this node is not a member yet", member.ErrUnreachable)
	}
	if r.Transport != d.cfg.Transport.Provider {
		return nil, fmt.Errorf("the cluster's transport is %s, not %s: give it the same "+
			"--transport", d.cfg.Transport.Provider, r.Transport)
	}
	return &pb.AdmitReply{Cluster: d.cfg.Cluster.Name + "/" + cluster, Etcd: d.etcdURLs,
		Transport: d.cfg.Transport.Provider, LeaseS: d.lease().Seconds()}, nil
}

// Stop implements control.Backend.
func (d *Daemon) Stop(ctx context.Context) (bool, error) {
	d.mu.Lock()
	r, led := d.run, d.state.Shards
	d.mu.Unlock()
	switch {
	case r != nil:
		r.stop(context.Canceled)
		return true, nil
	case led.Run == "":
		return false, nil
	}
	c, err := d.client(led.Leader.Control)
	if err != nil {
		return false, err
	}
	return c.Stop(ctx)
}

// Do implements control.Backend: a step of the plane of a version. Older ones than the node knows
// are refused, and a newer one begins with open.
func (d *Daemon) Do(ctx context.Context, v member.ShardVersion, request []byte) ([]byte, error) {
	r := &load.Request{}
	if err := json.Unmarshal(request, r); err != nil {
		return nil, fmt.Errorf("the step cannot be read: %w", err)
	}
	if err := d.enter(ctx, v, r); err != nil {
		return nil, err
	}
	if r.Step == load.StepFinish {
		r.History = d.spill
	}
	begin := d.clock.Now()
	a, err := d.part.Do(ctx, r)
	d.log.Debug("carried out a step", zap.String("step", string(r.Step)), zap.Uint64("shard_map",
		uint64(v)), zap.Duration("took", d.clock.Now()-begin), zap.Error(err))
	d.did(v, r, err)
	if err != nil {
		return nil, err
	}
	return json.Marshal(a)
}

// serve says that the node serves.
func (d *Daemon) serve() {
	d.setPhase(status.Ready, "")
	d.mu.Lock()
	first := !d.served
	d.served = true
	d.failed, d.unbuilt, d.undone = "", repeats{}, repeats{}
	s, version, n := d.session, d.version, len(d.shards.Primary)
	d.mu.Unlock()
	if s == nil {
		return
	}
	d.event(status.Info, fmt.Sprintf("ready: shard map %d, %d partitions", version, n))
	text := fmt.Sprintf("%v, %d nodes", s.Self(), n)
	if err := d.o.Notifier.Ready(text); err != nil {
		d.log.Warn(err.Error())
	}
	if first {
		fmt.Fprintf(d.o.Stdout, "READY %v, control %s, admin %s\n", s.Self(), d.control, status.OrNone(d.admin))
	}
}

// History implements control.Backend.
func (d *Daemon) History(_ context.Context, v member.ShardVersion, w io.Writer) error {
	d.mu.Lock()
	now := d.version
	d.mu.Unlock()
	if v != now {
		return fmt.Errorf("%w: the history of shard map %d, the plane is of %d", member.ErrStale, v, now)
	}
	return copyFile(w, d.spill)
}

// copyFile writes a file's bytes.
func copyFile(w io.Writer, name string) (err error) {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.Copy(w, f)
	return err
}

// Time implements control.Backend.
func (d *Daemon) Time() (int64, string) {
	now, _ := node.MachineNow() // it never fails with this clock
	return int64(now), d.machine
}

// recordBytes is what all recorders of a node keep in memory, before they go on in a file.
const recordBytes = 1 << 30

// openPlane builds the node's part of a plane.
func (d *Daemon) openPlane(ctx context.Context, r *load.Request, p *node.Part) (*node.Cluster,
	*load.Options, error) {
	if r.Plan == nil {
		return nil, nil, errors.New("open: without a plan")
	}
	cfg, err := r.Plan.Make()
	if err != nil {
		return nil, nil, err
	}
	cfg.CacheBytes = int(d.cfg.Data.Cache)
	if r.Plan.Record {
		cfg.Record = &node.Recording{SpillDir: d.tempDir, MemoryBytes: recordBytes / int64(cfg.Workers)}
	}
	c, err := node.NewLocal(ctx, node.LocalConfig{Config: cfg, Provider: d.provider,
		Device: d.cfg.Transport.Device, GID: d.gid(), Part: p,
		Threads: d.threads(r.Plan.Threads, cfg.Workers), CPUs: d.placed.Sets()})
	if err != nil {
		if problems := service.LimitProblems(d.cfg.Transport.Provider, 0); len(problems) > 0 {
			err = fmt.Errorf("%w; %s", err, strings.Join(problems, "; "))
		}
		return nil, nil, err
	}
	o := r.Plan.Options(cfg.Workload)
	return c, &o, nil
}

// Alive implements the watchdog's question, and /healthz: the data plane's threads and the steward
// turn.
func (d *Daemon) Alive() error {
	ctx, cancel := context.WithTimeout(context.Background(), aliveTimeout)
	defer cancel()
	err := d.part.Alive(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("a worker thread has not turned for %v", aliveTimeout)
	}
	// A plane that is being closed is alive, whatever the error.
	bound := aliveTimeout + 3*d.lease() // calls of the registry take two leases at most
	if at := d.turned.Load(); at > 0 {
		if since := d.clock.Now() - time.Duration(at); since > bound {
			return fmt.Errorf("the daemon's loop has not turned for %v", since.Round(time.Second))
		}
	}
	return nil
}

// aliveTimeout is how long a thread may take to come by.
const aliveTimeout = 5 * time.Second

// Ready implements /readyz.
func (d *Daemon) Ready() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.phase == status.Ready || d.phase == status.Running {
		return nil
	}
	return fmt.Errorf("%s: %s", d.phase, cmp.Or(d.reason, "no reason is known"))
}

// Metrics implements admin.Source.
func (d *Daemon) Metrics(ctx context.Context) (*load.Metrics, error) { return d.part.Metrics(ctx) }
