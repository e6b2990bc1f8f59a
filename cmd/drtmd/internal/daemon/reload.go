package daemon

import (
	"context"
	"errors"

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
	if err := d.reload(); err != nil {
		d.event(status.Error, "not reloaded, all is as it was: "+err.Error())
		return err
	}
	d.event(status.Info, "reloaded the certificates and the level of the log")
	return nil
}

// reload changes nothing before everything was read.
func (d *Daemon) reload() (err error) {
	var cfg *config.Config
	if d.o.Reload != nil {
		if cfg, err = d.o.Reload(); err != nil {
			return err
		}
	}
	if d.sec != nil {
		if err := errors.Join(d.sec.Reload(), d.reloadEtcd()); err != nil {
			return err
		}
	}
	if cfg != nil { // its level was checked
		_, err = d.SetLogLevel(context.Background(), cfg.Log.Level, false)
	}
	return err
}
