package control

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Security are the certificates of one side. A nil *Security is none: no TLS.
type Security struct {
	ca, cert, key string // files

	mu     sync.Mutex // guards what follows
	pool   *x509.CertPool
	pair   tls.Certificate
	expiry time.Time
}

// LoadSecurity reads a CA's certificate, and a certificate with its key that the CA has signed. All
// three names empty is no TLS, and gives nil.
func LoadSecurity(ca, cert, key string) (*Security, error) {
	if ca == "" && cert == "" && key == "" {
		return nil, nil
	}
	if ca == "" || cert == "" || key == "" {
		return nil, errors.New("TLS needs control.ca, control.cert and control.key: all three or " +
			"none; drtmd certs makes them")
	}
	s := &Security{ca: ca, cert: cert, key: key}
	return s, s.Reload()
}

// FileError is what is wrong with one of the files.
type FileError struct {
	Setting string // "ca", "cert" or "key"
	Err     error
}

func (e *FileError) Error() string { return e.Err.Error() }
func (e *FileError) Unwrap() error { return e.Err }

func fileError(setting, format string, args ...any) error {
	return &FileError{setting, fmt.Errorf(format, args...)}
}

// Reload reads the files again. Its errors are those of every file, a *FileError each. On an error what was read before stays in use.
func (s *Security) Reload() error {
	pool, errCA := readPool(s.ca)
	errKey := mayBeKey(s.key)
	_, errCert := os.Stat(s.cert)
	if errCert != nil {
		errCert = fileError("cert", "certificate: %w; drtmd certs makes one", errCert)
	}
	if err := errors.Join(errCA, errCert, errKey); err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(s.cert, s.key)
	if err != nil {
		return fileError("cert", "certificate %s with key %s: %w", s.cert, s.key, err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return fileError("cert", "certificate %s: %w", s.cert, err)
	}
	_, err = leaf.Verify(x509.VerifyOptions{Roots: pool,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return fileError("cert", "certificate %s: %w", s.cert, s.unfit(leaf, err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pool, s.pair, s.expiry = pool, pair, leaf.NotAfter
	return nil
}

// readPool reads the certificate of a CA.
func readPool(name string) (*x509.CertPool, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fileError("ca", "certificate of the CA: %w; drtmd certs makes one", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fileError("ca", "certificate of the CA: %s has no certificate (PEM)", name)
	}
	return pool, nil
}

// mayBeKey refuses a key that is not there, or that others can read.
func mayBeKey(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return fileError("key", "key: %w; drtmd certs makes one", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fileError("key", "key %s can be read by others (mode %04o): chmod 600 it", name,
			info.Mode().Perm())
	}
	return nil
}

// Expires is when the own certificate ends; the zero time without TLS.
func (s *Security) Expires() time.Time {
	if s == nil {
		return time.Time{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expiry
}

func (s *Security) now() (tls.Certificate, *x509.CertPool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pair, s.pool
}

// ServerTLS asks every client for a certificate of the CA. It follows Reload; nil without TLS.
func (s *Security) ServerTLS() *tls.Config {
	if s == nil {
		return nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}}
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pair, pool := s.now()
		return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
			Certificates: []tls.Certificate{pair}, ClientCAs: pool,
			ClientAuth: tls.RequireAndVerifyClientCert}, nil
	}
	return c
}

// unfit says why a certificate is none of the CA, in words.
func (s *Security) unfit(leaf *x509.Certificate, err error) error {
	const day = "2006-01-02 15:04 MST"
	var invalid x509.CertificateInvalidError
	switch now := time.Now(); {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && now.After(leaf.NotAfter):
		return fmt.Errorf("it expired on %s; drtmd certs --force makes a new one: %w",
			leaf.NotAfter.Format(day), err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && now.Before(leaf.NotBefore):
		return fmt.Errorf("it is valid from %s on; is the clock of this host right?: %w",
			leaf.NotBefore.Format(day), err)
	}
	return fmt.Errorf("it is not of the CA in %s: %w", s.ca, err)
}

// ClientTLS shows the own certificate as it is at each handshake, and trusts the CA as it is now: who
// lives on asks again at each handshake, and so follows Reload. nil without TLS.
func (s *Security) ClientTLS() *tls.Config {
	if s == nil {
		return nil
	}
	_, pool := s.now()
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool,
		// Not Certificates: with those the client keeps back one that is not of a CA that the
		// server names, and is told less of what is wrong.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, _ := s.now()
			return &pair, nil
		}}
}
