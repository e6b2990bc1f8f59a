package endtoend

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// slowSync in the environment names a file: while it is there, each fsync of an embedded etcd's process
// takes as long as the file says.
const slowSync = "DRTMD_TEST_SLOW_SYNC"

// noSlowSync ends the name of a file that says why the process cannot.
const noSlowSync = ".refused"

// slowSyncs delays fsyncs of this process: a filter of system calls has the kernel ask this process
// itself, which answers later (seccomp_unotify(2)). It needs neither privileges nor a disk.
func slowSyncs(file string) error {
	fd, err := filterSyncs()
	if err != nil {
		return err
	}
	go func() {
		for {
			q := notification{}
			if err := ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&q)); err != nil {
				continue // the thread that called was interrupted
			}
			go func() {
				if text, err := os.ReadFile(file); err == nil {
					if d, err := time.ParseDuration(strings.TrimSpace(string(text))); err == nil {
						time.Sleep(d)
					}
				}
				const goOn = 1 // SECCOMP_USER_NOTIF_FLAG_CONTINUE
				_ = ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&answer{id: q.id, flags: goOn}))
			}()
		}
	}()
	return nil
}

// notification is struct seccomp_notif, answer is struct seccomp_notif_resp of linux/seccomp.h.
type notification struct {
	id         uint64
	pid, flags uint32
	nr         int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

type answer struct {
	id    uint64
	val   int64
	err   int32
	flags uint32
}

func ioctl(fd int, request uint, arg unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg))
	if errno != 0 {
		return errno
	}
	return nil
}

// filterSyncs has the kernel ask on a descriptor before each fsync of any thread.
func filterSyncs() (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FSYNC, Jt: 1},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FDATASYNC, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_TSYNC|
			unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH, uintptr(unsafe.Pointer(&p)))
	if errno != 0 {
		return 0, fmt.Errorf("seccomp: %w", errno)
	}
	return int(fd), nil
}

// TestASlowDiskBelowEtcdIsNamed in status and in the log, by an fsync that is delayed.
func TestASlowDiskBelowEtcdIsNamed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	file := filepath.Join(l.dir, "delay")
	l.env = append(l.env, slowSync+"="+file)
	n := l.start("n0", longLease...).await()
	if why, err := os.ReadFile(file + noSlowSync); err == nil {
		t.Skipf("this system delays no system calls: %s", why)
	}
	if s := l.self(n); s == nil || s.SlowDisk != "" {
		t.Errorf("slow before it is: %+v", s)
	}
	if err := os.WriteFile(file, []byte("300ms"), 0o600); err != nil {
		t.Fatal(err)
	}
	found := ""
	until(t, "the disk is named", func() bool {
		l.bench(n, "--duration", "50ms", "--distributed", "0") // which changes the shard map
		if s := l.self(n); s != nil {
			found = s.SlowDisk
		}
		return found != ""
	})
	for _, want := range []string{"the disk of " + n.argument("--node-state-dir") + " is slow",
		"fsync", "move node.state_dir"} {
		if !strings.Contains(found, want) {
			t.Errorf("no %q in %q", want, found)
		}
	}
	if out, _, code := l.run("status", "--cluster", n.control); code != 0 || !strings.Contains(out,
		"is slow") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if text := n.err.String(); !strings.Contains(text, "is slow") {
		t.Errorf("not in the log:\n%s", text)
	}
}
