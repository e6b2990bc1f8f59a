package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/proto/member"
)

// gone is somebody who wants to know when a member is.
type gone struct {
	m member.Member
	f func()
}

// onGone has f called once when the member is in no view any more; stop ends that.
func (d *Daemon) onGone(m member.Member, f func()) (stop func()) {
	g := &gone{m: m, f: f}
	d.mu.Lock()
	here := d.state.Newest()
	in := here.Has(m)
	if in {
		d.watched = append(d.watched, g)
	}
	d.mu.Unlock()
	if !in {
		f()
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.watched = slices.DeleteFunc(d.watched, func(x *gone) bool { return x == g })
	}
}

// tellGone tells those who wait for members that are in no view any more.
func (d *Daemon) tellGone(st *member.State) {
	d.mu.Lock()
	var now []*gone
	d.watched = slices.DeleteFunc(d.watched, func(g *gone) bool {
		if v := st.Newest(); v.Has(g.m) {
			return false
		}
		now = append(now, g)
		return true
	})
	d.mu.Unlock()
	for _, g := range now {
		g.f()
	}
}

// caller is who this daemon is in its calls.
func (d *Daemon) caller() control.Caller {
	c := control.Caller{Build: d.o.Build}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.session != nil {
		c.IsMember, c.Cluster, c.Epoch, c.Self = true, d.state.Cluster, d.state.Active.Epoch,
			d.session.Self()
	}
	return c
}

// client of a daemon, made once for each address. Those of addresses that no member has any more are
// closed.
func (d *Daemon) client(address string) (*control.Client, error) {
	c, old, err := d.clientAndOld(address)
	for _, x := range old { // without the lock: their calls may be waiting for it
		if err := x.Close(); err != nil {
			d.log.Warn("the client of a former member was not closed", zap.Error(err))
		}
	}
	return c, err
}

func (d *Daemon) clientAndOld(address string) (c *control.Client, old []*control.Client, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := append(slices.Concat(d.state.Active.Members, d.state.Shards.Primary, d.shards.Primary),
		d.state.Shards.Leader, d.shards.Leader)
	if d.state.Pending != nil {
		now = append(now, d.state.Pending.Members...)
	}
	for a, x := range d.peers {
		if a != address && !slices.ContainsFunc(now, func(m member.Member) bool { return m.Control == a }) {
			delete(d.peers, a)
			old = append(old, x)
		}
	}
	if c := d.peers[address]; c != nil {
		return c, old, nil
	}
	c, err = control.Dial(address, control.DialOptions{Security: d.sec, Caller: d.caller})
	if err == nil {
		d.peers[address] = c
	}
	return c, old, err
}

func (d *Daemon) closePeers() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, c := range d.peers {
		errs = append(errs, c.Close())
	}
	d.peers = map[string]*control.Client{}
	return errors.Join(errs...)
}

// peer is a member as load drives it, for one version of the shard map.
type peer struct {
	d       *Daemon
	m       member.Member
	version member.ShardVersion
	self    bool
	gone    chan struct{}
	fetched *transfer // of what all of them recorded; nil: not to be told
}

// peersOf are the primaries of a shard map. stop forgets them.
func (d *Daemon) peersOf(m member.ShardMap, fetched *transfer) (list []load.Peer, stop func()) {
	var stops []func()
	for _, x := range m.Primary {
		p := &peer{d: d, m: x, version: m.Version, self: x.Same(m.Leader), gone: make(chan struct{}),
			fetched: fetched}
		stops = append(stops, d.onGone(x, func() { close(p.gone) }))
		list = append(list, p)
	}
	return list, func() {
		for _, f := range stops {
			f()
		}
	}
}

func (p *peer) Name() string { return p.m.String() }

func (p *peer) Gone() <-chan struct{} { return p.gone }

func (p *peer) Err() error { return errors.New("its membership has ended") }

// Do has the step carried out at the member, and fetches what it recorded.
func (p *peer) Do(ctx context.Context, r *load.Request) (*load.Answer, error) {
	q := *r
	q.History = ""
	b, err := json.Marshal(&q)
	if err != nil {
		return nil, err
	}
	if p.self {
		b, err = p.d.Do(ctx, p.version, b)
	} else {
		var c *control.Client
		if c, err = p.d.client(p.m.Control); err == nil {
			b, err = c.Do(ctx, p.version, b)
		}
	}
	if err != nil {
		return nil, p.refusal(err)
	}
	a := &load.Answer{}
	if err := json.Unmarshal(b, a); err != nil {
		return nil, fmt.Errorf("its answer cannot be read: %w", err)
	}
	if a.Recorded {
		err = p.fetch(ctx, r.History, a.RecordedBytes)
	}
	return a, err
}

// refusal tells an answer in words from a member that may be gone, which the registry decides. Of a
// leader that is no member itself nothing will be decided: it need not wait.
func (p *peer) refusal(err error) error {
	var remote *control.RemoteError
	if _, own := p.d.member(); own != nil {
		return &load.Refusal{Text: err.Error()}
	}
	if errors.Is(err, member.ErrLeaseLost) || errors.Is(err, member.ErrNotMember) ||
		!p.self && !errors.As(err, &remote) {
		return err
	}
	return &load.Refusal{Text: err.Error()}
}

// fetch writes the history into a file of so many bytes.
func (p *peer) fetch(ctx context.Context, file string, bytes int64) (err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var w io.Writer = f
	if p.fetched != nil {
		p.fetched.expect(bytes)
		w = p.fetched.writer(f)
	}
	if p.self {
		return p.d.History(ctx, p.version, w)
	}
	c, err := p.d.client(p.m.Control)
	if err != nil {
		return err
	}
	return c.History(ctx, p.version, w)
}
