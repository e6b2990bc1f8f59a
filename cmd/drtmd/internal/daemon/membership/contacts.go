package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
)

const (
	// askTimeout is what another node gets to say how it is.
	askTimeout = 2 * time.Second
	// tellTimeout is what another member gets to take an order.
	tellTimeout = 5 * time.Second
)

// contacts are clients of other nodes, one for each address.
type contacts struct {
	dial func(address string) (*control.Client, error)

	mu    sync.Mutex // guards what follows
	list  map[string]*control.Client
	plane []member.Member // of the plane that the node holds
}

// Plane says which members the plane is of that the node holds: their clients are kept.
func (m *Membership) Plane(list []member.Member) {
	c := &m.contacts
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plane = slices.Clone(list)
}

// Client of a daemon, made once for each address. Those of addresses that no member has any more are
// closed.
func (m *Membership) Client(address string) (*control.Client, error) {
	st := m.State()
	now := append(slices.Concat(st.Active.Members, st.Shards.Primary), st.Shards.Leader)
	if st.Pending != nil {
		now = append(now, st.Pending.Members...)
	}
	c, old, err := m.contacts.at(address, now)
	for _, x := range old {
		if err := x.Close(); err != nil {
			m.o.Log.Warn("the client of a former member was not closed", zap.Error(err))
		}
	}
	return c, err
}

// at gives the client of an address, and takes out those of addresses that nobody has.
func (c *contacts) at(address string, now []member.Member) (client *control.Client,
	old []*control.Client, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now = append(now, c.plane...)
	for a, x := range c.list {
		if a != address && !slices.ContainsFunc(now, func(m member.Member) bool { return m.Control == a }) {
			delete(c.list, a)
			old = append(old, x)
		}
	}
	if client := c.list[address]; client != nil {
		return client, old, nil
	}
	if client, err = c.dial(address); err != nil {
		return nil, old, err
	}
	if c.list == nil {
		c.list = map[string]*control.Client{}
	}
	c.list[address] = client
	return client, old, nil
}

// CloseClients ends all connections to others.
func (m *Membership) CloseClients() error {
	c := &m.contacts
	c.mu.Lock()
	list := c.list
	c.list = nil
	c.mu.Unlock()
	var errs []error
	for _, x := range list {
		errs = append(errs, x.Close())
	}
	return errors.Join(errs...)
}

// Ask asks members how they are, all at once; phase gone: it does not answer.
func (m *Membership) Ask(ctx context.Context, list []member.Member) []status.Node {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answers := make([]status.Node, len(list))
	var wg sync.WaitGroup
	for i, x := range list {
		wg.Go(func() { answers[i] = m.askOne(ctx, x) })
	}
	wg.Wait()
	return answers
}

func (m *Membership) askOne(ctx context.Context, x member.Member) status.Node {
	fail := func(err error) status.Node {
		return status.Node{Member: x, Phase: status.Gone, Reason: err.Error()}
	}
	c, err := m.Client(x.Control)
	if err != nil {
		return fail(err)
	}
	st, err := c.Status(ctx, true)
	if err != nil {
		return fail(err)
	}
	if len(st.Nodes) != 1 || !st.Nodes[0].Member.Same(x) {
		return fail(fmt.Errorf("another member answers at %s", x.Control))
	}
	return st.Nodes[0]
}

// EachOther calls f for each other member, all at once, and gives those where it did not fail. The
// error names the rest.
func (m *Membership) EachOther(ctx context.Context,
	f func(ctx context.Context, c *control.Client) error) ([]member.Member, error) {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	all := m.Others()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, x := range all {
		wg.Go(func() {
			c, err := m.Client(x.Control)
			if err == nil {
				err = f(ctx, c)
			}
			if err != nil {
				errs[i] = fmt.Errorf("%v: %w", x, err)
			}
		})
	}
	wg.Wait()
	var done []member.Member
	for i, x := range all {
		if errs[i] == nil {
			done = append(done, x)
		}
	}
	return done, errors.Join(errs...)
}
