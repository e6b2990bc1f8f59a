package exchange

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
)

// DefaultPort of drtmd perf --listen.
const DefaultPort = "18600"

// maxShaking bounds the handshakes at the same time; more connections wait in the kernel.
const maxShaking = 16

// Listen binds to an address. Without a host it is the loopback interface, since frames carry
// rkeys; without a port DefaultPort.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	address, err := Address(address)
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", address)
}

// Address completes HOST, :PORT or HOST:PORT with 127.0.0.1 and DefaultPort.
func Address(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		// No port: s is a host, an IPv6 address perhaps.
		host, port = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"), DefaultPort
		if _, isIP := netip.ParseAddr(host); strings.Contains(host, ":") && isIP != nil {
			return "", err
		}
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if port == "" {
		port = DefaultPort
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return "", fmt.Errorf("%q is no TCP port: 0 to 65535", port)
	}
	return net.JoinHostPort(host, port), nil
}

// WaitForPeer accepts connections until one of them passes the handshake, and gives it back.
// What does not pass is refused within HandshakeTimeout and told to refused; it does not end the
// wait, nor hold up others. The listener is closed in the end: one peer is served.
func WaitForPeer(ctx context.Context, l net.Listener, own Hello,
	refused func(from net.Addr, err error)) (*Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	defer func() { _ = l.Close() }()

	winner := make(chan *Conn)
	ended := make(chan error, 1)
	group.Go(func() { ended <- acceptAll(ctx, l, own, winner, refused) })
	select {
	case c := <-winner:
		return c, nil
	case err := <-ended:
		return nil, err
	}
}

// acceptAll runs the handshakes; the first that passes is sent to winner, later ones are told
// that this side is busy.
func acceptAll(ctx context.Context, l net.Listener, own Hello, winner chan<- *Conn,
	refused func(net.Addr, error)) error {
	var group sync.WaitGroup
	defer group.Wait()
	places := make(chan struct{}, maxShaking)
	for {
		places <- struct{}{} // frees within HandshakeTimeout
		c, err := l.Accept()
		if err != nil {
			if cause := ctx.Err(); cause != nil {
				return cause
			}
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			return fmt.Errorf("accept: %w", err)
		}
		group.Go(func() {
			defer func() { <-places }()
			conn, err := Accept(ctx, c, own)
			if err != nil {
				if ctx.Err() == nil {
					refused(c.RemoteAddr(), err)
				}
				return
			}
			select {
			case winner <- conn:
			case <-ctx.Done():
				_ = conn.Send(KindFail, Fail{Reason: "it serves another peer already"})
				_ = conn.Close()
			}
		})
	}
}
