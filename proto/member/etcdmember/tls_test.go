package etcdmember

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"testing"
	"time"

	"drtmd/proto/member"
	"drtmd/verbs"
)

// authority signs certificates for 127.0.0.1.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func template(serial int64) *x509.Certificate {
	return &x509.Certificate{SerialNumber: big.NewInt(serial),
		Subject:   pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := template(1)
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{cert, key, x509.NewCertPool()}
	a.pool.AddCert(cert)
	return a
}

// sign gives a certificate and its key as PEM.
func (a *authority) sign(t *testing.T) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template(2), a.cert, &k.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// client is a configuration with a certificate of a, or without one.
func client(t *testing.T, server, a *authority) *tls.Config {
	t.Helper()
	c := &tls.Config{RootCAs: server.pool, MinVersion: tls.VersionTLS12}
	if a != nil {
		cert, err := tls.X509KeyPair(a.sign(t))
		if err != nil {
			t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	return c
}

// TestOnlyWhoHasACertificateOfTheCAReachesEtcd or anybody could rewrite epochs.
func TestOnlyWhoHasACertificateOfTheCAReachesEtcd(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	host := &site{t: t, dir: shortDir(t)}
	host.take(ours)
	cfg := host.config()
	cfg.CA = ""
	if s, err := Start(context.Background(), cfg); !errors.Is(err, ErrOpen) {
		t.Errorf("without a CA, any certificate that the system trusts would do: %v", err)
		if s != nil {
			t.Error(s.Close())
		}
	}
	s, err := Start(context.Background(), host.config())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, c := range []struct {
		name string
		tls  *tls.Config
		want error
	}{
		{"a certificate of the CA", client(t, ours, ours), nil},
		{"no certificate", client(t, ours, nil), member.ErrUnreachable},
		{"a certificate of another CA", client(t, ours, theirs), member.ErrUnreachable},
		{"a server of another CA", client(t, theirs, ours), member.ErrUnreachable},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Open(Config{Endpoints: s.URLs(), TLS: c.tls, Cluster: "x", Lease: testLease,
				Clock: verbs.NewMonotonicClock()})
			if err != nil {
				t.Fatal(err)
			}
			wait := 2 * time.Second // for what is refused
			if c.want == nil {
				wait = time.Minute
			}
			ctx, cancel := context.WithTimeout(context.Background(), wait)
			defer cancel()
			if _, err := r.ClusterID(ctx); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
