package control

import (
	"context"
	"io"
	"net"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/credentials"
)

// clientCredentials shake hands with the certificates of the moment, so that Reload holds for the
// next connection of a client that lives on.
type clientCredentials struct {
	credentials.TransportCredentials // what it says of itself
	sec                              *Security
}

func newClientCredentials(sec *Security) credentials.TransportCredentials {
	return &clientCredentials{credentials.NewTLS(sec.ClientTLS()), sec}
}

func (c *clientCredentials) ClientHandshake(ctx context.Context, authority string,
	raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := credentials.NewTLS(c.sec.ClientTLS()).ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, err
	}
	if conn, err = awaitServer(ctx, conn); err != nil {
		return nil, nil, err
	}
	return conn, info, nil
}

// awaitServer waits for the first byte of a server, which is of its settings. In TLS 1.3 the client's
// handshake is over before the server has looked at the certificate: without waiting, what the client
// writes next fails with a broken pipe, and the alert that tells why is often never read.
func awaitServer(ctx context.Context, conn net.Conn) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	begun := &begunConn{Conn: conn}
	_, err := io.ReadFull(conn, begun.first[:])
	if !stop() && err == nil {
		err = ctx.Err() // a deadline is set, or will be
	}
	if err != nil {
		_ = conn.Close() // what is wrong is known
		return nil, err
	}
	return begun, nil
}

// begunConn gives back the byte that was waited for. Its one reader is that of the transport.
type begunConn struct {
	net.Conn
	first [1]byte
	given bool
}

func (c *begunConn) Read(b []byte) (int, error) {
	if c.given || len(b) == 0 {
		return c.Conn.Read(b)
	}
	c.given = true
	return copy(b, c.first[:]), nil
}

func (c *clientCredentials) Clone() credentials.TransportCredentials {
	return newClientCredentials(c.sec)
}

// serverCredentials log whom they refuse.
type serverCredentials struct {
	credentials.TransportCredentials
	log *zap.Logger
}

func (c *serverCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		c.log.Warn("refused a connection of the control plane",
			zap.Stringer("peer", raw.RemoteAddr()), zap.Error(err))
	}
	return conn, info, err
}

func (c *serverCredentials) Clone() credentials.TransportCredentials {
	return &serverCredentials{c.TransportCredentials.Clone(), c.log}
}
