package control

import (
	"bytes"
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
)

// openFiles counts the descriptors of this process.
func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// preface begins HTTP/2.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// TestHostileClientsDoNotKeepOthersOut whatever they send, and leave nothing behind.
func TestHostileClientsDoNotKeepOthersOut(t *testing.T) {
	_, sec := lab(t, "127.0.0.1")
	_, other := lab(t, "127.0.0.1")
	limits := Limits{MaxConnections: 24, MaxMessage: 1 << 20, RatePerPeer: 100}
	r := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 64<<10)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	frames := []byte(preface)
	frames = append(frames, 0, 0, 0, 4, 0, 0, 0, 0, 0) // SETTINGS
	for i := range 2000 {                              // RST_STREAM of streams that never were
		frames = append(frames, 0, 0, 4, 3, 0, 0, 0, byte(i>>7), byte(i<<1|1), 0, 0, 0, 8)
	}
	huge := append([]byte(preface), 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1) // a frame of 16 MiB
	for _, secure := range []bool{false, true} {
		o := Options{Limits: limits}
		if secure {
			o.Security = sec
		}
		address := serving(t, "127.0.0.1:0", o)
		good := dialed(t, address, o.Security, Caller{})
		ask := func(when string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			if _, err := good.Status(ctx, true); err != nil {
				t.Errorf("TLS %v, %s: %v", secure, when, err)
			}
		}
		ask("before")
		before := openFiles(t)
		for name, what := range map[string][]byte{"noise": noise, "HTTP/1": []byte(
			"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "resets": frames, "a huge frame": huge,
			"a long header": []byte(preface + strings.Repeat("x", 1<<20)), "nothing": nil,
			"half a hello": {22, 3, 1, 2, 0, 1, 0}} {
			for range 3 {
				c, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				_ = c.SetDeadline(time.Now().Add(10 * time.Second)) // never fails on a connection
				_, _ = c.Write(what)                                // it may be closed meanwhile
				ask("while somebody sends " + name)
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		// A flood: those beyond the limit are closed at once, and the good client goes on.
		var flood []net.Conn
		for range 4 * limits.MaxConnections {
			if c, err := net.Dial("tcp", address); err == nil {
				flood = append(flood, c)
			}
		}
		ask("during a flood")
		for _, c := range flood {
			_ = c.Close() // the server may have
		}
		if secure {
			for name, cfg := range map[string]*tls.Config{
				"no certificate": {RootCAs: sec.ClientTLS().RootCAs},
				"another CA's": {RootCAs: sec.ClientTLS().RootCAs,
					GetClientCertificate: other.ClientTLS().GetClientCertificate}} {
				cfg.NextProtos = []string{"h2"}
				c, err := tls.Dial("tcp", address, cfg)
				if err == nil { // in TLS 1.3 the refusal comes with the first answer
					_, err = c.Read(make([]byte, 1))
					_ = c.Close() // it is refused
				}
				if err == nil || strings.Contains(err.Error(), "timeout") {
					t.Errorf("%s is taken: %v", name, err)
				}
			}
		}
		ask("afterwards")
		for end := time.Now().Add(30 * time.Second); openFiles(t) > before+2; {
			if time.Now().After(end) {
				t.Errorf("TLS %v: %d descriptors, %d before", secure, openFiles(t), before)
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// TestSlowClientsLoseTheirPlace though they keep sending: the bound is on the whole handshake.
func TestSlowClientsLoseTheirPlace(t *testing.T) {
	_, sec := lab(t, "127.0.0.1")
	hello := append([]byte{22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, make([]byte, 500)...)
	for _, c := range []struct {
		name string
		sec  *Security
		sent []byte // a byte each quarter of a second
	}{
		{"a silent one", nil, nil}, {"a slow preface", nil, []byte(preface + preface)},
		{"a silent one, TLS", sec, nil}, {"a slow hello, TLS", sec, hello},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			address := serving(t, "127.0.0.1:0", Options{Security: c.sec, Limits: Limits{
				MaxConnections: 1, MaxMessage: 1 << 16, RatePerPeer: 100}})
			slow, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				tick := time.NewTicker(handshakeTimeout / 20)
				defer tick.Stop()
				for i := range c.sent {
					select {
					case <-stop:
						return
					case <-tick.C:
					}
					if _, err := slow.Write(c.sent[i : i+1]); err != nil {
						return
					}
				}
			}()
			t.Cleanup(func() { close(stop); <-stopped; _ = slow.Close() }) // the server has
			good := dialed(t, address, c.sec, Caller{})
			if _, err := good.Status(context.Background(), true); err == nil {
				t.Error("the slow client has no place to lose")
			}
			// Its place is free once the server has closed it.
			for end := time.Now().Add(time.Minute); time.Now().Before(end); {
				if _, err = good.Status(context.Background(), true); err == nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
			t.Error(err)
		})
	}
}

func FuzzCaller(f *testing.F) {
	f.Add([]byte("drtmd-build=b\ndrtmd-node=1\ndrtmd-cluster=c\ndrtmd-epoch=2\ndrtmd-incarnation=3"))
	f.Add([]byte("drtmd-build=b"))
	f.Add([]byte("drtmd-node=-1\ndrtmd-node=x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		md := metadata.MD{}
		for _, line := range bytes.Split(b, []byte("\n")) {
			k, v, _ := strings.Cut(string(line), "=")
			md.Append(k, v)
		}
		c, err := callerOf(md)
		if err != nil && c != (Caller{}) {
			t.Errorf("%+v with error %v", c, err)
		}
		if err == nil && len(md.Get(keyBuild)) != 1 {
			t.Errorf("taken without a build: %v", md)
		}
	})
}
