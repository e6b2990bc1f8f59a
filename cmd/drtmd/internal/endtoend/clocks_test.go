package endtoend

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/status"
)

// anotherClock is a command under which CLOCK_MONOTONIC reads another time: as on another host.
func anotherClock(t *testing.T) []string {
	t.Helper()
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip("there is no unshare: ", err)
	}
	under := []string{unshare, "--user", "--map-root-user", "--time", "--monotonic", "5000"}
	if out, err := exec.Command(unshare, append(under[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("this process may not make time namespaces: %v: %s", err, out)
	}
	return under
}

// TestTwoHostsServe is the recipe of docs/CLUSTER.md with clocks that differ by 5,000 s: the
// default configuration serves DrTM, runs are proved, and status says how well the clocks are
// known.
func TestTwoHostsServe(t *testing.T) {
	t.Parallel()
	under := anotherClock(t)
	l := newLab(t, "--cluster-lease", "10s")
	first := l.start("n0").await()
	l.under = under
	second := l.start("n1", "--cluster-join", first.control).await()
	st := l.allReady(first, 2)
	for _, n := range st.Nodes {
		switch c := n.Clock; {
		case n.Plane == nil || n.Plane.Protocol != "drtm" || c == nil:
			t.Fatalf("%+v", n)
		case n.Member.Name == "n0" && (c.Follows != nil || c.Error > 1e-3):
			t.Errorf("n0: clock %+v", c)
		case n.Member.Name == "n1" && (c.Follows == nil || *c.Follows != 0 || c.Error <= 0 ||
			c.Lease <= 3*c.Bound || c.LeaseReadOnly <= 3*c.Bound):
			t.Errorf("n1: clock %+v", c)
		}
		t.Logf("%s: %v", n.Member.Name, n.Clock)
	}
	out, _, _ := l.run("status", "--cluster", second.control)
	if !strings.Contains(out, " of node 0's (expected: ") ||
		!strings.Contains(out, "; read leases of ") {
		t.Errorf("status says\n%s", out)
	}
	l.proved(first)
	l.allReady(first, 2)
	for _, args := range [][]string{{"--lease", "10ms"},
		{"--lease", "30ms", "--lease-read-only", "30ms"}} {
		out, errs, code := l.bench(second, append(args, "--duration", "300ms", "--check")...)
		if code != 0 || !strings.Contains(out, "\nstrictly serializable: yes (") ||
			!strings.Contains(out, "\nsums conserved: yes\n") {
			t.Fatalf("%v: exit code %d\n%s\n%s", args, code, out, errs)
		}
		l.allReady(first, 2)
	}
	_, errs, code := l.bench(first, "--lease", "5us", "--duration", "300ms")
	if code != 1 || !strings.Contains(errs, "a read lease must last longer than ") ||
		!strings.Contains(errs, "leases follow the clock error") {
		t.Errorf("a lease of 5 µs: exit code %d, %s", code, errs)
	}
	l.allReady(first, 2)

	// A process that is stopped has a clock that goes on: nothing is wrong with it afterwards.
	was := l.self(second).Member
	second.signal(syscall.SIGSTOP)
	time.Sleep(500 * time.Millisecond)
	second.signal(syscall.SIGCONT)
	l.proved(first)
	now := l.allReady(first, 2)
	for _, n := range now.Nodes {
		for _, e := range n.Events {
			if e.Level == status.Error {
				t.Errorf("%s: %s", n.Member.Name, e.Text)
			}
		}
		if n.Member.Node == was.Node && n.Member.Incarnation != was.Incarnation {
			t.Errorf("was %v, is %v", was, n.Member)
		}
	}
	second.drains()
	first.drains()
}
