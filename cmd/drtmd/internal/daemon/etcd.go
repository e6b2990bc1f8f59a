package daemon

import (
	"context"
	"fmt"

	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member/etcdmember"
)

// embeddedEtcd is the registry of a node that embeds it.
type embeddedEtcd interface {
	URLs() []string
	// Failed gives why it has ended by itself; closed by Close.
	Failed() <-chan error
	Close() error
}

// startEtcd starts it in a process of its own, or in this one.
func (d *Daemon) startEtcd(ctx context.Context) (embeddedEtcd, error) {
	d.setPhase(status.Joining, "starts the embedded etcd")
	c := &d.cfg.Control
	cfg := etcdmember.ServerConfig{Dir: d.stateDir, Listen: d.cfg.Cluster.EtcdListen, CA: c.CA,
		Cert: c.Cert, Key: c.Key, Log: d.log.Named("etcd")}
	command := d.o.EtcdCommand
	if len(command) == 0 {
		cfg.TLS = d.sec.ServerTLS()
		return etcdmember.Start(ctx, cfg)
	}
	return etcdmember.Spawn(ctx, etcdmember.SpawnConfig{ServerConfig: cfg, Program: command[0],
		Args: command[1:], Disk: d.heardOfDisk})
}

// heardOfDisk notes that etcd's disk has become slow, or is fast again.
func (d *Daemon) heardOfDisk(now etcdmember.Disk) {
	d.mu.Lock()
	d.slowDisk = ""
	if now.Slow {
		d.slowDisk = now.String()
	}
	d.mu.Unlock()
	if now.Slow {
		d.event(status.Warn, now.String())
	} else {
		d.event(status.Info, fmt.Sprintf("the disk of %s is fast again", now.Dir))
	}
}

// reloadEtcd has an etcd in a process of its own read the certificates again; one in this process
// follows by itself.
func (d *Daemon) reloadEtcd() error {
	d.mu.Lock()
	p, ok := d.etcd.(*etcdmember.Process)
	d.mu.Unlock()
	if !ok {
		return nil
	}
	return p.Reload()
}
