package etcdmember

import (
	"context"
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"
)

// current shakes hands as a client with the configuration of the moment.
type current struct {
	credentials.TransportCredentials // what it says of itself
	now                              func() *tls.Config
}

func newCurrent(now func() *tls.Config) credentials.TransportCredentials {
	return &current{credentials.NewTLS(now()), now}
}

func (c *current) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn,
	credentials.AuthInfo, error) {
	return credentials.NewTLS(c.now()).ClientHandshake(ctx, authority, raw)
}

func (c *current) Clone() credentials.TransportCredentials { return newCurrent(c.now) }
