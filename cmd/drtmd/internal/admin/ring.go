package admin

import (
	"context"
	"slices"
	"sync"
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto"
)

const (
	sampleEvery = time.Second
	keptSamples = 300
)

// sampled is what happened on this node in about a second.
type sampled struct {
	Time      time.Time `json:"time"`
	Committed float64   `json:"committed_per_s"`
	Aborts    float64   `json:"aborts_per_s"`
	P50       float64   `json:"p50_us"` // since the run's measurement began
	P99       float64   `json:"p99_us"`
}

// ring has the last samples.
type ring struct {
	mu     sync.Mutex // guards what follows
	list   []sampled
	aborts map[string]uint64 // of the plane, by cause
}

func newRing() *ring { return &ring{aborts: map[string]uint64{}} }

// sample looks at the source each second.
func (s *Server) sample(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	var last *load.Metrics
	at := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		short, cancel := context.WithTimeout(ctx, sampleEvery)
		m, err := s.o.Source.Metrics(short)
		cancel()
		if err != nil {
			m = nil
		}
		now := time.Now()
		s.ring.add(difference(last, m, now.Sub(at)), m, now)
		last, at = m, now
	}
}

// difference is what happened between two looks at one plane.
func difference(last, m *load.Metrics, d time.Duration) sampled {
	var x sampled
	if m == nil {
		return x
	}
	if len(m.Latency) > 0 {
		x.P50, x.P99 = float64(m.Latency[0].P50Ns)/1000, float64(m.Latency[0].P99Ns)/1000
	}
	if last == nil || last.Opened != m.Opened ||
		m.Snapshot.Engine.Begun < last.Snapshot.Engine.Begun {
		return x
	}
	per := 1 / max(d.Seconds(), 1e-3)
	x.Committed = per * float64(m.Snapshot.Outcomes(proto.Committed)-
		last.Snapshot.Outcomes(proto.Committed))
	x.Aborts = per * float64(m.Snapshot.Aborted()-last.Snapshot.Aborted())
	return x
}

func (r *ring) add(x sampled, m *load.Metrics, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x.Time = now.UTC()
	if len(r.list) == keptSamples {
		r.list = slices.Delete(r.list, 0, 1)
	}
	r.list = append(r.list, x)
	if m == nil || m.Snapshot.Engine.Begun == 0 {
		return // the causes of the last run stay to be seen
	}
	clear(r.aborts)
	for reason, n := range m.Snapshot.Engine.Aborts {
		if n > 0 {
			r.aborts[proto.Reason(reason).String()] = n
		}
	}
}

// liveView is what the page draws.
type liveView struct {
	Status  *status.Cluster   `json:"status"`
	Samples []sampled         `json:"samples"`
	Aborts  map[string]uint64 `json:"aborts"`
}

func (s *Server) liveView(ctx context.Context) (*liveView, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	st, err := s.o.Source.Status(ctx, false)
	if err != nil {
		return nil, err
	}
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	v := &liveView{Status: st, Samples: slices.Clone(s.ring.list), Aborts: map[string]uint64{}}
	for k, n := range s.ring.aborts {
		v.Aborts[k] = n
	}
	return v, nil
}
