package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/cmd/drtmd/internal/config"
	"drtmd/cmd/drtmd/internal/report"
)

// app is what the commands share.
type app struct {
	has            *composition.Composition
	stdout, stderr io.Writer
	args           []string // the command line, to be recorded with results
	log            *zap.Logger
	logFormat      string
	logLevel       string
	wrong          error // with the composition, so that no command can run
}

// Main runs a command line and returns the exit code. The first interrupt or termination signal
// ends the command cleanly, a second one at once. One that comes when the command has ended changes
// nothing any more: the process is about to exit, with its own code.
func Main(has *composition.Composition, args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // from then on a signal has its default effect
	return run(ctx, has, args, stdout, stderr)
}

func run(ctx context.Context, has *composition.Composition, args []string, stdout,
	stderr io.Writer) int {
	a := &app{has: has, stdout: stdout, stderr: stderr, args: args, log: zap.NewNop()}
	if err := config.Check(has); err != nil {
		a.report(err, exitFailed)
		return exitFailed
	}
	root := a.root()
	if a.wrong != nil {
		a.report(a.wrong, exitFailed)
		return exitFailed
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	args, err := withValues(root, args)
	if err == nil {
		root.SetArgs(args)
		err = root.ExecuteContext(ctx)
	}
	code := exitCode(ctx, err)
	if err != nil {
		a.report(err, code)
	}
	_ = a.log.Sync() // stderr needs none; some systems refuse it
	return code
}

// jsonFlag is that of commands which write JSON.
const jsonFlag = "json"

// withValues gives --json its value, standard output, where a command line leaves it out: at its end, and before
// another flag. Other flags that take a value are refused without one: the next flag would be their value.
func withValues(root *cobra.Command, args []string) ([]string, error) {
	c, _, err := root.Find(args)
	if err != nil {
		return args, nil // Execute says it
	}
	args = slices.Clone(args)
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		name, long := strings.CutPrefix(args[i], "--")
		f := c.Flag(name)
		if !long || f == nil || f.NoOptDefVal != "" {
			continue // no flag, or one that takes no value from the next argument
		}
		next := "--"
		if i+1 < len(args) {
			next = args[i+1]
		}
		switch {
		case name == jsonFlag && len(next) > 1 && next[0] == '-':
			args[i] += "=-"
			continue
		case isFlag(c, next):
			return nil, usagef(fmt.Sprintf("give it one, or write --%s=%s", name, next), "--%s has no value: %s is a flag",
				name, next)
		}
		i++
	}
	return args, nil
}

// isFlag reports whether an argument is a flag of a command, --NAME or --NAME=VALUE.
func isFlag(c *cobra.Command, arg string) bool {
	name, long := strings.CutPrefix(arg, "--")
	name, _, _ = strings.Cut(name, "=")
	return long && c.Flag(name) != nil
}

// report prints the error that ended the command.
func (a *app) report(err error, code int) {
	text := err.Error()
	if code == exitInterrupted && errors.Is(err, context.Canceled) {
		text = "interrupted"
	}
	if a.logFormat == "json" {
		// A new logger, because the command line may have failed before one was made.
		if log, err := newLogger(a.stderr, "json", "error"); err == nil {
			log.Error(text, zap.Int("exit_code", code))
			return
		}
	}
	fmt.Fprintf(a.stderr, "drtmd: %s\n", text)
}

func (a *app) root() *cobra.Command {
	c := &cobra.Command{
		Use:   "drtmd",
		Short: "serializable transactions over RDMA",
		Long: `drtmd runs serializable transactions over RDMA, checks that runs are strictly serializable, and
measures what they cost. It has three transports:

  shm   shared memory between threads and processes of one host; needs no device
  ibv   RDMA hardware and Soft-RoCE, over libibverbs
  sim   a simulated cluster in virtual time (only bench and sim)

Exit codes (the help of each command lists its own):
  0    done
  1    failed
  2    wrong command line or configuration
  3    a check failed (bench, check, sim), or a deviation exceeds its bound (reproduce)
  4    the checks held, but a fault of --faults was never triggered (sim)
  130  interrupted`,
		Example: `  drtmd bench --check              run SmallBank on three nodes and check it
  drtmd bench --list               list workloads and protocols
  drtmd sim --list                 list what runs on a simulated cluster, under faults
  drtmd reproduce --list           list tables and figures of the papers
  drtmd devices                    list RDMA devices
  drtmd perf                       measure every verb on shared memory`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	c.Args = func(c *cobra.Command, args []string) error { return a.wrongCommand(c, args) }
	c.RunE = func(c *cobra.Command, _ []string) error {
		_ = c.Usage() // to stderr
		return usagef("see drtmd --help", "no command given")
	}
	c.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		log, err := newLogger(a.stderr, a.logFormat, a.logLevel)
		if err == nil {
			a.log = log
			err = checkValues(c.Flags())
		}
		return err
	}
	f := c.PersistentFlags()
	f.StringVar(&a.logFormat, "log-format", "console", strings.Join(logFormats, " or "))
	f.StringVar(&a.logLevel, "log-level", "info", "debug, info, warn or error")
	c.Version = report.ThisBuild().String()
	c.SetVersionTemplate("{{.Version}}\n")
	c.SetFlagErrorFunc(flagError)
	c.CompletionOptions.HiddenDefaultCmd = true
	c.AddCommand(a.benchCommand(), a.certsCommand(), a.checkCommand(), a.chopCommand(), a.configCommand(),
		a.devicesCommand(), a.downCommand(), a.drainCommand(), a.etcdCommand(), a.inserterCommand(),
		a.logCommand(), a.manualCommand(), a.perfCommand(),
		a.reportCommand(), a.reproduceCommand(), a.serveCommand(), a.simCommand(), a.statusCommand(), a.upCommand(),
		a.versionCommand())
	return c
}

// wrongCommand is reached with arguments only when no command has that name.
func (a *app) wrongCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	hint := "commands: " + strings.Join(names, ", ")
	if near, ok := nearest(args[0], names); ok {
		hint = "did you mean " + near + "?"
	}
	return usagef(hint, "unknown command %q", args[0])
}
