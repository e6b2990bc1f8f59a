package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/status"
)

const statusLong = `status prints the state of a cluster: members with incarnation and phase, the
epoch, the time left of each membership lease, devices, memory, queue pairs, clocks, read leases,
the benchmark in progress, and recent errors. Phases of a node:

  starting     its process starts
  joining      it asks to become a member
  connecting   it is a member; its data plane is being built
  ready        it serves
  running      it runs a benchmark
  refusing     it refuses work: its lease has ended, or its clock is wrong
  draining     it is about to leave
  gone         it was a member until recently and does not answer

--json prints the same for programs, schema ` + status.Schema + `: docs/STATUS.md.

Exit codes:
  0    every member is ready or running, or loads its tables again after a run
  1    something is wrong, or no node answers
  2    wrong command line
  130  interrupted`

const statusExample = `  drtmd status
  drtmd status --cluster 10.0.0.1:7440 --ca ca.pem --cert me.pem --key me.key
  drtmd status --watch
  drtmd status --json | jq '.nodes[].phase'`

// statusEvery is between two looks of --watch.
const statusEvery = time.Second

type statusFlags struct {
	clientFlags
	json, watch bool
}

func (a *app) statusCommand() *cobra.Command {
	p := &statusFlags{}
	c := &cobra.Command{Use: "status", Short: "show a cluster: nodes, epoch, leases, load, errors",
		Long: statusLong, Example: statusExample, Args: noArgs}
	p.register(c.Flags(), "cluster")
	c.Flags().BoolVar(&p.json, "json", false, "print JSON, schema "+status.Schema)
	c.Flags().BoolVar(&p.watch, "watch", false, "print again every second, until Ctrl-C")
	c.RunE = func(c *cobra.Command, _ []string) error { return a.status(c.Context(), p) }
	return c
}

func (a *app) status(ctx context.Context, p *statusFlags) error {
	if !p.watch {
		client, err := p.dial(ctx)
		if err != nil {
			return err
		}
		defer client.Close()
		return a.statusOnce(ctx, client, p, a.stdout)
	}
	return a.watchStatus(ctx, p)
}

// watchStatus prints again and again. Where several nodes can be asked, another one is if the one that
// was does not answer any more.
func (a *app) watchStatus(ctx context.Context, p *statusFlags) (err error) {
	var client *control.Client
	defer func() { err = errors.Join(err, closeIfThere(client)) }()
	screen := false
	if f, ok := a.stdout.(*os.File); ok && !p.json {
		screen = term.IsTerminal(int(f.Fd()))
	}
	once := func() error {
		if client == nil {
			c, err := p.dial(ctx)
			if err != nil {
				return err
			}
			client = c
		}
		err := a.statusOnce(ctx, client, p, a.stdout)
		if lost := (*control.ConnectError)(nil); errors.As(err, &lost) {
			err = errors.Join(err, client.Close())
			client = nil
		}
		return err
	}
	for {
		if screen {
			fmt.Fprint(a.stdout, "\x1b[H\x1b[2J")
		}
		switch err := once(); {
		case err == nil || ctx.Err() != nil:
		case wrongUse(err):
			return err
		default:
			fmt.Fprintln(a.stdout, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(statusEvery):
		}
		if !screen && !p.json {
			fmt.Fprintln(a.stdout)
		}
	}
}

func (a *app) statusOnce(ctx context.Context, client *control.Client, p *statusFlags,
	w io.Writer) error {
	st, err := client.Status(ctx, false)
	if err != nil {
		return err
	}
	if p.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		if p.watch {
			e.SetIndent("", "") // a line each
		}
		err = e.Encode(st)
	} else {
		err = errors.Join(st.WriteText(w), writeAdvice(w, st))
	}
	if err != nil {
		return err
	}
	if st.Problem != "" {
		return fmt.Errorf("the cluster has a problem: %s", st.Problem)
	}
	if n := st.Unready(); n != nil {
		return fmt.Errorf("not every member serves: node %d (%s) is %s", n.Member.Node, n.Member.Name,
			n.Phase)
	}
	return nil
}

// writeAdvice says how nodes of drtmd up that are gone are started again.
func writeAdvice(w io.Writer, st *status.Cluster) error {
	for _, n := range st.Nodes {
		if advice := restartAdvice(n.Member.Control); n.Phase == status.Gone && advice != "" {
			if _, err := fmt.Fprintf(w, "\nrestart    %s\n", advice); err != nil {
				return err
			}
		}
	}
	return nil
}
