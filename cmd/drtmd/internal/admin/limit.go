package admin

import (
	"net"
	"sync"
)

// limited bounds the connections of a listener; more are closed at once.
type limited struct {
	net.Listener
	tokens chan struct{}
}

func limit(l net.Listener, connections int) net.Listener {
	return &limited{Listener: l, tokens: make(chan struct{}, connections)}
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.tokens <- struct{}{}:
			return &counted{Conn: c, l: l}, nil
		default:
			_ = c.Close() // whatever it says, the others go on
		}
	}
}

type counted struct {
	net.Conn
	l    *limited
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { <-c.l.tokens })
	return c.Conn.Close()
}
