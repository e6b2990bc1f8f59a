package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	pb "drtmd/cmd/drtmd/internal/control/controlpb"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
)

// callTimeout bounds unary calls that have no deadline of their own.
const callTimeout = 15 * time.Second

// maxReply bounds what a client takes in one message.
const maxReply = 64 << 20

// DialOptions of Dial.
type DialOptions struct {
	Security *Security     // nil without TLS
	Caller   func() Caller // asked at each call
	// Advice is how the daemon is started where nobody listens; "" is how any node is.
	Advice string
}

// Client calls one daemon. It may be used from any goroutine. Errors are words for people: a
// *ConnectError where the daemon could not be asked, a *RemoteError where it has answered.
type Client struct {
	address string
	o       DialOptions
	conn    *grpc.ClientConn
	control pb.ControlClient
	plane   pb.PlaneClient

	answered atomic.Bool // it has, once
}

// Dial makes a client of HOST:PORT or unix:PATH. It connects at the first call.
func Dial(address string, o DialOptions) (*Client, error) {
	if err := checkAddress(address); err != nil {
		return nil, err
	}
	creds := insecure.NewCredentials()
	if o.Security != nil {
		creds = newClientCredentials(o.Security)
	}
	target := address
	if !strings.HasPrefix(address, unixPrefix) {
		target = "passthrough:///" + address // as it is: no resolver of services
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(creds),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond,
			Multiplier: 1.5, Jitter: 0.2, MaxDelay: time.Second}, MinConnectTimeout: 5 * time.Second}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: idlePing, Timeout: idlePing / 2}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply)), grpc.WithDisableServiceConfig())
	if err != nil {
		return nil, err
	}
	return &Client{address: address, o: o, conn: conn, control: pb.NewControlClient(conn),
		plane: pb.NewPlaneClient(conn)}, nil
}

// Address that was dialled.
func (c *Client) Address() string { return c.address }

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// begin bounds a unary call and says who calls.
func (c *Client) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	caller := c.o.Caller()
	ctx = caller.attach(ctx)
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTimeout)
}

// words makes words of a call's error. A connection that is cut means something else once the daemon
// has answered: it is one, and lets this client in.
func (c *Client) words(ctx context.Context, err error) error {
	wrong := fromWire(ctx, c.address, c.o.Security != nil, err)
	var lost *ConnectError
	var remote *RemoteError
	switch {
	case wrong == nil, errors.As(wrong, &remote):
		c.answered.Store(true)
	case errors.As(wrong, &lost) && lost.Advice != "" && c.o.Advice != "":
		lost.Advice = c.o.Advice
	case c.answered.Load() && errors.As(wrong, &lost) && closed(err):
		lost.Text = "the connection was cut: the daemon has ended, or the network between is down; " +
			"drtmd status at another node tells"
	}
	return wrong
}

// call makes a unary call.
func call[Q, A any](ctx context.Context, c *Client,
	f func(context.Context, *Q, ...grpc.CallOption) (*A, error), q *Q) (*A, error) {
	ctx, cancel := c.begin(ctx)
	defer cancel()
	a, err := f(ctx, q)
	return a, c.words(ctx, err)
}

// Admit asks where the registry is.
func (c *Client) Admit(ctx context.Context, r *pb.AdmitRequest) (*pb.AdmitReply, error) {
	return call(ctx, c, c.control.Admit, r)
}

// Status asks what the daemon knows: of itself alone, or of the cluster.
func (c *Client) Status(ctx context.Context, self bool) (*status.Cluster, error) {
	r, err := call(ctx, c, c.control.Status, &pb.StatusRequest{Self: self})
	if err != nil {
		return nil, err
	}
	st := &status.Cluster{}
	if err := json.Unmarshal(r.Json, st); err != nil {
		return nil, fmt.Errorf("%s: its status cannot be read: %w", c.address, err)
	}
	return st, nil
}

// Run runs a benchmark and gives each event to take. It returns the last one.
func (c *Client) Run(ctx context.Context, r *pb.RunRequest, take func(*pb.RunEvent) error) (*pb.Done,
	error) {
	caller := c.o.Caller()
	ctx, cancel := context.WithCancel(caller.attach(ctx))
	defer cancel()
	stream, err := c.control.Run(ctx, r)
	if err != nil {
		return nil, c.words(ctx, err)
	}
	for {
		e, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil, &ConnectError{Address: c.address, Text: "the run has ended without its result",
				Err: err}
		case err != nil:
			return nil, c.words(ctx, err)
		case e.GetDone() != nil:
			return e.GetDone(), nil
		}
		if err := take(e); err != nil {
			return nil, err
		}
	}
}

// Stop ends the run under way, and reports whether there was one.
func (c *Client) Stop(ctx context.Context) (bool, error) {
	r, err := call(ctx, c, c.control.Stop, &pb.StopRequest{})
	return r.GetWasRunning(), err
}

// PartError is what could not be done at some members; at the others it was.
type PartError struct{ Text string }

func (e *PartError) Error() string { return e.Text }

// partOf is the error in a reply, or the call's.
func partOf(failed string, err error) error {
	if err == nil && failed != "" {
		err = &PartError{failed}
	}
	return err
}

// SetLogLevel changes the level of the daemon's log, or of every member's: a *PartError names the
// others that were not told.
func (c *Client) SetLogLevel(ctx context.Context, level string, everywhere bool) (was string, err error) {
	r, err := call(ctx, c, c.control.SetLogLevel, &pb.LogLevelRequest{Level: level,
		Everywhere: everywhere})
	return r.GetWas(), partOf(r.GetFailed(), err)
}

// Drain has the daemon, or every member, end what it does and stop. It gives those that do; a
// *PartError names the others.
func (c *Client) Drain(ctx context.Context, everywhere bool) ([]string, error) {
	r, err := call(ctx, c, c.control.Drain, &pb.DrainRequest{Everywhere: everywhere})
	return r.GetTold(), partOf(r.GetFailed(), err)
}

// Do has a step of a data plane carried out.
func (c *Client) Do(ctx context.Context, v member.ShardVersion, request []byte) ([]byte, error) {
	r, err := call(ctx, c, c.plane.Do, &pb.StepRequest{ShardVersion: uint64(v), RequestJson: request})
	return r.GetAnswerJson(), err
}

// History writes what the run of a version has recorded at the daemon to w.
func (c *Client) History(ctx context.Context, v member.ShardVersion, w io.Writer) error {
	e := Expand(w)
	if err := c.history(ctx, v, e); err != nil {
		_ = e.Close() // cut short, of course
		return err
	}
	return e.Close()
}

// history writes that as it travels.
func (c *Client) history(ctx context.Context, v member.ShardVersion, w io.Writer) error {
	caller := c.o.Caller()
	ctx, cancel := context.WithCancel(caller.attach(ctx))
	defer cancel()
	stream, err := c.plane.History(ctx, &pb.HistoryRequest{ShardVersion: uint64(v)})
	for err == nil {
		var m *pb.HistoryChunk
		if m, err = stream.Recv(); err == nil {
			if _, err := w.Write(m.Data); err != nil {
				return err
			}
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return c.words(ctx, err)
}

// Time asks for the daemon's clock.
func (c *Client) Time(ctx context.Context) (nowNs int64, machine string, err error) {
	r, err := call(ctx, c, c.plane.Time, &pb.TimeRequest{})
	return r.GetNowNs(), r.GetMachine(), err
}
