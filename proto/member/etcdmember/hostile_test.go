package etcdmember

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drtmd/proto/member"
	"drtmd/verbs"
)

// secured starts a server behind certificates, in a folder of the test's, and gives it with its CA.
func secured(t *testing.T) (*Server, *authority) {
	t.Helper()
	ca, host := newAuthority(t), &site{t: t, dir: shortDir(t)}
	host.take(ca)
	s, err := Start(context.Background(), host.config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, ca
}

// asks has a new client of a configuration ask for the cluster's name.
func asks(t *testing.T, within time.Duration, cfg Config) error {
	t.Helper()
	cfg.Cluster, cfg.Lease, cfg.Clock = "x", testLease, verbs.NewMonotonicClock()
	r, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	_, err = r.ClusterID(ctx)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	return err
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestStrangersAtTheClientPortKeepNobodyOut whatever they send, and however many they are: new
// clients with a certificate are served meanwhile, and nothing is left of the others.
func TestStrangersAtTheClientPortKeepNobodyOut(t *testing.T) {
	s, ca := secured(t)
	u, err := url.Parse(s.URLs()[0])
	if err != nil {
		t.Fatal(err)
	}
	good := Config{Endpoints: s.URLs(), TLS: client(t, ca, ca)}
	if err := asks(t, time.Minute, good); err != nil {
		t.Fatal(err)
	}
	before := descriptors(t)
	r := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 64<<10)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	var all []net.Conn
	for name, what := range map[string][]byte{"noise": noise, "nothing": nil,
		"HTTP/1": []byte("GET /v3/kv/range HTTP/1.1\r\nHost: x\r\n\r\n"),
		"HTTP/2": []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "half a hello": {22, 3, 1, 2, 0, 1, 0}} {
		for range 40 {
			c, err := net.Dial("tcp", u.Host)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			_ = c.SetDeadline(time.Now().Add(10 * time.Second)) // never fails on a connection
			_, _ = c.Write(what)                                // it may be closed meanwhile
			all = append(all, c)
		}
		if err := asks(t, time.Minute, good); err != nil {
			t.Errorf("while strangers send %s: %v", name, err)
		}
	}
	plain := Config{Endpoints: []string{"http://" + u.Host}}
	if err := asks(t, 2*time.Second, plain); !errors.Is(err, member.ErrUnreachable) {
		t.Errorf("a client without TLS: %v", err)
	}
	for _, c := range all {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	end := time.Now().Add(time.Minute)
	for descriptors(t) > before && time.Now().Before(end) {
		time.Sleep(20 * time.Millisecond)
	}
	if now := descriptors(t); now > before {
		t.Errorf("%d descriptors, were %d", now, before)
	}
	if err := asks(t, time.Minute, good); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestRaftIsForThisProcessAlone: what is spoken to peers of etcd is on a unix socket in a folder that
// nobody else enters.
func TestRaftIsForThisProcessAlone(t *testing.T) {
	s, _ := secured(t)
	for _, l := range s.etcd.Peers {
		if n := l.Addr().Network(); n != "unix" {
			t.Errorf("a listener for peers at %s %s", n, l.Addr())
		}
		folder := filepath.Dir(strings.TrimPrefix(l.Addr().String(), "unix://"))
		i, err := os.Stat(folder)
		if err != nil {
			t.Fatal(err)
		}
		if i.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v", folder, i.Mode())
		}
	}
	if len(s.etcd.Peers) != 1 {
		t.Errorf("%d listeners for peers", len(s.etcd.Peers))
	}
}
