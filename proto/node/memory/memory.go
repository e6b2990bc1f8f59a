package memory

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"drtmd/proto/memnode"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

const (
	// patience is how long a connection may take for its request, and a client waits for the reply.
	patience = 10 * time.Second
	// maxLine bounds a line of JSON: many endpoints of 64 bytes.
	maxLine = 64 << 10
	// maxConns bounds the connections at a time, those without a session yet included.
	maxConns = 4096
	// again is the pause before the service tries again what has failed for now.
	again = time.Second
)

// keepAlive notices a host that is gone.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 2}

// request and reply on the wire.
type request struct {
	Version   int              `json:"version"`
	Client    memnode.ClientID `json:"client"`
	Endpoints [][]byte         `json:"endpoints"`
}

type reply struct {
	Error     string           `json:"error,omitempty"`
	Client    memnode.ClientID `json:"client,omitempty"`
	Clients   int              `json:"clients,omitempty"`
	Endpoints [][]byte         `json:"endpoints,omitempty"`
	Address   uint64           `json:"address,omitempty"`
	Length    uint64           `json:"length,omitempty"`
	RKey      uint32           `json:"rkey,omitempty"`
}

// RefusedError is a request that the memory node has refused, in its words.
type RefusedError struct{ Text string }

func (e *RefusedError) Error() string { return "the memory node refuses: " + e.Text }

// service is a Serve.
type service struct {
	mu     sync.Mutex // guards server
	server *memnode.Server
	notice func(string)
}

// Serve answers clients on a listener until ctx is done; then it closes the listener and all sessions. notice, if
// not nil, is told who comes and goes and what goes wrong meanwhile, on any goroutine. Only a listener that is
// closed by others is an error: one that cannot accept for now, for want of file descriptors, is asked again.
func Serve(ctx context.Context, l net.Listener, server *memnode.Server, notice func(string)) error {
	if notice == nil {
		notice = func(string) {}
	}
	s := &service{server: server, notice: notice}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		_ = l.Close() // Accept tells
	})
	var wait sync.WaitGroup
	room := make(chan struct{}, maxConns)
	var err error
	for {
		var c net.Conn
		if c, err = l.Accept(); err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				break
			}
			notice(err.Error() + "; new clients wait")
			sleep(ctx, again)
			continue
		}
		room <- struct{}{}
		wait.Go(func() {
			defer func() { <-room }()
			s.session(ctx, c)
		})
	}
	if ctx.Err() != nil {
		err = nil
	}
	cancel()
	if stop() {
		_ = l.Close() // Accept has failed already
	} else {
		<-closed
	}
	wait.Wait()
	return err
}

// session serves one client to its end.
func (s *service) session(ctx context.Context, c net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() }) // ends the reads
	defer stop()
	defer c.Close()
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetKeepAliveConfig(keepAlive) // without it, only the death of a host is noticed late
	}
	_ = c.SetDeadline(time.Now().Add(patience)) // a connection that is closed fails below
	in := bufio.NewReader(io.LimitReader(c, maxLine))
	var q request
	id, answer := memnode.ClientID(0), reply{}
	err := readLine(in, &q)
	if err == nil {
		id, answer, err = s.admit(&q)
	}
	if err != nil {
		answer = reply{Error: err.Error()}
	}
	if id != 0 {
		defer s.leave(ctx, id)
	}
	if writeLine(c, answer) != nil || err != nil {
		if err != nil {
			s.notice(fmt.Sprintf("a client%s is refused: %v", from(c), err))
		}
		return
	}
	s.notice(fmt.Sprintf("client %d has come%s, with %d queue pairs", id, from(c), len(answer.Endpoints)))
	_ = c.SetDeadline(time.Time{})
	_, _ = io.Copy(io.Discard, c) // until the client is gone
}

// from says where a client is; "" on a socket without names.
func from(c net.Conn) string {
	if a := c.RemoteAddr().String(); a != "" && a != "@" {
		return " from " + a
	}
	return ""
}

func (s *service) admit(q *request) (memnode.ClientID, reply, error) {
	ends, err := decodeEndpoints(q.Endpoints)
	if err != nil {
		return 0, reply{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.server.Admit(memnode.Request{Version: q.Version, Client: q.Client, Endpoints: ends})
	if err != nil {
		return 0, reply{}, err
	}
	a := reply{Client: r.Client, Clients: r.Clients, Address: r.Memory.Addr, Length: r.Memory.Length, RKey: r.Memory.RKey}
	a.Endpoints, err = encodeEndpoints(r.Endpoints)
	return r.Client, a, err
}

// leave fences a client, and tries until it has or the service ends: before, its number must not be free.
func (s *service) leave(ctx context.Context, id memnode.ClientID) {
	for {
		s.mu.Lock()
		err := s.server.Leave(id)
		s.mu.Unlock()
		if err == nil {
			s.notice(fmt.Sprintf("client %d has left", id))
			return
		}
		if ctx.Err() != nil {
			return // closing the server tries once more, and tells
		}
		s.notice(fmt.Sprintf("client %d is gone and not fenced yet; its number stays in use: %v", id, err))
		sleep(ctx, again)
	}
}

// sleep waits for a time, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func encodeEndpoints(ends []verbs.Endpoint) (list [][]byte, err error) {
	for _, e := range ends {
		b, err := e.MarshalBinary()
		if err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, nil
}

func decodeEndpoints(list [][]byte) (ends []verbs.Endpoint, err error) {
	for _, b := range list {
		var e verbs.Endpoint
		if err := e.UnmarshalBinary(b); err != nil {
			return nil, err
		}
		ends = append(ends, e)
	}
	return ends, nil
}

func writeLine(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

func readLine(r *bufio.Reader, v any) error {
	b, err := r.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("no whole line of at most %d bytes: %w", maxLine, err)
	}
	return json.Unmarshal(b, v)
}

// split takes HOST:PORT or unix:PATH apart.
func split(address string) (network, place string) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return "unix", path
	}
	return "tcp", address
}

// Session is a client's connection to a memory node.
type Session struct{ conn net.Conn }

// Close ends the session: the node fences the client, and its number is free. It may be called twice.
func (s *Session) Close() error {
	if err := s.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Join opens a session with the memory node at an address, HOST:PORT or unix:PATH, under a client number or, with 0,
// any that is free, and connects one queue pair on each of the workers: see memnode.Join. A *RefusedError has the
// node's reason.
func Join(ctx context.Context, address string, client memnode.ClientID, workers []*fiber.Worker,
	a verbs.ConnectAttr) (*memnode.Way, *Session, error) {
	d := net.Dialer{Timeout: patience, KeepAliveConfig: keepAlive}
	network, place := split(address)
	c, err := d.DialContext(ctx, network, place)
	if err != nil {
		return nil, nil, fmt.Errorf("no memory node answers: %w; start one with drtmd serve --role memory", err)
	}
	s := &Session{conn: c}
	way, err := memnode.Join(s.ask, client, workers, a)
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return way, s, nil
}

func (s *Session) ask(r memnode.Request) (memnode.Reply, error) {
	ends, err := encodeEndpoints(r.Endpoints)
	if err != nil {
		return memnode.Reply{}, err
	}
	if err := s.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return memnode.Reply{}, err
	}
	if err := writeLine(s.conn, request{Version: r.Version, Client: r.Client, Endpoints: ends}); err != nil {
		return memnode.Reply{}, err
	}
	var got reply
	if err := readLine(bufio.NewReader(io.LimitReader(s.conn, maxLine)), &got); err != nil {
		return memnode.Reply{}, fmt.Errorf("no reply of a memory node: %w", err)
	}
	if got.Error != "" {
		return memnode.Reply{}, &RefusedError{Text: got.Error}
	}
	x := memnode.Reply{Client: got.Client, Clients: got.Clients,
		Memory: verbs.RemoteMR{Addr: got.Address, Length: got.Length, RKey: got.RKey}}
	if x.Endpoints, err = decodeEndpoints(got.Endpoints); err != nil {
		return memnode.Reply{}, err
	}
	return x, s.conn.SetDeadline(time.Time{})
}
