package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/config"
	"drtmd/cmd/drtmd/internal/service"
	"drtmd/cmd/drtmd/internal/transport"
	"drtmd/proto/member/etcdmember"
)

const upLong = `up starts a cluster of real processes (drtmd serve) on this host, waits until every node is ready,
says where everything is, and stops it all on Ctrl-C or when a node fails. With a command after --, it
runs that instead of waiting, with DRTMD_ADDRESS set, and stops the cluster when it ends, with its exit
code. With --detach, it leaves the cluster running; drtmd down stops it. A second Ctrl-C ends up at
once, and the nodes drain on by themselves.

The nodes' control planes are unix sockets in the folder, which is for this user alone; the admin
pages listen on free ports of loopback.

Exit codes: 0 stopped, 1 failed, 2 wrong command line, 130 interrupted before the cluster was ready;
with a command, the command's.`

const upExample = `  drtmd up
  drtmd up --nodes 5 --detach; drtmd bench --cluster up --check; drtmd down
  drtmd up -- drtmd bench --cluster up --duration 2s --check
  drtmd up --transport ibv                    on RDMA hardware or Soft-RoCE`

// Bounds of up and down.
const (
	readyTimeout = 90 * time.Second
	stopTimeout  = 40 * time.Second
	tailLines    = 15
)

type upFlags struct {
	nodes     int
	transport string
	device    string
	dir       string
	lease     time.Duration
	accounts  int
	detach    bool
}

func (a *app) upCommand() *cobra.Command {
	p := &upFlags{}
	c := &cobra.Command{Use: "up [flags] [-- COMMAND...]", Short: "start a cluster of processes on this host",
		Long: upLong, Example: upExample}
	f := c.Flags()
	f.IntVar(&p.nodes, "nodes", 3, "`N` processes, a node each")
	f.StringVar(&p.transport, "transport", "shm", "`NAME`: shm or ibv")
	f.StringVar(&p.device, "device", "", "`NAME`; default: the first with an active port")
	f.StringVar(&p.dir, "dir", "", "`FOLDER` of sockets, state and logs; default: the user's own")
	f.DurationVar(&p.lease, "lease", 5*time.Second, "membership lease `TIME`, whole seconds")
	f.IntVar(&p.accounts, "accounts", 0, "`N` customers per node that the serving tables hold; "+
		"default: that of drtmd serve")
	f.BoolVar(&p.detach, "detach", false, "leave the cluster running")
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case p.nodes < 1 || p.nodes > 64:
			return usagef("", "--nodes %d is not in 1..64", p.nodes)
		case !config.LeaseFits(p.lease):
			return usagef("", "--lease %v is not whole seconds from %v on, up to 1h", p.lease,
				etcdmember.LeastLease)
		case len(args) > 0 && c.ArgsLenAtDash() != 0:
			return usagef("a command follows --", "drtmd up takes no argument, not %q", args[0])
		case len(args) > 0 && p.detach:
			return usagef("leave one of them out", "--detach and a command do not go together")
		}
		if _, err := transport.New(p.transport, transport.Options{}); err != nil {
			return usagef("", "%v", err)
		}
		return a.up(c.Context(), p, args)
	}
	return c
}

// cluster is what up has started.
type cluster struct {
	*app
	p     *upFlags
	dir   string
	nodes []*upNode
}

type upNode struct {
	name  string
	log   string
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // valid after ended
	addr  string
	line  string
	told  bool // how it has ended was said
}

// failed is the error of a node that has ended by itself, said once.
func (n *upNode) failed() error {
	n.told = true
	return fmt.Errorf("%s has ended: %w; the end of its log:\n%s", n.name, n.err, tail(n.log))
}

func (a *app) up(ctx context.Context, p *upFlags, args []string) (err error) {
	c := &cluster{app: a, p: p, dir: upDir(p.dir)}
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
	if len(args) > 0 {
		return c.command(ctx, args)
	}
	c.describe()
	fmt.Fprintln(a.stdout, "\nCtrl-C stops it.")
	ends := c.ends()
	for range c.nodes {
		select {
		case <-ctx.Done():
			fmt.Fprintln(a.stderr, "stopping")
			return c.stop()
		case n := <-ends:
			if n.err != nil {
				return errors.Join(n.failed(), c.stop())
			}
			fmt.Fprintf(a.stdout, "%s was drained\n", n.name)
		}
	}
	return c.stop()
}

// ends gives the nodes as they end.
func (c *cluster) ends() <-chan *upNode {
	ends := make(chan *upNode, len(c.nodes))
	for _, n := range c.nodes {
		go func() { <-n.ended; ends <- n }()
	}
	return ends
}

// prepare takes the folder, if no other cluster lives in it.
func (c *cluster) prepare() (unlock func() error, err error) {
	if err := service.OpenDir(c.dir); err != nil {
		return nil, err
	}
	if ids := c.running(); len(ids) > 0 {
		return nil, fmt.Errorf("a cluster runs in %s already (processes %v): drtmd down stops it, or "+
			"give another --dir", c.dir, ids)
	}
	unlock, err = service.Lock(c.dir)
	if err != nil {
		return nil, err
	}
	// What a cluster before has left: a new one begins anew.
	old, err := filepath.Glob(filepath.Join(c.dir, "node*"))
	for _, name := range old {
		err = errors.Join(err, os.RemoveAll(name))
	}
	return unlock, err
}

// running are the processes of nodes in the folder that live.
func (c *cluster) running() []int { return livingNodes(c.dir) }

func (c *cluster) start(ctx context.Context) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	for i := range c.p.nodes {
		n, err := c.launch(program, i)
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, n)
		// The first one begins the cluster; the others join it together.
		if i == 0 {
			if err := c.await(ctx, n); err != nil {
				return err
			}
		}
	}
	for _, n := range c.nodes[1:] {
		if err := c.await(ctx, n); err != nil {
			return err
		}
	}
	address := c.nodes[0].addr + "\n"
	return os.WriteFile(filepath.Join(c.dir, addressFile), []byte(address), 0o600)
}

// launch starts node i.
func (c *cluster) launch(program string, i int) (*upNode, error) {
	name := fmt.Sprintf("node%d", i)
	dir := filepath.Join(c.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	n := &upNode{name: name, log: filepath.Join(dir, "log"),
		ended: make(chan struct{}), addr: "unix:" + filepath.Join(dir, "control")}
	args := []string{"serve", "--node-name", name, "--node-id", fmt.Sprint(i), "--node-state-dir",
		filepath.Join(dir, "state"), "--control-listen", n.addr, "--admin-listen", "127.0.0.1:0",
		"--transport-provider", c.p.transport, "--cluster-lease", c.p.lease.String(),
		"--cluster-name", "local"}
	if c.p.device != "" {
		args = append(args, "--transport-device", c.p.device)
	}
	if c.p.accounts > 0 {
		args = append(args, "--data-accounts", fmt.Sprint(c.p.accounts))
	}
	if i > 0 {
		args = append(args, "--cluster-join", c.nodes[0].addr)
	}
	log, err := os.OpenFile(n.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	out, err := os.OpenFile(n.log+".out", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	n.cmd = exec.Command(program, args...)
	n.cmd.Stdout, n.cmd.Stderr = out, log
	// Ctrl-C of the terminal is for up, which drains the nodes.
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := n.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		n.err = n.cmd.Wait()
		close(n.ended)
	}()
	return n, os.WriteFile(filepath.Join(dir, pidFile), fmt.Appendln(nil, n.cmd.Process.Pid), 0o600)
}

// pidFile has the process of a node, in its folder.
const pidFile = "pid"

// await waits until a node is ready.
func (c *cluster) await(ctx context.Context, n *upNode) error {
	deadline := time.After(readyTimeout)
	told := time.Now()
	for {
		if line := readyLine(n.log + ".out"); line != "" {
			n.line = line
			c.log.Info(line)
			return nil
		}
		if time.Since(told) > lineInterval {
			told = time.Now()
			c.log.Info("waiting for " + n.name)
		}
		select {
		case <-n.ended:
			if n.err == nil {
				return fmt.Errorf("%s has ended before it was ready; its log: %s", n.name, n.log)
			}
			return n.failed()
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			return fmt.Errorf("%s was not ready within %v; the end of its log:\n%s", n.name, readyTimeout,
				tail(n.log))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// readyLine is the line that begins with READY, or "".
func readyLine(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	for _, l := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(l, "READY ") {
			return l
		}
	}
	return ""
}

// tail is the end of a log.
func tail(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	var lines []string
	s := bufio.NewScanner(f)
	for s.Scan() {
		lines = append(lines, "  "+s.Text())
	}
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// describe says where everything is.
func (c *cluster) describe() {
	fmt.Fprintf(c.stdout, "%d nodes are ready, transport %s\n", len(c.nodes), c.p.transport)
	for _, n := range c.nodes {
		fmt.Fprintf(c.stdout, "  %s  process %d, %s\n", n.name, n.cmd.Process.Pid,
			strings.TrimPrefix(n.line, "READY "))
	}
	asked, bench, dir := "", "up", ""
	if c.p.dir != "" { // commands look into the user's own folder by themselves
		asked, bench, dir = " --cluster "+c.nodes[0].addr, c.nodes[0].addr, " --dir "+c.dir
	}
	fmt.Fprintf(c.stdout, `folder    %s (logs: node*/log)
status    drtmd status%s
bench     drtmd bench --cluster %s --duration 5s --check
stop      drtmd down%s
`, c.dir, asked, bench, dir)
}

// command runs a command on the cluster.
func (c *cluster) command(ctx context.Context, args []string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	if self, err := os.Executable(); err == nil && args[0] == "drtmd" {
		cmd.Path, cmd.Err = self, nil
	}
	cmd.Env = append(os.Environ(), "DRTMD_ADDRESS="+c.nodes[0].addr)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, c.stdout, c.stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	err := cmd.Run()
	stopErr := c.stop()
	var exit *exec.ExitError
	if errors.As(err, &exit) && stopErr == nil {
		return &codeError{exit.ExitCode()}
	}
	return errors.Join(err, stopErr)
}

// codeError ends up with the exit code of a command that it ran, which has said why.
type codeError struct{ code int }

func (e *codeError) Error() string { return fmt.Sprintf("the command ended with exit code %d", e.code) }

// stop drains the nodes, the one that began the cluster last, and kills those that do not end.
func (c *cluster) stop() error {
	var errs []error
	var wg sync.WaitGroup
	for i := len(c.nodes) - 1; i >= 0; i-- {
		n := c.nodes[i]
		if i == 0 {
			wg.Wait()
		}
		wg.Go(func() { n.stop(c.log) })
	}
	wg.Wait()
	for _, n := range c.nodes {
		if n.err != nil && !n.told {
			errs = append(errs, fmt.Errorf("%s: %w; the end of its log:\n%s", n.name, n.err, tail(n.log)))
		}
	}
	return errors.Join(append(errs, removeIfThere(filepath.Join(c.dir, addressFile)))...)
}

func (n *upNode) stop(log *zap.Logger) {
	_ = n.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-n.ended:
	case <-time.After(stopTimeout):
		log.Warn("killed, it did not stop in time", zap.String("node", n.name))
		_ = n.cmd.Process.Kill() // it may have ended
		<-n.ended
	}
}

func removeIfThere(name string) error {
	err := os.Remove(name)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return err
}
