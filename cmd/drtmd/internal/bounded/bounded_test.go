package bounded

import (
	"net"
	"testing"
	"time"
)

// TestPlacesAreGivenBack and those without one, or unwelcome, are closed at once.
func TestPlacesAreGivenBack(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unwelcome := ""
	l := Listener(inner, 2, func(c net.Conn) bool { return c.RemoteAddr().String() != unwelcome })
	defer l.Close()
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() }) // the test may have done so
		return c
	}
	accept := func() net.Conn {
		t.Helper()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	closed := func(c net.Conn) {
		t.Helper()
		if err := c.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Error("a connection without a place is served")
		} else if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
			t.Error("a connection without a place stays open")
		}
	}
	dial()
	a := accept()
	dial()
	b := accept()
	full := dial()
	got := make(chan net.Conn)
	go func() {
		c, err := l.Accept() // closes the third, and takes the one that comes when there is room
		if err == nil {
			got <- c
		}
	}()
	closed(full)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	_ = a.Close() // its place is given back once
	next := dial()
	c := <-got
	if c.RemoteAddr().String() != next.LocalAddr().String() {
		t.Errorf("took %v, want %v", c.RemoteAddr(), next.LocalAddr())
	}
	for _, x := range []net.Conn{b, c} {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
}
