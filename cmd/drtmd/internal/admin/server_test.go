package admin

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/status"
)

// request sends one request on a connection of its own, its head as given, and reads the answer.
func request(t *testing.T, address, head string) (*http.Response, string) {
	t.Helper()
	c := dial(t, address)
	if _, err := io.WriteString(c, head); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: strings.Fields(head)[0]})
	if err != nil {
		t.Fatalf("%q: %v", head[:min(len(head), 60)], err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	// A header that is too large is not read to its end: the connection is reset at last.
	if err != nil && r.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Fatal(err)
	}
	return r, string(b)
}

// dial connects until the test ends, with a bound on everything.
func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the test may have done so
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

func get(path string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
}

func TestAnswers(t *testing.T) {
	address := serve(t, optionsFor(newFake()))
	for _, c := range []struct {
		name, head string
		code       int
		says       string
	}{
		{"page", get("/"), 200, "drtmd cluster"},
		{"style", get("/page.css"), 200, "--bg"},
		{"script", get("/page.js"), 200, "live.json"},
		{"what the page draws", get("/live.json"), 200, `"samples":[`},
		{"status", get("/status.json"), 200, status.Schema},
		{"metrics", get("/metrics"), 200, "drtmd_ready 1"},
		{"alive", get("/healthz"), 200, "ok"},
		{"ready", get("/readyz"), 200, "ok"},
		{"profiles", get("/debug/pprof/"), 200, "goroutine"},
		{"a profile", get("/debug/pprof/goroutine?debug=1"), 200, "goroutine profile"},
		{"head", "HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 200, ""},
		{"unknown", get("/unknown"), 404, ""},
		{"folder above", get("/../../../etc/passwd"), 307, "/etc/passwd"},
		{"folder above, escaped", get("/%2e%2e/%2e%2e/etc/passwd"), 404, "not found"},
		{"where that leads", get("/etc/passwd"), 404, "not found"},
		{"folder above, of profiles", get("/debug/pprof/..%2f..%2fetc"), 404, "Unknown profile"},
		{"post", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405,
			"only shows"},
		{"delete", "DELETE /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "only shows"},
		{"options", "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, ""},
		{"connect", "CONNECT other:80 HTTP/1.1\r\nHost: other:80\r\n\r\n", 405, ""},
		{"no host", "GET / HTTP/1.1\r\n\r\n", 400, ""},
		{"another's name", "GET /status.json HTTP/1.1\r\nHost: evil.example:7441\r\n\r\n", 421,
			"by its address"},
		{"a name that begins as ours", "GET / HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n",
			421, "by its address"},
		{"an address", "GET / HTTP/1.1\r\nHost: [::1]:7441\r\n\r\n", 200, ""},
		{"a large header", "GET / HTTP/1.1\r\nHost: localhost\r\nX: " +
			strings.Repeat("x", 64<<10) + "\r\n\r\n", 431, ""},
		{"many headers", "GET / HTTP/1.1\r\nHost: localhost\r\n" +
			strings.Repeat("A: b\r\n", 16<<10) + "\r\n", 431, ""},
		{"no HTTP", "hello there\r\n\r\n", 400, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, text := request(t, address, c.head)
			if r.StatusCode != c.code || !strings.Contains(text, c.says) {
				t.Errorf("%d %.200s\nwant %d %s", r.StatusCode, text, c.code, c.says)
			}
		})
	}
}

func TestHeadersKeepBrowsersCareful(t *testing.T) {
	address := serve(t, optionsFor(newFake()))
	for _, path := range []string{"/", "/page.js", "/live.json", "/metrics", "/debug/pprof/", "/no"} {
		r, _ := request(t, address, get(path))
		csp := r.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'none';") || strings.Contains(csp, "unsafe") ||
			strings.Contains(csp, "http") || strings.Contains(csp, "*") {
			t.Errorf("%s: policy %q", path, csp)
		}
		if r.Header.Get("X-Content-Type-Options") != "nosniff" ||
			r.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", path, r.Header)
		}
	}
}

func TestReadyzSaysWhyNot(t *testing.T) {
	f := newFake()
	f.notReady = errors.New("refusing: the membership lease has ended")
	r, text := request(t, serve(t, optionsFor(f)), get("/readyz"))
	if r.StatusCode != 503 || !strings.Contains(text, "lease has ended") {
		t.Errorf("%d %s", r.StatusCode, text)
	}
}

func TestStatusOfThisNodeAlone(t *testing.T) {
	address := serve(t, optionsFor(newFake()))
	for path, want := range map[string]int{"/status.json": 3, "/status.json?self=1": 1} {
		_, text := request(t, address, get(path))
		var c status.Cluster
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
		if len(c.Nodes) != want {
			t.Errorf("%s: %d nodes, want %d", path, len(c.Nodes), want)
		}
	}
}

// remote is a listener whose clients seem to be on another host.
type remote struct{ net.Listener }

func (l remote) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return remoteConn{c}, nil
}

type remoteConn struct{ net.Conn }

func (remoteConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 4242}
}

func TestProfilesAreForThisHostUnlessAsked(t *testing.T) {
	for _, c := range []struct {
		name       string
		everywhere bool
		code       int
	}{{"by default", false, 403}, {"asked", true, 200}} {
		t.Run(c.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			o := optionsFor(newFake())
			o.PprofEverywhere = c.everywhere
			serveOn(t, o, remote{l})
			for _, path := range []string{"", "heap", "cmdline", "profile", "symbol", "trace"} {
				if c.everywhere && path != "" {
					continue // those that last
				}
				r, text := request(t, l.Addr().String(), get("/debug/pprof/"+path))
				if r.StatusCode != c.code || c.code == 403 && !strings.Contains(text, "admin.pprof") {
					t.Errorf("%s: %d %.200s", path, r.StatusCode, text)
				}
			}
			if r, _ := request(t, l.Addr().String(), get("/")); r.StatusCode != 200 {
				t.Errorf("the page: %d", r.StatusCode)
			}
		})
	}
}

// A profile may last longer than any other request may take to be read.
func TestProfileLastsAsLongAsAsked(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 11 s")
	}
	t.Parallel()
	address := serve(t, optionsFor(newFake()))
	seconds := int(requestTimeout/time.Second) + 1
	begin := time.Now()
	r, text := request(t, address, get(fmt.Sprintf("/debug/pprof/trace?seconds=%d", seconds)))
	if r.StatusCode != 200 || !strings.HasPrefix(text, "go 1.") {
		t.Errorf("%d %.100q", r.StatusCode, text)
	}
	if d := time.Since(begin); d < requestTimeout {
		t.Errorf("ended after %v", d)
	}
}

// Clients that send their header byte by byte, or nothing, are closed in time, and meanwhile take
// no more than the bounded number of connections.
func TestSlowClientsAreClosed(t *testing.T) {
	t.Parallel()
	address := serve(t, optionsFor(newFake()))
	var wg sync.WaitGroup
	for i := range maxConnections {
		c := dial(t, address)
		wg.Go(func() {
			begin := time.Now()
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n")
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = io.Copy(io.Discard, c) // until the server closes it
			}()
			drip := time.NewTicker(200 * time.Millisecond)
			defer drip.Stop()
			for {
				select {
				case <-done:
					if time.Since(begin) < headerTimeout/2 {
						t.Errorf("client %d was closed at once", i)
					}
					return
				case <-drip.C:
					if i%2 == 0 { // the others are silent
						_, _ = io.WriteString(c, "X: y\r\n")
					}
				}
			}
		})
	}
	// All places are taken: one more is closed at once, without an answer.
	eventually(t, func() error {
		c := dial(t, address)
		if b, err := io.ReadAll(c); err == nil && len(b) == 0 || errors.Is(err, os.ErrClosed) {
			return nil
		} else if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil // reset
		}
		return errors.New("one more connection than allowed is held open")
	})
	wg.Wait()
	eventually(t, func() error {
		r, err := http.Get("http://" + address + "/healthz")
		if err != nil {
			return err
		}
		defer http.DefaultClient.CloseIdleConnections()
		return r.Body.Close()
	})
}

// eventually retries what may take a while.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	err := try()
	for end := time.Now().Add(30 * time.Second); err != nil && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
		err = try()
	}
	if err != nil {
		t.Error(err)
	}
}

func TestCloseEndsWithClientsConnected(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop := serveOn(t, optionsFor(newFake()), l)
	c := dial(t, l.Addr().String())
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("still listens")
	}
}

func TestManyClientsAskTheClusterOnce(t *testing.T) {
	f := newFake()
	s := NewServer(optionsFor(f))
	defer func() {
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	begin := time.Now()
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if _, err := s.view(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	most := 1 + int(time.Since(begin)/viewAge)
	f.change(func() {
		if f.asked > most {
			t.Errorf("the cluster was asked %d times, want at most %d", f.asked, most)
		}
	})
}
