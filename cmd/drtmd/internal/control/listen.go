package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unixPrefix begins the addresses of unix sockets.
const unixPrefix = "unix:"

// ErrOpen: without TLS an address beyond this host is refused.
var ErrOpen = errors.New("without TLS a daemon listens only on loopback addresses and unix sockets")

// Listen listens on HOST:PORT or unix:PATH by the rules of the control plane: beyond this host only
// with TLS, unless insecure. The socket of a unix address is for its user alone; one that a dead
// process has left is replaced.
func Listen(address string, sec *Security, insecure bool) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, unixPrefix); ok {
		return listenUnix(path)
	}
	if err := MayListen(address, sec != nil, insecure); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("%s is taken by another program (is another drtmd running there?): %w",
			address, err)
	}
	return l, err
}

// MayListen says by which rule an address is not listened on: ErrOpen, or that it is none.
func MayListen(address string, secure, insecure bool) error {
	if strings.HasPrefix(address, unixPrefix) {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address %q: expected HOST:PORT or unix:PATH: %w", address, err)
	}
	if !secure && !insecure && !Loopback(host) {
		return fmt.Errorf("%w, not %s: give control.ca, control.cert and control.key (drtmd certs "+
			"makes them), or --insecure if whoever reaches the port may own the cluster",
			ErrOpen, address)
	}
	return nil
}

// Loopback reports whether a host's name or address is this host's alone.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// probeTimeout bounds the question whether somebody listens on a socket.
const probeTimeout = time.Second

// longestPath is what the kernel takes as the address of a unix socket (unix(7): 108 with its end).
const longestPath = 107

// checkPath refuses what the kernel would without saying why.
func checkPath(path string) error {
	if len(path) > longestPath {
		return fmt.Errorf("the path of the socket %s has %d bytes, the system takes %d: name a shorter one",
			path, len(path), longestPath)
	}
	return nil
}

// checkAddress refuses what cannot be the address of a control plane.
func checkAddress(address string) error {
	if path, ok := strings.CutPrefix(address, unixPrefix); ok {
		if path == "" {
			return fmt.Errorf("address %q: expected unix:PATH, with the path of a socket", address)
		}
		return checkPath(path)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address %q: expected HOST:PORT or unix:PATH", address)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("address %q: expected HOST:PORT with a port from 1 to 65535", address)
	}
	return nil
}

func listenUnix(path string) (net.Listener, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if i, err := os.Lstat(path); err == nil {
		if i.Mode().Type() != os.ModeSocket {
			return nil, fmt.Errorf("%s exists and is no socket: name another path", path)
		}
		c, err := net.DialTimeout("unix", path, probeTimeout)
		switch {
		case err == nil:
			return nil, errors.Join(fmt.Errorf("another process listens on %s: is it another drtmd?", path),
				c.Close())
		case !errors.Is(err, unix.ECONNREFUSED): // a living one may be slow, or another user's
			return nil, fmt.Errorf("%s exists, and it is unknown whether a process listens there: %w", path,
				err)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	// The mode that the socket has before bind is the file's: it is never open to others.
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var chmod error
		err := raw.Control(func(fd uintptr) { chmod = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, chmod)
	}}
	return lc.Listen(context.Background(), "unix", path)
}

// allowedPeer reports whether a peer may connect: on unix sockets only root and the own user.
func allowedPeer(c net.Conn) bool {
	u, ok := c.(*net.UnixConn)
	return !ok || ownPeer(u)
}

// ownPeer reports whether the other end of a socket is of this user, or root.
func ownPeer(c *net.UnixConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	own := false
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		own = err == nil && (cred.Uid == 0 || int(cred.Uid) == os.Getuid())
	})
	return err == nil && own
}
