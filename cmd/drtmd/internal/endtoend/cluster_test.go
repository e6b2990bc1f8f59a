package endtoend

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member/etcdmember"
)

// TestClusterFormsRunsAndDrains also over nodes that go in peace: the others go on, and a run on
// them is proved.
func TestClusterFormsRunsAndDrains(t *testing.T) {
	t.Parallel()
	l := newLab(t, longLease...)
	l.cluster(3)
	before := l.status(l.nodes[0]).State.Shards.Version
	l.proved(l.nodes[1])
	st := l.allReady(l.nodes[0], 3)
	if st.Schema != status.Schema || st.Problem != "" || st.State.Shards.Version < before+2 {
		t.Errorf("schema %s, problem %q, shard map %d after a run on %d", st.Schema, st.Problem,
			st.State.Shards.Version, before)
	}
	for _, n := range st.Nodes {
		if n.QPs.RC == 0 || n.QPs.InError != 0 || len(n.Links) != 2 || n.Links[0].State != "up" ||
			n.LeaseLeft <= 0 || n.Device.Name == "" || n.Memory.RegisteredBytes == 0 {
			t.Errorf("%+v", n)
		}
	}
	l.nodes[2].drains()
	l.allReady(l.nodes[0], 2)
	l.proved(l.nodes[0])
	l.nodes[1].drains()
	l.nodes[0].drains()
}

// TestKilledNodeIsNoticedAndRejoins: during a benchmark, which goes on among the others.
func TestKilledNodeIsNoticedAndRejoins(t *testing.T) {
	t.Parallel()
	const lease = 5 * time.Second // twice of it leaves room for a busy machine
	l := newLab(t, "--cluster-lease", lease.String())
	l.cluster(3)
	b := l.benching(l.nodes[0], "--duration", "12s", "--check")
	victim := l.nodes[1]
	was := l.self(victim).Member
	victim.kill()
	killed := time.Now()
	var st *status.Cluster
	until(t, "the others notice", func() bool {
		st = l.status(l.nodes[2])
		return st != nil && !st.State.Active.Has(was)
	})
	if d := time.Since(killed); d > 2*lease {
		t.Errorf("noticed after %v, more than two leases", d)
	}
	b.says("running on: node .*n1, incarnation")
	if st.Problem == "" {
		t.Error("no problem is shown")
	}
	self := l.self(l.nodes[2])
	if len(self.Degraded) == 0 || !strings.Contains(self.Degraded[0], "stay locked until") {
		t.Errorf("degraded: %q", self.Degraded)
	}
	victim.launch()
	until(t, "the victim waits", func() bool {
		n := l.status(l.nodes[0])
		return n != nil && len(n.State.Active.Members) == 3
	})
	out, _ := b.ends(1)
	for _, want := range []string{"unreachable ", "sums conserved: unknown: "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "strictly serializable") {
		t.Errorf("a part of the history is a verdict:\n%s", out)
	}
	victim.await()
	l.allReady(l.nodes[0], 3)
	if now := l.self(victim).Member; now.Node != was.Node || now.Incarnation <= was.Incarnation {
		t.Errorf("was %v, is %v", was, now)
	}
	l.proved(l.nodes[0])
}

// TestEtcdOfTheFirstNodeIsKilled: the others serve until their leases end, refuse in words, and
// resume after its restart.
func TestEtcdOfTheFirstNodeIsKilled(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.cluster(2)
	was := l.self(l.nodes[1]).Member
	l.nodes[0].kill()
	until(t, "the other one refuses", func() bool {
		n := l.self(l.nodes[1])
		return n != nil && n.Phase == status.Refusing && strings.Contains(n.Reason, "lease has ended")
	})
	if _, errs, code := l.bench(l.nodes[1], "--duration", "100ms"); code != 1 ||
		!strings.Contains(errs, "no member") && !strings.Contains(errs, "lease") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	l.nodes[0].restart()
	l.allReady(l.nodes[0], 2)
	if now := l.self(l.nodes[1]).Member; now.Incarnation <= was.Incarnation {
		t.Errorf("was %v, is %v", was, now)
	}
	l.proved(l.nodes[1])
}

// TestExternalEtcdOutlivesNodes: whichever node is killed, the others go on.
func TestExternalEtcdOutlivesNodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := etcdmember.Start(context.Background(), etcdmember.ServerConfig{Dir: dir,
		Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	l := newLab(t, "--cluster-etcd", s.URLs()[0])
	for _, name := range []string{"n0", "n1", "n2"} {
		l.start(name)
	}
	for _, n := range l.nodes {
		n.await()
	}
	l.allReady(l.nodes[2], 3)
	l.nodes[0].kill()
	l.allReady(l.nodes[2], 2)
	l.proved(l.nodes[2])
}

// TestStoppedNodeDoesNoHarm: stopped for longer than its lease, in a benchmark, it finds itself
// removed when it goes on.
func TestStoppedNodeDoesNoHarm(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.cluster(3)
	b := l.benching(l.nodes[0], "--duration", "1h")
	sleeper := l.nodes[2]
	was := l.self(sleeper).Member
	sleeper.signal(syscall.SIGSTOP)
	until(t, "it is removed", func() bool {
		st := l.status(l.nodes[0])
		return st != nil && !st.State.Active.Has(was) && st.State.Pending == nil
	})
	b.says("running on: ")
	sleeper.signal(syscall.SIGCONT)
	until(t, "it says so", func() bool {
		return strings.Contains(sleeper.err.String(), "refuses to serve: membership lease has ended")
	})
	if err := b.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	b.ends(130)
	l.allReady(l.nodes[0], 3)
	if now := l.self(sleeper).Member; now.Incarnation <= was.Incarnation {
		t.Errorf("was %v, is %v", was, now)
	}
	l.proved(l.nodes[0])
}

// TestHeartbeatsSurviveFullLoad: more spinning workers than CPUs, for several leases.
func TestHeartbeatsSurviveFullLoad(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.cluster(2)
	epoch := l.status(l.nodes[0]).State.Active.Epoch
	out, errs, code := l.bench(l.nodes[0], "--workers", "4", "--threads", "4", "--duration",
		(4 * lease).String())
	if code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", code, out, errs)
	}
	if st := l.allReady(l.nodes[0], 2); st.State.Active.Epoch != epoch {
		t.Errorf("epoch %d, was %d", st.State.Active.Epoch, epoch)
	}
}

// TestCoordinatorIsKilled: the others end its clients and serve again.
func TestCoordinatorIsKilled(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.cluster(3)
	b := l.benching(l.nodes[1], "--duration", "1h")
	l.nodes[1].kill()
	if _, errs := b.ends(1); !strings.Contains(errs, l.nodes[1].control) {
		t.Errorf("stderr: %s", errs)
	}
	l.allReady(l.nodes[0], 2)
	l.proved(l.nodes[2])
}

// TestClientIsKilled: its run ends, and the next one is taken.
func TestClientIsKilled(t *testing.T) {
	t.Parallel()
	l := newLab(t, longLease...)
	l.cluster(2)
	b := l.benching(l.nodes[0], "--duration", "1h")
	if _, errs, code := l.bench(l.nodes[1], "--duration", "100ms"); code != 1 ||
		!strings.Contains(errs, "another run is under way") {
		t.Errorf("a second run: exit code %d: %s", code, errs)
	}
	if err := b.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	l.allReady(l.nodes[0], 2)
	l.proved(l.nodes[1])
}

// TestTLS: with certificates, without them, and with those of another CA.
func TestTLS(t *testing.T) {
	t.Parallel()
	l := newLab(t, longLease...)
	ca, other := filepath.Join(l.dir, "ca"), filepath.Join(l.dir, "other")
	for _, args := range [][]string{{ca, "--name", "node", "--host", "127.0.0.1"},
		{ca, "--name", "me", "--host", "none"}, {other, "--name", "me", "--host", "none"}} {
		if _, errs, code := l.run("certs", args...); code != 0 {
			t.Fatal(errs)
		}
	}
	files := func(dir, name string) []string {
		return []string{"--ca", filepath.Join(dir, "ca.pem"), "--cert", filepath.Join(dir, name+".pem"),
			"--key", filepath.Join(dir, name+".key")}
	}
	l.tls = files(ca, "me")
	l.args = append(l.args, "--control-ca", filepath.Join(ca, "ca.pem"), "--control-cert",
		filepath.Join(ca, "node.pem"), "--control-key", filepath.Join(ca, "node.key"))
	l.cluster(2)
	l.proved(l.nodes[1])
	for _, c := range []struct {
		name, want string
		args       []string
	}{
		{"without certificates", "it may ask for TLS", nil},
		{"of another CA", "not of one CA", files(other, "me")},
	} {
		_, errs, code := l.run("status", append([]string{"--cluster", l.nodes[0].control}, c.args...)...)
		if code != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d: %s", c.name, code, errs)
		}
	}
	// A node without certificates is refused, too.
	l.args = l.args[:len(l.args)-6]
	stranger := l.start("stranger", "--cluster-join", l.nodes[0].control)
	until(t, "the stranger is refused", func() bool {
		return strings.Contains(stranger.err.String(), "it may ask for TLS")
	})
	// Certificates and the level of the log are read again.
	l.nodes[0].signal(syscall.SIGHUP)
	until(t, "it reloads", func() bool {
		return strings.Contains(l.nodes[0].err.String(), "reloaded the certificates")
	})
}

// TestWithoutTLSNothingBeyondThisHostIsListenedOn unless it is said aloud.
func TestWithoutTLSNothingBeyondThisHostIsListenedOn(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, args := range [][]string{{"--control-listen", "0.0.0.0:0"},
		{"--cluster-etcd-listen", "0.0.0.0:0"}} {
		_, errs, code := l.run("serve", append(append([]string{"--node-state-dir",
			filepath.Join(l.dir, "x")}, l.args...), args...)...)
		if code != 2 || !strings.Contains(errs, "drtmd certs") {
			t.Errorf("%v: exit code %d: %s", args, code, errs)
		}
	}
}

// TestServiceSpeaksToSystemd: readiness, watchdog, reload and stop, at a socket of the test's own.
func TestServiceSpeaksToSystemd(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	socket := filepath.Join(l.dir, "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	var said buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			_, _ = said.Write(append(b[:n:n], '\n')) // memory
		}
	}()
	defer func() { c.Close(); <-done }()
	l.env = []string{"NOTIFY_SOCKET=" + socket, "WATCHDOG_USEC=400000"}
	n := l.start("n0").await()
	has := func(text string) {
		t.Helper()
		until(t, "systemd is told "+text, func() bool { return strings.Contains(said.String(), text) })
	}
	has("READY=1\nSTATUS=node 0 (n0, incarnation 1)")
	has("WATCHDOG=1")
	n.signal(syscall.SIGHUP)
	has("RELOADING=1\nMONOTONIC_USEC=")
	has("READY=1\nSTATUS=reloaded")
	n.drains()
	has("STOPPING=1")
}

// TestAdminPort shows health, metrics and the page, and drains with the node.
func TestAdminPort(t *testing.T) {
	t.Parallel()
	l := newLab(t, longLease...)
	l.cluster(1)
	get := func(path string) (int, string) {
		r, err := http.Get("http://" + l.nodes[0].admin + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(b)
	}
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ok",
		"/metrics": "drtmd_ready 1", "/": "drtmd cluster", "/status.json": status.Schema} {
		if code, text := get(path); code != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %.300s", path, code, text)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestNothingIsLeft of a cluster that has drained: no memory, no socket, no temporary folder.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	l := newLab(t, longLease...) // the end of one is a warning
	temp := filepath.Join(l.dir, "tmp")
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	l.env = []string{"TMPDIR=" + temp}
	l.cluster(2)
	l.proved(l.nodes[0])
	l.nodes[1].drains()
	l.nodes[0].drains()
	for _, dir := range []string{temp, filepath.Join(l.dir, "run")} {
		left, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for _, f := range left {
			t.Errorf("%s is left in %s", f.Name(), dir)
		}
	}
	for _, n := range l.nodes {
		if text := n.err.String(); strings.Contains(text, `"level":"warn"`) {
			t.Errorf("%s went in peace and warns:\n%s", n.name, text)
		}
		for _, secret := range []string{"rkey", "RKey"} {
			if strings.Contains(n.err.String(), secret) {
				t.Errorf("the log of %s has %q", n.name, secret)
			}
		}
	}
}

// TestUpRunsACommandOnAClusterOfProcesses and passes its exit code on.
func TestUpRunsACommandOnAClusterOfProcesses(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	dir := filepath.Join(l.dir, "up")
	up := func(args ...string) (string, string, int) {
		return l.run("up", append([]string{"--nodes", "2", "--dir", dir, "--accounts", "200", "--lease",
			lease.String()}, args...)...)
	}
	out, errs, code := up("--", "drtmd", "bench", "--cluster", "up", "--accounts", "200", "--warmup",
		"0s", "--duration", "200ms", "--check")
	if code != 0 || !strings.Contains(out, "strictly serializable: yes (") {
		t.Fatalf("exit code %d\n%s\n%s", code, out, errs)
	}
	if _, errs, code := up("--", "drtmd", "bench", "--cluster", "up", "--nodes", "7"); code != 2 {
		t.Errorf("exit code %d, want the command's 2: %s", code, errs)
	}
	if _, errs, code := up("--detach"); code != 0 {
		t.Fatal(errs)
	}
	if _, errs, code := up("--detach"); code != 1 || !strings.Contains(errs, "drtmd down") {
		t.Errorf("a second one: exit code %d: %s", code, errs)
	}
	for _, want := range []string{"stopped 2 nodes", "no cluster runs"} {
		if out, errs, code := l.run("down", "--dir", dir); code != 0 || !strings.Contains(out, want) {
			t.Errorf("down: exit code %d: %s%s", code, out, errs)
		}
	}
}
