package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// HandshakeTimeout bounds the two hellos together, from the connection on.
	HandshakeTimeout = 700 * time.Millisecond
	// AnswerTimeout bounds the wait for an answer. Setting up queue pairs on a slow software
	// device takes tens of milliseconds.
	AnswerTimeout = 10 * time.Second
	// sendTimeout bounds a write: frames are small, so this is a peer that does not read.
	sendTimeout = 5 * time.Second
	// BeatEvery is the time between two heartbeats of the connecting side: small against
	// AnswerTimeout, and too long to disturb a measurement.
	BeatEvery = time.Second
	// backlog bounds the frames that wait to be taken; a peer that sends more waits.
	backlog = 4
)

// keepAlive notices within 10 s that the other side's host is gone, also while a measurement
// leaves this side nothing to send.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second,
	Interval: 2 * time.Second, Count: 4}

// Conn is a conversation after its handshake. One goroutine sends and takes; Attention and Beat
// may be called from another.
type Conn struct {
	Peer Hello

	c         net.Conn
	sendMu    sync.Mutex // around a write: heartbeats come between
	born      time.Time
	heard     atomic.Int64 // when the last frame came, in ns after born
	frames    chan Frame
	err       error // why frames was closed
	attention atomic.Int32
	done      chan struct{} // closed by Close: the reader must not block any more
	once      sync.Once
	closeErr  error
}

// Dial is the handshake of the connecting side. It owns c from then on, also after an error.
func Dial(ctx context.Context, c net.Conn, own Hello) (*Conn, error) {
	return handshake(ctx, c, func() (Hello, error) {
		if err := write(c, KindHello, own); err != nil {
			return Hello{}, err
		}
		return readHello(c)
	})
}

// Accept is the handshake of the listening side. It answers a peer of another version with its
// own hello, so that both sides can say what is wrong.
func Accept(ctx context.Context, c net.Conn, own Hello) (*Conn, error) {
	return handshake(ctx, c, func() (Hello, error) {
		peer, err := readHello(c)
		if err == nil || errors.Is(err, ErrVersion) {
			err = errors.Join(err, write(c, KindHello, own))
		}
		if err == nil && peer.Transport != own.Transport {
			err = fmt.Errorf("%w: it is on transport %s, this side on %s; use the same on both "+
				"sides", ErrNotPeer, peer.Transport, own.Transport)
			_ = write(c, KindFail, Fail{Reason: err.Error()})
		}
		return peer, err
	})
}

func handshake(ctx context.Context, c net.Conn, hellos func() (Hello, error)) (*Conn, error) {
	_ = c.SetDeadline(time.Now().Add(HandshakeTimeout))
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	peer, err := hellos()
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		_ = c.Close()
		return nil, describe(err, HandshakeTimeout)
	}
	_ = c.SetDeadline(time.Time{})
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetKeepAliveConfig(keepAlive) // without it the end is noticed later
	}
	conn := &Conn{Peer: peer, c: c, born: time.Now(), frames: make(chan Frame, backlog),
		done: make(chan struct{})}
	go conn.read()
	return conn, nil
}

func readHello(r io.Reader) (Hello, error) {
	var h Hello
	f, err := ReadFrame(r)
	if err != nil {
		return h, err
	}
	switch f.Kind {
	case KindHello:
		if err := Decode(f, &h); err != nil {
			return h, err
		}
		return h, h.check()
	case KindFail:
		return h, failure(f)
	}
	return h, fmt.Errorf("%w: %s before hello", ErrBadFrame, f.Kind)
}

// failure is the error that a Fail frame stands for. Its text is the peer's: one line of
// printable characters is kept.
func failure(f Frame) error {
	var m Fail
	if err := Decode(f, &m); err != nil {
		return err
	}
	text := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if r < ' ' || r == 0x7f || r == 0x9b {
			return -1
		}
		return r
	}, m.Reason)
	return fmt.Errorf("%w: %s", ErrPeerFailed, text)
}

// describe gives transport errors the words of this package.
func describe(err error, limit time.Duration) error {
	var n net.Error
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &n) && n.Timeout():
		return fmt.Errorf("%w: nothing complete within %s; is it a drtmd perf --listen?",
			ErrTimeout, limit)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, io.ErrClosedPipe), errors.Is(err, net.ErrClosed):
		return fmt.Errorf("%w: it closed the connection", ErrPeerGone)
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return fmt.Errorf("%w: %s", ErrPeerGone, op.Err)
	}
	return err
}

func write(w io.Writer, kind Kind, message any) error {
	f, err := Encode(kind, message)
	if err != nil {
		return err
	}
	b, err := AppendFrame(nil, f)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// read takes frames off the connection until it ends.
func (c *Conn) read() {
	for {
		f, err := ReadFrame(c.c)
		if err != nil {
			c.err = describe(err, 0)
			c.attention.Add(1)
			close(c.frames)
			return
		}
		c.heard.Store(int64(time.Since(c.born)))
		if f.Kind == KindAlive {
			continue
		}
		c.attention.Add(1)
		select {
		case c.frames <- f:
		case <-c.done:
			c.err = fmt.Errorf("%w: this side closed the connection", ErrPeerGone)
			close(c.frames)
			return
		}
	}
}

// Attention reports whether something waits to be taken: a frame, or the end. It costs one
// atomic load, for busy loops.
func (c *Conn) Attention() bool { return c.attention.Load() != 0 }

// Send sends a message.
func (c *Conn) Send(kind Kind, message any) error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	_ = c.c.SetWriteDeadline(time.Now().Add(sendTimeout))
	if err := write(c.c, kind, message); err != nil {
		return describe(err, sendTimeout)
	}
	return nil
}

// Take waits for the next frame: for as long as ctx allows, or for timeout unless that is 0. A
// Fail is returned as an error.
func (c *Conn) Take(ctx context.Context, timeout time.Duration) (Frame, error) {
	var over <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		over = t.C
	}
	select {
	case f, ok := <-c.frames:
		if !ok {
			return Frame{}, c.err
		}
		c.attention.Add(-1)
		if f.Kind == KindFail {
			return Frame{}, failure(f)
		}
		return f, nil
	case <-ctx.Done():
		return Frame{}, ctx.Err()
	case <-over:
		return Frame{}, fmt.Errorf("%w: silent for %s", ErrTimeout, timeout)
	}
}

// Expect waits for a message of one kind as Take does.
func (c *Conn) Expect(ctx context.Context, kind Kind, message any, timeout time.Duration) error {
	f, err := c.Take(ctx, timeout)
	if err != nil {
		return err
	}
	if f.Kind != kind {
		return fmt.Errorf("%w: %s, not %s", ErrBadFrame, f.Kind, kind)
	}
	return Decode(f, message)
}

// Beat sends a heartbeat every so often until stop is called, which returns once none is under
// way.
func (c *Conn) Beat(every time.Duration) (stop func()) {
	var wg sync.WaitGroup
	quit := make(chan struct{})
	wg.Go(func() {
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				if c.Send(KindAlive, Alive{}) != nil {
					return // who takes the next frame is told of the end
				}
			case <-quit:
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		close(quit)
		wg.Wait()
	})
}

// ExpectAlive is Expect for as long as the other side is heard of: silence bounds the time from
// one frame of any kind, heartbeats included, to the next.
func (c *Conn) ExpectAlive(ctx context.Context, kind Kind, message any,
	silence time.Duration) error {
	began := time.Since(c.born)
	for {
		last := max(began, time.Duration(c.heard.Load()))
		left := last + silence - time.Since(c.born)
		if left <= 0 {
			return fmt.Errorf("%w: silent for %s; its process is stopped or gets no CPU, or its "+
				"host is gone", ErrTimeout, silence)
		}
		err := c.Expect(ctx, kind, message, left)
		if !errors.Is(err, ErrTimeout) {
			return err
		}
	}
}

// Close ends the conversation. It may be called twice.
func (c *Conn) Close() error {
	c.once.Do(func() {
		close(c.done)
		c.closeErr = c.c.Close()
	})
	return c.closeErr
}

// RemoteAddr is where the peer is.
func (c *Conn) RemoteAddr() net.Addr { return c.c.RemoteAddr() }
