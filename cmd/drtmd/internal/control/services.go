package control

import (
	"context"
	"encoding/json"

	"google.golang.org/grpc"

	pb "drtmd/cmd/drtmd/internal/control/controlpb"
	"drtmd/proto/member"
)

// controlService and planeService hand calls to the backend.
type controlService struct {
	pb.UnimplementedControlServer
	s *Server
}

func (c *controlService) Admit(ctx context.Context, r *pb.AdmitRequest) (*pb.AdmitReply, error) {
	return c.s.o.Backend.Admit(ctx, r)
}

func (c *controlService) Status(ctx context.Context, r *pb.StatusRequest) (*pb.StatusReply, error) {
	st, err := c.s.o.Backend.Status(ctx, r.Self)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(st)
	return &pb.StatusReply{Json: b}, err
}

func (c *controlService) Run(r *pb.RunRequest, stream grpc.ServerStreamingServer[pb.RunEvent]) error {
	return c.s.o.Backend.Run(stream.Context(), r, stream.Send)
}

func (c *controlService) Stop(ctx context.Context, _ *pb.StopRequest) (*pb.StopReply, error) {
	was, err := c.s.o.Backend.Stop(ctx)
	return &pb.StopReply{WasRunning: was}, err
}

func (c *controlService) SetLogLevel(ctx context.Context, r *pb.LogLevelRequest) (*pb.LogLevelReply,
	error) {
	was, err := c.s.o.Backend.SetLogLevel(ctx, r.Level, r.Everywhere)
	if was == "" {
		return nil, err
	}
	return &pb.LogLevelReply{Was: was, Failed: textOf(err)}, nil
}

func (c *controlService) Drain(ctx context.Context, r *pb.DrainRequest) (*pb.DrainReply, error) {
	told, err := c.s.o.Backend.Drain(ctx, r.Everywhere)
	if len(told) == 0 {
		return nil, err
	}
	return &pb.DrainReply{Told: told, Failed: textOf(err)}, nil
}

// textOf is the text of an error that accompanies a partial result; "" for nil.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

type planeService struct {
	pb.UnimplementedPlaneServer
	s *Server
}

func (p *planeService) Do(ctx context.Context, r *pb.StepRequest) (*pb.StepReply, error) {
	a, err := p.s.o.Backend.Do(ctx, member.ShardVersion(r.ShardVersion), r.RequestJson)
	return &pb.StepReply{AnswerJson: a}, err
}

func (p *planeService) History(r *pb.HistoryRequest,
	stream grpc.ServerStreamingServer[pb.HistoryChunk]) error {
	z := Compress(Chunks(func(b []byte) error { return stream.Send(&pb.HistoryChunk{Data: b}) }))
	if err := p.s.o.Backend.History(stream.Context(), member.ShardVersion(r.ShardVersion), z); err != nil {
		return err
	}
	return z.Close()
}

func (p *planeService) Time(context.Context, *pb.TimeRequest) (*pb.TimeReply, error) {
	now, machine := p.s.o.Backend.Time()
	return &pb.TimeReply{NowNs: now, Machine: machine}, nil
}

// Chunks is a writer that sends what it gets in pieces that fit into messages.
func Chunks(send func([]byte) error) *ChunkWriter { return &ChunkWriter{send} }

// ChunkWriter is what Chunks gives.
type ChunkWriter struct{ send func([]byte) error }

func (w *ChunkWriter) Write(b []byte) (int, error) {
	for n := 0; n < len(b); n += chunkBytes {
		if err := w.send(b[n:min(n+chunkBytes, len(b))]); err != nil {
			return n, err
		}
	}
	return len(b), nil
}
