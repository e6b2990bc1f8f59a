//go:build linux && amd64

package fabric

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxSunPath is the longest path that fits a unix socket address (108 with the final zero).
const maxSunPath = 107

// backlogPause is the wait between two attempts to connect to a peer whose backlog is full.
const backlogPause = 10 * time.Millisecond

// framePool holds receive and send buffers. A connection borrows one only while a message is
// there, so that idle connections cost no 64 KiB each. One byte more than a frame may have shows
// an oversize datagram.
var framePool = sync.Pool{New: func() any { b := make([]byte, 0, maxFrameBytes+1); return &b }}

// conn is one connection, either direction. It carries one request at a time.
type conn struct {
	uc   *net.UnixConn
	raw  syscall.RawConn
	once sync.Once
}

func newConn(uc *net.UnixConn) (*conn, error) {
	raw, err := uc.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &conn{uc: uc, raw: raw}, nil
}

func (c *conn) close() { c.once.Do(func() { _ = c.uc.Close() }) }

// checkPeer refuses another user's process. Of a connection that we made, the credentials are
// those of the process that listens.
func (c *conn) checkPeer() error {
	var cred *unix.Ucred
	var err error
	ctlErr := c.raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(ctlErr, err); err != nil {
		return err
	}
	if int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: peer has uid %d", unix.EPERM, cred.Uid)
	}
	return nil
}

// send writes one frame with at most one descriptor (fd < 0: none), until the write deadline.
func (c *conn) send(f *frame, fd int) error {
	buf := framePool.Get().(*[]byte)
	defer framePool.Put(buf)
	b := f.appendTo((*buf)[:0])
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	var err error
	ioErr := c.raw.Write(func(s uintptr) bool {
		err = retry(func() error {
			return unix.Sendmsg(int(s), b, rights, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		})
		return err != unix.EAGAIN
	})
	return errors.Join(ioErr, err)
}

// receive reads one frame into a pooled buffer and calls use with it; what use gets is dead when
// it returns. wantFD says whether descriptors may come along: those that do belong to use, and
// without wantFD the kernel drops them. The read deadline holds for the wait, not for use.
func (c *conn) receive(wantFD bool, use func(f frame, fds []int) error) error {
	var (
		buf       *[]byte
		n, flags  int
		fds       []int
		err       error
		oobBuffer [64]byte // room for more descriptors than one, to see and close them
	)
	ioErr := c.raw.Read(func(s uintptr) bool {
		buf = framePool.Get().(*[]byte)
		var oob []byte
		if wantFD {
			oob = oobBuffer[:]
		}
		var oobN int
		err = retry(func() (err error) {
			n, oobN, flags, _, err = unix.Recvmsg(int(s), (*buf)[:cap(*buf)], oob,
				unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
			return err
		})
		if err == unix.EAGAIN {
			framePool.Put(buf)
			buf = nil
			return false
		}
		if err == nil && wantFD {
			fds = parseRights(oob[:oobN])
		}
		return true
	})
	if buf != nil {
		defer framePool.Put(buf)
	}
	if err := errors.Join(ioErr, err); err != nil {
		return err
	}
	f, err := checkDatagram((*buf)[:n], flags)
	if err != nil {
		closeAll(fds)
		return err
	}
	return use(f, fds)
}

// checkDatagram turns what recvmsg delivered into a frame. Nothing at all is the end of the
// connection (an empty datagram, which no sender of ours sends, looks the same).
func checkDatagram(b []byte, flags int) (frame, error) {
	if len(b) == 0 {
		return frame{}, io.EOF
	}
	if flags&unix.MSG_TRUNC != 0 || len(b) > maxFrameBytes {
		return frame{}, fmt.Errorf("%w: over %d bytes", ErrBadFrame, maxFrameBytes)
	}
	return parseFrame(b)
}

// parseRights collects every descriptor that a message brought; malformed control data comes
// from the kernel and does not happen.
func parseRights(oob []byte) []int {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	var all []int
	for i := range messages {
		if fds, err := unix.ParseUnixRights(&messages[i]); err == nil {
			all = append(all, fds...)
		}
	}
	return all
}

func closeAll(fds []int) {
	for _, fd := range fds {
		closeFD(fd)
	}
}

// socketAddr is the address of a socket in the directory. A path that is too long for an address
// goes through the directory's descriptor instead.
func socketAddr(d *runDir, name string) (*net.UnixAddr, error) {
	path := d.join(name)
	if len(path) > maxSunPath {
		if _, err := os.Stat("/proc/self/fd"); err != nil {
			return nil, fmt.Errorf("%w: %d bytes, and /proc, by which it could be shortened, is not mounted",
				unix.ENAMETOOLONG, len(path))
		}
		path = "/proc/self/fd/" + strconv.Itoa(d.fd) + "/" + name
	}
	return &net.UnixAddr{Name: path, Net: "unixpacket"}, nil
}

// listen makes the socket, mode 0600; the directory, 0700, guards it before the mode is set.
func listen(d *runDir, name string) (*net.UnixListener, error) {
	addr, err := socketAddr(d, name)
	if err != nil {
		return nil, err
	}
	lis, err := net.ListenUnix("unixpacket", addr)
	if err != nil {
		return nil, err
	}
	lis.SetUnlinkOnClose(false) // by path; Close removes it relative to the directory
	if err := os.Chmod(addr.Name, 0o600); err != nil {
		return nil, errors.Join(err, lis.Close())
	}
	return lis, nil
}

// dialRaw connects to a socket of the directory. A peer that is stopped accepts nothing, but
// connecting succeeds while its backlog has room; when it has none, this tries until deadline or
// done.
func dialRaw(d *runDir, name string, deadline time.Time,
	done <-chan struct{}) (*net.UnixConn, error) {
	addr, err := socketAddr(d, name)
	if err != nil {
		return nil, err
	}
	for {
		uc, err := net.DialUnix("unixpacket", nil, addr)
		if !errors.Is(err, unix.EAGAIN) {
			return uc, err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return nil, os.ErrDeadlineExceeded
		}
		select {
		case <-done:
			return nil, ErrClosed
		case <-time.After(min(backlogPause, left)):
		}
	}
}
