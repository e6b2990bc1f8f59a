package daemon

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/status"
	"drtmd/verbs"
)

// stuck is a plane's clock that holds one reader up, as a device that hangs does it to a worker thread.
type stuck struct {
	verbs.Clock
	mu   sync.Mutex
	gate chan struct{} // whoever takes it waits for its end; nil: nobody does
}

func (c *stuck) Now() time.Duration {
	c.mu.Lock()
	gate := c.gate
	c.gate = nil
	c.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return c.Clock.Now()
}

// TestPingsStopWhileAWorkerThreadHangs, /healthz tells, and both recover with it.
func TestPingsStopWhileAWorkerThreadHangs(t *testing.T) {
	w := newWorld(t, 0)
	socket := filepath.Join(w.dir, "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	var said lines
	var reader sync.WaitGroup
	reader.Go(func() {
		b := make([]byte, 4096)
		for {
			n, err := l.Read(b)
			if err != nil {
				return
			}
			_, _ = said.Write(append(b[:n:n], '\n')) // memory
		}
	})
	t.Cleanup(func() { l.Close(); reader.Wait() })
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "200000")
	clock := &stuck{}
	n := w.add()
	n.cfg.Admin.Listen, n.cfg.Data.Workers, n.cfg.Data.Threads = "127.0.0.1:0", 2, 2
	n.options = func(o *Options) {
		o.test.wrapClock = func(c verbs.Clock) verbs.Clock {
			clock.Clock = c
			return clock
		}
	}
	n.start()
	n.await(status.Ready)
	count := func(text string) int { return strings.Count(said.String(), text) }
	last := func() any { return said.String() }
	health := func(code int) {
		t.Helper()
		r, err := http.Get("http://" + n.self().Admin + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if r.StatusCode != code {
			t.Errorf("/healthz %d, want %d", r.StatusCode, code)
		}
	}
	const ping, hangs = "WATCHDOG=1", "not alive: a worker thread has made no pass for 5s"
	w.until("pings", func() bool { return count(ping) > 2 }, last)
	health(http.StatusOK)
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	defer open()
	clock.mu.Lock()
	clock.gate = gate
	clock.mu.Unlock()
	w.until("it is told that a thread hangs", func() bool { return count(hangs) > 0 }, last)
	before := count(ping)
	health(http.StatusServiceUnavailable)
	w.until("it is told again", func() bool { return count(hangs) > 1 }, last)
	if now := count(ping); now != before {
		t.Errorf("%d pings while a worker thread hangs", now-before)
	}
	open()
	w.until("pings again", func() bool { return count(ping) > before+2 }, last)
	health(http.StatusOK)
	http.DefaultClient.CloseIdleConnections()
}
