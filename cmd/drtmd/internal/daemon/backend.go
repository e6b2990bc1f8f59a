package daemon

import (
	"context"
	"io"
	"time"

	"drtmd/cmd/drtmd/internal/control"
	pb "drtmd/cmd/drtmd/internal/control/controlpb"
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
	"drtmd/proto/node"
)

// Check implements control.Backend.
func (d *Daemon) Check(c control.Caller) error { return d.members.Check(c) }

// Admit implements control.Backend.
func (d *Daemon) Admit(ctx context.Context, r *pb.AdmitRequest) (*pb.AdmitReply, error) {
	return d.members.Admit(ctx, r)
}

// Status implements control.Backend and admin.Source.
func (d *Daemon) Status(ctx context.Context, self bool) (*status.Cluster, error) {
	return d.report.Status(ctx, self), nil
}

// Run implements control.Backend.
func (d *Daemon) Run(ctx context.Context, r *pb.RunRequest, send func(*pb.RunEvent) error) error {
	return d.planes.Run(ctx, r, send)
}

// Stop implements control.Backend.
func (d *Daemon) Stop(ctx context.Context) (bool, error) { return d.planes.Stop(ctx) }

// Do implements control.Backend.
func (d *Daemon) Do(ctx context.Context, v member.ShardVersion, request []byte) ([]byte, error) {
	return d.planes.Do(ctx, v, request)
}

// History implements control.Backend.
func (d *Daemon) History(ctx context.Context, v member.ShardVersion, w io.Writer) error {
	return d.planes.History(ctx, v, w)
}

// Time implements control.Backend.
func (d *Daemon) Time() (int64, string) {
	if before := d.o.test.beforeAnswer; before != nil {
		before()
	}
	now, _ := node.MachineNow() // it never fails with this clock
	return int64(now), d.machine
}

// Alive implements the watchdog's question, and /healthz: the data plane's threads and the steward
// turn.
func (d *Daemon) Alive() error { return d.planes.Alive() }

// Ready implements /readyz.
func (d *Daemon) Ready() error { return d.board.Ready() }

// Metrics implements admin.Source.
func (d *Daemon) Metrics(ctx context.Context) (*load.Metrics, error) { return d.planes.Metrics(ctx) }

// CertificateExpires implements admin.Source.
func (d *Daemon) CertificateExpires() time.Time { return d.sec.Expires() }
