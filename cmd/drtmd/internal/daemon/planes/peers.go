package planes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/proto/member"
)

// peer is a member as load drives it, for one version of the shard map.
type peer struct {
	p       *Planes
	m       member.Member
	version member.ShardVersion
	self    bool
	gone    chan struct{}
	fetched *transfer // of what all of them recorded; nil: not to be told
}

// peersOf are the primaries of a shard map. stop forgets them.
func (p *Planes) peersOf(m member.ShardMap, fetched *transfer) (list []load.Peer, stop func()) {
	var stops []func()
	for _, x := range m.Primary {
		q := &peer{p: p, m: x, version: m.Version, self: x.Same(m.Leader), gone: make(chan struct{}),
			fetched: fetched}
		stops = append(stops, p.o.Members.OnGone(x, func() { close(q.gone) }))
		list = append(list, q)
	}
	return list, func() {
		for _, f := range stops {
			f()
		}
	}
}

func (q *peer) Name() string { return q.m.String() }

func (q *peer) Gone() <-chan struct{} { return q.gone }

func (q *peer) Err() error { return errors.New("its membership has ended") }

// Do has the step carried out at the member, and fetches what it recorded.
func (q *peer) Do(ctx context.Context, r *load.Request) (*load.Answer, error) {
	asked := *r
	asked.History = ""
	b, err := json.Marshal(&asked)
	if err != nil {
		return nil, err
	}
	if q.self {
		b, err = q.p.Do(ctx, q.version, b)
	} else {
		b, err = q.ask(ctx, b, r.Step == load.StepOpen)
	}
	if err != nil {
		return nil, q.refusal(err)
	}
	a := &load.Answer{}
	if err := json.Unmarshal(b, a); err != nil {
		return nil, fmt.Errorf("its answer cannot be read: %w", err)
	}
	if a.Recorded {
		err = q.fetch(ctx, r.History, a.RecordedBytes)
	}
	return a, err
}

// ask has the member carry out a step. A client that failed to connect to the process before this one
// fails for up to a second without a new attempt, although the member listens: it is asked again. So is, by the first
// step of a plane, a member that the registry has told of before it knows of that itself.
func (q *peer) ask(ctx context.Context, step []byte, first bool) ([]byte, error) {
	c, err := q.p.o.Members.Client(q.m.Control)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(reconnectTimeout); ; {
		answer, err := c.Do(ctx, q.version, step)
		joins := first && errors.Is(err, member.ErrLeaseLost)
		if !joins && !control.NobodyListens(err) || time.Now().After(end) {
			return answer, err
		}
		select {
		case <-q.gone:
			return nil, err
		case <-ctx.Done():
			return nil, err
		case <-time.After(leaseLook):
		}
	}
}

// refusal tells an answer in words from a member that may be gone, which the registry decides. Of a
// leader that is no member itself nothing will be decided: it need not wait.
func (q *peer) refusal(err error) error {
	var remote *control.RemoteError
	if _, own := q.p.o.Members.Serving(); own != nil {
		return &load.Refusal{Text: err.Error()}
	}
	if errors.Is(err, member.ErrLeaseLost) || errors.Is(err, member.ErrNotMember) ||
		!q.self && !errors.As(err, &remote) {
		return err
	}
	return &load.Refusal{Text: err.Error()}
}

// fetch writes the history into a file of so many bytes.
func (q *peer) fetch(ctx context.Context, file string, bytes int64) (err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var w io.Writer = f
	if q.fetched != nil {
		q.fetched.expect(bytes)
		w = q.fetched.writer(f)
	}
	if q.self {
		return q.p.History(ctx, q.version, w)
	}
	c, err := q.p.o.Members.Client(q.m.Control)
	if err != nil {
		return err
	}
	return c.History(ctx, q.version, w)
}
