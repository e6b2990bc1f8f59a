package memory_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drtmd/proto/memnode"
	"drtmd/proto/node/memory"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/shm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serve runs a memory node for two clients and returns its address.
func serve(t *testing.T, p verbs.Provider) string {
	t.Helper()
	c, err := p.Open("")
	must(t, err)
	server, err := memnode.NewServer(c, memnode.Config{Bytes: 4096, Clients: 2})
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- memory.Serve(ctx, l, server, nil) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
		must(t, server.Close())
		must(t, c.Close())
	})
	return l.Addr().String()
}

// client is a worker of a client.
type client struct {
	worker *fiber.Worker
	thread *fiber.Thread
}

func newClient(t *testing.T, p verbs.Provider) *client {
	t.Helper()
	c, err := p.Open("")
	must(t, err)
	thread, err := fiber.NewThread(fiber.ThreadConfig{Drain: 500 * time.Millisecond})
	must(t, err)
	t.Cleanup(func() {
		must(t, thread.Close())
		must(t, c.Close())
	})
	pd, err := c.AllocPD()
	must(t, err)
	w, err := thread.NewWorker(fiber.WorkerConfig{Name: "client", PD: pd})
	must(t, err)
	return &client{w, thread}
}

func (k *client) join(address string, id memnode.ClientID) (*memnode.Way, *memory.Session, error) {
	return memory.Join(context.Background(), address, id, []*fiber.Worker{k.worker}, verbs.ConnectAttr{})
}

// add adds one to the first word of the memory.
func (k *client) add(way *memnode.Way) (old uint64, err error) {
	var ended error
	k.worker.Submit("add", func(f *fiber.Fiber) (err error) {
		old, err = way.Conns[0].FAA(f, way.Memory.Addr, way.Memory.RKey, 1)
		return err
	}, func(err error) { ended = err; k.thread.Stop() })
	return old, errors.Join(fiber.Threads(context.Background(), k.thread), ended)
}

func TestASessionIsAConnection(t *testing.T) {
	p := shm.New(shm.Options{Dir: filepath.Join(t.TempDir(), "fabric")})
	address := serve(t, p)
	first := newClient(t, p)
	way, session, err := first.join(address, 1)
	must(t, err)
	_, _, err = newClient(t, p).join(address, 1)
	var refused *memory.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Text, "client 1 has a session") {
		t.Fatalf("the same number twice: %v", err)
	}
	other := newClient(t, p)
	otherWay, otherSession, err := other.join(address, 0)
	must(t, err)
	if old, err := other.add(otherWay); otherWay.Client != 2 || old != 0 || err != nil {
		t.Errorf("client %d finds %d, %v", otherWay.Client, old, err)
	}
	must(t, session.Close())
	must(t, session.Close())
	// The number is free soon, and the former client is fenced.
	var next *memory.Session
	for until := time.Now().Add(10 * time.Second); next == nil; time.Sleep(5 * time.Millisecond) {
		if _, next, err = newClient(t, p).join(address, 1); err != nil && time.Now().After(until) {
			t.Fatal(err)
		}
	}
	if _, err := first.add(way); err == nil {
		t.Error("a client without a session adds to the memory")
	}
	must(t, next.Close())
	must(t, otherSession.Close())
}

func TestWhatIsNoRequestIsRefused(t *testing.T) {
	p := shm.New(shm.Options{Dir: filepath.Join(t.TempDir(), "fabric")})
	address := serve(t, p)
	for _, x := range []struct{ send, want string }{
		{"GET / HTTP/1.1\n", "invalid character"},
		{`{"version":7,"endpoints":[]}` + "\n", "client speaks 7"},
		{`{"version":1,"endpoints":["AAAA"]}` + "\n", "3 bytes, not 64"},
		{strings.Repeat("x", 64<<10), "no whole line of at most 65536 bytes"},
	} {
		c, err := net.Dial("tcp", address)
		must(t, err)
		_, err = fmt.Fprint(c, x.send)
		must(t, err)
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || !strings.Contains(line, x.want) {
			t.Errorf("%.40q: %q, %v", x.send, line, err)
		}
		must(t, c.Close())
	}
}
