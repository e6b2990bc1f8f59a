package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

const logLong = `log changes the log level of a running node, and prints the old level. --all
changes the level of every member. The level holds until the next change. After a restart or
SIGHUP the node uses the level of its configuration (log.level) again.

  debug   everything
  info    events of the node and the cluster
  warn    something is wrong, but the node goes on
  error   something failed

drtmd status shows recent warnings and errors at every level.

Exit codes:
  0    changed
  1    a node could not be told (it is named; all others have changed)
  2    wrong command line
  130  interrupted`

const logExample = `  drtmd log debug
  drtmd log info --all
  drtmd log debug --cluster 10.0.0.2:7440 --ca ca.pem --cert me.pem --key me.key`

// logLevels are those of a daemon's log.
var logLevels = []string{"debug", "info", "warn", "error"}

type logFlags struct {
	clientFlags
	all bool
}

func (a *app) logCommand() *cobra.Command {
	p := &logFlags{}
	c := &cobra.Command{Use: "log LEVEL [flags]", Short: "change the log level of a running node",
		Long: logLong, Example: logExample}
	c.Args = func(_ *cobra.Command, args []string) error { return checkLevel(args) }
	p.register(c.Flags(), "cluster")
	c.Flags().BoolVar(&p.all, "all", false, "change the level of every member")
	c.RunE = func(c *cobra.Command, args []string) error {
		return a.setLogLevel(c.Context(), p, args[0])
	}
	return c
}

// checkLevel wants one level.
func checkLevel(args []string) error {
	known := "known: " + strings.Join(logLevels, ", ")
	switch {
	case len(args) != 1:
		return usagef(known, "drtmd log takes one level, not %d", len(args))
	case slices.Contains(logLevels, args[0]):
		return nil
	}
	if near, ok := nearest(args[0], logLevels); ok {
		known = "did you mean " + near + "? " + known
	}
	return usagef(known, "unknown level %q", args[0])
}

func (a *app) setLogLevel(ctx context.Context, p *logFlags, level string) error {
	client, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	was, err := client.SetLogLevel(ctx, level, p.all)
	if was == "" {
		return err
	}
	fmt.Fprintf(a.stdout, "%s: the level of the log is %s, was %s\n", client.Address(), level, was)
	switch {
	case err != nil:
		return fmt.Errorf("not told, all others were: %w", err)
	case p.all:
		fmt.Fprintf(a.stdout, "every other member: the level of the log is %s\n", level)
	}
	return nil
}
