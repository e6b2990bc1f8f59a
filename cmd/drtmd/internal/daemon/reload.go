package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"drtmd/cmd/drtmd/internal/config"
	"drtmd/cmd/drtmd/internal/status"
)

// Reload reads the certificates and the level of the log again: all of it, or, if something is wrong,
// nothing. Connections that stand go on with what they have begun with.
func (d *Daemon) Reload() error {
	_ = d.o.Notifier.Reloading() // systemd may be gone
	defer func() {
		if d.Ready() == nil {
			_ = d.o.Notifier.Ready("reloaded")
		}
	}()
	stays, err := d.reload()
	if err != nil {
		d.board.Event(status.Error, "not reloaded, all is as it was: "+err.Error())
		return err
	}
	const done = "reloaded the certificates and the level of the log"
	if len(stays) > 0 {
		d.board.Event(status.Warn, done+"; needs a restart: "+strings.Join(stays, ", "))
		return nil
	}
	d.board.Event(status.Info, done)
	return nil
}

// reloadable are the keys that Reload takes over.
var reloadable = []string{"log.level"}

// reload changes nothing before everything was read.
// stays are the settings that have changed and need a restart.
func (d *Daemon) reload() (stays []string, err error) {
	var cfg *config.Config
	if d.o.Reload != nil {
		if cfg, err = d.o.Reload(); err != nil {
			return nil, err
		}
		stays = changed(d.cfg, cfg)
	}
	if d.sec != nil {
		if err := errors.Join(d.sec.Reload(), d.members.ReloadEtcd()); err != nil {
			return nil, err
		}
	}
	if cfg != nil { // its level was checked
		_, err = d.SetLogLevel(context.Background(), cfg.Log.Level, false)
	}
	return stays, err
}

// changed lists the keys that have another value now and are not reloadable, with both values.
func changed(was, is *config.Config) (list []string) {
	for _, k := range config.Keys(is.Has) {
		a, b := k.Get(was), k.Get(is)
		if a != b && !slices.Contains(reloadable, k.Path) {
			list = append(list, fmt.Sprintf("%s (is %q, now %q)", k.Path, a, b))
		}
	}
	return list
}
