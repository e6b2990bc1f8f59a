package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/config"
	"drtmd/cmd/drtmd/internal/service"
	"drtmd/cmd/drtmd/internal/transport"
	"drtmd/proto/member/etcdmember"
)

const upLong = `up starts a cluster of real processes (drtmd serve) on this host, waits until
every node is ready, prints their addresses and folders, and stops the cluster on Ctrl-C. A second
Ctrl-C ends up at once; the nodes go on draining by themselves.

With a command after --, up runs the command with DRTMD_ADDRESS set, stops the cluster when the
command ends, and exits with the command's exit code, also if a node failed or was killed meanwhile.
Such a cluster has a temporary folder, which up removes. With --detach, up leaves the cluster
running; drtmd down stops it.

Nodes whose protocol logs its transactions (--data-durable) keep their tables when they stop or are
killed. up with the same flags goes on with them, once a run has used them; --forget gives them up.

If a node fails or is killed, up names it, and the other nodes go on. --restart N, from any
terminal, starts it again; with --respawn, up does so by itself. Where tables are kept, a node is
ready when all are that keep a part of them: --restart 1,2 starts two of them.

The nodes load SmallBank's tables by default. --data-KEY VALUE sets any key of the section data, such as
the workload and its options: --data-workload ycsb --data-keys 1000. docs/configuration.md lists the keys.
drtmd bench --cluster may run another workload: the nodes then load its tables.

A user has one cluster by default, and one more for each --name. Other commands find it with
--cluster up:NAME, drtmd down with --name. The nodes' control planes are unix sockets in the folder,
which only this user can open. Their admin pages listen on free ports of loopback.

Exit codes:
  0    stopped (with --restart: the node is ready)
  1    failed
  2    wrong command line
  130  interrupted before the cluster was ready
With a command after --, the exit code is that of the command; 1 if the cluster could not be started
or stopped.`

const upExample = `  drtmd up
  drtmd up --nodes 5 --detach; drtmd bench --cluster up --check; drtmd down
  drtmd up --restart 1                        a node that was killed
  drtmd up --name two --detach; drtmd status --cluster up:two; drtmd down --name two
  drtmd up --data-workload tpcc --data-durable    tables that are there after a restart
  drtmd up -- drtmd bench --cluster up --duration 2s --check
  drtmd up --data-workload tatp --data-subscribers 5000
  drtmd up --transport ibv                    on RDMA hardware or Soft-RoCE`

// Bounds of up and down.
const (
	// A node gets readyTimeout to be ready, from when it has last said that it loads its tables, which it may do for
	// loadedTimeout: the three steps of a plane have two minutes each.
	readyTimeout  = 90 * time.Second
	loadedTimeout = 6 * time.Minute
	stopTimeout   = 40 * time.Second
	tailLines     = 15
)

// Bounds of --respawn: between two starts of one node, and the starts in a row that do not get as far
// as READY.
const (
	respawnWait    = time.Second
	respawnLongest = 30 * time.Second
	respawnTries   = 5
)

// runDirVariable in the environment names the run directory of the nodes.
const runDirVariable = config.EnvPrefix + "TRANSPORT_RUN_DIR"

type upFlags struct {
	upPlace
	nodes     int
	transport string
	device    string
	lease     time.Duration
	accounts  string
	data      []string // flags of drtmd serve
	nodeCfg   *config.Config
	forget    bool
	detach    bool
	respawn   bool
	restart   string
}

func (a *app) upCommand() *cobra.Command {
	p := &upFlags{}
	c := &cobra.Command{Use: "up [flags] [-- COMMAND...]", Short: "start a cluster of processes on this host",
		Long: upLong, Example: upExample}
	f := c.Flags()
	f.IntVar(&p.nodes, "nodes", 3, "start `N` processes, one node each")
	f.StringVar(&p.transport, "transport", "shm", "transport `NAME`: shm or ibv")
	f.StringVar(&p.device, "device", "", deviceUsage)
	f.StringVar(&p.dir, "dir", "", "`FOLDER` for sockets, state and logs; default: the user's own folder")
	f.StringVar(&p.name, "name", "", "`NAME` of the cluster, if the user has several")
	f.DurationVar(&p.lease, "lease", 5*time.Second, "membership lease, `TIME` in whole seconds")
	f.StringVar(&p.accounts, "accounts", "", "SmallBank customers per node, `N`: same as --"+accountsKey)
	config.RegisterHidden(a.has, dataSection, f)
	f.BoolVar(&p.forget, "forget", false, "give up the tables that an earlier cluster of this folder has kept")
	f.BoolVar(&p.detach, "detach", false, "leave the cluster running")
	f.BoolVar(&p.respawn, "respawn", false, "restart a node that fails or is killed")
	f.StringVar(&p.restart, "restart", "", "restart node `N` of the running cluster; several with commas")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := p.check(c, args); err != nil {
			return err
		}
		if err := p.takeData(c, a); err != nil {
			return err
		}
		dir, err := p.folder()
		if err != nil {
			return err
		}
		if p.restart != "" {
			return a.restart(c.Context(), &p.upPlace, dir, p.restart)
		}
		return a.up(c.Context(), p, dir, args)
	}
	return c
}

// dataSection of the configuration has the workload and its options; accountsKey is the flag of one of them.
const (
	dataSection = "data"
	accountsKey = "data-accounts"
)

// restartHint is for flags that --restart does not take.
const restartHint = "the node starts with the flags that up was given"

// takeData takes the flags of the section data, and refuses what the nodes would refuse.
func (p *upFlags) takeData(c *cobra.Command, a *app) error {
	f := c.Flags()
	if f.Changed("accounts") {
		if f.Changed(accountsKey) {
			return usagef("they are the same", "--accounts and --%s: leave one of them out", accountsKey)
		}
		if err := f.Set(accountsKey, p.accounts); err != nil {
			return usagef("", "--accounts: %v", err)
		}
	}
	p.data = config.Given(a.has, dataSection, f)
	if p.restart != "" {
		if len(p.data) > 0 {
			return usagef(restartHint, "--restart takes --dir or --name only")
		}
		return nil
	}
	cfg, _, err := config.Load(a.has, os.Getenv("DRTMD_CONFIG"), f, os.Environ())
	p.nodeCfg = cfg
	if len(p.data) == 0 {
		return nil // the nodes say themselves what is wrong
	}
	if wrong := (config.Errors)(nil); errors.As(err, &wrong) {
		return &usageError{text: "wrong configuration of the nodes:\n" + wrong.Error()}
	}
	return err
}

func (p *upFlags) check(c *cobra.Command, args []string) error {
	given := c.Flags().Changed
	for _, f := range []string{"nodes", "transport", "device", "lease", "accounts", "forget", "detach", "respawn"} {
		if given("restart") && (given(f) || len(args) > 0) {
			return usagef(restartHint, "--restart takes --dir or --name only")
		}
	}
	switch {
	case given("restart") && p.restart == "":
		return usagef("give its number or name, such as 1 or node1", "--restart without a node")
	case p.nodes < 1 || p.nodes > 64:
		return usagef("", "--nodes %d is not in 1..64", p.nodes)
	case !config.LeaseFits(p.lease):
		return usagef("", "--lease %v is not whole seconds from %v on, up to 1h", p.lease,
			etcdmember.LeastLease)
	case len(args) > 0 && c.ArgsLenAtDash() != 0:
		return usagef("a command follows --", "drtmd up takes no argument, not %q", args[0])
	case len(args) > 0 && p.detach:
		return usagef("leave one of them out", "--detach and a command do not go together")
	case p.respawn && p.detach:
		return usagef("drtmd up --restart N starts a node of a detached cluster again",
			"--respawn and --detach do not go together: nobody would watch")
	}
	if _, err := transport.New(p.transport, transport.Options{}); err != nil {
		return usagef("", "%v", err)
	}
	return nil
}

// cluster is what up has started.
type cluster struct {
	*app
	p      *upFlags
	dir    string
	state  upState
	goesOn bool      // with tables that an earlier cluster of the folder has kept
	nodes  []*upNode // by number; the newest life of each
	ends   chan *upNode
	left   int            // watched nodes whose end attend has not taken
	again  map[string]int // starts in a row of a node that were in vain
	// excused: a node whose failure was reported is no error of stop.
	excused bool
}

func (a *app) up(ctx context.Context, p *upFlags, dir string, args []string) (err error) {
	if len(args) > 0 && p.dir == "" && p.name == "" {
		if dir, err = ownDir(); err != nil {
			return err
		}
		p.dir = dir
		defer func() {
			var command *codeError
			if err == nil || errors.As(err, &command) {
				err = errors.Join(err, os.RemoveAll(dir))
			} else {
				a.log.Info("the nodes' logs are kept", zap.String("folder", dir))
			}
		}()
	}
	c := &cluster{app: a, p: p, dir: dir, ends: make(chan *upNode, 1), again: map[string]int{}}
	unlock, err := c.prepare()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := c.start(ctx); err != nil {
		return errors.Join(err, c.stop())
	}
	if p.detach {
		c.describe()
		return nil
	}
	over := make(chan struct{})
	defer close(over)
	for _, n := range c.nodes {
		c.watch(n, over)
	}
	if len(args) > 0 {
		return c.command(ctx, over, args)
	}
	c.describe()
	fmt.Fprintln(a.stdout, "\nCtrl-C stops it.")
	if err := c.attend(ctx, over, nil); err != nil {
		return errors.Join(err, c.stop())
	}
	if ctx.Err() != nil {
		fmt.Fprintln(a.stderr, "stopping")
	}
	return c.stop()
}

// ownDir is a folder of a cluster that lives no longer than a command.
func ownDir() (string, error) {
	parent := service.RuntimeDir("")
	if err := service.OpenDir(parent); err != nil {
		return "", err
	}
	return os.MkdirTemp(parent, "up-for-")
}

// watch has attend told of the end of a node, unless up is over before.
func (c *cluster) watch(n *upNode, over <-chan struct{}) {
	c.left++
	go func() {
		select {
		case <-n.ended:
		case <-over:
			return
		}
		select {
		case c.ends <- n:
		case <-over:
		}
	}()
}

// attend says how nodes end, and starts them again if that was asked for, until ctx ends or done is
// closed; without done, until none is left.
func (c *cluster) attend(ctx context.Context, over, done <-chan struct{}) error {
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	var due <-chan time.Time // of the next start
	var waiting []*upNode
	for {
		stop := ctx.Done()
		if done != nil {
			stop = nil // the command is told, and waited for
		}
		select {
		case <-stop:
			return nil
		case <-done:
			return nil
		case n := <-c.ends:
			c.left--
			if c.p.respawn && n.err != nil && c.tryAgain(n) {
				waiting = append(waiting, n)
				due = time.After(min(respawnWait<<c.again[n.Name], respawnLongest))
			} else {
				c.reportEnd(n)
			}
		case <-due:
			due = nil
			for _, n := range waiting {
				if err := c.respawn(n, over); err != nil {
					return err
				}
			}
			waiting = nil
		case <-tick.C:
		}
		if done == nil && c.left == 0 && len(waiting) == 0 && len(c.running()) == 0 {
			return nil
		}
	}
}

// reportEnd says how a node has ended.
func (c *cluster) reportEnd(n *upNode) {
	if n.err == nil {
		fmt.Fprintf(c.stdout, "%s was drained\n", n.Name)
		return
	}
	fmt.Fprintf(c.stderr, "%v\nthe others go on; drtmd up --restart %s%s starts it again\n", n.failed(),
		strings.TrimPrefix(n.Name, "node"), c.p.flag(c.dir))
}

// tryAgain reports whether another start of a node makes sense.
func (c *cluster) tryAgain(n *upNode) bool {
	if c.again[n.Name]++; readyLine(n.log+".out") != "" {
		c.again[n.Name] = 0
	}
	if c.again[n.Name] >= respawnTries {
		c.log.Error("not started again: it has ended before it was ready too often",
			zap.String("node", n.Name), zap.Int("starts", respawnTries))
		return false
	}
	c.log.Warn("has ended and is started again", zap.String("node", n.Name), zap.Error(n.err))
	return true
}

// respawn starts a node again, unless somebody else has.
func (c *cluster) respawn(n *upNode, over <-chan struct{}) error {
	if livingNode(filepath.Join(c.dir, n.Name)) != 0 {
		return nil
	}
	next, err := launchNode(c.dir, n.upMember)
	if err != nil {
		return err
	}
	c.nodes[slices.Index(c.nodes, n)] = next
	c.watch(next, over)
	return nil
}

// prepare takes the folder, if no other cluster lives in it.
func (c *cluster) prepare() (unlock func() error, err error) {
	if err := service.OpenDir(c.dir); err != nil {
		return nil, err
	}
	if ids := c.running(); len(ids) > 0 {
		return nil, fmt.Errorf("a cluster runs in %s already (processes %v): drtmd down%s stops it, or "+
			"give another --name", c.dir, ids, c.p.flag(c.dir))
	}
	unlock, err = service.Lock(c.dir)
	if err != nil {
		return nil, err
	}
	// What a cluster before has left: a new one begins anew, unless it goes on with the tables.
	if c.goesOn, err = c.keptTables(); err != nil {
		return nil, errors.Join(err, unlock())
	}
	err = removeHistories(c.dir)
	if c.goesOn {
		return unlock, errors.Join(err, removeIfThere(filepath.Join(c.dir, upStateFile)))
	}
	old, badPattern := filepath.Glob(filepath.Join(c.dir, "node*"))
	err = errors.Join(err, badPattern)
	for _, name := range append(old, filepath.Join(c.dir, upStateFile)) {
		err = errors.Join(err, os.RemoveAll(name))
	}
	return unlock, err
}

// running are the processes of nodes in the folder that live.
func (c *cluster) running() []int { return livingNodes(c.dir) }

func (c *cluster) start(ctx context.Context) error {
	for i := range c.p.nodes {
		c.state.Nodes = append(c.state.Nodes, upMember{Name: fmt.Sprintf("node%d", i),
			Address: "unix:" + filepath.Join(c.dir, fmt.Sprintf("node%d", i), "control")})
	}
	for i := range c.state.Nodes {
		c.state.Nodes[i].Args = c.args(i)
		n, err := launchNode(c.dir, c.state.Nodes[i])
		if n != nil {
			c.nodes = append(c.nodes, n)
		}
		// The first one begins the cluster; the others join it together. None is ready alone that goes on.
		if err == nil && i == 0 && !c.goesOn {
			err = c.await(ctx, n)
		}
		if err != nil {
			return err
		}
	}
	for _, n := range c.nodes {
		if err := c.await(ctx, n); err != nil {
			return err
		}
	}
	return c.state.write(c.dir)
}

// args of node i. One that is started again may find any of the others.
func (c *cluster) args(i int) []string {
	m := &c.state.Nodes[i]
	args := []string{"serve", "--node-name", m.Name, "--node-id", fmt.Sprint(i), "--node-state-dir",
		filepath.Join(c.dir, m.Name, "state"), "--control-listen", m.Address, "--admin-listen",
		"127.0.0.1:0", "--transport-provider", c.p.transport, "--cluster-lease", c.p.lease.String(),
		"--cluster-name", "local"}
	if c.p.device != "" {
		args = append(args, "--transport-device", c.p.device)
	}
	args = append(args, c.p.data...)
	if c.p.transport == transport.Default && os.Getenv(runDirVariable) == "" {
		args = append(args, "--transport-run-dir", upRunDir(c.dir))
	}
	if i > 0 {
		others := slices.Delete(c.state.addresses(), i, i+1)
		args = append(args, "--cluster-join", strings.Join(others, ","))
	}
	return args
}

// describe says where everything is.
func (c *cluster) describe() {
	fmt.Fprintf(c.stdout, "%d nodes are ready, transport %s\n", len(c.nodes), c.p.transport)
	for _, n := range c.nodes {
		fmt.Fprintf(c.stdout, "  %s  process %d, %s\n", n.Name, n.cmd.Process.Pid,
			strings.TrimPrefix(n.line, "READY "))
	}
	asked, bench := "", "up"
	if a := c.p.asked(c.dir); a != "" { // commands find the user's own folder by themselves
		asked, bench = " --cluster "+shellQuote(a), shellQuote(a)
	}
	fmt.Fprintf(c.stdout, `folder    %s (logs: node*/log)
status    drtmd status%s
bench     drtmd bench --cluster %s --duration 5s --check
stop      drtmd down%s
`, c.dir, asked, bench, c.p.flag(c.dir))
}

// command runs a command on the cluster.
func (c *cluster) command(ctx context.Context, over <-chan struct{}, args []string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	if self, err := os.Executable(); err == nil && args[0] == "drtmd" {
		cmd.Path, cmd.Err = self, nil
	}
	cmd.Env = append(os.Environ(), "DRTMD_ADDRESS="+strings.Join(c.state.addresses(), ","))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, c.stdout, c.stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	done := make(chan struct{})
	var err error
	go func() { defer close(done); err = cmd.Run() }()
	attendErr := c.attend(ctx, over, done)
	<-done
	// The command has seen what became of nodes that failed meanwhile: they are named, and that is all.
	for _, n := range c.nodes {
		if livingNode(filepath.Join(c.dir, n.Name)) == 0 && n.endsWithin(killedTimeout) && n.err != nil &&
			!n.reported {
			c.reportEnd(n)
		}
	}
	c.excused = true
	stopErr := errors.Join(attendErr, c.stop())
	var exit *exec.ExitError
	if errors.As(err, &exit) && stopErr == nil {
		return &codeError{exit.ExitCode()}
	}
	return errors.Join(err, stopErr)
}

// codeError ends up with the exit code of a command that it ran, which has said why.
type codeError struct{ code int }

func (e *codeError) Error() string { return fmt.Sprintf("the command ended with exit code %d", e.code) }

// stop drains the nodes, also those that others have started again, and says how those that failed
// have ended, unless another life has taken their place.
func (c *cluster) stop() error {
	replaced := map[*upNode]bool{}
	for _, n := range c.nodes {
		id := livingNode(filepath.Join(c.dir, n.Name))
		replaced[n] = n.hasEnded() && id != 0 && id != n.cmd.Process.Pid
	}
	_, err := c.stopNodes(context.Background(), c.dir)
	errs := []error{err}
	for _, n := range c.nodes {
		if !n.hasEnded() { // not found by its folder
			_ = n.cmd.Process.Kill() // it may end now
		}
		<-n.ended
		switch {
		case n.err == nil || replaced[n] || n.reported && c.excused:
		case n.reported:
			errs = append(errs, fmt.Errorf("%s had failed and was not started again", n.Name))
		default:
			errs = append(errs, fmt.Errorf("%s: %w; the end of its log:\n%s", n.Name, n.err, tail(n.log)))
		}
	}
	return errors.Join(append(errs, removeIfThere(filepath.Join(c.dir, upStateFile)))...)
}
