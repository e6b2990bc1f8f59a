package endtoend

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// disk mounts a file system of some bytes in the lab.
func (l *lab) disk(size string) string {
	l.t.Helper()
	dir := filepath.Join(l.dir, "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		l.t.Fatal(err)
	}
	err := unix.Mount("drtmd-test", dir, "tmpfs", 0, "mode=700,size="+size)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		l.t.Skip("this process may not mount a file system: ", err)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		for _, n := range l.nodes {
			n.kill()
		}
		if err := unix.Unmount(dir, 0); err != nil {
			l.t.Error(err)
		}
	})
	return dir
}

// TestAFullDiskEndsANodeInWords with exit code 1, and not with a trace of etcd's.
func TestAFullDiskEndsANodeInWords(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.start("n0", "--node-state-dir", filepath.Join(l.disk("600k"), "state"))
	until(t, "the node ends", func() bool {
		select {
		case <-n.ended:
			return true
		default:
			return false
		}
	})
	text := n.err.String()
	if code := n.cmd.ProcessState.ExitCode(); code != 1 ||
		!strings.Contains(text, "the embedded etcd needs") || strings.Contains(text, "goroutine ") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
}
