package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap/zapcore"

	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
)

// tellTimeout is what another member gets to take an order.
const tellTimeout = 5 * time.Second

// others are the members of the newest view without this one.
func (d *Daemon) others() (list []member.Member) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.session == nil {
		return nil
	}
	v := d.state.Newest()
	for _, m := range v.Members {
		if !m.Same(d.session.Self()) {
			list = append(list, m)
		}
	}
	return list
}

// everyOther calls f for each other member, all at once, and gives those where it did not fail. The
// error names the rest.
func (d *Daemon) everyOther(ctx context.Context,
	f func(ctx context.Context, c *control.Client) error) ([]member.Member, error) {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	all := d.others()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, m := range all {
		wg.Go(func() {
			c, err := d.client(m.Control)
			if err == nil {
				err = f(ctx, c)
			}
			if err != nil {
				errs[i] = fmt.Errorf("%v: %w", m, err)
			}
		})
	}
	wg.Wait()
	var done []member.Member
	for i, m := range all {
		if errs[i] == nil {
			done = append(done, m)
		}
	}
	return done, errors.Join(errs...)
}

// SetLogLevel implements control.Backend. The level holds until the next one, or until SIGHUP.
func (d *Daemon) SetLogLevel(ctx context.Context, level string, everywhere bool) (string, error) {
	l, err := zapcore.ParseLevel(level)
	if err != nil || level == "" || l > zapcore.ErrorLevel {
		return "", fmt.Errorf("unknown level %q; known: debug, info, warn, error", level)
	}
	was := d.o.Level.Level().String()
	d.o.Level.SetLevel(l)
	d.event(status.Info, fmt.Sprintf("level of the log: %v, was %s", l, was))
	if !everywhere {
		return was, nil
	}
	_, err = d.everyOther(ctx, func(ctx context.Context, c *control.Client) error {
		_, err := c.SetLogLevel(ctx, level, false)
		return err
	})
	return was, err
}

// Drain implements control.Backend. It does not wait: Serve drains. Members that cannot be told
// hold up nobody.
func (d *Daemon) Drain(ctx context.Context, everywhere bool) (told []string, err error) {
	if everywhere {
		var list []member.Member
		list, err = d.everyOther(ctx, func(ctx context.Context, c *control.Client) error {
			_, err := c.Drain(ctx, false)
			return err
		})
		for _, m := range list {
			told = append(told, m.String())
		}
	}
	told = append(told, d.name())
	d.mu.Lock()
	d.draining = true
	d.mu.Unlock()
	d.setPhase(status.Draining, "told to stop")
	d.tell.Do(func() { close(d.told) })
	return told, err
}

// name is the member that this node is, or its name if it is none.
func (d *Daemon) name() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.session == nil {
		return d.cfg.Node.Hostname()
	}
	return d.session.Self().String()
}

// letOthersLeave waits for the members that drain as well, until ctx ends: without the registry that
// this node embeds they could not say that they leave.
func (d *Daemon) letOthersLeave(ctx context.Context) {
	var named []string
	for ctx.Err() == nil {
		leaving := d.drainingOthers(ctx)
		if len(leaving) == 0 {
			return
		}
		if !slices.Equal(leaving, named) {
			named = leaving
			d.event(status.Info, "has the registry and waits for who drains too: "+
				strings.Join(named, ", "))
		}
		select {
		case <-ctx.Done():
		case <-time.After(leaseLook):
		}
	}
}

// drainingOthers are the other members that say that they drain.
func (d *Daemon) drainingOthers(ctx context.Context) (names []string) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	all := d.others()
	phases := make([]status.Phase, len(all))
	var wg sync.WaitGroup
	for i, m := range all {
		wg.Go(func() { phases[i] = d.askOne(ctx, m).Phase })
	}
	wg.Wait()
	for i, m := range all {
		if phases[i] == status.Draining {
			names = append(names, m.String())
		}
	}
	return names
}
