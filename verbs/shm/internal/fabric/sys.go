//go:build linux && amd64

package fabric

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// fail builds the package's error.
func fail(op, what string, err error, hint string) error {
	return &Error{Op: op, What: what, Err: err, Hint: hint}
}

// closeFD closes a descriptor whose close error says nothing (Linux frees it in any case).
func closeFD(fd int) { _ = unix.Close(fd) }

// retry repeats a system call that a signal interrupted; the Go runtime sends signals itself.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func retryFD(call func() (int, error)) (fd int, err error) {
	err = retry(func() (err error) { fd, err = call(); return err })
	return fd, err
}

// setLock sets or clears an open-file-description lock on one byte, without waiting. Such a lock
// belongs to the open file, not to the process: two memberships in one process exclude each
// other, and it lasts until the last descriptor or mapping of that open file is gone. Hence a
// descriptor that carries a lock is never mapped and never sent to a peer.
func setLock(fd int, kind int16, offset int64) error {
	l := unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: offset, Len: 1}
	return retry(func() error { return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &l) })
}

// lockedByOther reports whether another open file description holds a lock on the byte.
func lockedByOther(fd int, offset int64) (bool, error) {
	l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: offset, Len: 1}
	err := retry(func() error { return unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &l) })
	return err == nil && l.Type != unix.F_UNLCK, err
}
