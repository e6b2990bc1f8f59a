package cli

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/config"
	"drtmd/cmd/drtmd/internal/daemon"
	"drtmd/cmd/drtmd/internal/report"
	"drtmd/cmd/drtmd/internal/service"
)

const serveLong = `serve runs one node of a cluster. The node opens its device, joins the cluster,
connects its queue pairs to those of the other nodes, and loads its share of the tables. Then it
prints READY and notifies systemd. drtmd bench --cluster runs workloads on it; drtmd status shows
it.

The first node begins the cluster and embeds etcd, which keeps the membership. Give every other node
the control address of a member with --join. Without TLS a node listens on loopback and unix sockets
only; drtmd certs makes certificates for a lab.

Every setting is a key of the file, an environment variable DRTMD_* and a flag; later ones override
earlier ones. drtmd config prints all settings with their sources; docs/configuration.md explains
them.

With --role memory, serve runs a memory node instead. Clients (drtmd bench --memory) read and write
its memory by one-sided operations alone: the node sets a client up, and then does nothing for it. It
needs no other node and no etcd. Use it in a trusted network only: whoever reaches its port can
change the memory. When a client's process has ended, the node closes the client's queue pairs.
Another client may then take its number, and repairs what it left.

SIGPWR, by which a power supply says that it is about to fail, ends the node at once. Tables that the node
keeps over restarts are saved in its state folder when it ends, and put back if the host was restarted.

SIGTERM or Ctrl-C drains the node, also before READY: the run in progress ends, the node leaves
the cluster, and the process exits with 0. A second signal ends it at once. SIGHUP reads the log
level and the certificates again, and logs which other settings have changed: those need a
restart.

Exit codes:
  0    drained
  1    failed
  2    wrong configuration or command line`

const serveExample = `  drtmd serve                                         the first node
  drtmd serve --join 127.0.0.1:7440 --control-listen 127.0.0.1:7450 --admin-listen off \
    --node-state-dir /tmp/second                      a second node, on the same host
  drtmd serve --config /etc/drtmd/drtmd.yaml          as a service
  drtmd serve --role memory --memory-size 1GiB        a memory node, for drtmd bench --memory
  systemd-run --unit drtmd -p Type=notify -p LimitMEMLOCK=infinity -p StateDirectory=drtmd \
    drtmd serve --config /etc/drtmd/drtmd.yaml`

// configFlag names the configuration file.
const (
	configFlag  = "config"
	configUsage = "read the configuration from the YAML file `FILE`; default: $DRTMD_CONFIG"
)

func (a *app) serveCommand() *cobra.Command {
	file := ""
	m := &memoryFlags{}
	c := &cobra.Command{
		Use:     "serve",
		Short:   "run a cluster node",
		Long:    serveLong,
		Example: serveExample,
		Args:    noArgs,
	}
	c.Flags().StringVar(&file, configFlag, "", configUsage)
	config.RegisterFlags(a.has, c.Flags())
	m.register(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error { return a.serve(c, file, m) }
	return c
}

// loadConfig reads the configuration with the flags of a command.
func (a *app) loadConfig(c *cobra.Command, file string) (*config.Config, config.Sources, error) {
	if file == "" {
		file = os.Getenv("DRTMD_CONFIG")
	}
	cfg, src, err := config.Load(a.has, file, c.Flags(), os.Environ(), service.Problems)
	if wrong := (config.Errors)(nil); errors.As(err, &wrong) {
		return nil, nil, &usageError{text: "wrong configuration:\n" + wrong.Error()}
	}
	if err != nil {
		return nil, nil, usagef("drtmd config --example prints one to begin with", "%v", err)
	}
	return cfg, src, err
}

func (a *app) serve(c *cobra.Command, file string, m *memoryFlags) error {
	if err := m.check(c); err != nil {
		return err
	}
	cfg, _, err := a.loadConfig(c, file)
	if err != nil {
		return err
	}
	if m.role == roleMemory {
		return a.serveMemory(c.Context(), cfg, m)
	}
	log, level, err := service.NewLog(a.stderr, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }() // tells what was left out; terminals cannot be synced
	notifier, err := service.NewNotifier()
	if err != nil {
		return err
	}
	d, err := daemon.New(cfg, daemon.Options{Log: log, Level: level, Notifier: notifier,
		Build: report.ThisBuild().String(), Stdout: a.stdout, EtcdCommand: etcdCommandLine(),
		Reload: func() (*config.Config, error) {
			cfg, _, err := a.loadConfig(c, file)
			return cfg, err
		}})
	if err != nil {
		return err
	}
	told := make(chan os.Signal, 2)
	signal.Notify(told, syscall.SIGHUP, syscall.SIGPWR)
	done := make(chan struct{})
	reloaded := make(chan struct{})
	go func() {
		defer close(reloaded)
		for {
			select {
			case s := <-told:
				if s == syscall.SIGPWR {
					d.PowerFails()
				} else if err := d.Reload(); err != nil {
					log.Error("reload", zap.Error(err))
				}
			case <-done:
				return
			}
		}
	}()
	err = d.Serve(c.Context())
	signal.Stop(told)
	close(done)
	<-reloaded
	if err != nil {
		return &serveError{err}
	}
	return nil
}

// serveError is of a daemon that did not end in peace, also if it was told to end.
type serveError struct{ error }

func (e *serveError) Unwrap() error { return e.error }
