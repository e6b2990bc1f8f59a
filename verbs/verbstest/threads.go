package verbstest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"drtmd/verbs"
)

// world runs one case in real time.
type world struct {
	t       reporter
	env     Env
	crew    *crew
	started time.Time

	mu   sync.Mutex
	over bool // the case has ended: late words are dropped
}

// reporter is what of a testing.T a case uses.
type reporter interface {
	Error(args ...any)
	Log(args ...any)
}

// run runs the main proc on a goroutine of its own, within the limit of a case.
func (w *world) run(main func(Host)) {
	done := make(chan struct{})
	h := &threadHost{w: w}
	go func() {
		defer close(done)
		main(h)
		h.endAll()
	}()
	select {
	case <-done:
	case <-time.After(w.env.CaseLimit):
		w.fail(fmt.Sprintf("the case did not end within %s\n%s", w.env.CaseLimit, allStacks()))
	}
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
}

func (w *world) fail(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.t.Error(text)
	}
}

func (w *world) log(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.t.Log(text)
	}
}

// link is one end of the way between a parent and a node that it started.
type link interface {
	send(msg []byte) error
	recv(deadline time.Time) ([]byte, error)
	end(deadline time.Time) error
	signal(sig Signal) error
}

// threadHost is the Host of a proc that is a goroutine of the test process.
type threadHost struct {
	w      *world
	parent link
	peers  []link
}

func (h *threadHost) at(d time.Duration) time.Time { return h.w.started.Add(d) }

func (h *threadHost) Now() time.Duration    { return time.Since(h.w.started) }
func (h *threadHost) Sleep(d time.Duration) { time.Sleep(d) }
func (h *threadHost) Pause(idle int)        { pause(idle) }
func (h *threadHost) Fail(text string)      { h.w.fail(text) }
func (h *threadHost) Log(text string)       { h.w.log(text) }

// pause yields at first and sleeps then: other procs may share the core.
func pause(idle int) {
	switch {
	case idle < 200:
		runtime.Gosched()
	case idle < 1000:
		time.Sleep(20 * time.Microsecond)
	default:
		time.Sleep(500 * time.Microsecond)
	}
}

func (h *threadHost) WaitEvent(ch *verbs.Channel, deadline time.Duration) error {
	return waitEvent(ch, h.at(deadline))
}

func waitEvent(ch *verbs.Channel, deadline time.Time) error {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	err := ch.Wait(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return os.ErrDeadlineExceeded
	}
	return err
}

func (h *threadHost) peer(n int) link {
	if n == 0 {
		return h.parent
	}
	return h.peers[n-1]
}

func (h *threadHost) Start(name string, process bool) (int, error) {
	var l link
	if process {
		c, err := h.w.crew.hire()
		if err != nil {
			return 0, err
		}
		l = c.play(h.w, name)
	} else {
		l = h.w.startThread(name)
	}
	h.peers = append(h.peers, l)
	return len(h.peers), nil
}

func (h *threadHost) Send(n int, msg []byte) error { return h.peer(n).send(msg) }

func (h *threadHost) Recv(n int, deadline time.Duration) ([]byte, error) {
	return h.peer(n).recv(h.at(deadline))
}

func (h *threadHost) End(n int, deadline time.Duration) error {
	return h.peer(n).end(h.at(deadline))
}

func (h *threadHost) Signal(n int, sig Signal) error { return h.peer(n).signal(sig) }

func (h *threadHost) Thread(f func(Host)) (join func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(&threadHost{w: h.w})
	}()
	return func() { <-done }
}

// endAll ends the peers that the case left running.
func (h *threadHost) endAll() {
	for _, l := range h.peers {
		if err := l.end(time.Now().Add(h.w.env.Patience)); err != nil {
			h.Fail("end of a peer: " + err.Error())
		}
	}
}

// mailbox is one direction of a link.
type mailbox struct {
	messages chan []byte
	closed   chan struct{}
	once     sync.Once
}

// mailboxMessages bounds the messages under way; a case sends few at a time.
const mailboxMessages = 4096

func newMailbox() *mailbox {
	return &mailbox{messages: make(chan []byte, mailboxMessages), closed: make(chan struct{})}
}

func (m *mailbox) put(msg []byte) error {
	select {
	case <-m.closed:
		return errEnded
	default:
	}
	select {
	case m.messages <- msg:
		return nil
	default:
		return fmt.Errorf("%d messages were not received", mailboxMessages)
	}
}

func (m *mailbox) take(deadline time.Time) ([]byte, error) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case msg := <-m.messages:
		return msg, nil
	default:
	}
	select {
	case msg := <-m.messages:
		return msg, nil
	case <-m.closed:
		select { // what was put before the end comes first
		case msg := <-m.messages:
			return msg, nil
		default:
			return nil, errEnded
		}
	case <-timer.C:
		return nil, os.ErrDeadlineExceeded
	}
}

func (m *mailbox) shut() { m.once.Do(func() { close(m.closed) }) }

// threadLink joins two goroutines of one process.
type threadLink struct {
	in, out *mailbox
	done    chan struct{} // the node has ended
}

// startThread starts a node as a goroutine with a context of its own.
func (w *world) startThread(name string) link {
	down, up, done := newMailbox(), newMailbox(), make(chan struct{})
	h := &threadHost{w: w, parent: &threadLink{in: down, out: up, done: done}}
	go func() {
		defer close(done)
		defer up.shut()
		newProc(w.env, h, Goroutines).run(role(name))
		h.endAll()
	}()
	return &threadLink{in: up, out: down, done: done}
}

func (l *threadLink) send(msg []byte) error                   { return l.out.put(msg) }
func (l *threadLink) recv(deadline time.Time) ([]byte, error) { return l.in.take(deadline) }
func (l *threadLink) signal(Signal) error                     { return errors.ErrUnsupported }

func (l *threadLink) end(deadline time.Time) error {
	l.out.shut()
	select {
	case <-l.done:
		return nil
	case <-time.After(time.Until(deadline)):
		return fmt.Errorf("a node did not end: %w", os.ErrDeadlineExceeded)
	}
}

func stack() string { return string(debug.Stack()) }

func allStacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}
