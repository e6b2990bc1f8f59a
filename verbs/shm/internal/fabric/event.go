//go:build linux && amd64

package fabric

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// eventLink is what /proc says of an eventfd.
const eventLink = "anon_inode:[eventfd]"

// EventFD wakes a sleeper in this process, signalled from here or from a peer that imported it.
// Signals add up until they are drained; there is one sleeper at a time.
type EventFD struct {
	imported bool

	mu   sync.RWMutex // guards what follows; fd is used under it, so that Close cannot race
	fd   int          // -1 once closed
	file *os.File     // made by the first Wait; owns fd from then on
}

// NewEventFD makes a non-blocking eventfd.
func NewEventFD() (*EventFD, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fail("make event", "", err, hintFor(err))
	}
	return &EventFD{fd: fd}, nil
}

// Signal wakes the sleeper. It does not block: a counter that is full has woken it already. (A
// peer that fills the counter of its own event and makes it blocking, between our look and the
// write, can hold the calling thread; nothing else waits for that.) The error wraps ErrClosed.
func (e *EventFD) Signal() error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.fd < 0 {
		return fail("signal event", "", ErrClosed, "")
	}
	if e.imported { // the flags of its open file are the peer's as well
		p := []unix.PollFd{{Fd: int32(e.fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(p, 0)
		if err == nil && n == 0 {
			return nil
		}
	}
	one := uint64(1)
	if err := e.count(unix.SYS_WRITE, &one); err != nil && err != unix.EAGAIN {
		return fail("signal event", "", err, "")
	}
	return nil
}

// Drain takes back all signals so far and reports whether there were any. It never blocks; on an
// imported event it does nothing, since only the maker sleeps on it.
func (e *EventFD) Drain() bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.fd < 0 || e.imported {
		return false
	}
	var count uint64
	return e.count(unix.SYS_READ, &count) == nil
}

// count adds n to the counter, or takes it away to n. The system call is made directly, since
// what unix.Read gets lives on the heap in race builds, and waits would allocate there.
func (e *EventFD) count(trap uintptr, n *uint64) error {
	return retry(func() error {
		_, _, errno := unix.Syscall(trap, uintptr(e.fd), uintptr(unsafe.Pointer(n)), 8)
		if errno != 0 {
			return errno
		}
		return nil
	})
}

// Wait sleeps in Go's poller until there is a signal, which it drains, or until timeout (negative:
// no limit) has passed, and reports which. For goroutines that are not locked to a thread. Close
// ends it with an error that wraps ErrClosed.
func (e *EventFD) Wait(timeout time.Duration) (bool, error) {
	const op = "wait for event"
	if e.Drain() {
		return true, nil
	}
	file, err := e.pollable()
	if err != nil {
		return false, fail(op, "", err, "")
	}
	var deadline time.Time
	if timeout >= 0 {
		deadline = time.Now().Add(timeout)
	}
	if err = file.SetReadDeadline(deadline); err == nil {
		var count [8]byte
		_, err = file.Read(count[:])
	}
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return false, nil
	case errors.Is(err, os.ErrClosed):
		return false, fail(op, "", ErrClosed, "")
	}
	return false, fail(op, "", err, "")
}

// pollable gives the file through which Go's poller waits.
func (e *EventFD) pollable() (*os.File, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.fd < 0:
		return nil, ErrClosed
	case e.imported:
		return nil, fmt.Errorf("%w: only the maker of an event waits for it", unix.EPERM)
	case e.file == nil:
		e.file = os.NewFile(uintptr(e.fd), "eventfd")
	}
	return e.file, nil
}

// FD is the descriptor, for the epoll call of a locked thread; -1 once closed. It stays e's.
func (e *EventFD) FD() int {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.fd
}

// Close closes the descriptor. Peers keep theirs. Idempotent.
func (e *EventFD) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	fd := e.fd
	e.fd = -1
	switch {
	case fd < 0:
		return nil
	case e.file != nil:
		return e.file.Close()
	}
	return unix.Close(fd)
}

// dup gives another descriptor of the same event; -1 once closed.
func (e *EventFD) dup() int {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.fd < 0 {
		return -1
	}
	fd, err := unix.FcntlInt(uintptr(e.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
}

// ExportFD lets peers fetch e as id; ids of events and of segments are apart. e stays the
// caller's: once closed, peers get ErrNoSegment.
func (f *Fabric) ExportFD(id uint64, e *EventFD) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.events[id] = e
	}
}

// UnexportFD ends ExportFD. Descriptors that peers have stay valid.
func (f *Fabric) UnexportFD(id uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.events, id)
}

// dupEvent gives a descriptor of an exported event; -1 if there is none.
func (f *Fabric) dupEvent(id uint64) int {
	f.mu.RLock()
	e := f.events[id]
	f.mu.RUnlock()
	if e == nil {
		return -1
	}
	return e.dup()
}

// ImportFD fetches event id of p for Signal; errors as for Import.
func (f *Fabric) ImportFD(p ProcID, id uint64) (*EventFD, error) {
	const op = "import event"
	if p == f.self {
		fd := f.dupEvent(id)
		if fd < 0 {
			return nil, f.peerError(op, p, ErrNoSegment)
		}
		return &EventFD{imported: true, fd: fd}, nil
	}
	var e *EventFD
	q := frame{op: opFetchEvent, payload: encodeID(id)}
	err := f.roundTrip(p, q, DefaultTimeout, func(_ frame, fds []int) error {
		if err := checkEvent(fds); err != nil {
			closeAll(fds)
			return err
		}
		e = &EventFD{imported: true, fd: fds[0]}
		return nil
	})
	if err != nil {
		return nil, f.peerError(op, p, err)
	}
	return e, nil
}

// checkEvent refuses anything but one eventfd and makes it non-blocking.
func checkEvent(fds []int) error {
	if len(fds) != 1 {
		return fmt.Errorf("%w: %d descriptors instead of one", ErrBadSegment, len(fds))
	}
	link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fds[0]))
	if err != nil || link != eventLink {
		return fmt.Errorf("%w: %.80q is not an eventfd", ErrBadSegment, link)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return fmt.Errorf("%w: %w", ErrBadSegment, err)
	}
	return nil
}

// encodeID is the payload of both fetch requests.
func encodeID(id uint64) []byte { return binary.LittleEndian.AppendUint64(nil, id) }
