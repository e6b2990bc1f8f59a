package endtoend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"drtmd/cmd/drtmd/internal/status"
)

// upping is drtmd up in the foreground.
type upping struct {
	*background
	dir string
}

// upping starts it and waits until it says where everything is.
func (l *lab) upping(args ...string) *upping {
	l.t.Helper()
	u := &upping{dir: filepath.Join(l.dir, "up"), background: &background{l: l, out: &buffer{},
		err: &buffer{}, ended: make(chan struct{})}}
	u.cmd = command(context.Background(), l.env, append([]string{"up", "--nodes", "3", "--dir", u.dir,
		"--accounts", "200", "--lease", lease.String()}, args...)...)
	u.cmd.Stdout, u.cmd.Stderr = u.out, u.err
	if err := u.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	go func() {
		_ = u.cmd.Wait() // the code is what counts
		close(u.ended)
	}()
	l.t.Cleanup(func() {
		_ = u.cmd.Process.Signal(syscall.SIGINT) // it may have ended
		<-u.ended
		_, _, _ = l.run("down", "--dir", u.dir) // what it has left
	})
	until(l.t, "the cluster is up", func() bool {
		select {
		case <-u.ended:
			l.t.Fatalf("up has ended\n%s\n%s", u.out, u.err)
		default:
		}
		return strings.Contains(u.out.String(), "Ctrl-C stops it")
	})
	return u
}

// kill kills node i with SIGKILL.
func (u *upping) kill(i int) {
	u.l.t.Helper()
	if err := syscall.Kill(u.pid(i), syscall.SIGKILL); err != nil {
		u.l.t.Fatal(err)
	}
}

func (u *upping) pid(i int) int {
	u.l.t.Helper()
	b, err := os.ReadFile(filepath.Join(u.dir, fmt.Sprintf("node%d", i), "pid"))
	if err != nil {
		u.l.t.Fatal(err)
	}
	id, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		u.l.t.Fatal(err)
	}
	return id
}

// ready waits until all three nodes are.
func (u *upping) ready() {
	u.l.t.Helper()
	until(u.l.t, "all nodes are ready", func() bool {
		st := u.l.ask("unix:" + filepath.Join(u.dir, "node0", "control"))
		return st != nil && len(st.State.Active.Members) == 3 && count(st, status.Ready) == 3
	})
}

// TestUpGoesOnAndItsNodeIsStartedAgain: a node of a cluster in the foreground is killed; --restart from
// another terminal puts it back, and Ctrl-C ends the new one as well.
func TestUpGoesOnAndItsNodeIsStartedAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	u := l.upping()
	u.kill(1)
	u.says(`node1 has ended: signal: killed; the end of its log:\n(.*\n)+the others go on; ` +
		`drtmd up --restart 1 --dir `)
	was := u.pid(1)
	out, errs, code := l.run("up", "--restart", "1", "--dir", u.dir)
	if code != 0 || !strings.Contains(out, "node1 runs again: process ") || u.pid(1) == was {
		t.Fatalf("restart: exit code %d\n%s%s", code, out, errs)
	}
	u.ready()
	l.proved(&node{control: "up:" + u.dir})
	// The others are asked while the first one, whose etcd it is, is away; it comes back alike.
	u.kill(0)
	if out, _, _ := l.run("log", "info", "--cluster", "up:"+u.dir); !strings.Contains(out, "node1/control") {
		t.Errorf("no other node was asked: %s", out)
	}
	if _, errs, code := l.run("up", "--restart", "node0", "--dir", u.dir); code != 0 {
		t.Fatal(errs)
	}
	u.ready()
	id := u.pid(1)
	if err := u.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	u.ends(0)
	// What nobody reaps is still there, without a command line.
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id)); err == nil && len(b) > 0 {
		t.Errorf("node1, which another process had started again, lives on: %q", b)
	}
}

// TestUpStartsNodesAgainByItself with --respawn, one after the other, and that of etcd as well.
func TestUpStartsNodesAgainByItself(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	u := l.upping("--respawn")
	for _, i := range []int{2, 0, 2} {
		was := u.pid(i)
		u.kill(i)
		until(t, "another process takes its place", func() bool { return u.pid(i) != was })
		u.ready()
	}
	l.proved(&node{control: "up:" + u.dir})
	if err := u.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	u.ends(0)
}

// TestUpExitsWithTheCodeOfItsCommand, also if a node is killed while the command runs. Nothing of the node is left.
func TestUpExitsWithTheCodeOfItsCommand(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	dir := filepath.Join(l.dir, "up")
	temporary := filepath.Join(l.dir, "temporary")
	kill := "cp " + filepath.Join(dir, "node1", "state", "temporary") + " " + temporary + "; id=$(cat " +
		filepath.Join(dir, "node1", "pid") + "); kill -9 $id; while kill -0 $id 2>&-; do sleep 0.1; done; exit "
	for _, code := range []int{0, 7} {
		_, errs, got := l.run("up", "--nodes", "2", "--accounts", "100", "--lease", lease.String(), "--dir", dir, "--",
			"sh", "-c", kill+strconv.Itoa(code))
		if got != code || !strings.Contains(errs, "node1 has ended: signal: killed") {
			t.Errorf("exit code %d of a command that ended with %d\n%s", got, code, errs)
		}
		of, err := os.ReadFile(temporary)
		_, folder, ok := strings.Cut(string(of), " ")
		if _, left := os.Stat(folder); err != nil || !ok || !errors.Is(left, os.ErrNotExist) {
			t.Errorf("the killed node's folder %q: %v, %v", of, err, left)
		}
	}
}

// clusterOf runs the README's order of commands on a cluster, as a user who has others beside it.
func clusterOf(run func(args ...string) (out, errs string, code int), name ...string) error {
	// No node dies here, and two clusters take turns on the CPUs: a short lease would end by itself.
	say := append([]string{"up", "--nodes", "2", "--detach", "--accounts", "100", "--lease", quietLease.String()}, name...)
	address := "up"
	if len(name) > 0 {
		address += ":" + name[1]
	}
	bench := []string{"bench", "--cluster", address, "--accounts", "100", "--warmup", "0s", "--duration",
		"300ms", "--fibers", "4", "--check"}
	for _, step := range []struct {
		args []string
		want string
	}{
		{say, "2 nodes are ready"},
		{[]string{"status", "--cluster", address}, ", 2 members"},
		{bench, "strictly serializable: yes ("},
		{[]string{"drain", "--cluster", address, "--node", "1"}, "node 1 (node1, incarnation 2) has ended"},
		{append([]string{"up", "--restart", "1"}, name...), "node1 runs again"},
		{append([]string{"up", "--nodes", "1", "--accounts", "100", "--", "drtmd"}, bench...),
			"strictly serializable: yes ("}, // as make demo does
		{append([]string{"down"}, name...), "stopped 2 nodes"},
	} {
		if out, errs, code := run(step.args...); code != 0 || !strings.Contains(out, step.want) {
			_, _, _ = run(append([]string{"down"}, name...)...)
			return fmt.Errorf("%v: exit code %d\n%s%s", step.args, code, out, errs)
		}
	}
	return nil
}

// sideBySide has several clusters live at the same time.
func sideBySide(t *testing.T, lives ...func() error) {
	t.Helper()
	errs := make([]error, len(lives))
	var wg sync.WaitGroup
	for i, live := range lives {
		wg.Go(func() { errs[i] = live() })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// TestClustersOfOneUserDoNotCollide: by names, and one for a command beside them.
func TestClustersOfOneUserDoNotCollide(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.env = []string{"RUNTIME_DIRECTORY=" + filepath.Join(l.dir, "r"), "DRTMD_ADDRESS="}
	run := func(args ...string) (string, string, int) { return l.run(args[0], args[1:]...) }
	sideBySide(t, func() error { return clusterOf(run) },
		func() error { return clusterOf(run, "--name", "two") })
	left, err := filepath.Glob(filepath.Join(l.dir, "r", "up-for-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("folders of clusters for a command are left: %v, %v", left, err)
	}
}

// TestClustersOfTwoUsersDoNotCollide: each in the default folders of its own, with run directories of
// its own, and nobody gets into the other's.
func TestClustersOfTwoUsersDoNotCollide(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can be two users")
	}
	newLab(t) // a slot
	dir, err := os.MkdirTemp("/dev/shm", "users")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "drtmd")
	if err := copyProgram(program); err != nil {
		t.Fatal(err)
	}
	as := func(uid int) func(args ...string) (string, string, int) {
		home := filepath.Join(dir, strconv.Itoa(uid))
		if err := errors.Join(os.Mkdir(home, 0o700), os.Chown(home, uid, uid)); err != nil {
			t.Fatal(err)
		}
		return func(args ...string) (string, string, int) {
			ctx, cancel := context.WithTimeout(context.Background(), 2*bound)
			defer cancel()
			c := exec.CommandContext(ctx, program, args...)
			c.Env = []string{asCommand + "=1", "HOME=" + home, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH")}
			c.Dir = home
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid),
				Gid: uint32(uid)}}
			var out, errs buffer
			c.Stdout, c.Stderr = &out, &errs
			err := c.Run()
			if c.ProcessState == nil {
				return "", err.Error(), -1
			}
			return out.String(), errs.String(), c.ProcessState.ExitCode()
		}
	}
	if err := os.Chmod(dir, 0o1777); err != nil { // as /tmp
		t.Fatal(err)
	}
	const one, two = 61001, 61002
	first, second := as(one), as(two)
	sideBySide(t, func() error { return clusterOf(first) }, func() error { return clusterOf(second) })
	if _, errs, code := first("up", "--nodes", "1", "--accounts", "100", "--detach"); code != 0 {
		t.Fatal(errs)
	}
	socket := fmt.Sprintf("unix:%s/drtmd-%d/up/node0/control", dir, one)
	if _, errs, code := second("status", "--cluster", socket); code != 1 ||
		!strings.Contains(errs, "the socket is another user's: ask as that user, or as root") {
		t.Errorf("another user asks: exit code %d: %s", code, errs)
	}
	if _, errs, code := first("down"); code != 0 {
		t.Error(errs)
	}
	for _, uid := range []int{one, two} {
		name := fmt.Sprintf("/dev/shm/drtmd-%d", uid)
		if left, err := os.ReadDir(name); err == nil {
			t.Errorf("%s is left: %v", name, left)
			if err := os.RemoveAll(name); err != nil {
				t.Error(err)
			}
		}
	}
}

// copyProgram copies this one to where others may run it.
func copyProgram(to string) error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}
