package control

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"drtmd/internal/durable"
)

// ErrThere: a certificate and its key are there, and are kept.
var ErrThere = errors.New("files that exist already; --force replaces them")

// Names of the files of a CA in its folder.
const (
	CACertFile = "ca.pem"
	CAKeyFile  = "ca.key"
)

// Validity of certificates.
const (
	CAValidity   = 10 * 365 * 24 * time.Hour
	NodeValidity = 365 * 24 * time.Hour
	// clockSlack is how far clocks of hosts may be apart.
	clockSlack = time.Hour
)

// MakeCA makes a CA in a folder, if there is none. made tells.
func MakeCA(dir string) (made bool, err error) {
	certName, keyName := filepath.Join(dir, CACertFile), filepath.Join(dir, CAKeyFile)
	_, certErr := os.Stat(certName)
	_, keyErr := os.Stat(keyName)
	switch {
	case certErr == nil && keyErr == nil:
		return false, nil
	case certErr == nil:
		return false, fmt.Errorf("%s exists, but its key %s does not: a CA cannot sign without its key; "+
			"name the folder that has both, or an empty one", certName, keyName)
	case keyErr == nil:
		return false, fmt.Errorf("%s exists, but its certificate %s does not", keyName, certName)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return false, err
	}
	which := make([]byte, 4) // so that CAs are told apart by their names
	if _, err := rand.Read(which); err != nil {
		return false, err
	}
	t, err := template(fmt.Sprintf("drtmd CA %x", which), CAValidity)
	if err != nil {
		return false, err
	}
	t.IsCA, t.BasicConstraintsValid, t.MaxPathLenZero = true, true, true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return false, err
	}
	return true, errors.Join(writeKey(keyName, key, false), writePEM(certName, "CERTIFICATE", der, false))
}

func template(name string, validity time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name,
		Organization: []string{"drtmd"}}, NotBefore: now.Add(-clockSlack),
		NotAfter: now.Add(validity)}, nil
}

// MakeCert makes a key and a certificate of the CA in a folder: NAME.pem and NAME.key. hosts are
// names and addresses that it is valid for. Without force both are kept if they are there, which is
// ErrThere; where only one is, it is kept as well, and the error says which.
func MakeCert(dir, name string, hosts []string, validity time.Duration, force bool) (cert, key string,
	err error) {
	cert, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	if !force {
		_, certErr := os.Stat(cert)
		_, keyErr := os.Stat(key)
		switch {
		case certErr == nil && keyErr == nil:
			return cert, key, fmt.Errorf("%s and %s are %w", cert, key, ErrThere)
		case certErr == nil:
			return cert, key, fmt.Errorf("%s exists, but its key %s does not: --force makes both", cert, key)
		case keyErr == nil:
			return cert, key, fmt.Errorf("%s exists, but its certificate %s does not: --force makes both",
				key, cert)
		}
	}
	ca, caKey, err := readCA(dir)
	if err != nil {
		return cert, key, err
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return cert, key, err
	}
	t, err := template(name, validity)
	if err != nil {
		return cert, key, err
	}
	if t.NotAfter.After(ca.NotAfter) {
		t.NotAfter = ca.NotAfter
	}
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, ca, &own.PublicKey, caKey)
	if err != nil {
		return cert, key, err
	}
	return cert, key, errors.Join(writeKey(key, own, force), writePEM(cert, "CERTIFICATE", der, force))
}

// ReadCert reads a certificate, and checks that the CA in its folder has signed it.
func ReadCert(name string) (*x509.Certificate, error) {
	der, err := readPEM(name, "CERTIFICATE")
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	ca, _, err := readCA(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	if err := cert.CheckSignatureFrom(ca); err != nil {
		return nil, fmt.Errorf("%s is not of the CA beside it, --force makes a new one: %w", name, err)
	}
	return cert, nil
}

func readCA(dir string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certDER, err := readPEM(filepath.Join(dir, CACertFile), "CERTIFICATE")
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := readPEM(filepath.Join(dir, CAKeyFile), "EC PRIVATE KEY")
	if err != nil {
		return nil, nil, err
	}
	ca, err := x509.ParseCertificate(certDER)
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.ParseECPrivateKey(keyDER)
	if err == nil && !key.PublicKey.Equal(ca.PublicKey) {
		err = fmt.Errorf("the key of the CA in %s is not that of its certificate", dir)
	}
	return ca, key, err
}

func readPEM(name, kind string) ([]byte, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("%s holds no %s", name, kind)
	}
	return block.Bytes, nil
}

// writeKey writes a key for its owner alone.
func writeKey(name string, key *ecdsa.PrivateKey, replace bool) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(name, "EC PRIVATE KEY", der, replace)
}

// writePEM writes a file of mode 0600 as a whole; one that is there is an error, unless replace.
func writePEM(name, kind string, der []byte, replace bool) error {
	write := durable.Create
	if replace {
		write = durable.Write
	}
	return write(name, 0o600, func(w io.Writer) error {
		return pem.Encode(w, &pem.Block{Type: kind, Bytes: der})
	})
}
