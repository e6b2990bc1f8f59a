package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"drtmd/cmd/drtmd/internal/bounded"
	pb "drtmd/cmd/drtmd/internal/control/controlpb"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
)

// Backend is what a server asks: the daemon. Its methods may be called at the same time.
type Backend interface {
	// Check refuses callers that are not of this cluster any more, or not of its newest epoch.
	Check(c Caller) error
	Admit(ctx context.Context, r *pb.AdmitRequest) (*pb.AdmitReply, error)
	Status(ctx context.Context, self bool) (*status.Cluster, error)
	// Run runs a benchmark; send tells the caller.
	Run(ctx context.Context, r *pb.RunRequest, send func(*pb.RunEvent) error) error
	// Stop ends the run under way early, and reports whether there was one.
	Stop(ctx context.Context) (bool, error)
	// SetLogLevel gives the level before, of this daemon. With it, an error is of other members.
	SetLogLevel(ctx context.Context, level string, everywhere bool) (was string, err error)
	// Drain begins to drain, and gives the members that do. With them, an error is of the others.
	Drain(ctx context.Context, everywhere bool) ([]string, error)
	// Do carries out a step of a data plane: JSON of load.Request and load.Answer.
	Do(ctx context.Context, v member.ShardVersion, request []byte) (answer []byte, err error)
	// History writes what the run of a version has recorded.
	History(ctx context.Context, v member.ShardVersion, w io.Writer) error
	// Time is CLOCK_MONOTONIC in nanoseconds, and a name that is equal for processes that share it.
	Time() (nowNs int64, machine string)
}

// Limits of a server.
type Limits struct {
	MaxConnections int
	MaxMessage     int     // bytes
	RatePerPeer    float64 // requests per second and connection
}

// Bounds that are not settings.
const (
	handshakeTimeout = 5 * time.Second
	maxStreams       = 64
	maxHeaderBytes   = 8 << 10
	idlePing         = 20 * time.Second
	chunkBytes       = 256 << 10
)

// Options of NewServer.
type Options struct {
	Backend  Backend
	Security *Security // nil without TLS
	Limits   Limits
	Build    string
	Log      *zap.Logger
}

// Server serves the control plane.
type Server struct {
	o    Options
	grpc *grpc.Server
}

// NewServer makes a server that listens nowhere yet.
func NewServer(o Options) *Server {
	s := &Server{o: o}
	creds := insecure.NewCredentials()
	if o.Security != nil {
		creds = &serverCredentials{credentials.NewTLS(o.Security.ServerTLS()), o.Log}
	}
	s.grpc = grpc.NewServer(grpc.Creds(creds), grpc.ConnectionTimeout(handshakeTimeout),
		grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxRecvMsgSize(o.Limits.MaxMessage), grpc.MaxSendMsgSize(o.Limits.MaxMessage),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: idlePing / 4,
			PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: idlePing, Timeout: idlePing / 2}),
		grpc.StatsHandler(&connections{rate: o.Limits.RatePerPeer}), grpc.InTapHandle(tapHandle),
		grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.stream))
	pb.RegisterControlServer(s.grpc, &controlService{s: s})
	pb.RegisterPlaneServer(s.grpc, &planeService{s: s})
	return s
}

// Serve serves until Stop. It closes l.
func (s *Server) Serve(l net.Listener) error {
	err := s.grpc.Serve(bounded.Listener(l, s.o.Limits.MaxConnections, allowedPeer))
	if errors.Is(err, grpc.ErrServerStopped) { // before it began
		return nil
	}
	return err
}

// Stop lets calls under way end until ctx ends, and then cuts them off.
func (s *Server) Stop(ctx context.Context) {
	stop := context.AfterFunc(ctx, s.grpc.Stop)
	defer stop()
	s.grpc.GracefulStop()
}

// connections gives every connection a bound of its own on requests.
type connections struct{ rate float64 }

type limiterKey struct{}

func (c *connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, limiterKey{}, rate.NewLimiter(rate.Limit(c.rate),
		max(int(2*c.rate), 1)))
}
func (c *connections) HandleConn(context.Context, stats.ConnStats) {}
func (c *connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return ctx
}
func (c *connections) HandleRPC(context.Context, stats.RPCStats) {}

// tapHandle refuses requests beyond the bound before anything of them but the header is read.
func tapHandle(ctx context.Context, _ *tap.Info) (context.Context, error) {
	if l, ok := ctx.Value(limiterKey{}).(*rate.Limiter); ok && !l.Allow() {
		return nil, grpcstatus.Error(codes.ResourceExhausted, "too many requests on this connection: "+
			"control.rate_per_peer bounds them")
	}
	return ctx, nil
}

// admit decides about a call by its metadata alone.
func (s *Server) admit(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	c, err := callerOf(md)
	if err != nil {
		return grpcstatus.Error(codes.InvalidArgument, err.Error())
	}
	if c.Build != s.o.Build {
		return fmt.Errorf("%w: this daemon is drtmd %s, the caller %s; use the same build everywhere",
			member.ErrBuild, s.o.Build, c.Build)
	}
	return s.o.Backend.Check(c)
}

// rescue makes an error of a panic: a call must not end the daemon.
func (s *Server) rescue(method string, err *error) {
	if p := recover(); p != nil {
		s.o.Log.Error("a call of the control plane panicked", zap.String("method", method),
			zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
		*err = grpcstatus.Errorf(codes.Internal, "%s panicked in the daemon; its log has the stack", method)
	}
}

func (s *Server) unary(ctx context.Context, r any, info *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler) (reply any, err error) {
	defer s.rescue(info.FullMethod, &err)
	if err := s.admit(ctx); err != nil {
		return nil, toWire(err)
	}
	reply, err = handle(ctx, r)
	return reply, toWire(err)
}

func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo,
	handle grpc.StreamHandler) (err error) {
	defer s.rescue(info.FullMethod, &err)
	if err := s.admit(ss.Context()); err != nil {
		return toWire(err)
	}
	return toWire(handle(srv, ss))
}
