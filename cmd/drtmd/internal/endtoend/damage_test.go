package endtoend

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// endsInOneLine waits for a node that cannot go on: exit code 1, and a last line with the words that
// are wanted, without a trace of goroutines.
func (n *node) endsInOneLine(words ...string) {
	n.l.t.Helper()
	select {
	case <-n.ended:
	case <-time.After(bound):
		n.l.t.Fatalf("it does not end:\n%s", n.err.String())
	}
	text := strings.TrimSpace(n.err.String())
	last := text[strings.LastIndexByte(text, '\n')+1:]
	if code := n.cmd.ProcessState.ExitCode(); code != 1 || strings.Contains(text, "goroutine ") ||
		!strings.HasPrefix(last, "drtmd: ") {
		n.l.t.Errorf("exit code %d, want 1 and one line:\n%s", code, text)
	}
	for _, w := range words {
		if !strings.Contains(last, w) {
			n.l.t.Errorf("no %q in the last line: %s", w, last)
		}
	}
}

// noise is some bytes of it.
func noise(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// TestDamagedStateOfANode is said in one line with what to do, or it does no harm. See etcdmember for
// damages at random.
func TestDamagedStateOfANode(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	overwrite := func(name string, b []byte, at int64) {
		t.Helper()
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
	}
	wal := func(dir string) string {
		list, err := filepath.Glob(filepath.Join(dir, "etcd", "member", "wal", "*.wal"))
		if err != nil || len(list) == 0 {
			t.Fatal("no WAL: ", err)
		}
		return list[0]
	}
	for _, c := range []struct {
		name  string
		to    func(dir string)
		words []string // nil: it serves
	}{
		{"noise in the database", func(dir string) {
			overwrite(filepath.Join(dir, "etcd", "member", "snap", "db"), noise(16*4096), 2*4096)
		}, []string{"etcd", "damaged", "move ", "start again"}},
		{"a database of zeros", func(dir string) {
			overwrite(filepath.Join(dir, "etcd", "member", "snap", "db"), make([]byte, 8*4096), 0)
		}, []string{"etcd", "damaged", "move ", "start again"}},
		{"an empty log", func(dir string) {
			if err := os.Truncate(wal(dir), 0); err != nil {
				t.Fatal(err)
			}
		}, []string{"damaged", "member/wal", "move ", "start again"}},
		{"an identity of nobody", func(dir string) {
			if err := os.Truncate(filepath.Join(dir, "identity.json"), 0); err != nil {
				t.Fatal(err)
			}
		}, []string{"identity.json", "remove it"}},
		{"an empty port", func(dir string) {
			if err := os.WriteFile(filepath.Join(dir, "etcd.port"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, nil},
	} {
		// One after the other: a lab has its turn.
		n := l.start(strings.ReplaceAll(c.name, " ", "-"), "--cluster-etcd-listen", "127.0.0.1:0")
		n.await().kill()
		c.to(n.argument("--node-state-dir"))
		n.launch()
		if c.words == nil {
			n.await().drains()
			continue
		}
		n.endsInOneLine(c.words...)
		if t.Failed() {
			t.Fatal(c.name)
		}
	}
}

// TestEtcdThatDiesTakesItsNodeDownInWords: here by the fault of a mapped file that was cut, which no
// goroutine could catch. And it does not outlive its node.
func TestEtcdThatDiesTakesItsNodeDownInWords(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.start("n0").await()
	child := n.children()
	if len(child) != 1 {
		t.Fatalf("%d processes below the node's, want that of etcd", len(child))
	}
	if err := syscall.Kill(child[0], syscall.SIGBUS); err != nil {
		t.Fatal(err)
	}
	n.endsInOneLine("embedded etcd in ", "has ended", "start this node again")
	n.restart()
	// It goes with its node, whatever ends that.
	child = n.children()
	n.kill()
	until(t, "etcd has gone with its node", func() bool {
		return len(child) == 1 && syscall.Kill(child[0], 0) == syscall.ESRCH
	})
}

// children are the processes that a node has started.
func (n *node) children() (list []int) {
	n.l.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		n.l.t.Fatal(err)
	}
	for _, name := range all {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// PID (NAME) STATE PARENT ...; see proc(5).
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil && len(f) > 1 &&
			f[1] == strconv.Itoa(n.cmd.Process.Pid) && f[0] != "Z" {
			list = append(list, pid)
		}
	}
	return list
}
