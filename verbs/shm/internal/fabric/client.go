//go:build linux && amd64

package fabric

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// DefaultTimeout bounds Import, ImportFD and a Call with timeout 0.
	DefaultTimeout = time.Second
	// hangUpWait is how long a connection's end may precede the release of the peer's lock: both
	// happen while the kernel ends the process, a few microseconds apart.
	hangUpWait = 100 * time.Millisecond
	hangUpPoll = time.Millisecond
	// maxIdle bounds the unused connections kept for one peer.
	maxIdle = 4
)

// Call sends req to p's handler for kind and waits for its answer, at most timeout (0 means
// DefaultTimeout). The handler runs at most once; after an error it may or may not have run.
// The error wraps ErrPeerDead, ErrPeerTimeout, ErrNoHandler, ErrHungUp, ErrTooBig, ErrBadFrame or
// ErrClosed, or is a *RemoteError with what the handler returned.
func (f *Fabric) Call(p ProcID, kind uint8, req []byte, timeout time.Duration) ([]byte, error) {
	const op = "call"
	if len(req) > MaxMessage {
		err := fmt.Errorf("%w: %d bytes", ErrTooBig, len(req))
		return nil, fail(op, p.String(), err, fmt.Sprintf("at most %d bytes", MaxMessage))
	}
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	if p == f.self {
		return f.callSelf(kind, req, timeout)
	}
	var answer []byte
	q := frame{op: opCall, kind: kind, payload: req}
	err := f.roundTrip(p, q, timeout, func(reply frame, fds []int) error {
		closeAll(fds)
		if reply.status == statusHandlerError {
			return &RemoteError{Kind: kind, Text: string(reply.payload)}
		}
		answer = append([]byte{}, reply.payload...)
		return nil
	})
	return answer, f.peerError(op, p, err)
}

// callSelf runs the own handler on a goroutine of its own, so that timeout holds here too.
func (f *Fabric) callSelf(kind uint8, req []byte, timeout time.Duration) ([]byte, error) {
	type outcome struct {
		status status
		answer []byte
	}
	req = append([]byte{}, req...) // the handler may outlive this call
	over := make(chan outcome, 1)
	if !f.goTracked(func() {
		s, answer := f.runHandler(f.self, kind, req)
		over <- outcome{s, answer}
	}) {
		return nil, fail("call", f.self.String(), ErrClosed, "")
	}
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case o := <-over:
		switch o.status {
		case statusHandlerError:
			err := &RemoteError{Kind: kind, Text: string(o.answer)}
			return nil, fail("call", f.self.String(), err, "")
		case statusNoHandler:
			return nil, fail("call", f.self.String(), ErrNoHandler, "")
		}
		return o.answer, nil
	case <-t.C:
		return nil, fail("call", f.self.String(), ErrPeerTimeout, "")
	}
}

// goTracked runs fn on a goroutine that Close waits for; false once closed.
func (f *Fabric) goTracked(fn func()) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return false
	}
	f.wg.Go(fn)
	return true
}

// roundTrip sends a request and gives the reply to use, which owns the descriptors.
func (f *Fabric) roundTrip(p ProcID, q frame, timeout time.Duration,
	use func(reply frame, fds []int) error) error {
	deadline := time.Now().Add(timeout)
	c, err := f.connect(p, deadline)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.lastSeq++
	q.seq = f.lastSeq
	f.mu.Unlock()
	q.from, q.to = f.self, p
	err = c.uc.SetDeadline(deadline)
	if err == nil {
		err = c.send(&q, -1)
	}
	if err == nil {
		err = c.receive(true, func(reply frame, fds []int) error {
			if err := checkReply(&q, &reply); err != nil {
				closeAll(fds)
				return err
			}
			return use(reply, fds)
		})
	}
	if !isAnswer(err) || !f.keepIdle(p, c) {
		f.forget(c)
	}
	return err
}

// isAnswer reports whether an honest peer answered, so that its connection is good for another
// request.
func isAnswer(err error) bool {
	var remote *RemoteError
	return err == nil || errors.As(err, &remote) || errors.Is(err, ErrNoSegment) ||
		errors.Is(err, ErrNoHandler)
}

// checkReply refuses what does not answer the request and turns a status into an error.
func checkReply(q, reply *frame) error {
	switch {
	case reply.op != opReply, reply.seq != q.seq, reply.to != q.from:
		return fmt.Errorf("%w: not the answer to the request", ErrBadFrame)
	case reply.status == statusWrongTarget, reply.from != q.to:
		return ErrHungUp // the peer left between our look at its slot and the request
	case reply.status == statusNotExported:
		return ErrNoSegment
	case reply.status == statusNoHandler:
		return ErrNoHandler
	}
	return nil
}

// connect gives an idle connection to p or makes one.
func (f *Fabric) connect(p ProcID, deadline time.Time) (*conn, error) {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil, ErrClosed
	}
	if list := f.idle[p]; len(list) > 0 {
		c := list[len(list)-1]
		f.idle[p] = list[:len(list)-1]
		f.mu.Unlock()
		return c, nil
	}
	alive := f.slots.alive(p)
	f.mu.Unlock()
	f.dropDeadIdle()
	if !alive {
		return nil, ErrPeerDead
	}
	return f.dial(p, deadline)
}

// dial connects to p and enters the connection into the list that Close ends.
func (f *Fabric) dial(p ProcID, deadline time.Time) (*conn, error) {
	release, err := f.holdDir()
	if err != nil {
		return nil, err
	}
	uc, err := dialRaw(f.dir, p.String(), deadline, f.done)
	release()
	if err != nil {
		return nil, err
	}
	c, err := newConn(uc)
	if err != nil {
		_ = uc.Close()
		return nil, err
	}
	if err := c.checkPeer(); err != nil {
		c.close()
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		c.close()
		return nil, ErrClosed
	}
	f.conns[c] = struct{}{}
	return c, nil
}

// keepIdle stores a connection for the next request; false if there are enough.
func (f *Fabric) keepIdle(p ProcID, c *conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || len(f.idle[p]) >= maxIdle {
		return false
	}
	f.idle[p] = append(f.idle[p], c)
	return true
}

// dropDeadIdle closes the idle connections to processes that died, so that descriptors are
// bounded by the live ones.
func (f *Fabric) dropDeadIdle() {
	var dead []*conn
	f.mu.Lock()
	for p, list := range f.idle {
		if !f.slots.alive(p) {
			dead = append(dead, list...)
			delete(f.idle, p)
		}
	}
	f.mu.Unlock()
	for _, c := range dead {
		f.forget(c)
	}
}

// peerError gives a failed exchange its reason: dead peer, silent peer, or what err says.
func (f *Fabric) peerError(op string, p ProcID, err error) error {
	var remote *RemoteError
	switch {
	case err == nil:
		return nil
	case f.isClosed():
		return fail(op, p.String(), ErrClosed, "")
	case errors.As(err, &remote), errors.Is(err, ErrBadFrame), errors.Is(err, ErrBadSegment):
		return fail(op, p.String(), err, "")
	case errors.Is(err, ErrPeerDead):
	case errors.Is(err, os.ErrDeadlineExceeded):
		if f.Alive(p) {
			hint := fmt.Sprintf("process %d may be stopped or overloaded", f.PID(p))
			return fail(op, p.String(), ErrPeerTimeout, hint)
		}
	case isHangUp(err):
		if !f.diesWithin(p, hangUpWait) {
			return fail(op, p.String(), ErrHungUp, "")
		}
	default:
		return fail(op, p.String(), err, hintFor(err))
	}
	return fail(op, p.String(), ErrPeerDead, "")
}

// isHangUp reports errors that mean the other end of the connection is gone.
func isHangUp(err error) bool {
	for _, e := range []error{io.EOF, ErrHungUp, unix.EPIPE, unix.ECONNRESET, unix.ECONNREFUSED,
		unix.ENOENT, net.ErrClosed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// diesWithin waits for the kernel to release p's lock after its connection ended.
func (f *Fabric) diesWithin(p ProcID, wait time.Duration) bool {
	for deadline := time.Now().Add(wait); f.Alive(p); time.Sleep(hangUpPoll) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// hintFor knows the cure of some local errors.
func hintFor(err error) string {
	switch {
	case errors.Is(err, unix.EMFILE):
		return "raise the limit of open files: ulimit -n"
	case errors.Is(err, ErrNoSegment):
		return "not exported yet, withdrawn, or heap memory of a race build"
	case errors.Is(err, ErrNoMemory):
		return "free memory, ask for less, or raise vm.max_map_count if there are many segments"
	}
	return ""
}
