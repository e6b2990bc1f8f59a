package control

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// lapsed is a certificate of a lab that was loaded before it expired.
func lapsed(t *testing.T, dir string, from *Security) *Security {
	t.Helper()
	cert, key, err := MakeCert(dir, "lapsed", []string{"127.0.0.1"}, -30*time.Minute, true)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	_, pool := from.now()
	return &Security{pool: pool, pair: pair}
}

func TestExpiredCertificatesAreNamedOnBothSides(t *testing.T) {
	dir, sec := lab(t, "127.0.0.1")
	old := lapsed(t, dir, sec)
	for _, c := range []struct {
		name           string
		server, client *Security
		want           string
	}{
		{"the server's", old, sec, "a certificate has expired"},
		{"the client's", sec, old, "your certificate has expired"},
	} {
		t.Run(c.name, func(t *testing.T) {
			address := serving(t, "127.0.0.1:0", Options{Security: c.server})
			_, err := dialed(t, address, c.client, Caller{}).Status(context.Background(), true)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q in it", err, c.want)
			}
		})
	}
	_, err := LoadSecurity(filepath.Join(dir, CACertFile), filepath.Join(dir, "lapsed.pem"),
		filepath.Join(dir, "lapsed.key"))
	if err == nil || !strings.Contains(err.Error(), "lapsed.pem: it expired on 20") {
		t.Errorf("loading it: %v", err)
	}
	strange, _ := lab(t)
	_, err = LoadSecurity(filepath.Join(strange, CACertFile), filepath.Join(dir, "node.pem"),
		filepath.Join(dir, "node.key"))
	if err == nil || !strings.Contains(err.Error(), "not of the CA in "+strange) {
		t.Errorf("loading one of another CA: %v", err)
	}
}

// TestTheCAIsReloadedForClientsThatLiveOn by replacing the whole CA under a server and a client that
// is a long time between two connections.
func TestTheCAIsReloadedForClientsThatLiveOn(t *testing.T) {
	dir, client := lab(t, "127.0.0.1")
	newDir, newServer := lab(t, "127.0.0.1")
	address := serving(t, "127.0.0.1:0", Options{Security: newServer})
	c := dialed(t, address, client, Caller{})
	if _, err := c.Status(context.Background(), true); err == nil {
		t.Fatal("a client of another CA is served")
	}
	for _, name := range []string{CACertFile, "node.pem", "node.key"} {
		b, err := os.ReadFile(filepath.Join(newDir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Reload(); err != nil {
		t.Fatal(err)
	}
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if _, err = c.Status(context.Background(), true); err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error(err)
}

func TestPortsThatAreNoneOfDrtmdAreNamed(t *testing.T) {
	_, sec := lab(t, "127.0.0.1")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- web.Serve(l) }()
	t.Cleanup(func() {
		if err := web.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	full := serving(t, "127.0.0.1:0", Options{Security: sec, Limits: Limits{MaxConnections: 0,
		MaxMessage: 1 << 16, RatePerPeer: 5}})
	for _, c := range []struct {
		name, address string
		sec           *Security
		want          string
	}{
		{"a web server", l.Addr().String(), nil, "no control port of drtmd"},
		{"a web server, by TLS", l.Addr().String(), sec, "no TLS there"},
		{"a full one, by TLS", full, sec, "it may be full"},
		{"a full one, without", full, nil, "be full"},
	} {
		_, err := dialed(t, c.address, c.sec, Caller{}).Status(context.Background(), true)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.name, err, c.want)
		}
	}
}

func TestRefusedHandshakesAreLogged(t *testing.T) {
	_, sec := lab(t, "127.0.0.1")
	_, other := lab(t, "127.0.0.1")
	core, seen := observer.New(zap.WarnLevel)
	l, err := Listen("127.0.0.1:0", sec, false)
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(Options{Backend: &backend{}, Security: sec, Build: build, Log: zap.New(core),
		Limits: Limits{MaxConnections: 4, MaxMessage: 1 << 16, RatePerPeer: 5}})
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	stranger := &Security{pool: sec.pool, pair: other.pair}
	_, err = dialed(t, l.Addr().String(), stranger, Caller{}).Status(context.Background(), true)
	if err == nil || !strings.Contains(err.Error(), "not of one CA") {
		t.Errorf("another CA's certificate: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.Stop(ctx)
	if err := <-done; err != nil {
		t.Error(err)
	}
	logged := seen.FilterMessage("refused a connection of the control plane").All()
	if len(logged) == 0 || !strings.Contains(logged[0].ContextMap()["peer"].(string), "127.0.0.1:") {
		t.Errorf("logged: %v", seen.All())
	}
}

// TestALivingSocketIsKept though it does not take the question whether somebody listens there: a
// datagram socket answers EPROTOTYPE, as a busy daemon would EAGAIN.
func TestALivingSocketIsKept(t *testing.T) {
	path := filepath.Join(short(t), "s")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Listen(unixPrefix+path, nil, false)
	if err == nil || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("listening: %v", err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket is gone: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t)
}
