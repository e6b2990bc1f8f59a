package endtoend

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/status"
)

// systemd is the socket that a node notifies.
func (l *lab) systemd() *net.UnixConn {
	l.t.Helper()
	name := filepath.Join(l.dir, "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = c.Close() })
	l.env = append(l.env, "NOTIFY_SOCKET="+name)
	return c
}

// told is all that a socket has got.
func told(t *testing.T, c *net.UnixConn) string {
	t.Helper()
	var all strings.Builder
	b := make([]byte, 4096)
	for {
		if err := c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n, err := c.Read(b)
		if err != nil {
			return all.String()
		}
		all.WriteString(string(b[:n]) + "\n")
	}
}

// TestANodeThatIsToldToStopBeforeItIsReady ends with exit code 0, and tells systemd that it stops: with
// no member to join, and with no etcd. Meanwhile it warns of that ever more rarely.
func TestANodeThatIsToldToStopBeforeItIsReady(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c := l.systemd()
	for name, args := range map[string][]string{
		"no member": {"--cluster-join", "127.0.0.1:9"},
		"no etcd":   {"--etcd", "http://127.0.0.1:9"},
	} {
		n := l.start(strings.ReplaceAll(name, " ", "-"), args...)
		until(t, name+": it warns", func() bool {
			return strings.Count(n.err.String(), `"level":"warn"`) > 1
		})
		begin := time.Now()
		n.drains()
		if took := time.Since(begin); took > bound/4 {
			t.Errorf("%s: it took %v", name, took)
		}
		if text := told(t, c); !strings.Contains(text, "STOPPING=1") || strings.Contains(text, "READY=1") {
			t.Errorf("%s: systemd was told\n%s", name, text)
		}
		if text := n.err.String(); !strings.Contains(text, "127.0.0.1:9") ||
			name == "no member" && !strings.Contains(text, "cluster.join") {
			t.Errorf("%s: the log does not say what was tried:\n%s", name, text)
		}
	}
}

// TestAClusterIsHealthyRightAfterARun: the command returns when all serve again, so that status at any
// node and /readyz say so at once. Status is 0 while the tables are loaded again, too, and no reason is
// empty.
func TestAClusterIsHealthyRightAfterARun(t *testing.T) {
	t.Parallel()
	l := newLab(t, longLease...)
	l.cluster(2)
	for i := range 3 {
		if _, errs, code := l.bench(l.nodes[i%2], "--duration", "200ms"); code != 0 {
			t.Fatal(errs)
		}
		for _, n := range l.nodes {
			text, ok := readyz(t, n)
			if !ok {
				t.Errorf("run %d: /readyz of %s: %s", i, n.name, text)
			}
			if out, errs, code := l.run("status", "--cluster", n.control); code != 0 {
				t.Errorf("run %d: status at %s: exit code %d: %s%s", i, n.name, code, out, errs)
			}
		}
	}
	// Whoever does not wait for the end of the command finds it well as well.
	b := l.benching(l.nodes[0], "--duration", "300ms")
	for done := false; !done; {
		select {
		case <-b.ended:
			done = true
		default:
		}
		for _, n := range l.nodes {
			if text, ok := readyz(t, n); !ok && strings.TrimSpace(strings.TrimPrefix(text,
				"connecting:")) == "" {
				t.Errorf("/readyz of %s without a reason: %q", n.name, text)
			}
		}
		if s := l.self(l.nodes[0]); s != nil && s.Phase != status.Ready && s.Phase != status.Running &&
			s.Reason == "" {
			t.Errorf("%s without a reason", s.Phase)
		}
	}
	b.ends(0)
}

// readyz asks a node.
func readyz(t *testing.T, n *node) (text string, ok bool) {
	t.Helper()
	r, err := http.Get("http://" + n.admin + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	return string(b), r.StatusCode == http.StatusOK
}

// TestDrainSaysThatANodeHasEndedWhenItHas: when the process has, also with connections of others.
func TestDrainSaysThatANodeHasEndedWhenItHas(t *testing.T) {
	t.Parallel()
	l := newLab(t, longLease...)
	l.cluster(2)
	n := l.nodes[1]
	// A client that no longer listens holds up the end of the control plane: the preface of HTTP/2 with
	// empty settings, and no word after that.
	deaf, err := net.Dial("tcp", n.control)
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	if _, err := io.WriteString(deaf, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00"+
		"\x00\x00\x00\x00"); err != nil {
		t.Fatal(err)
	}
	c := command(t.Context(), nil, "drain", "--cluster", n.control)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	said := false
	for lines.Scan() {
		if strings.HasSuffix(lines.Text(), " has ended") {
			said = true
			if !processEnded(n.cmd.Process.Pid) {
				t.Error("it has not")
			}
		}
	}
	if err := c.Wait(); err != nil || !said {
		t.Errorf("%v, said %v", err, said)
	}
	<-n.ended
}

// processEnded reports whether a process is gone, or is a zombie that the test has not waited for yet.
func processEnded(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || regexp.MustCompile(`\) [ZX] `).Match(b)
}

// TestReloadNamesWhatNeedsARestart instead of saying that all was taken over.
func TestReloadNamesWhatNeedsARestart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	file := filepath.Join(l.dir, "drtmd.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("data:\n  cache: 1MiB\n")
	n := l.start("n0", "--config", file).await()
	write("data:\n  cache: 2MiB\n  fibers: 3\n")
	n.signal(syscall.SIGHUP)
	until(t, "the reload is said", func() bool { return strings.Contains(n.err.String(), "reloaded the") })
	for _, want := range []string{"needs a restart", `data.cache (is \"1MiB\", now \"2MiB\")`,
		`data.fibers (is \"16\", now \"3\")`, `"level":"warn"`} {
		if text := n.err.String(); !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
