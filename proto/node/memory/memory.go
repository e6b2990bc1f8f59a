package memory

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
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
}

// Serve answers clients on a listener until ctx is done; then it closes the listener and all sessions.
func Serve(ctx context.Context, l net.Listener, server *memnode.Server) error {
	s := &service{server: server}
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
			break
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
		defer s.leave(id)
	}
	if writeLine(c, answer) != nil || err != nil {
		return
	}
	_ = c.SetDeadline(time.Time{})
	_, _ = io.Copy(io.Discard, c) // until the client is gone
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
	a := reply{Client: r.Client, Address: r.Memory.Addr, Length: r.Memory.Length, RKey: r.Memory.RKey}
	a.Endpoints, err = encodeEndpoints(r.Endpoints)
	return r.Client, a, err
}

func (s *service) leave(id memnode.ClientID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.server.Leave(id) // the queue pairs are gone with the device, if they cannot be closed
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

// Session is a client's connection to a memory node.
type Session struct{ conn net.Conn }

// Close ends the session: the node fences the client, and its number is free. It may be called twice.
func (s *Session) Close() error {
	if err := s.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Join opens a session with the memory node at an address, under a client number or, with 0, any that is free, and
// connects one queue pair on each of the workers: see memnode.Join. A *RefusedError has the node's reason.
func Join(ctx context.Context, address string, client memnode.ClientID, workers []*fiber.Worker,
	a verbs.ConnectAttr) (*memnode.Way, *Session, error) {
	d := net.Dialer{Timeout: patience, KeepAliveConfig: keepAlive}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
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
		return memnode.Reply{}, fmt.Errorf("the memory node at %s: %w", s.conn.RemoteAddr(), err)
	}
	if got.Error != "" {
		return memnode.Reply{}, &RefusedError{Text: got.Error}
	}
	x := memnode.Reply{Client: got.Client, Memory: verbs.RemoteMR{Addr: got.Address, Length: got.Length, RKey: got.RKey}}
	if x.Endpoints, err = decodeEndpoints(got.Endpoints); err != nil {
		return memnode.Reply{}, err
	}
	return x, s.conn.SetDeadline(time.Time{})
}
