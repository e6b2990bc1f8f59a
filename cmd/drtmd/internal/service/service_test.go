package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listen is systemd's side of the notify socket.
func listen(t *testing.T) func() string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	return func() string {
		b := make([]byte, 4096)
		_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
		n, err := c.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
}

func TestSystemdIsToldEachState(t *testing.T) {
	next := listen(t)
	n, err := NewNotifier()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		tell       func() error
	}{
		{"ready", "READY=1\nSTATUS=serves a b", func() error { return n.Ready("serves a\nb") }},
		{"status", "STATUS=joins", func() error { return n.Status("joins") }},
		{"reloading", "RELOADING=1\nMONOTONIC_USEC=", n.Reloading},
		{"stopping", "STOPPING=1", n.Stopping},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.tell(); err != nil {
				t.Fatal(err)
			}
			if got := next(); !strings.HasPrefix(got, c.want) {
				t.Errorf("told %q, want %q", got, c.want)
			}
		})
	}
}

func TestWatchdogIsPingedOnlyWhileAlive(t *testing.T) {
	for _, c := range []struct {
		name, want string
		err        error
	}{
		{"alive", "WATCHDOG=1", nil},
		{"not alive", "STATUS=not alive: stuck", errors.New("stuck")},
	} {
		t.Run(c.name, func(t *testing.T) {
			next := listen(t)
			t.Setenv("WATCHDOG_USEC", "20000")
			n, err := NewNotifier()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() {
				defer close(done)
				n.Watch(ctx, func() error { return c.err })
			}()
			for range 3 {
				if got := next(); got != c.want {
					t.Errorf("told %q, want %q", got, c.want)
				}
			}
			cancel()
			<-done
		})
	}
}

func TestStateFolderIsOfOneProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := OpenDir(dir); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("folder is %v, %v", st.Mode(), err)
	}
	unlock, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("used by another drtmd (process %d)", os.Getpid())
	if _, err := Lock(dir); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("second lock: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again(); err != nil {
		t.Fatal(err)
	}
}

func TestFolderOfAnotherUserIsRefusedUntouched(t *testing.T) {
	const stranger = 12345
	dir, owner := "/", 0 // which is not of whoever is not root
	if os.Getuid() == 0 {
		dir, owner = t.TempDir(), stranger
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, stranger, -1); err != nil {
			t.Skipf("giving a folder to another user, as only root can: %v", err)
		}
	}
	before, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("folder %s is of user %d, not of %d", dir, owner, os.Getuid())
	if err := OpenDir(dir); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if after, err := os.Stat(dir); err != nil || after.Mode() != before.Mode() {
		t.Errorf("the folder's mode was %v, is %v (%v)", before.Mode(), after.Mode(), err)
	}
}

func TestFolderThatOthersMayReadIsClosedToThem(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := OpenDir(dir); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("folder is %v, %v", st.Mode(), err)
	}
}

func TestFoldersFollowSystemd(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "/var/lib/a:/var/lib/b")
	t.Setenv("RUNTIME_DIRECTORY", "/run/a")
	if s, r := StateDir(""), RuntimeDir(""); s != "/var/lib/a" || r != "/run/a" {
		t.Errorf("got %s and %s", s, r)
	}
	if s := StateDir("/x"); s != "/x" {
		t.Errorf("what was asked for gave %s", s)
	}
}

func TestDeviceNUMAReadsSysfs(t *testing.T) {
	class := t.TempDir()
	for name, text := range map[string]string{"two": "1\n", "none": "-1\n", "odd": "x\n"} {
		dir := filepath.Join(class, name, "device")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "numa_node"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]int{"two": 1, "none": -1, "odd": -1, "missing": -1} {
		if got := deviceNUMA(class, name); got != want {
			t.Errorf("%s: node %d, want %d", name, got, want)
		}
	}
}

func TestUnitsSayWhatTheDaemonNeedsAndVerify(t *testing.T) {
	units, err := filepath.Glob("../../../../scripts/systemd/*.service")
	if err != nil || len(units) != 2 {
		t.Fatalf("units %v, %v", units, err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range units {
		t.Run(filepath.Base(unit), func(t *testing.T) {
			b, err := os.ReadFile(unit)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"Type=notify", "WatchdogSec=", "ExecReload=/bin/kill -HUP $MAINPID",
				"LimitMEMLOCK=infinity", "StateDirectory=drtmd", "RuntimeDirectory=drtmd",
				"Restart=on-failure", "ExecStart=/usr/local/bin/drtmd serve --config "} {
				if !strings.Contains(string(b), "\n"+want) {
					t.Errorf("lacks %s", want)
				}
			}
			tool, err := exec.LookPath("systemd-analyze")
			if err != nil {
				return // the directives were checked above
			}
			copied := filepath.Join(t.TempDir(), filepath.Base(unit))
			text := strings.ReplaceAll(string(b), "/usr/local/bin/drtmd", self)
			if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(tool, "verify", "--man=no", copied).CombinedOutput(); err != nil ||
				strings.Contains(string(out), "Unknown") {
				t.Errorf("systemd-analyze: %v\n%s", err, out)
			}
		})
	}
}
