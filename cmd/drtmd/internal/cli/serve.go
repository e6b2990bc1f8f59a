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

const serveLong = `serve is a node of a cluster. It opens its device, joins the cluster, connects its queue pairs to
those of the other nodes, loads its share of the tables, and prints READY once it can serve;
systemd is told the same. drtmd bench --cluster runs workloads on it, drtmd status shows it.

The first node begins the cluster, with membership in an etcd of its own; every other one is told
where to ask with --join. Without TLS a node listens on loopback and unix sockets only:
drtmd certs makes certificates for a lab. Every setting is a key of the file, a variable DRTMD_* of
the environment and a flag here; later ones override earlier ones. drtmd config shows all of them
with where their values come from, docs/configuration.md what they mean.

SIGTERM and Ctrl-C drain: the run under way ends, the cluster is told, the exit code is 0, also before
READY; a second signal ends at once. SIGHUP reads the level of the log and the certificates again, and
names the other settings that have changed: those need a restart.

Exit codes: 0 drained, 1 failed, 2 wrong configuration or command line.`

const serveExample = `  drtmd serve                                         the first node, on this host
  drtmd serve --join 127.0.0.1:7440 --control-listen 127.0.0.1:7450 --admin-listen off \
    --node-state-dir /tmp/second                      another one
  drtmd serve --config /etc/drtmd/drtmd.yaml          as a service
  systemd-run --unit drtmd -p Type=notify -p LimitMEMLOCK=infinity -p StateDirectory=drtmd \
    drtmd serve --config /etc/drtmd/drtmd.yaml`

// configFlag names the file.
const configFlag = "config"

func (a *app) serveCommand() *cobra.Command {
	file := ""
	c := &cobra.Command{
		Use:     "serve",
		Short:   "be a node of a cluster",
		Long:    serveLong,
		Example: serveExample,
		Args:    noArgs,
	}
	c.Flags().StringVar(&file, configFlag, "", "read `FILE` (YAML)")
	config.RegisterFlags(a.has, c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error { return a.serve(c, file) }
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

func (a *app) serve(c *cobra.Command, file string) error {
	cfg, _, err := a.loadConfig(c, file)
	if err != nil {
		return err
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
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	done := make(chan struct{})
	reloaded := make(chan struct{})
	go func() {
		defer close(reloaded)
		for {
			select {
			case <-hup:
				if err := d.Reload(); err != nil {
					log.Error("reload", zap.Error(err))
				}
			case <-done:
				return
			}
		}
	}()
	err = d.Serve(c.Context())
	signal.Stop(hup)
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
