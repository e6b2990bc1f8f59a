package endtoend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drtmd/cmd/drtmd/internal/cli"
	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/report"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/internal/testkit/raceskip"
	"drtmd/internal/testkit/tempdir"
)

// asCommand in the environment makes the test binary be drtmd.
const asCommand = "DRTMD_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		if file := os.Getenv(slowSync); file != "" && os.Args[1] == "embedded-etcd" {
			if err := slowSyncs(file); err != nil {
				_ = os.WriteFile(file+noSlowSync, []byte(err.Error()), 0o600) // the test then fails
			}
		}
		os.Exit(cli.Main(composition.BuiltIn(), os.Args[1:], os.Stdout, os.Stderr))
	}
	remove, err := tempdir.Own()
	if err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { os.Exit(remove(code)) }))
}

const (
	// bound is for what takes milliseconds on a machine of one's own.
	bound = 60 * time.Second
	// lease is the shortest that etcd gives.
	lease = 2 * time.Second
	// quietLease is that of nodes none of which dies: a busy machine ends the shortest one.
	quietLease = 20 * time.Second
)

// longLease are the flags of such nodes.
var longLease = []string{"--cluster-lease", quietLease.String()}

// labs bounds those that live at the same time.
var labs = make(chan struct{}, 3)

// lab is where the nodes of a test live.
type lab struct {
	t     *testing.T
	dir   string
	args  []string // of every node
	env   []string
	under []string // what a node that starts runs under, such as unshare with its flags
	tls   []string // of clients
	// benchFlags say what a benchmark runs.
	benchFlags []string
	nodes      []*node
	// inside, if not nil, calls f where clients are to run.
	inside func(f func() error) error
}

func newLab(t *testing.T, args ...string) *lab {
	t.Helper()
	raceskip.Processes(t)
	// Every worker spins: more labs than CPUs take turns with their leases at stake.
	labs <- struct{}{}
	t.Cleanup(func() { <-labs })
	// Names of sockets are short: not t.TempDir, which has the test's name in it. And a disk that
	// others write to may hold etcd up for longer than the shortest lease: memory does not.
	dir, err := os.MkdirTemp("/dev/shm", "lab")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, dir: dir, benchFlags: []string{"--accounts", "200", "--fibers", "4", "--distributed", "0.2"}, args: append([]string{"--admin-listen", "127.0.0.1:0",
		"--transport-run-dir", filepath.Join(dir, "run"), "--data-accounts", "200"}, args...)}
	t.Cleanup(func() {
		for _, n := range l.nodes {
			n.kill()
		}
		if t.Failed() {
			for _, n := range l.nodes {
				t.Logf("log of %s:\n%s", n.name, n.err.String())
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return l
}

// buffer is written by a process and read by the test.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// node is a process of drtmd serve.
type node struct {
	l        *lab
	name     string
	args     []string
	cmd      *exec.Cmd
	out, err *buffer
	ended    chan struct{}
	exit     error
	control  string
	admin    string
}

// command makes a process of drtmd.
func command(ctx context.Context, env []string, args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	c := exec.CommandContext(ctx, self, args...)
	c.Env = append(append(os.Environ(), asCommand+"=1"), env...)
	return c
}

// ports below those that the system gives out: a node that starts again finds its own free. Test binaries that run at the
// same time have numbers that follow one another, and ports far from one another.
var nextPort = struct {
	sync.Mutex
	port int
}{port: 20000 + os.Getpid()*128%12000}

func freePort(t *testing.T) string {
	t.Helper()
	nextPort.Lock()
	defer nextPort.Unlock()
	for range 1000 {
		nextPort.port++
		address := fmt.Sprintf("127.0.0.1:%d", nextPort.port)
		if c, err := net.Listen("tcp", address); err == nil {
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			return address
		}
	}
	t.Fatal("no free port")
	return ""
}

// start starts a node; await waits for it.
func (l *lab) start(name string, args ...string) *node {
	l.t.Helper()
	n := &node{l: l, name: name, args: append(append([]string{"serve", "--node-name", name,
		"--node-state-dir", filepath.Join(l.dir, name), "--control-listen", freePort(l.t),
		"--cluster-lease", lease.String()}, l.args...), args...)}
	if !slices.ContainsFunc(n.args, func(a string) bool {
		return a == "--etcd" ||
			strings.HasPrefix(a, "--cluster-etcd")
	}) {
		n.args = append(n.args, "--cluster-etcd-listen", freePort(l.t))
	}
	l.nodes = append(l.nodes, n)
	n.launch()
	return n
}

func (n *node) launch() {
	n.l.t.Helper()
	n.out, n.err, n.ended = &buffer{}, &buffer{}, make(chan struct{})
	n.cmd = command(context.Background(), n.l.env, n.args...)
	if len(n.l.under) > 0 {
		n.cmd.Path, n.cmd.Args = n.l.under[0], slices.Concat(n.l.under, []string{n.cmd.Path}, n.args)
	}
	n.cmd.Stdout, n.cmd.Stderr = n.out, n.err
	if err := n.cmd.Start(); err != nil {
		n.l.t.Fatal(err)
	}
	go func() {
		n.exit = n.cmd.Wait()
		close(n.ended)
	}()
}

// restart starts the node again, on the same ports.
func (n *node) restart() {
	n.l.t.Helper()
	n.launch()
	n.await()
}

var readyLine = regexp.MustCompile(`(?m)^READY .* control (\S+), admin (\S+)$`)

// await waits until the node is ready.
func (n *node) await() *node {
	n.l.t.Helper()
	until(n.l.t, n.name+" is ready", func() bool {
		select {
		case <-n.ended:
			n.l.t.Fatalf("%s has ended: %v\n%s", n.name, n.exit, n.err.String())
		default:
		}
		m := readyLine.FindStringSubmatch(n.out.String())
		if m == nil {
			return false
		}
		n.control, n.admin = m[1], m[2]
		return true
	})
	return n
}

// cluster starts some nodes and waits for them, and until each knows all.
func (l *lab) cluster(nodes int) {
	l.t.Helper()
	l.start("n0").await()
	for i := 1; i < nodes; i++ {
		l.start(fmt.Sprintf("n%d", i), "--cluster-join", l.nodes[0].control)
	}
	for _, n := range l.nodes[1:] {
		n.await()
	}
	l.allReady(l.nodes[0], nodes)
}

// allReady waits until a node sees so many nodes ready.
func (l *lab) allReady(asked *node, nodes int) *status.Cluster {
	l.t.Helper()
	var st *status.Cluster
	until(l.t, fmt.Sprintf("%d nodes are ready", nodes), func() bool {
		st = l.status(asked)
		return st != nil && len(st.State.Active.Members) == nodes && count(st, status.Ready) == nodes
	})
	return st
}

func count(st *status.Cluster, p status.Phase) int {
	k := 0
	for _, n := range st.Nodes {
		if n.Phase == p {
			k++
		}
	}
	return k
}

// status asks a node; nil if it does not answer. It is asked for again and again: not by a process of
// its own each time, as a user does, where that can be helped.
func (l *lab) status(n *node) *status.Cluster {
	l.t.Helper()
	if l.inside == nil && !strings.HasPrefix(n.control, upPrefix) {
		return l.ask(n.control)
	}
	out, _, _ := l.run("status", append([]string{"--json", "--cluster", n.control}, l.tls...)...)
	st := &status.Cluster{}
	if json.Unmarshal([]byte(out), st) != nil {
		return nil
	}
	return st
}

// upPrefix begins the name of a cluster of drtmd up.
const upPrefix = "up:"

// ask is status of this process.
func (l *lab) ask(address string) *status.Cluster {
	l.t.Helper()
	var files [3]string
	for i, name := range []string{"--ca", "--cert", "--key"} {
		if at := slices.Index(l.tls, name); at >= 0 {
			files[i] = l.tls[at+1]
		}
	}
	sec, err := control.LoadSecurity(files[0], files[1], files[2])
	if err != nil {
		l.t.Fatal(err)
	}
	c, err := control.Dial(address, control.DialOptions{Security: sec,
		Caller: func() control.Caller { return control.Caller{Build: report.ThisBuild().String()} }})
	if err != nil {
		l.t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*bound)
	defer cancel()
	st, err := c.Status(ctx, false)
	if err != nil {
		return nil
	}
	return st
}

// self is what a node says of itself.
func (l *lab) self(n *node) *status.Node {
	l.t.Helper()
	st := l.status(n)
	if st == nil {
		return nil
	}
	for i := range st.Nodes {
		if st.Nodes[i].Member.Name == n.name {
			return &st.Nodes[i]
		}
	}
	return nil
}

// run runs a command of drtmd to its end.
func (l *lab) run(name string, args ...string) (stdout, stderr string, code int) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*bound)
	defer cancel()
	var out, errs buffer
	c := command(ctx, l.env, append([]string{name}, args...)...)
	c.Stdout, c.Stderr = &out, &errs
	start := c.Start
	if l.inside != nil {
		start = func() error { return l.inside(c.Start) }
	}
	err := start()
	if err == nil {
		err = c.Wait()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		l.t.Fatalf("%s %v: %v", name, args, err)
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

// bench runs a benchmark on the cluster of a node; more flags may follow.
func (l *lab) bench(n *node, args ...string) (stdout, stderr string, code int) {
	l.t.Helper()
	return l.run("bench", l.benchArgs(n, args...)...)
}

func (l *lab) benchArgs(n *node, args ...string) []string {
	return slices.Concat([]string{"--cluster", n.control, "--warmup", "100ms"}, l.benchFlags, l.tls, args)
}

// proved runs a short benchmark that must be strictly serializable.
func (l *lab) proved(n *node) {
	l.t.Helper()
	out, errs, code := l.bench(n, "--duration", "300ms", "--check")
	if code != 0 || !strings.Contains(out, "\nstrictly serializable: yes (") ||
		!strings.Contains(out, "\nsums conserved: yes\n") {
		l.t.Fatalf("exit code %d\n%s\n%s", code, out, errs)
	}
}

// background is a command that runs while the test does something.
type background struct {
	l        *lab
	cmd      *exec.Cmd
	out, err *buffer
	ended    chan struct{}
}

// benching starts a long benchmark and waits until it measures.
func (l *lab) benching(n *node, args ...string) *background {
	l.t.Helper()
	b := l.beginning(n, args...)
	b.says("measuring, .*: [1-9][0-9]* committed/s")
	return b
}

// beginning starts a benchmark and waits for nothing.
func (l *lab) beginning(n *node, args ...string) *background {
	l.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b := &background{l: l, out: &buffer{}, err: &buffer{}, ended: make(chan struct{})}
	b.cmd = command(ctx, l.env, append([]string{"bench"}, l.benchArgs(n, args...)...)...)
	b.cmd.Stdout, b.cmd.Stderr = b.out, b.err
	if err := b.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	go func() {
		_ = b.cmd.Wait() // the code is what counts
		close(b.ended)
	}()
	l.t.Cleanup(func() { cancel(); <-b.ended })
	return b
}

// says waits for a line of stderr.
func (b *background) says(pattern string) {
	b.l.t.Helper()
	re := regexp.MustCompile(pattern)
	until(b.l.t, "the benchmark says "+pattern, func() bool {
		if re.MatchString(b.err.String()) {
			return true
		}
		select {
		case <-b.ended:
			b.l.t.Fatalf("ended with code %d\n%s\n%s", b.cmd.ProcessState.ExitCode(), b.out, b.err)
		default:
		}
		return false
	})
}

// ends waits for the end and checks the exit code.
func (b *background) ends(code int) (stdout, stderr string) {
	b.l.t.Helper()
	select {
	case <-b.ended:
	case <-time.After(2 * bound):
		b.l.t.Fatalf("the benchmark does not end\n%s\n%s", b.out, b.err)
	}
	if got := b.cmd.ProcessState.ExitCode(); got != code {
		b.l.t.Fatalf("exit code %d, want %d\n%s\n%s", got, code, b.out, b.err)
	}
	return b.out.String(), b.err.String()
}

func (n *node) signal(s syscall.Signal) {
	n.l.t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil {
		n.l.t.Fatal(err)
	}
}

// kill ends the process at once, if it has not.
func (n *node) kill() {
	_ = n.cmd.Process.Signal(syscall.SIGCONT) // it may have ended
	_ = n.cmd.Process.Kill()                  // as well
	<-n.ended
}

// drains tells the node to stop, and wants it to do so in peace.
func (n *node) drains() {
	n.l.t.Helper()
	n.signal(syscall.SIGTERM)
	select {
	case <-n.ended:
	case <-time.After(bound):
		n.l.t.Fatalf("%s does not drain", n.name)
	}
	if n.exit != nil {
		n.l.t.Errorf("%s: %v\n%s", n.name, n.exit, n.err.String())
	}
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(bound); !ok(); time.Sleep(30 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", bound, what)
		}
	}
}
