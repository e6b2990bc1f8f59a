//go:build linux && amd64 && !race

package shm

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"drtmd/verbs"
)

// childEnv names the part that a re-executed test binary plays, and its run directory.
const childEnv = "DRTMD_SHM_TEST_CHILD"

// hello is what two processes tell each other, as one line of JSON.
type hello struct {
	Endpoint []byte
	MR       verbs.RemoteMR
}

// child is a second process of a test.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startChild runs a role in another process.
func startChild(t *testing.T, dir, role string) *child {
	t.Helper()
	exe, err := os.Executable()
	check(t, err)
	c := &child{t: t, cmd: exec.Command(exe)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+role+" "+dir)
	c.cmd.Stderr = os.Stderr
	c.in, err = c.cmd.StdinPipe()
	check(t, err)
	out, err := c.cmd.StdoutPipe()
	check(t, err)
	c.out = bufio.NewReader(out)
	check(t, c.cmd.Start())
	t.Cleanup(c.kill)
	return c
}

// kill ends the child with SIGKILL and waits for it. It may be called twice.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

func (c *child) say(v any) {
	c.t.Helper()
	check(c.t, json.NewEncoder(c.in).Encode(v))
}

func (c *child) hear(v any) {
	c.t.Helper()
	done := make(chan error, 1)
	go func() {
		line, err := c.out.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, v)
		}
		done <- err
	}()
	select {
	case err := <-done:
		check(c.t, err)
	case <-time.After(20 * time.Second):
		c.t.Fatal("the child says nothing")
	}
}

// meet connects n with the child's QP and gives the child's hello.
func (c *child) meet(n *node) hello {
	c.t.Helper()
	var h hello
	c.hear(&h)
	c.say(n.hello(c.t))
	n.connect(c.t, h, verbs.ConnectAttr{})
	return h
}

func (n *node) hello(t testing.TB) hello {
	b, err := n.qp.Endpoint().MarshalBinary()
	check(t, err)
	return hello{Endpoint: b, MR: n.mr.Remote()}
}

func (n *node) connect(t testing.TB, h hello, a verbs.ConnectAttr) verbs.Endpoint {
	t.Helper()
	var e verbs.Endpoint
	check(t, e.UnmarshalBinary(h.Endpoint))
	if n.qp.Type() == verbs.UD {
		check(t, n.qp.Connect(nil, a))
		return e
	}
	check(t, n.qp.Connect(&e, a))
	return e
}

// role is a child's part: it has a node and the parent's hello.
type role struct {
	tb   testing.TB
	n    *node
	peer hello
	end  verbs.Endpoint
}

// childTB lets children use the helpers of tests: a failure ends the process.
type childTB struct{ testing.TB }

func (childTB) Helper()        {}
func (childTB) Cleanup(func()) {}
func (childTB) Fatal(a ...any) {
	fmt.Fprintln(os.Stderr, append([]any{"child:"}, a...)...)
	os.Exit(3)
}

// playsRole runs the role that the environment names, if it does.
func playsRole() bool {
	what := os.Getenv(childEnv)
	if what == "" {
		return false
	}
	name, dir, _ := strings.Cut(what, " ")
	playRole(name, dir)
	return true
}

// playRole connects to the parent and runs the role until the parent kills it or hangs up.
func playRole(name, dir string) {
	kind := verbs.RC
	if strings.HasPrefix(name, "ud") {
		kind = verbs.UD
	}
	tb := childTB{}
	n := newNode(tb, New(Options{Dir: dir}), nodeOptions{kind: kind, qkey: 17})
	check(tb, json.NewEncoder(os.Stdout).Encode(n.hello(tb)))
	r := &role{tb: tb, n: n}
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	check(tb, err)
	check(tb, json.Unmarshal(line, &r.peer))
	// Senders are patient: the child may not get a CPU for a while.
	r.end = n.connect(tb, r.peer, verbs.ConnectAttr{RTR: verbs.RTRAttr{MinRNRTimer: 28}})
	fmt.Println(`"ready"`)
	go func() {
		_, _ = io.Copy(io.Discard, in) // the parent hangs up
		check(tb, n.ctx.Close())
		os.Exit(0)
	}()
	roles[name](r)
}

// roles by name.
var roles = map[string]func(*role){
	"idle":     func(*role) { select {} },
	"serve":    (*role).serve,
	"ud-serve": (*role).serve,
	"cas":      func(r *role) { r.storm(verbs.OpCAS) },
	"faa":      func(r *role) { r.storm(verbs.OpFAA) },
	"write":    func(r *role) { r.storm(verbs.OpWrite) },
	"send":     func(r *role) { r.storm(verbs.OpSend) },
	"hold":     (*role).holdLine,
	"half":     (*role).halfWrite,
	"message":  (*role).halfMessage,
	"asleep":   (*role).sleepBeforeLock,
	"ud-claim": (*role).claimSlot,
	"scribble": (*role).scribble,
	"keep":     (*role).keep,

	"own-locking":   (*role).ownLocking,
	"own-committed": (*role).ownCommitted,
	"own-damaged":   (*role).ownDamaged,
	"ud-send":       func(r *role) { r.storm(verbs.OpSend) },
}
