//go:build linux && amd64

package fabric

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestLastToLeaveRemovesTheRunDirectory(t *testing.T) {
	dir := testDir(t)
	a, b := openTest(t, dir), openTest(t, dir)
	if a.Self() == b.Self() || a.Self().Incarnation == 0 {
		t.Fatalf("members %v and %v", a.Self(), b.Self())
	}
	if got := a.Peers(); !slices.Equal(got, []ProcID{a.Self(), b.Self()}) {
		t.Fatalf("peers %v", got)
	}
	must(t, a.Close())
	if got := b.Peers(); !slices.Equal(got, []ProcID{b.Self()}) {
		t.Fatalf("peers %v after one left", got)
	}
	must(t, b.Close())
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("run directory is still there: %v", err)
	}
	must(t, b.Close()) // twice is harmless
	if b.Alive(b.Self()) || b.Peers() != nil || b.PID(b.Self()) != 0 {
		t.Error("a closed fabric still sees peers")
	}
}

func TestOpenAndCloseMayRace(t *testing.T) {
	dir := testDir(t)
	errs := make(chan error)
	const members, rounds = 8, 20
	for range members {
		go func() {
			var err error
			for range rounds {
				f, openErr := Open(Options{Dir: dir})
				if err = openErr; err != nil {
					break
				}
				if !f.Alive(f.Self()) {
					err = errors.New("not alive right after Open")
				}
				if err = errors.Join(err, f.Close()); err != nil {
					break
				}
			}
			errs <- err
		}()
	}
	for range members {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("run directory is still there: %v", err)
	}
}

func TestOpenRefusesDirectoriesOthersCouldEnter(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(dir string) error
		want    error
		says    string
	}{
		{"group may enter", func(d string) error { return os.Mkdir(d, 0o750) }, ErrUnsafeDir,
			"chmod 700 "},
		{"a file", func(d string) error { return os.WriteFile(d, nil, 0o600) }, ErrUnsafeDir,
			"not a directory"},
		{"a link", func(d string) error { return os.Symlink("/tmp", d) }, ErrUnsafeDir,
			"not a directory"},
		{"parent missing", func(d string) error { return os.Remove(filepath.Dir(d)) }, unix.ENOENT,
			"mkdir -p "},
		{"lock is a fifo", func(d string) error {
			return errors.Join(os.Mkdir(d, 0o700), unix.Mkfifo(filepath.Join(d, lockName), 0o600))
		}, ErrUnsafeFile, "lock: not a regular file that is private to this user: a pipe, "},
		{"lock is a link", func(d string) error {
			return errors.Join(os.Mkdir(d, 0o700), os.Symlink("/dev/null", filepath.Join(d, lockName)))
		}, ErrUnsafeFile, "rm -r "},
		{"lock is a socket", func(d string) error {
			return errors.Join(os.Mkdir(d, 0o700),
				unix.Mknod(filepath.Join(d, lockName), unix.S_IFSOCK|0o600, 0))
		}, ErrUnsafeFile, "lock: not a regular file"},
		{"slots open to all", func(d string) error {
			p := filepath.Join(d, slotsName)
			return errors.Join(os.Mkdir(d, 0o700), os.WriteFile(p, nil, 0o600), os.Chmod(p, 0o666))
		}, ErrUnsafeFile, "mode 0666"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := testDir(t)
			must(t, c.prepare(dir))
			_, err := Open(Options{Dir: dir})
			wantErr(t, err, c.want, c.says)
		})
	}
}

func TestRunDirectoryWhereNoneCanBe(t *testing.T) {
	for _, dir := range []string{"/proc/drtmd", "/sys/drtmd"} {
		_, err := Open(Options{Dir: dir})
		var e *Error
		if !errors.As(err, &e) {
			t.Fatal(dir, err)
		}
		if e.Hint != "name a directory that this user may write" {
			t.Errorf("no good hint: %v", err)
		}
	}
}

func TestOtherUsersAreRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	dir := testDir(t)
	f := openTest(t, dir)
	must(t, os.Chmod(filepath.Dir(dir), 0o755)) // MkdirTemp's 0700 would refuse too early
	bin := filepath.Join(filepath.Dir(dir), "child")
	copyFile(t, os.Args[0], bin)
	cmd := exec.Command(bin)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), roleEnv+"=member", dirEnv+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.Output()
	if err == nil || !strings.Contains(string(out), "owned by uid 0 (run as uid 0") {
		t.Errorf("other user got %v: %s", err, out)
	}
	if n := len(f.Peers()); n != 1 {
		t.Errorf("%d peers", n)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	must(t, err)
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	must(t, err)
	_, err = io.Copy(out, in)
	must(t, errors.Join(err, out.Close()))
}

func TestKilledProcessIsDeadAndItsRemainsAreReclaimed(t *testing.T) {
	dir := testDir(t)
	f := openTest(t, dir)
	c := startChild(t, "member", dir)
	died := f.Watch(c.id)
	if !f.Alive(c.id) || f.PID(c.id) != c.cmd.Process.Pid {
		t.Fatalf("child %v: alive %v, pid %d", c.id, f.Alive(c.id), f.PID(c.id))
	}
	if _, err := f.Call(c.id, kindEcho, nil, 0); err != nil {
		t.Fatal(err) // leaves an idle connection behind, which dies with the child
	}
	wantOpen(t, died)
	c.kill()
	if f.Alive(c.id) {
		t.Fatal("alive after its death")
	}
	wantClosed(t, died)
	wantClosed(t, f.Watch(c.id)) // asked too late
	_, err := f.Call(c.id, kindEcho, nil, 0)
	wantErr(t, err, ErrPeerDead)
	_, err = f.Import(c.id, 1)
	wantErr(t, err, ErrPeerDead)
	_, err = f.ImportFD(c.id, 1)
	wantErr(t, err, ErrPeerDead)
	if !slices.Contains(dirNames(t, dir), c.id.String()) {
		t.Fatal("a killed process cannot have removed its socket")
	}

	next := openTest(t, dir)
	if next.Self().Slot != c.id.Slot || next.Self() == c.id {
		t.Errorf("the slot of %v was not used again: %v", c.id, next.Self())
	}
	if slices.Contains(dirNames(t, dir), c.id.String()) {
		t.Error("the dead one's socket is still there")
	}
	if f.Alive(c.id) {
		t.Error("the dead one came back with its slot's new owner")
	}
	if !f.Alive(next.Self()) {
		t.Error("the slot's new owner is not alive")
	}
}

func TestStoppedProcessIsAliveAndDoesNotAnswer(t *testing.T) {
	dir := testDir(t)
	f := openTest(t, dir)
	c := startChild(t, "member", dir)
	died := f.Watch(c.id)
	c.pause()
	const timeout = 50 * time.Millisecond
	start := time.Now()
	_, err := f.Call(c.id, kindEcho, []byte("hello"), timeout)
	wantErr(t, err, ErrPeerTimeout, "may be stopped")
	if took := time.Since(start); took < timeout || took > timeout+time.Second {
		t.Errorf("call with timeout %v took %v", timeout, took)
	}
	start = time.Now()
	_, err = f.Import(c.id, 1)
	wantErr(t, err, ErrPeerTimeout)
	if took := time.Since(start); took > DefaultTimeout+time.Second {
		t.Errorf("import took %v", took)
	}
	if !f.Alive(c.id) {
		t.Error("a stopped process is dead")
	}
	wantOpen(t, died)
	c.signal(unix.SIGCONT)
	answer, err := f.Call(c.id, kindEcho, []byte("hello"), longEnough)
	must(t, err)
	if string(answer) != "child: hello" {
		t.Errorf("answer %q", answer)
	}
	c.leave()
	wantClosed(t, died)
}

// A peer that is stopped with a full backlog accepts no connection at all.
func TestFullBacklogIsATimeout(t *testing.T) {
	dir := testDir(t)
	f := openTest(t, dir)
	c := startChild(t, "member", dir)
	c.pause()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer func() { closeFD(fd) }()
	addr := &unix.SockaddrUnix{Name: filepath.Join(dir, c.id.String())}
	var held []int
	defer func() { closeAll(held) }()
	for err = unix.Connect(fd, addr); err == nil; err = unix.Connect(fd, addr) {
		held = append(held, fd)
		fd, err = unix.Socket(unix.AF_UNIX,
			unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		must(t, err)
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatalf("connecting ended with %v", err)
	}
	died := f.Watch(c.id)
	_, err = f.Call(c.id, kindEcho, nil, 30*time.Millisecond)
	wantErr(t, err, ErrPeerTimeout)
	wantOpen(t, died)
	c.kill()
	wantClosed(t, died) // by looking at the lock, without a connection
}

func TestFullFabric(t *testing.T) {
	dir := testDir(t)
	openTest(t, dir)
	fd, err := unix.Open(filepath.Join(dir, slotsName), unix.O_RDWR|unix.O_CLOEXEC, 0)
	must(t, err)
	l := unix.Flock_t{Type: unix.F_WRLCK, Start: 1, Len: MaxProcs - 1}
	must(t, unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &l))
	_, err = Open(Options{Dir: dir})
	wantErr(t, err, ErrFull, "1024", "another directory")
	closeFD(fd)
	openTest(t, dir)
}

func TestDamagedSlotsFile(t *testing.T) {
	for _, c := range []struct{ name, content string }{
		{"empty", ""},
		{"short", "drtmdfab"},
		{"garbage", strings.Repeat("\xff", slotsFileBytes)},
		{"too long", string(newSlotsHead()) + strings.Repeat("\x00", slotsFileBytes)},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := testDir(t)
			must(t, os.Mkdir(dir, 0o700))
			path := filepath.Join(dir, slotsName)
			must(t, os.WriteFile(path, []byte(c.content), 0o600))
			f := openTest(t, dir) // nobody uses it: written anew
			must(t, os.WriteFile(path, []byte(c.content), 0o600))
			f.Peers() // reads garbage
			f.Alive(ProcID{Slot: 7, Incarnation: ^uint64(0)})
			_, err := Open(Options{Dir: dir})
			wantErr(t, err, ErrCorrupt, "another version")
		})
	}
}

// A start that fails for want of room leaves nothing of the run directory.
func TestFullFileSystem(t *testing.T) {
	for _, options := range []string{"size=4k", "size=8k", "nr_inodes=2", "nr_inodes=3",
		"nr_inodes=4"} {
		t.Run(options, func(t *testing.T) {
			root := t.TempDir()
			if err := unix.Mount("none", root, "tmpfs", 0, options); err != nil {
				t.Skipf("needs the right to mount: %v", err)
			}
			defer func() { must(t, unix.Unmount(root, 0)) }()
			dir := filepath.Join(root, "run")
			if f, err := Open(Options{Dir: dir}); !errors.Is(err, unix.ENOSPC) {
				t.Fatalf("%v", errors.Join(err, f.Close()))
			}
			if names := dirNames(t, root); len(names) > 0 {
				t.Errorf("left %v, with %v", names, dirNames(t, dir))
			}
		})
	}
}

// A start that finds a table of another version in use leaves it as it is.
func TestFailedStartLeavesMembersAlone(t *testing.T) {
	dir := testDir(t)
	a := openTest(t, dir)
	path := filepath.Join(dir, slotsName)
	good, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, append([]byte("other"), good[5:]...), 0o600))
	_, err = Open(Options{Dir: dir})
	wantErr(t, err, ErrCorrupt, "end the processes")
	must(t, os.WriteFile(path, good, 0o600))
	if b := openTest(t, dir); !b.Alive(a.Self()) {
		t.Error("the member is not seen any more")
	}
}

func TestGarbageInTheRunDirectoryIsLeftAlone(t *testing.T) {
	dir := testDir(t)
	must(t, os.MkdirAll(filepath.Join(dir, keptName), 0o700))
	for _, name := range []string{"p1.1", "p99999.0000000000000001", "pp", "notes", "kept/.hidden"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	f, err := Open(Options{Dir: dir})
	must(t, err)
	must(t, f.Close())
	want := []string{"kept", "notes", "p1.1", "p99999.0000000000000001", "pp"}
	if got := dirNames(t, dir); !slices.Equal(got, want) {
		t.Errorf("left %v, want %v", got, want)
	}
}

func TestStoppedLockHolderIsNamed(t *testing.T) {
	dir := testDir(t)
	f := openTest(t, dir)
	must(t, f.dir.lock())
	_, err := Open(Options{Dir: dir, lockWait: 20 * time.Millisecond})
	f.dir.unlock()
	wantErr(t, err, ErrBusy, "resume or end process ")
	openTest(t, dir)
}

func TestLongDirectory(t *testing.T) {
	dir := filepath.Join(filepath.Dir(testDir(t)), strings.Repeat("x", 200))
	a, b := openTest(t, dir), openTest(t, dir)
	b.Handle(kindEcho, func(_ ProcID, req []byte) ([]byte, error) { return req, nil })
	answer, err := a.Call(b.Self(), kindEcho, []byte("far"), 0)
	must(t, err)
	if string(answer) != "far" {
		t.Errorf("answer %q", answer)
	}
}

func TestDefaultDirectoryIsMadeAndRemoved(t *testing.T) {
	for range 2 {
		f, err := Open(Options{})
		must(t, err)
		if f.Dir() != DefaultDir() {
			t.Errorf("directory %s", f.Dir())
		}
		var st unix.Stat_t
		must(t, unix.Stat(userDir(), &st))
		if st.Mode&0o777 != 0o700 {
			t.Errorf("mode %#o", st.Mode)
		}
		alone := len(f.Peers()) == 1
		must(t, f.Close())
		if _, err := os.Stat(DefaultDir()); alone && err == nil {
			names := dirNames(t, DefaultDir())
			if slices.Contains(names, f.Self().String()) {
				t.Errorf("left %v", names)
			}
		}
	}
}
