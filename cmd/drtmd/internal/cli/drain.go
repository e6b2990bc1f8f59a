package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
)

const drainLong = `drain stops a node in order: the run in progress ends early with its report,
the node leaves the cluster, and its process exits with 0. SIGTERM to the process does the same.
The other nodes go on and load the tables again among themselves.

--node names the node to drain, by its id or name; without it, drain stops the node that --cluster
names. For a cluster of drtmd up, --node is required. --all drains every member.

If the node that embeds etcd drains, it waits for all other draining members. If it drains alone,
the remaining nodes serve until their leases end, and then refuse work until it is started again.
drain therefore refuses this unless --force is given. A member that does not answer is named and
does not delay the others.

drain prints the name of each draining node, and waits until the control ports are closed: a run
gets 20 s to end, the rest 30 s. Ctrl-C ends the waiting, not the draining.

Exit codes:
  0    every node has ended (with --wait=false: was told to drain)
  1    a node was not told to drain, did not end in time, or cannot be watched from here
  2    wrong command line
  130  interrupted while waiting`

const drainExample = `  drtmd drain --node 2                        a node of drtmd up
  drtmd drain --node node2 --cluster up:two
  drtmd drain --cluster 10.0.0.2:7440 --ca ca.pem --cert me.pem --key me.key
  drtmd drain --all                           the whole cluster
  drtmd drain --all --wait=false`

const (
	// drainedTimeout is what a daemon needs at most, and some time to spare.
	drainedTimeout = 60 * time.Second
	// probeTimeout bounds a question whether a daemon answers, and probeEvery is between two.
	probeTimeout = 2 * time.Second
	probeEvery   = 50 * time.Millisecond
)

type drainFlags struct {
	clientFlags
	node             string
	all, wait, force bool
}

func (a *app) drainCommand() *cobra.Command {
	p := &drainFlags{}
	c := &cobra.Command{Use: "drain", Short: "stop a node, or all nodes, in order",
		Long: drainLong, Example: drainExample, Args: noArgs}
	p.register(c.Flags(), "cluster")
	c.Flags().BoolVar(&p.all, "all", false, "drain every member")
	c.Flags().StringVar(&p.node, "node", "", "drain member `N`, an id or a name")
	c.Flags().BoolVar(&p.force, "force", false, "drain the node that embeds etcd even if other nodes stay")
	c.Flags().BoolVar(&p.wait, "wait", true, "wait until the draining nodes have ended")
	c.RunE = func(c *cobra.Command, _ []string) error { return a.drain(c.Context(), p) }
	return c
}

// leaver is a node that may drain, as the command sees it.
type leaver struct {
	m      member.Member
	name   string // as the daemons give it
	client *control.Client
	asked  bool  // it is the one that the command asks
	blind  error // why it cannot be watched; nil: it answered before it was told
	// process of the node; nil if it is on another host.
	process *ownProcess
}

func (a *app) drain(ctx context.Context, p *drainFlags) (err error) {
	client, err := p.chosen(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	st, err := client.Status(ctx, false)
	if err != nil {
		return err
	}
	if err := a.loseEtcd(p, st); err != nil {
		return err
	}
	nodes, err := p.leavers(ctx, client, st)
	defer func() {
		for _, n := range nodes {
			n.process.close()
			if !n.asked {
				err = errors.Join(err, n.client.Close())
			}
		}
	}()
	if err != nil {
		return err
	}
	told, untold := client.Drain(ctx, p.all)
	if len(told) == 0 {
		return untold
	}
	for _, name := range told {
		fmt.Fprintf(a.stdout, "%s drains\n", name)
	}
	if untold != nil {
		untold = fmt.Errorf("not told: %w", untold)
	}
	if !p.wait {
		return untold
	}
	var watched []*leaver
	for _, n := range nodes {
		if slices.Contains(told, n.name) {
			watched = append(watched, n)
		}
	}
	return errors.Join(a.awaitDrained(ctx, watched), untold)
}

// chosen is a client of the node that is to drain, or with --all of one that answers.
func (p *drainFlags) chosen(ctx context.Context) (*control.Client, error) {
	if p.all && p.node != "" {
		return nil, usagef("leave one of them out", "--all and --node do not go together")
	}
	list, _, err := p.resolve()
	if err != nil {
		return nil, err
	}
	if len(list) > 1 && !p.all && p.node == "" {
		return nil, usagef("name one with --node, such as --node 2, or give --all", "%d nodes could be meant",
			len(list))
	}
	client, err := p.dial(ctx)
	if err != nil || p.node == "" {
		return client, err
	}
	defer client.Close()
	st, err := client.Status(ctx, false)
	if err != nil {
		return nil, err
	}
	var known []string
	for _, m := range st.State.Newest().Members {
		if p.node == m.Name || p.node == fmt.Sprint(m.Node) {
			return p.dialAt(m.Control)
		}
		known = append(known, fmt.Sprintf("%d (%s)", m.Node, m.Name))
	}
	return nil, usagef("members: "+strings.Join(known, ", "), "no member %q", p.node)
}

// loseEtcd says what comes of it if the node that is asked drains alone, and is an error where that
// needs --force.
func (a *app) loseEtcd(p *drainFlags, st *status.Cluster) error {
	if p.all {
		return nil
	}
	members, stay := st.State.Newest(), 0
	var holder *status.Node
	for i := range st.Nodes {
		switch n := &st.Nodes[i]; {
		case n.Member.Node == st.From:
			holder = n
		case members.Has(n.Member):
			stay++
		}
	}
	if holder == nil || !holder.HoldsEtcd || stay == 0 {
		return nil
	}
	text := fmt.Sprintf("node %d (%s) holds the cluster's only etcd: without it the %d other members serve "+
		"until their membership leases end (%.0f s), and then refuse until it is started again",
		holder.Member.Node, holder.Member.Name, stay, holder.Lease)
	if p.force {
		a.log.Warn(text)
		return nil
	}
	return fmt.Errorf("%s; --node drains another one, --all all, --force drains this one anyway", text)
}

// leavers are the nodes that are about to be told, watched from before that: later nobody could tell
// one that has ended from one that is out of reach. The caller closes their clients, also after an
// error.
func (p *drainFlags) leavers(ctx context.Context, client *control.Client,
	st *status.Cluster) ([]*leaver, error) {
	members := st.State.Newest()
	var list []*leaver
	for i := range st.Nodes {
		m := st.Nodes[i].Member
		asked := m.Node == st.From
		switch {
		case asked:
			n := &leaver{m: m, name: m.Name, client: client, asked: true,
				process: openProcess(&st.Nodes[i])}
			if members.Has(m) {
				n.name = m.String()
			}
			list = append(list, n)
		case p.all && members.Has(m):
			c, err := p.dialAt(m.Control)
			if err != nil {
				return list, fmt.Errorf("%v: %w", m, err)
			}
			n := &leaver{m: m, name: m.String(), client: c, process: openProcess(&st.Nodes[i])}
			if _, err := n.ended(ctx); err != nil {
				n.blind = err
			}
			list = append(list, n)
		}
	}
	return list, ctx.Err()
}

// ended reports whether the node has: nobody, or another life, answers in its place. A *ConnectError
// other than a silence is one of nobody; any error says that it did not answer.
func (n *leaver) ended(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	st, err := n.client.Status(ctx, true)
	var unreachable *control.ConnectError
	switch {
	case errors.As(err, &unreachable):
		return !errors.Is(err, context.DeadlineExceeded), err
	case err != nil:
		return false, err
	}
	return len(st.Nodes) != 1 || st.Nodes[0].Member.Incarnation != n.m.Incarnation, nil
}

// awaitDrained waits until nodes have ended, and says so of each. It uses the slice up.
func (a *app) awaitDrained(ctx context.Context, nodes []*leaver) error {
	var errs []error
	nodes = slices.DeleteFunc(nodes, func(n *leaver) bool {
		if n.blind != nil {
			errs = append(errs, fmt.Errorf("%s was told, but cannot be watched from here: %w", n.name,
				n.blind))
		}
		return n.blind != nil
	})
	deadline, said := time.Now().Add(drainedTimeout), time.Now()
	for len(nodes) > 0 {
		nodes = slices.DeleteFunc(nodes, func(n *leaver) bool {
			ended, _ := n.ended(ctx) // its error is that nobody answers
			if ended = ended && !n.process.running(); ended {
				fmt.Fprintf(a.stdout, "%s has ended\n", n.name)
			}
			return ended
		})
		switch {
		case len(nodes) == 0:
		case time.Now().After(deadline):
			return errors.Join(append(errs, fmt.Errorf("not ended within %v: %s; the log of each says what "+
				"it waits for", drainedTimeout, leaverNames(nodes)))...)
		case time.Since(said) > lineInterval:
			said = time.Now()
			a.log.Info("waiting", zap.String("for", leaverNames(nodes)))
		}
		select {
		case <-ctx.Done():
			a.log.Warn("not waited for, they drain on", zap.String("nodes", leaverNames(nodes)))
			return ctx.Err()
		case <-time.After(probeEvery):
		}
	}
	return errors.Join(errs...)
}

func leaverNames(nodes []*leaver) string {
	var names []string
	for _, n := range nodes {
		names = append(names, n.name)
	}
	return strings.Join(names, ", ")
}
