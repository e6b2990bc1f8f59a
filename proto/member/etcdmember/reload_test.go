package etcdmember

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"drtmd/proto/member"
	"drtmd/verbs"
)

// site is the certificates of a host, which may be replaced: the CA too.
type site struct {
	t    *testing.T
	dir  string
	pool atomic.Pointer[x509.CertPool]
	pair atomic.Pointer[tls.Certificate]
}

// take replaces the certificates, in the files as well.
func (s *site) take(a *authority) {
	s.t.Helper()
	cert, key := a.sign(s.t)
	for name, b := range map[string][]byte{"cert.pem": cert, "key.pem": key,
		"ca.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})} {
		if err := os.WriteFile(filepath.Join(s.dir, name), b, 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		s.t.Fatal(err)
	}
	s.pool.Store(a.pool)
	s.pair.Store(&pair)
}

// config is of a server that reads the files.
func (s *site) config() ServerConfig {
	return ServerConfig{Dir: s.dir, Listen: "127.0.0.1:0", Cert: filepath.Join(s.dir, "cert.pem"),
		Key: filepath.Join(s.dir, "key.pem"), CA: filepath.Join(s.dir, "ca.pem")}
}

func (s *site) server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
				Certificates: []tls.Certificate{*s.pair.Load()}, ClientCAs: s.pool.Load(),
				ClientAuth: tls.RequireAndVerifyClientCert}, nil
		}}
}

func (s *site) client() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: s.pool.Load(),
		Certificates: []tls.Certificate{*s.pair.Load()}}
}

// TestAReplacedCACountsFromTheNextConnectionOn at the server and at a client that live on.
func TestAReplacedCACountsFromTheNextConnectionOn(t *testing.T) {
	before, after := newAuthority(t), newAuthority(t)
	host := &site{t: t, dir: shortDir(t)}
	host.take(before)
	cfg := host.config()
	cfg.TLS = host.server()
	s, err := Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	open := func(now func() *tls.Config) *Registry {
		t.Helper()
		r, err := Open(Config{Endpoints: s.URLs(), TLS: now(), CurrentTLS: now, Cluster: "x",
			Lease: testLease, Clock: verbs.NewMonotonicClock()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
		return r
	}
	ask := func(what string, r *Registry, want error) {
		t.Helper()
		wait := 2 * time.Second // for what is refused
		if want == nil {
			wait = time.Minute
		}
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		if _, err := r.ClusterID(ctx); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	stranger := client(t, before, before)
	stranger.InsecureSkipVerify = true // it takes any server: who refuses is the server
	lives := open(host.client)
	ask("before", lives, nil)
	ask("before, another client", open(func() *tls.Config { return stranger }), nil)
	host.take(after)
	ask("a client of the new CA", open(host.client), nil)
	ask("a client of the old CA", open(func() *tls.Config { return stranger }), member.ErrUnreachable)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Start(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
	ask("the client that lives on, connected again", lives, nil)
}
