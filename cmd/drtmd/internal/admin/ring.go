package admin

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/proto"
)

const (
	sampleEvery = time.Second
	keptSamples = 300 // five minutes
)

// sample is what happened on this node in about a second. Quantiles are of the transactions that
// committed in it; nil if none did whose latency was taken.
type sample struct {
	Time      time.Time `json:"time"` // UTC
	Committed float64   `json:"committed_per_s"`
	Aborts    float64   `json:"aborts_per_s"`
	P50       *float64  `json:"p50_us"`
	P99       *float64  `json:"p99_us"`
}

// ring has the last samples.
type ring struct {
	mu     sync.Mutex // guards what follows
	list   []sample
	aborts map[string]uint64 // attempts of the last plane that did something, by cause

	// Of the sampling goroutine alone.
	last *load.Metrics // of the sample before; nil: there was no plane
	at   time.Time     // when that was
}

// sample looks at the source each second until ctx ends.
func (s *Server) sample(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.look(ctx)
	}
}

// look adds a sample. What workers do not say in time is no sample, rather than one of zero: the next
// one is of a longer time.
func (s *Server) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sampleEvery)
	defer cancel()
	if m, err := s.o.Source.Metrics(ctx); err == nil {
		at := time.Now()
		if m != nil {
			at = m.At
		}
		s.ring.add(m, at)
	}
}

// add takes a look at the plane, nil if there is none, into the ring.
func (r *ring) add(m *load.Metrics, now time.Time) {
	x := difference(r.last, m, now.Sub(r.at))
	x.Time = now.UTC()
	r.last, r.at = m, now
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == keptSamples {
		r.list = slices.Delete(r.list, 0, 1)
	}
	r.list = append(r.list, x)
	if m == nil || m.Snapshot.Engine.Begun == 0 {
		return // the causes of the last run stay to be seen
	}
	r.aborts = map[string]uint64{}
	for reason, n := range m.Snapshot.Engine.Aborts {
		if n > 0 {
			r.aborts[proto.Reason(reason).String()] = n
		}
	}
}

// copy is for others to keep.
func (r *ring) copy() ([]sample, map[string]uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list, aborts := slices.Clone(r.list), maps.Clone(r.aborts)
	if list == nil {
		list = []sample{}
	}
	if aborts == nil {
		aborts = map[string]uint64{}
	}
	return list, aborts
}

// difference is what happened between two looks at one plane; nothing if they are of two.
func difference(last, m *load.Metrics, d time.Duration) sample {
	if last == nil || m == nil || last.Opened != m.Opened {
		return sample{}
	}
	per := 1 / max(d.Seconds(), 1e-3)
	x := sample{
		Committed: per * float64(m.Snapshot.Outcomes(proto.Committed)-
			last.Snapshot.Outcomes(proto.Committed)),
		Aborts: per * float64(m.Snapshot.Aborted()-last.Snapshot.Aborted()),
	}
	if len(last.Life) == 0 || len(m.Life) == 0 {
		return x
	}
	if h := minus(m.Life[0], last.Life[0]); h.TotalCount() > 0 {
		p50, p99 := float64(h.ValueAtQuantile(50))/1e3, float64(h.ValueAtQuantile(99))/1e3
		x.P50, x.P99 = &p50, &p99
	}
	return x
}

// minus is what came into a histogram since an earlier look at it.
func minus(h, earlier *hdrhistogram.Histogram) *hdrhistogram.Histogram {
	now, then := h.Export(), earlier.Export()
	for i, n := range then.Counts {
		now.Counts[i] -= n
	}
	return hdrhistogram.Import(now)
}
