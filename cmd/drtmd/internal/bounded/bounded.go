// Package bounded limits the connections of a listener, so that a client that opens many cannot
// displace established connections.
package bounded

import (
	"net"
	"sync"
)

// Listener takes at most so many connections at a time from l, and those only that are welcome; the
// others are closed at once. welcome may be nil: all are.
func Listener(l net.Listener, most int, welcome func(net.Conn) bool) net.Listener {
	return &listener{Listener: l, places: make(chan struct{}, most), welcome: welcome}
}

type listener struct {
	net.Listener
	places  chan struct{} // one in it for each connection
	welcome func(net.Conn) bool
}

// Accept gives the next connection that has a place.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.welcome == nil || l.welcome(c) {
			select {
			case l.places <- struct{}{}:
				return &conn{Conn: c, l: l}, nil
			default:
			}
		}
		_ = c.Close() // whatever it says, the others go on
	}
}

// conn gives its place back when it is closed.
type conn struct {
	net.Conn
	l    *listener
	once sync.Once
}

func (c *conn) Close() error {
	c.once.Do(func() { <-c.l.places })
	return c.Conn.Close()
}
