package control

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// attacker speaks HTTP/2 as nobody should, behind whatever the port asks for.
type attacker struct {
	net.Conn
	*http2.Framer
	next uint32 // stream
}

// attack connects and begins HTTP/2. What the server answers is read and dropped, unless deaf.
func attack(t *testing.T, address string, sec *Security, deaf bool) (*attacker, <-chan struct{}) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err == nil && sec != nil {
		cfg := sec.ClientTLS()
		cfg.NextProtos, cfg.ServerName = []string{"h2"}, "127.0.0.1"
		c = tls.Client(c, cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the server or the test has
	if err := c.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, preface); err != nil {
		t.Fatal(err)
	}
	a := &attacker{c, http2.NewFramer(c, c), 1}
	a.AllowIllegalWrites = true
	if err := a.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if !deaf {
			_, _ = io.Copy(io.Discard, c) // until somebody closes it
		}
	}()
	return a, ended
}

// head is a call's header, with more fields behind it.
func head(path string, more ...hpack.HeaderField) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, f := range append([]hpack.HeaderField{{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"}, {Name: ":path", Value: path},
		{Name: ":authority", Value: "x"}, {Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"}, {Name: keyBuild, Value: build}}, more...) {
		_ = e.WriteField(f) // to memory
	}
	return b.Bytes()
}

// open begins a call and leaves it open.
func (a *attacker) open(path string) (stream uint32, err error) {
	stream, a.next = a.next, a.next+2
	return stream, a.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, EndHeaders: true,
		BlockFragment: head(path)})
}

const (
	timePath    = "/drtmd.control.v1.Plane/Time"
	historyPath = "/drtmd.control.v1.Plane/History"
)

// attacks of a client that is let in. Each ends when it has sent all, or with the first error.
var attacks = []struct {
	name  string
	deaf  bool
	cutMe bool // the server has to end the connection
	do    func(a *attacker) error
}{
	{"rapid reset", false, false, func(a *attacker) error {
		for range 5000 {
			s, err := a.open(timePath)
			if err == nil {
				err = a.WriteRSTStream(s, http2.ErrCodeCancel)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}},
	{"a header without end", false, true, func(a *attacker) error {
		err := a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head(timePath)})
		more := bytes.Repeat([]byte{0x00, 1, 'a', 1, 'b'}, 2000) // literal fields
		for i := 0; err == nil && i < 5000; i++ {
			err = a.WriteContinuation(1, false, more)
		}
		return err
	}},
	{"a flood of settings", false, false, func(a *attacker) (err error) {
		for i := 0; err == nil && i < 20_000; i++ {
			err = a.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i)})
		}
		return err
	}},
	{"a flood of pings", false, true, func(a *attacker) (err error) {
		for i := 0; err == nil && i < 20_000; i++ {
			err = a.WritePing(false, [8]byte{1})
		}
		return err
	}},
	{"a flood of pings, and deaf", true, false, func(a *attacker) (err error) {
		for i := 0; err == nil && i < 20_000; i++ {
			err = a.WritePing(false, [8]byte{1})
		}
		return err
	}},
	{"a window that overflows", false, false, func(a *attacker) error {
		s, err := a.open(historyPath)
		for i := 0; err == nil && i < 100; i++ {
			if err = a.WriteWindowUpdate(0, 1<<31-1); err == nil {
				err = a.WriteWindowUpdate(s, 1<<31-1)
			}
		}
		return err
	}},
	{"thousands of calls left open", false, false, func(a *attacker) (err error) {
		for i := 0; err == nil && i < 5000; i++ {
			_, err = a.open(timePath)
		}
		return err
	}},
	{"large replies that nobody reads", true, false, func(a *attacker) error {
		for range maxStreams {
			s, err := a.open(historyPath)
			if err == nil {
				err = a.WriteData(s, true, make([]byte, 5)) // an empty message
			}
			if err != nil {
				return err
			}
		}
		return nil
	}},
	{"a huge field", false, false, func(a *attacker) error {
		block := head(timePath, hpack.HeaderField{Name: "x", Value: string(make([]byte, 12<<10))})
		return a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, EndStream: true,
			BlockFragment: block})
	}},
	{"a message declared as 4 GiB", false, false, func(a *attacker) error {
		s, err := a.open(timePath)
		if err != nil {
			return err
		}
		return a.WriteData(s, false, binary.BigEndian.AppendUint32([]byte{0}, 1<<32-1))
	}},
	{"messages without end", false, false, func(a *attacker) error {
		s, err := a.open(timePath)
		for i := 0; err == nil && i < 64; i++ {
			err = a.WriteData(s, false, make([]byte, 16<<10))
		}
		return err
	}},
}

// heap is what lives, in bytes.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestHostileHTTP2 of clients that are let in keeps nobody out, and leaves nothing behind.
func TestHostileHTTP2(t *testing.T) {
	const leastHeap = 16 << 20 // bytes that are no leak
	_, sec := lab(t, "127.0.0.1")
	for name, sec := range map[string]*Security{"loopback": nil, "TLS": sec} {
		t.Run(name, func(t *testing.T) {
			address := serving(t, "127.0.0.1:0", Options{Security: sec})
			good := dialed(t, address, sec, Caller{})
			ask := func(when string) {
				t.Helper()
				var err error
				for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
					if _, err = good.Status(context.Background(), true); err == nil {
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
				t.Errorf("%s: %v", when, err)
			}
			ask("before")
			files, routines, bytes := openFiles(t), runtime.NumGoroutine(), heap()
			for _, k := range attacks {
				a, ended := attack(t, address, sec, k.deaf)
				err := make(chan error, 1)
				go func() { err <- k.do(a) }()
				ask("during " + k.name)
				if k.cutMe {
					select {
					case <-ended:
					case <-time.After(time.Minute):
						t.Errorf("%s: the server bears it", k.name)
					}
				}
				_ = a.Close() // the server may have
				<-err
				<-ended
				ask("after " + k.name)
			}
			for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
				f, r, b := openFiles(t), runtime.NumGoroutine(), heap()
				if f <= files+1 && r <= routines+2 && b <= bytes+leastHeap {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%d descriptors, %d before; %d goroutines, %d before; heap %d, %d before", f,
						files, r, routines, b, bytes)
				}
			}
		})
	}
}
