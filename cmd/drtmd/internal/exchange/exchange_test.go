package exchange

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var hello = Hello{Transport: "shm", Device: "shm0", Driver: "shm", ActiveMTU: 4096,
	MaxMsgBytes: 1 << 20, MaxQueue: 1024}

// pair is two ends of a TCP connection over loopback.
func pair(t *testing.T) (net.Conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// header is a frame header with any content.
func header(magic string, version, kind uint16, length uint32) []byte {
	b := []byte(magic)
	b = binary.BigEndian.AppendUint16(b, version)
	b = binary.BigEndian.AppendUint16(b, kind)
	return binary.BigEndian.AppendUint32(b, length)
}

// helloFrame is a hello with a change to it, as bytes.
func helloFrame(change func(*Hello)) []byte {
	h := hello
	change(&h)
	f, err := Encode(KindHello, h)
	if err != nil {
		panic(err)
	}
	b, err := AppendFrame(nil, f)
	if err != nil {
		panic(err)
	}
	return b
}

// badOpenings are what a listener may meet instead of a peer.
var badOpenings = []struct {
	name string
	sent []byte
	want error
	text string
}{
	{"http", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), ErrNotPeer, `"GET "`},
	{"one byte of something else", []byte("G"), ErrNotPeer, `"G"`},
	{"zeros", make([]byte, 64), ErrNotPeer, "not a drtmd perf peer"},
	{"silence", nil, ErrTimeout, "within 700ms"},
	{"half a header", []byte("drtx\x00"), ErrTimeout, "within 700ms"},
	{"newer version", header(magic, Version+1, 1, 2), ErrVersion, "the peer speaks 3, this side 2"},
	{"unknown kind", header(magic, Version, 99, 0), ErrBadFrame, "unknown frame kind 99"},
	{"oversize", header(magic, Version, 1, 1<<31), ErrBadFrame, "the most is 4096"},
	{"setup first", append(header(magic, Version, uint16(KindSetup), 2), "{}"...), ErrBadFrame,
		"setup before hello"},
	{"not JSON", append(header(magic, Version, 1, 3), "abc"...), ErrBadFrame, "hello"},
	{"unknown field", append(header(magic, Version, 1, 7), `{"x":1}`...), ErrBadFrame,
		"unknown field"},
	{"empty hello", helloFrame(func(h *Hello) { *h = Hello{} }), ErrBadFrame, `device ""`},
	{"terminal codes", helloFrame(func(h *Hello) { h.Device = "a\x1b[31m" }), ErrBadFrame, `\x1b`},
	{"long name", helloFrame(func(h *Hello) { h.Driver = strings.Repeat("x", 65) }), ErrBadFrame,
		"name"},
	{"no MTU", helloFrame(func(h *Hello) { h.ActiveMTU = 0 }), ErrBadFrame, "active MTU 0"},
	{"no message", helloFrame(func(h *Hello) { h.MaxMsgBytes = 0 }), ErrBadFrame, "of 0 bytes"},
	{"negative queue", helloFrame(func(h *Hello) { h.MaxQueue = -3 }), ErrBadFrame, "-3 requests"},
	{"trailing bytes", append(header(magic, Version, 1, 4), "{}{}"...), ErrBadFrame, "after"},
}

func TestAcceptRefusesWhatIsNoPeerWithinASecond(t *testing.T) {
	for _, c := range badOpenings {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, b := pair(t)
			if _, err := a.Write(c.sent); err != nil {
				t.Fatal(err)
			}
			refusedInTime(t, c.want, c.text, func() (*Conn, error) {
				return Accept(t.Context(), b, hello)
			})
		})
	}
}

func TestDialRefusesWhatIsNoPeerWithinASecond(t *testing.T) {
	for _, c := range badOpenings {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, b := pair(t)
			if _, err := b.Write(c.sent); err != nil {
				t.Fatal(err)
			}
			refusedInTime(t, c.want, c.text, func() (*Conn, error) {
				return Dial(t.Context(), a, hello)
			})
		})
	}
}

func refusedInTime(t *testing.T, want error, text string, shake func() (*Conn, error)) {
	t.Helper()
	start := time.Now()
	c, err := shake()
	if err == nil {
		c.Close()
		t.Fatal("it passed")
	}
	if d := time.Since(start); d > time.Second {
		t.Errorf("refused after %s", d)
	}
	if !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
		t.Errorf("%v; want %v with %q", err, want, text)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
}

func TestSlowPeerIsRefusedWithinASecond(t *testing.T) {
	a, b := pair(t)
	f, err := Encode(KindHello, hello)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := AppendFrame(nil, f)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range whole { // each byte is in time, all together are not
			if _, err := a.Write(whole[i : i+1]); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	refusedInTime(t, ErrTimeout, "", func() (*Conn, error) {
		return Accept(t.Context(), b, hello)
	})
	<-done
}

func TestVersionMismatchIsToldOnBothSides(t *testing.T) {
	a, b := pair(t)
	if _, err := a.Write(header(magic, Version+1, 1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := Accept(t.Context(), b, hello); !errors.Is(err, ErrVersion) {
		t.Fatalf("%v", err)
	}
	// The side of the other version gets a header from which it can tell.
	var h [headerBytes]byte
	if _, err := io.ReadFull(a, h[:]); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(h[:8], header(magic, Version, uint16(KindHello), 0)[:8]) {
		t.Errorf("answer begins with %q", h)
	}
}

// connected is two sides after the handshake.
func connected(t *testing.T) (*Conn, *Conn) {
	t.Helper()
	a, b := pair(t)
	accepted := make(chan *Conn, 1)
	go func() {
		c, _ := Accept(t.Context(), b, hello)
		accepted <- c
	}()
	dialled, err := Dial(t.Context(), a, hello)
	other := <-accepted
	if err != nil || other == nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close(); other.Close() })
	return dialled, other
}

func TestConversation(t *testing.T) {
	a, b := connected(t)
	if a.Peer != hello || b.Peer != hello {
		t.Errorf("peers %+v, %+v", a.Peer, b.Peer)
	}
	if a.Attention() {
		t.Error("attention without a frame")
	}
	if err := a.Send(KindStopped, Stopped{Received: 7}); err != nil {
		t.Fatal(err)
	}
	var got Stopped
	err := b.Expect(t.Context(), KindStopped, &got, AnswerTimeout)
	if err != nil || got.Received != 7 {
		t.Fatal(got, err)
	}
	if b.Attention() {
		t.Error("attention after everything was taken")
	}
	if err := a.Send(KindFail, Fail{Reason: "two\nlines \x1b[31mred"}); err != nil {
		t.Fatal(err)
	}
	err = b.Expect(t.Context(), KindStop, &Stop{}, AnswerTimeout)
	if !errors.Is(err, ErrPeerFailed) || !strings.HasSuffix(err.Error(), ": two lines [31mred") {
		t.Errorf("%q", err)
	}
	a.Close()
	if err := b.Expect(t.Context(), KindStop, &Stop{}, AnswerTimeout); !errors.Is(err, ErrPeerGone) {
		t.Errorf("%v", err)
	}
	if !b.Attention() {
		t.Error("no attention after the end")
	}
}

func TestVanishedHostIsNoticedWithinTenSeconds(t *testing.T) {
	a, b := connected(t)
	for _, c := range []*Conn{a, b} {
		raw, err := c.c.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		option := func(name int) (v int) {
			err := raw.Control(func(fd uintptr) {
				v, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, name)
			})
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		idle, every := option(unix.TCP_KEEPIDLE), option(unix.TCP_KEEPINTVL)
		if s := idle + every*option(unix.TCP_KEEPCNT); s < 1 || s > 10 {
			t.Errorf("noticed after %d s", s)
		}
	}
}

func TestTransportMismatchIsToldOnBothSides(t *testing.T) {
	a, b := pair(t)
	refused := make(chan error, 1)
	go func() {
		_, err := Accept(t.Context(), b, hello)
		refused <- err
	}()
	other := hello
	other.Transport = "ibv"
	c, err := Dial(t.Context(), a, other)
	if err == nil {
		defer c.Close()
		err = c.Expect(t.Context(), KindReady, &Ready{}, AnswerTimeout)
	}
	for _, err := range []error{err, <-refused} {
		if err == nil || !strings.Contains(err.Error(), "transport ibv, this side on shm") {
			t.Errorf("%v", err)
		}
	}
}

func TestListenerOutlivesGarbage(t *testing.T) {
	l, err := Listen(t.Context(), ":0")
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 8)
	served := make(chan *Conn, 1)
	go func() {
		c, _ := WaitForPeer(t.Context(), l, hello, func(_ net.Addr, err error) { refused <- err })
		served <- c
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	silent := dial() // is still shaking hands when the peer comes
	if _, err := dial().Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; !errors.Is(err, ErrNotPeer) {
		t.Errorf("%v", err)
	}
	c, err := Dial(t.Context(), dial(), hello)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := <-served
	if s == nil {
		t.Fatal("no peer served")
	}
	defer s.Close()
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("the listener is still open")
	}
	silent.Close()
}

func TestWaitForPeerEndsWithItsContext(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := WaitForPeer(ctx, l, hello, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestAddress(t *testing.T) {
	for in, want := range map[string]string{
		"": "127.0.0.1:18600", ":0": "127.0.0.1:0", "10.0.0.1": "10.0.0.1:18600",
		"10.0.0.1:5": "10.0.0.1:5", "host": "host:18600", "::1": "[::1]:18600",
		"[::1]": "[::1]:18600", "[fe80::1]:9": "[fe80::1]:9", "host:": "host:18600",
	} {
		if got, err := Address(in); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"host:99999", "host:-1", "a:b:c]", "host:port:x"} {
		if got, err := Address(in); err == nil {
			t.Errorf("%q: %q", in, got)
		}
	}
}

// FuzzExchange feeds what a peer may send to everything that decodes it.
func FuzzExchange(f *testing.F) {
	for _, c := range badOpenings {
		f.Add(c.sent)
	}
	for kind, m := range map[Kind]any{KindHello: hello, KindSetup: Setup{Op: "read"},
		KindReady: Ready{}, KindStopped: Stopped{}, KindFail: Fail{Reason: "x"}} {
		fr, err := Encode(kind, m)
		if err != nil {
			f.Fatal(err)
		}
		b, err := AppendFrame(nil, fr)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		for {
			before := r.Len()
			fr, err := ReadFrame(r)
			if err != nil {
				return
			}
			again, err := AppendFrame(nil, fr)
			if err != nil || !bytes.Equal(again, in[len(in)-before:len(in)-r.Len()]) {
				t.Fatalf("frame %+v encodes to %q (%v)", fr, again, err)
			}
			for _, m := range []any{&Hello{}, &Fail{}, &Setup{}, &Ready{}, &Stopped{}, &Bye{}} {
				_ = Decode(fr, m)
			}
			if fr.Kind == KindFail && strings.ContainsAny(failure(fr).Error(), "\n\x1b") {
				t.Fatal("control characters in an error")
			}
			var s Setup
			if Decode(fr, &s) == nil {
				if e, err := s.Peer(); err == nil && (e.QPN == 0 || e.QPN >= 1<<24) {
					t.Fatalf("endpoint %+v", e)
				}
			}
		}
	})
}
