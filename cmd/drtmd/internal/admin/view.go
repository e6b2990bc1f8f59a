package admin

import (
	"context"
	"time"

	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto"
)

// viewAge is how old a view may be: however many clients poll, the cluster is asked no more often.
const viewAge = 900 * time.Millisecond

// view is what the page draws. It is not changed once it is made.
type view struct {
	Build   string            `json:"build"`
	Status  *status.Cluster   `json:"status"`
	Run     string            `json:"run"` // the benchmark under way; "" is none
	Plane   []fact            `json:"plane"`
	Nature  string            `json:"nature"`
	Samples []sample          `json:"samples"` // of this node, the oldest first
	Aborts  map[string]uint64 `json:"aborts"`
	// Whole are samples of all nodes together, and Pages where the others' pages are.
	Whole []wholeSample           `json:"whole"`
	Pages map[proto.NodeID]string `json:"pages"`
}

// views makes views, one at a time.
type views struct {
	token chan struct{} // held by who uses what follows
	last  *view
	at    time.Time
	whole whole
}

func newViews() *views { return &views{token: make(chan struct{}, 1)} }

// view is a new one, or the last if it is not old.
func (s *Server) view(ctx context.Context) (*view, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	select {
	case s.views.token <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.views.token }()
	if s.views.last != nil && time.Since(s.views.at) < viewAge {
		return s.views.last, nil
	}
	st, err := s.o.Source.Status(ctx, false)
	if err != nil {
		return nil, err
	}
	v := &view{Build: s.o.Build, Status: st, Run: runText(st), Plane: planeFacts(st),
		Nature: nature(st)}
	v.Samples, v.Aborts = s.ring.copy()
	now := time.Now()
	v.Whole, v.Pages = s.views.whole.add(st, now), pagesOf(st)
	s.views.last, s.views.at = v, now
	return v, nil
}
