package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	pb "drtmd/cmd/drtmd/internal/control/controlpb"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend answers what a test has put into it.
type backend struct {
	check error
	admit func() (*pb.AdmitReply, error)
	seen  chan Caller
}

func (b *backend) Check(c Caller) error {
	if b.seen != nil {
		b.seen <- c
	}
	return b.check
}

func (b *backend) Admit(context.Context, *pb.AdmitRequest) (*pb.AdmitReply, error) {
	if b.admit != nil {
		return b.admit()
	}
	return &pb.AdmitReply{Cluster: "c"}, nil
}

func (b *backend) Status(context.Context, bool) (*status.Cluster, error) {
	return &status.Cluster{Schema: status.Schema, From: 3}, nil
}

func (b *backend) Run(_ context.Context, _ *pb.RunRequest, send func(*pb.RunEvent) error) error {
	for i := range 3 {
		if err := send(&pb.RunEvent{Event: &pb.RunEvent_Notice{Notice: &pb.Notice{
			Text: fmt.Sprint(i)}}}); err != nil {
			return err
		}
	}
	return send(&pb.RunEvent{Event: &pb.RunEvent_Done{Done: &pb.Done{Error: "e"}}})
}

func (b *backend) Stop(context.Context) (bool, error) { return true, nil }
func (b *backend) SetLogLevel(context.Context, string, bool) (string, error) {
	return "info", nil
}
func (b *backend) Drain(context.Context, bool) ([]string, error) { return []string{"n"}, nil }
func (b *backend) Do(_ context.Context, v member.ShardVersion, r []byte) ([]byte, error) {
	return fmt.Appendf(nil, "%d %s", v, r), nil
}
func (b *backend) History(_ context.Context, _ member.ShardVersion, w io.Writer) error {
	_, err := w.Write(make([]byte, 3*chunkBytes+7))
	return err
}
func (b *backend) Time() (int64, string) { return 42, "machine" }

const build = "drtmd test"

// serving serves a backend until the test ends.
func serving(t *testing.T, address string, o Options) string {
	t.Helper()
	if o.Backend == nil {
		o.Backend = &backend{}
	}
	if o.Limits == (Limits{}) {
		o.Limits = Limits{MaxConnections: 16, MaxMessage: 1 << 20, RatePerPeer: 1000}
	}
	o.Build, o.Log = build, zap.NewNop()
	l, err := Listen(address, o.Security, false)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(address, unixPrefix) {
		address = l.Addr().String()
	}
	s := NewServer(o)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Stop(ctx)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return address
}

func dialed(t *testing.T, address string, sec *Security, c Caller) *Client {
	t.Helper()
	if c.Build == "" {
		c.Build = build
	}
	client, err := Dial(address, DialOptions{Security: sec, Caller: func() Caller { return c }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// short is a folder whose name leaves room for that of a socket.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctl")
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

// lab makes a CA with a node's certificate.
func lab(t *testing.T, hosts ...string) (string, *Security) {
	t.Helper()
	dir := short(t)
	if made, err := MakeCA(dir); err != nil || !made {
		t.Fatal(made, err)
	}
	return dir, issued(t, dir, "node", time.Hour, hosts...)
}

func issued(t *testing.T, dir, name string, validity time.Duration, hosts ...string) *Security {
	t.Helper()
	cert, key, err := MakeCert(dir, name, hosts, validity, true)
	if err != nil {
		t.Fatal(err)
	}
	s, err := LoadSecurity(filepath.Join(dir, CACertFile), cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEveryCallReachesTheBackend(t *testing.T) {
	ctx := context.Background()
	for _, name := range []string{"loopback", "unix socket", "TLS"} {
		t.Run(name, func(t *testing.T) {
			address := "127.0.0.1:0"
			var sec *Security
			switch name {
			case "unix socket":
				address = unixPrefix + filepath.Join(short(t), "s")
			case "TLS":
				_, sec = lab(t, "127.0.0.1")
			}
			seen := make(chan Caller, 100)
			address = serving(t, address, Options{Security: sec, Backend: &backend{seen: seen}})
			me := Caller{Build: build, IsMember: true, Cluster: "c-1", Epoch: 7,
				Self: member.Member{Node: 3, Incarnation: 9}}
			c := dialed(t, address, sec, me)
			if a, err := c.Admit(ctx, &pb.AdmitRequest{}); err != nil || a.Cluster != "c" {
				t.Error(a, err)
			}
			if got := <-seen; got != me {
				t.Errorf("the backend sees %+v, want %+v", got, me)
			}
			if st, err := c.Status(ctx, false); err != nil || st.From != 3 {
				t.Error(st, err)
			}
			if was, err := c.Stop(ctx); err != nil || !was {
				t.Error(was, err)
			}
			if was, err := c.SetLogLevel(ctx, "debug", true); err != nil || was != "info" {
				t.Error(was, err)
			}
			if told, err := c.Drain(ctx, false); err != nil || len(told) != 1 {
				t.Error(told, err)
			}
			if b, err := c.Do(ctx, 5, []byte("x")); err != nil || string(b) != "5 x" {
				t.Errorf("%s %v", b, err)
			}
			if now, machine, err := c.Time(ctx); err != nil || now != 42 || machine != "machine" {
				t.Error(now, machine, err)
			}
			var history strings.Builder
			if err := c.History(ctx, 5, &history); err != nil || history.Len() != 3*chunkBytes+7 {
				t.Error(history.Len(), err)
			}
			notices := 0
			done, err := c.Run(ctx, &pb.RunRequest{}, func(*pb.RunEvent) error { notices++; return nil })
			if err != nil || done.Error != "e" || notices != 3 {
				t.Error(done, notices, err)
			}
		})
	}
}

func TestErrorsOfMembershipSurviveTheWire(t *testing.T) {
	b := &backend{}
	c := dialed(t, serving(t, "127.0.0.1:0", Options{Backend: b}), nil, Caller{})
	for _, k := range kinds {
		b.admit = func() (*pb.AdmitReply, error) { return nil, fmt.Errorf("because: %w", k.err) }
		_, err := c.Admit(context.Background(), &pb.AdmitRequest{})
		if !errors.Is(err, k.err) || err.Error() != "because: "+k.err.Error() {
			t.Errorf("%s: %v", k.name, err)
		}
	}
	b.check = fmt.Errorf("%w: you", member.ErrNotMember)
	if _, err := c.Status(context.Background(), true); !errors.Is(err, member.ErrNotMember) {
		t.Errorf("a caller that the backend refuses: %v", err)
	}
	b.check = nil
	b.admit = func() (*pb.AdmitReply, error) { panic("a bug") }
	if _, err := c.Admit(context.Background(), &pb.AdmitRequest{}); err == nil ||
		!strings.Contains(err.Error(), "panicked") {
		t.Errorf("a panic: %v", err)
	}
	if _, err := c.Status(context.Background(), true); err != nil {
		t.Errorf("after a panic: %v", err)
	}
}

func TestClientsAreToldWhatIsWrong(t *testing.T) {
	dir, sec := lab(t, "127.0.0.1")
	_, other := lab(t, "127.0.0.1")
	plain, secure := serving(t, "127.0.0.1:0", Options{}), serving(t, "127.0.0.1:0",
		Options{Security: sec})
	elsewhere := serving(t, "127.0.0.1:0", Options{Security: issued(t, dir, "x", time.Hour, "10.1.2.3")})
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := nobody.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, address string
		sec           *Security
		build, want   string
	}{
		{"nobody", nobody.Addr().String(), nil, "", "drtmd up"},
		{"no socket", "unix:" + filepath.Join(dir, "none"), nil, "", "drtmd up"},
		{"TLS to a plain port", plain, sec, "", "no TLS there"},
		{"plain to a TLS port", secure, nil, "", "it may ask for TLS"},
		{"another CA", secure, other, "", "not of one CA"},
		{"another name", elsewhere, sec, "", "for another name or address"},
		{"another build", plain, nil, "drtmd other", "this daemon is " + "drtmd " + build},
	} {
		_, err := dialed(t, c.address, c.sec, Caller{Build: c.build}).Status(context.Background(), true)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.name, err, c.want)
		}
	}
	if _, err := Dial("nonsense", DialOptions{}); err == nil {
		t.Error("an address without a port is taken")
	}
}

func TestCertificatesAreReloaded(t *testing.T) {
	dir, sec := lab(t, "127.0.0.1")
	address := serving(t, "127.0.0.1:0", Options{Security: sec})
	before := sec.Expires()
	issued(t, dir, "node", 2*time.Hour, "127.0.0.1")
	if err := sec.Reload(); err != nil {
		t.Fatal(err)
	}
	if !sec.Expires().After(before) {
		t.Error("the new certificate is not used")
	}
	if _, err := dialed(t, address, sec, Caller{}).Status(context.Background(), true); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(filepath.Join(dir, "node.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := sec.Reload(); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others can read: %v", err)
	}
}

func TestCertificatesAreNeverReplacedUnasked(t *testing.T) {
	dir, _ := lab(t)
	if made, err := MakeCA(dir); err != nil || made {
		t.Errorf("a second CA: %v %v", made, err)
	}
	if _, _, err := MakeCert(dir, "node", nil, time.Hour, false); err == nil {
		t.Error("a certificate was replaced")
	}
	for _, name := range []string{CAKeyFile, "node.key"} {
		if i, err := os.Stat(filepath.Join(dir, name)); err != nil || i.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, i.Mode(), err)
		}
	}
	if err := os.Remove(filepath.Join(dir, CAKeyFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := MakeCA(dir); err == nil {
		t.Error("a CA without its key was replaced")
	}
	if _, err := LoadSecurity("a", "", ""); err == nil {
		t.Error("a CA alone is taken")
	}
}

func TestSocketsAreForTheirUserAndReplacedWhenDead(t *testing.T) {
	path := filepath.Join(short(t), "sub", "s")
	serving(t, unixPrefix+path, Options{})
	for name, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if i, err := os.Stat(name); err != nil || i.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", name, i.Mode(), err)
		}
	}
	if _, err := Listen(unixPrefix+path, nil, false); err == nil {
		t.Error("the socket of a living daemon is taken")
	}
	dead := filepath.Join(short(t), "dead")
	l, err := net.Listen("unix", dead)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	serving(t, unixPrefix+dead, Options{})
	file := filepath.Join(short(t), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(unixPrefix+file, nil, false); err == nil {
		t.Error("a file is replaced")
	}
	for _, address := range []string{"0.0.0.0:0", ":0", "192.0.2.1:0"} {
		if _, err := Listen(address, nil, false); !errors.Is(err, ErrOpen) {
			t.Errorf("%s without TLS: %v", address, err)
		}
	}
}

func TestRequestsBeyondTheRateAreRefused(t *testing.T) {
	address := serving(t, "127.0.0.1:0", Options{Limits: Limits{MaxConnections: 4,
		MaxMessage: 1 << 16, RatePerPeer: 5}})
	c := dialed(t, address, nil, Caller{})
	refused := 0
	for range 100 {
		if _, _, err := c.Time(context.Background()); err != nil {
			if !strings.Contains(err.Error(), "rate_per_peer") {
				t.Fatal(err)
			}
			refused++
		}
	}
	if refused == 0 || refused == 100 {
		t.Errorf("%d of 100 requests were refused", refused)
	}
}
