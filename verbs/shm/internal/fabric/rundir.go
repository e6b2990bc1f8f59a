//go:build linux && amd64

package fabric

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lockName  = "lock"
	slotsName = "slots"
	keptName  = "kept"

	// lockWait bounds the wait for the run directory's lock. Its holder does a few dozen system
	// calls, so only a stopped one keeps it this long.
	lockWait = 5 * time.Second
	lockPoll = 2 * time.Millisecond
	// openRetries bounds how often Open meets a directory that its last member just removed.
	openRetries = 100
)

// DefaultDir is the run directory that an empty Options.Dir stands for.
func DefaultDir() string { return filepath.Join(userDir(), "default") }

// userDir is the parent of this user's default run directories.
func userDir() string { return fmt.Sprintf("/dev/shm/drtmd-%d", os.Geteuid()) }

// runDir is an open run directory. Names in it are resolved relative to fd, so that a rename of
// the path cannot redirect them.
type runDir struct {
	path   string
	fd     int
	mu     sync.Mutex // held while this membership has the lock: OFD locks do not nest
	lockFD int
	wait   time.Duration // bound on the wait for the lock
}

// openRunDir makes the directory if missing, checks that it is private, and returns it locked.
func openRunDir(path string, wait time.Duration) (*runDir, error) {
	if path == "" {
		path = DefaultDir()
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fail("open run directory", path, err, "")
	}
	for range openRetries {
		d, err := tryRunDir(path, wait)
		if d != nil || err != nil {
			return d, err
		}
	}
	return nil, fail("open run directory", path, ErrBusy, "it is being removed again and again")
}

// tryRunDir is one attempt; nil and nil say that the directory went away meanwhile.
func tryRunDir(path string, wait time.Duration) (*runDir, error) {
	if filepath.Dir(path) == userDir() {
		if err := ensureDir(userDir()); err != nil {
			return nil, err
		}
	}
	if err := ensureDir(path); err != nil {
		if filepath.Dir(path) == userDir() {
			_ = unix.Rmdir(userDir()) // refused unless it is empty
			if errors.Is(err, unix.ENOENT) {
				return nil, nil
			}
		}
		return nil, err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	} else if err != nil {
		return nil, fail("open run directory", path, err, "")
	}
	d := &runDir{path: path, fd: fd, lockFD: -1, wait: wait}
	if err := checkPrivate(fd, path); err != nil {
		return nil, errors.Join(err, d.close())
	}
	d.lockFD, err = d.open(lockName, unix.O_RDWR|unix.O_CREAT)
	if errors.Is(err, unix.ENOENT) {
		return nil, d.close()
	} else if err != nil {
		removeDir(path) // it is ours, and empty if we have just made it
		return nil, errors.Join(fail("open", d.join(lockName), err, d.fileHint(lockName, err)),
			d.close())
	}
	if err := d.lock(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	var st unix.Stat_t
	if err := unix.Fstat(d.lockFD, &st); err != nil || st.Nlink == 0 {
		d.unlock() // removed with its directory while we waited for it
		return nil, d.close()
	}
	return d, nil
}

// ensureDir makes path with mode 0700; one that exists is left as it is.
func ensureDir(path string) error {
	err := unix.Mkdir(path, 0o700)
	switch {
	case err == nil, errors.Is(err, unix.EEXIST):
		return checkPrivatePath(path)
	case errors.Is(err, unix.ENOENT) && unix.Access(filepath.Dir(path), unix.F_OK) != nil:
		return fail("make run directory", path, err, "mkdir -p "+filepath.Dir(path))
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EROFS), errors.Is(err, unix.EPERM),
		errors.Is(err, unix.ENOENT):
		// EPERM and, with a parent, ENOENT: file systems that take no directories, as sysfs and
		// procfs.
		return fail("make run directory", path, err, "name a directory that this user may write")
	}
	return fail("make run directory", path, err, "")
}

func checkPrivatePath(path string) error {
	flags := unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Open(path, flags, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil // removed by its last member; the caller tries again
	} else if err != nil {
		return fail("open run directory", path, err, "")
	}
	defer closeFD(fd)
	return checkPrivate(fd, path)
}

// checkPrivate refuses what another user owns, can enter or could have planted as a link.
func checkPrivate(fd int, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fail("examine run directory", path, err, "")
	}
	const op = "open run directory"
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fail(op, path, fmt.Errorf("%w: not a directory", ErrUnsafeDir),
			"name a directory, or a path where there is nothing")
	case int(st.Uid) != os.Geteuid():
		err := fmt.Errorf("%w: owned by uid %d", ErrUnsafeDir, st.Uid)
		return fail(op, path, err, fmt.Sprintf("run as uid %d or name another one", st.Uid))
	case st.Mode&0o077 != 0:
		err := fmt.Errorf("%w: mode %04o", ErrUnsafeDir, st.Mode&0o7777)
		return fail(op, path, err, "chmod 700 "+path)
	}
	return nil
}

func (d *runDir) join(name string) string { return filepath.Join(d.path, name) }

// open opens a regular file of the directory that only this user can open.
func (d *runDir) open(name string, flags int) (int, error) {
	// O_NONBLOCK keeps a planted fifo from blocking us; regular files ignore it.
	flags |= unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	fd, err := retryFD(func() (int, error) { return unix.Openat(d.fd, name, flags, 0o600) })
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO), errors.Is(err, unix.EISDIR):
		// A link, a socket, a directory.
		return -1, fmt.Errorf("%w: %w", ErrUnsafeFile, err)
	case err != nil:
		return -1, err
	}
	if err := checkFile(fd); err != nil {
		closeFD(fd)
		return -1, err
	}
	return fd, nil
}

// fileHint is the next step when a file of the directory's own was refused.
func (d *runDir) fileHint(name string, err error) string {
	if !errors.Is(err, ErrUnsafeFile) {
		return hintFor(err)
	}
	return "end what uses this run directory, then rm -r " + d.join(name)
}

// checkFile refuses anything but a regular file that this user alone can open.
func checkFile(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%w: a pipe, a device or a directory", ErrUnsafeFile)
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%w: owned by uid %d", ErrUnsafeFile, st.Uid)
	case st.Mode&0o077 != 0:
		return fmt.Errorf("%w: mode %04o", ErrUnsafeFile, st.Mode&0o7777)
	}
	return nil
}

// lock takes the directory's lock, waiting at most d.wait.
func (d *runDir) lock() error {
	d.mu.Lock()
	for deadline := time.Now().Add(d.wait); ; time.Sleep(lockPoll) {
		err := setLock(d.lockFD, unix.F_WRLCK, 0)
		if err == nil {
			pid := []byte(fmt.Sprintf("%-20d\n", os.Getpid()))
			_, _ = unix.Pwrite(d.lockFD, pid, 0) // only for the message of who waits
			return nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			d.mu.Unlock()
			return fail("lock", d.join(lockName), err, "")
		}
		if time.Now().After(deadline) {
			hint := d.holderHint()
			d.mu.Unlock()
			return fail("lock", d.join(lockName), ErrBusy, hint)
		}
	}
}

// holderHint names the process that holds the lock, if its note is readable.
func (d *runDir) holderHint() string {
	var b [32]byte
	n, _ := unix.Pread(d.lockFD, b[:], 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:max(n, 0)])))
	if err != nil || pid <= 0 {
		return "look for a stopped process with fuser " + d.join(lockName)
	}
	return fmt.Sprintf("resume or end process %d, which is probably stopped", pid)
}

func (d *runDir) unlock() {
	_ = setLock(d.lockFD, unix.F_UNLCK, 0) // closing the descriptor would do it too
	d.mu.Unlock()
}

// reclaim removes sockets whose process is dead and kept files whose maker was killed half-way.
// The caller holds the lock.
func (d *runDir) reclaim(alive func(ProcID) bool) {
	entries, _ := os.ReadDir(d.path) // an unreadable directory fails at the next step
	for _, e := range entries {
		if p, ok := parseProcID(e.Name()); ok && !alive(p) {
			_ = unix.Unlinkat(d.fd, e.Name(), 0)
		}
	}
	entries, _ = os.ReadDir(d.join(keptName))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), keptTempPrefix) {
			d.reclaimKeptTemp(e.Name())
		}
	}
}

// removeIfEmpty deletes what an unused run directory consists of; kept memory stays. The caller
// holds the lock and has seen that no slot is live. Others that wait for the lock find it without
// a link and start anew.
func (d *runDir) removeIfEmpty() {
	d.reclaim(func(ProcID) bool { return false })
	_ = unix.Unlinkat(d.fd, slotsName, 0)
	_ = unix.Unlinkat(d.fd, keptName, unix.AT_REMOVEDIR)
	_ = unix.Unlinkat(d.fd, lockName, 0)
	removeDir(d.path)
}

// removeDir removes a run directory that was found private; refused while anything is in it, ours
// or not.
func removeDir(path string) {
	_ = unix.Rmdir(path)
	if filepath.Dir(path) == userDir() {
		_ = unix.Rmdir(userDir())
	}
}

// memberless reports whether there is no table of slots, and so no member. The caller holds the
// lock.
func (d *runDir) memberless() bool {
	var st unix.Stat_t
	err := unix.Fstatat(d.fd, slotsName, &st, unix.AT_SYMLINK_NOFOLLOW)
	return errors.Is(err, unix.ENOENT)
}

// close gives the descriptors back and with them the lock.
func (d *runDir) close() error {
	if d.lockFD >= 0 {
		closeFD(d.lockFD)
		d.lockFD = -1
	}
	closeFD(d.fd)
	return nil
}
