package etcdmember

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drtmd/internal/invariant"
	"drtmd/proto/member"
	"drtmd/proto/member/membertest"
	"drtmd/verbs"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == asChild {
		err := RunChild(context.Background(), os.Stdin, os.Stdout,
			func(string, string, string) (*tls.Config, func() error, error) {
				return nil, func() error { return nil }, nil
			})
		if err != nil {
			os.Exit(1)
		}
		return
	}
	if dir := os.Getenv(serveVar); dir != "" {
		serve(dir)
		return
	}
	// Cases wait most of the time.
	flag.Parse()
	if err := flag.Set("test.parallel", "7"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// testLease is longer than the shortest: the machine is shared. With the race detector, seven servers
// at once take seconds to stop and to start.
var testLease = func() time.Duration {
	if invariant.Enabled {
		return 12 * time.Second
	}
	return 4 * time.Second
}()

// shortDir is in memory: a disk that others write to may hold etcd up for a lease.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "etcd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// env implements membertest.Env on an embedded etcd.
type env struct {
	t      *testing.T
	cfg    ServerConfig
	server *Server
	clock  verbs.Clock
	lease  time.Duration
}

func newEnv(t *testing.T) *env {
	e := &env{t: t, cfg: ServerConfig{Dir: shortDir(t), Listen: "127.0.0.1:0"},
		clock: verbs.NewMonotonicClock(), lease: testLease}
	e.Restart()
	t.Cleanup(func() {
		if err := e.server.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func (e *env) Lease() time.Duration { return e.lease }
func (e *env) Now() time.Duration   { return e.clock.Now() }
func (e *env) Pass(d time.Duration) { time.Sleep(d) }

func (e *env) Await(ok func() bool) bool {
	for end := time.Now().Add(20 * e.lease); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// Lengthen: beside other tests on two cores, to stop and to start has taken 4 s.
func (e *env) Lengthen() { e.lease = 30 * time.Second }

func (e *env) Stop() {
	if err := e.server.Close(); err != nil {
		e.t.Error(err)
	}
}

func (e *env) Restart() {
	var err error
	if e.server, err = Start(context.Background(), e.cfg); err != nil {
		e.t.Fatal(err)
	}
}

// Node reaches etcd through a proxy of its own.
func (e *env) Node() membertest.Node {
	p := newProxy(e.t, e.server.URLs()[0][len("http://"):])
	r, err := Open(Config{Endpoints: []string{"http://" + p.l.Addr().String()}, Cluster: "suite",
		Lease: e.lease, Clock: e.clock})
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		if err := r.Close(); err != nil {
			e.t.Error(err)
		}
	})
	return &node{r, p}
}

type node struct {
	*Registry
	p *proxy
}

func (n *node) Cut()  { n.p.set(true) }
func (n *node) Mend() { n.p.set(false) }

// proxy passes connections on, until it is cut.
type proxy struct {
	l  net.Listener
	to string
	wg sync.WaitGroup

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

func newProxy(t *testing.T, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, to: to, conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		err := l.Close()
		p.set(true)
		p.wg.Wait()
		if err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		if !p.add(c) {
			continue
		}
		d, err := net.Dial("tcp", p.to)
		if err != nil {
			p.drop(c)
			continue
		}
		if !p.add(d) {
			p.drop(c)
			continue
		}
		pass := func(a, b net.Conn) {
			_, _ = io.Copy(a, b) // ends when either is closed
			p.drop(a)
			p.drop(b)
		}
		p.wg.Go(func() { pass(c, d) })
		p.wg.Go(func() { pass(d, c) })
	}
}

func (p *proxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		_ = c.Close() // that is the point
		return false
	}
	p.conns[c] = true
	return true
}

func (p *proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close() // it may be closed
}

func (p *proxy) set(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	if cut {
		for c := range p.conns {
			_ = c.Close() // that is the point
		}
	}
}

func TestSuite(t *testing.T) {
	membertest.Run(t, true, func(t *testing.T) membertest.Env { return newEnv(t) })
}

// TestWhatIsListenedOnBeyondThisHostNeedsCertificates or anybody could rewrite epochs.
func TestWhatIsListenedOnBeyondThisHostNeedsCertificates(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:2379"} {
		s, err := Start(context.Background(), ServerConfig{Dir: shortDir(t), Listen: address})
		if !errors.Is(err, ErrOpen) {
			t.Errorf("%s: %v", address, err)
		}
		if s != nil {
			t.Error(s.Close())
		}
	}
}

// TestServerKeepsItsPortAndItsDataOverLives and nobody else may have them meanwhile.
func TestServerKeepsItsPortAndItsDataOverLives(t *testing.T) {
	e := newEnv(t)
	url := e.server.URLs()[0]
	n := e.Node()
	s, err := n.Join(member.Candidate{Node: member.AnyNode, Build: "b"}, &quiet{})
	if err != nil {
		t.Fatal(err)
	}
	cluster := s.State().Cluster
	if err := s.Leave(); err != nil {
		t.Fatal(err)
	}
	if second, err := Start(context.Background(), e.cfg); err == nil {
		t.Error("a second server on the same data", second.Close())
	}
	e.Stop()
	e.Restart()
	if e.server.URLs()[0] != url {
		t.Errorf("was %s, is %s", url, e.server.URLs()[0])
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*testLease)
	defer cancel()
	if now, err := n.(*node).ClusterID(ctx); err != nil || now != cluster {
		t.Errorf("cluster %q, was %q: %v", now, cluster, err)
	}
	r, err := Open(Config{Endpoints: e.server.URLs(), Cluster: "suite", ID: "another",
		Lease: testLease, Clock: e.clock})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.ClusterID(ctx); err == nil {
		t.Error("another cluster's etcd is taken")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// quiet is a listener that says nothing.
type quiet struct{}

func (quiet) Changed(member.State) {}
func (quiet) LeaseLost(error)      {}

func TestConfigurationIsChecked(t *testing.T) {
	for name, c := range map[string]Config{
		"a lease that is too short":    {Cluster: "x", Lease: time.Second},
		"a lease of parts of a second": {Cluster: "x", Lease: 2500 * time.Millisecond},
		"a name with a slash":          {Cluster: "x/y", Lease: testLease},
		"no name":                      {Lease: testLease},
	} {
		c.Endpoints = []string{"http://127.0.0.1:1"}
		if r, err := Open(c); err == nil {
			t.Errorf("%s is taken: %v", name, r.Close())
		}
	}
}
