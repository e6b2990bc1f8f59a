package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"

	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
)

// leaseLook is how often is looked whether others still drain.
const leaseLook = 50 * time.Millisecond

// SetLogLevel implements control.Backend. The level holds until the next one, or until SIGHUP.
func (d *Daemon) SetLogLevel(ctx context.Context, level string, everywhere bool) (string, error) {
	l, err := zapcore.ParseLevel(level)
	if err != nil || level == "" || l > zapcore.ErrorLevel {
		return "", fmt.Errorf("unknown level %q; known: debug, info, warn, error", level)
	}
	was := d.o.Level.Level().String()
	d.o.Level.SetLevel(l)
	d.board.Event(status.Info, fmt.Sprintf("level of the log: %v, was %s", l, was))
	if !everywhere {
		return was, nil
	}
	_, err = d.members.EachOther(ctx, func(ctx context.Context, c *control.Client) error {
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
		list, err = d.members.EachOther(ctx, func(ctx context.Context, c *control.Client) error {
			_, err := c.Drain(ctx, false)
			return err
		})
		for _, m := range list {
			told = append(told, m.String())
		}
	}
	told = append(told, d.members.Name())
	d.planes.Drain()
	d.board.Drain()
	d.members.GiveUp()
	d.drainOnce.Do(func() { close(d.draining) })
	return told, err
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
			d.board.Event(status.Info, "has the registry and waits for who drains too: "+
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
	others := d.members.Others()
	for i, n := range d.members.Ask(ctx, others) {
		if n.Phase == status.Draining {
			names = append(names, others[i].String())
		}
	}
	return names
}
