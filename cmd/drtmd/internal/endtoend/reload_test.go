package endtoend

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// authority is a folder with a CA, the certificates of a node, and those of a client.
type authority struct {
	l   *lab
	dir string
}

func (l *lab) authority(name string) *authority {
	l.t.Helper()
	a := &authority{l, filepath.Join(l.dir, name)}
	a.make("node", "127.0.0.1")
	a.make("me", "none")
	return a
}

// make makes a certificate, in place of the one that is there.
func (a *authority) make(name, host string) {
	a.l.t.Helper()
	if _, errs, code := a.l.run("certs", a.dir, "--name", name, "--host", host, "--force"); code != 0 {
		a.l.t.Fatal(errs)
	}
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// serial of the certificate of a node, as it is in the file.
func (a *authority) serial() *big.Int {
	a.l.t.Helper()
	pair, err := tls.LoadX509KeyPair(a.file("node.pem"), a.file("node.key"))
	if err != nil {
		a.l.t.Fatal(err)
	}
	c, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		a.l.t.Fatal(err)
	}
	return c.SerialNumber
}

// shakes hands with a server as the client of an authority, and gives the serial of what is served; an
// error if this client is refused. The server is not checked: that is another test's.
func (a *authority) shakes(address string) (*big.Int, error) {
	pair, err := tls.LoadX509KeyPair(a.file("me.pem"), a.file("me.key"))
	if err != nil {
		return nil, err
	}
	d := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &pair, nil
		}}
	c, err := tls.Dial("tcp", address, d)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	serial := c.ConnectionState().PeerCertificates[0].SerialNumber
	// In TLS 1.3 a client learns with the first byte whether it was let in: of HTTP/2's settings.
	if err := c.SetReadDeadline(time.Now().Add(bound)); err != nil {
		return nil, err
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		return nil, fmt.Errorf("refused: %w", err)
	}
	return serial, nil
}

// copyTo gives another authority's folder these certificates, but for the CA's key.
func (a *authority) copyTo(b *authority) {
	a.l.t.Helper()
	for _, name := range []string{"ca.pem", "node.pem", "node.key", "me.pem", "me.key"} {
		text, err := os.ReadFile(a.file(name))
		if err == nil {
			err = os.WriteFile(b.file(name), text, 0o600)
		}
		if err != nil {
			a.l.t.Fatal(err)
		}
	}
}

// argument of a node that follows a flag.
func (n *node) argument(flag string) string { return n.args[slices.Index(n.args, flag)+1] }

// TestReplacedCertificatesAndCAsTakeEffect at SIGHUP: at the control port and the embedded etcd, and at
// the clients of both in daemons that live on.
func TestReplacedCertificatesAndCAsTakeEffect(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	mine, next := l.authority("ca"), l.authority("next")
	l.tls = []string{"--ca", mine.file("ca.pem"), "--cert", mine.file("me.pem"), "--key",
		mine.file("me.key")}
	l.args = append(l.args, "--control-ca", mine.file("ca.pem"), "--control-cert", mine.file("node.pem"),
		"--control-key", mine.file("node.key"))
	l.cluster(2)
	etcd := l.nodes[0].argument("--cluster-etcd-listen")
	ports := []string{l.nodes[0].control, l.nodes[1].control, etcd}
	served := func(address string, want *big.Int) {
		t.Helper()
		until(t, address+" serves the certificate of the file", func() bool {
			got, err := mine.shakes(address)
			return err == nil && got.Cmp(want) == 0
		})
	}
	first := mine.serial()
	for _, p := range ports {
		served(p, first)
	}
	// Another certificate of the same CA, told to one of the nodes.
	mine.make("node", "127.0.0.1")
	second := mine.serial()
	l.nodes[0].signal(syscall.SIGHUP)
	served(l.nodes[0].control, second)
	served(etcd, second)
	if got, err := mine.shakes(l.nodes[1].control); err != nil || got.Cmp(first) != 0 {
		t.Errorf("a node that was told nothing serves %v, %v, want what it has read", got, err)
	}
	// A whole new CA. The old one's files stay in a folder of their own.
	old := &authority{l, filepath.Join(l.dir, "old")}
	if err := os.Mkdir(old.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	mine.copyTo(old)
	next.copyTo(mine)
	for _, n := range l.nodes {
		n.signal(syscall.SIGHUP)
	}
	for _, p := range ports {
		served(p, next.serial())
		if _, err := old.shakes(p); err == nil {
			t.Errorf("%s lets a client of the old CA in", p)
		}
	}
	l.allReady(l.nodes[0], 2)
	l.proved(l.nodes[1])
	// Who has lived on since the old CA connects to who begins with the new one, and the other way round.
	for _, n := range l.nodes {
		n.kill()
		n.restart()
		l.allReady(l.nodes[1], 2)
	}
	l.proved(l.nodes[0])
	_, errs, code := l.run("status", "--cluster", l.nodes[0].control, "--ca", old.file("ca.pem"), "--cert",
		old.file("me.pem"), "--key", old.file("me.key"))
	if code != 1 || !strings.Contains(errs, "not of one CA") {
		t.Errorf("the old CA's client: exit code %d: %s", code, errs)
	}
}

// ran runs a short benchmark on a cluster of one.
func (l *lab) ran(n *node) {
	l.t.Helper()
	if _, errs, code := l.bench(n, "--distributed", "0", "--duration", "100ms"); code != 0 {
		l.t.Fatalf("exit code %d: %s", code, errs)
	}
}

// TestLevelOfTheLogIsReloaded from the file at SIGHUP; from a file that is wrong nothing is, and the
// line is named.
func TestLevelOfTheLogIsReloaded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	file := filepath.Join(l.dir, "drtmd.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("log:\n  level: info\n")
	n := l.start("n0", "--config", file).await()
	has := func(what, text string) {
		t.Helper()
		until(t, what, func() bool { return strings.Contains(n.err.String(), text) })
	}
	debug := func() int { return strings.Count(n.err.String(), `"level":"debug"`) }
	l.ran(n)
	if debug() > 0 {
		t.Errorf("debug lines at level info:\n%s", n.err.String())
	}
	write("log:\n  level: debug\n")
	n.signal(syscall.SIGHUP)
	has("the new level is told", "level of the log: debug, was info")
	l.ran(n)
	until(t, "debug lines appear", func() bool { return debug() > 0 })
	write("log:\n  level: error\n  colour: red\n")
	n.signal(syscall.SIGHUP)
	has("the wrong line is named", "not reloaded, all is as it was: ")
	if text := n.err.String(); !strings.Contains(text, file+":3") || !strings.Contains(text, "log.colour") {
		t.Errorf("no %s:3 with log.colour in\n%s", file, text)
	}
	write("log:\n  level: info\n")
	n.signal(syscall.SIGHUP)
	has("the level was left as it was", "level of the log: info, was debug")
}
