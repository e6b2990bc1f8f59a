package verbstest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"drtmd/verbs"
)

// childVariable makes Main play peers instead of running tests.
const childVariable = "DRTMD_VERBSTEST_PEER"

// crew keeps child processes between cases: starting one costs more than most cases do.
type crew struct {
	env  Env
	mu   sync.Mutex
	idle []*child
}

func newCrew(env Env) *crew { return &crew{env: env} }

// hire gives an idle child or starts one.
func (c *crew) hire() (*child, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.idle); n > 0 {
		last := c.idle[n-1]
		c.idle = c.idle[:n-1]
		return last, nil
	}
	return startChild(c)
}

// dismiss ends the children that are left.
func (c *crew) dismiss(t *testing.T) {
	for _, k := range c.idle {
		_ = k.in.Close()
		if err := k.cmd.Wait(); err != nil {
			t.Errorf("a peer process ended with %v", err)
		}
		_ = k.out.Close()
	}
}

// child is a process that plays one role after another.
type child struct {
	crew *crew
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  io.ReadCloser
}

func startChild(c *crew) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	toChild, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, fromChild, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, toChild.Close(), in.Close())
	}
	cmd := exec.Command(exe)
	cmd.Env = append(append(os.Environ(), childVariable+"=1"), c.env.ChildEnv...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.ExtraFiles = []*os.File{toChild, fromChild}
	err = cmd.Start()
	err = errors.Join(err, toChild.Close(), fromChild.Close())
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	return &child{crew: c, cmd: cmd, in: in, out: out}, nil
}

// childLink is the way to a role that a child plays.
type childLink struct {
	child *child
	w     *world
	box   *mailbox
	done  chan struct{} // the role has ended, or the child has
	mu    sync.Mutex
	ended bool // end or a kill was seen to
}

// play starts a role in the child.
func (k *child) play(w *world, name string) link {
	l := &childLink{child: k, w: w, box: newMailbox(), done: make(chan struct{})}
	if err := writeFrame(k.in, framePlay, []byte(name)); err != nil {
		w.fail("start of a role in a process: " + err.Error())
	}
	go l.listen()
	return l
}

// listen takes the child's frames until its role has ended.
func (l *childLink) listen() {
	defer close(l.done)
	defer l.box.shut()
	r := bufio.NewReader(l.child.out)
	for {
		kind, b, err := readFrame(r)
		if err != nil {
			l.mu.Lock()
			killed := l.ended
			l.mu.Unlock()
			if !killed {
				l.w.fail("a peer process broke off: " + err.Error())
			}
			_ = l.child.in.Close()
			_ = l.child.out.Close()
			_ = l.child.cmd.Wait()
			return
		}
		switch kind {
		case frameMessage:
			if err := l.box.put(b); err != nil {
				l.w.fail("message of a peer process: " + err.Error())
			}
		case frameFail:
			l.w.fail("in a peer process: " + string(b))
		case frameLog:
			l.w.log("in a peer process: " + string(b))
		case frameDone:
			l.child.crew.mu.Lock()
			l.child.crew.idle = append(l.child.crew.idle, l.child)
			l.child.crew.mu.Unlock()
			return
		}
	}
}

func (l *childLink) send(msg []byte) error {
	if err := writeFrame(l.child.in, frameMessage, msg); err != nil {
		return errEnded
	}
	return nil
}

func (l *childLink) recv(deadline time.Time) ([]byte, error) { return l.box.take(deadline) }

func (l *childLink) end(deadline time.Time) error {
	select {
	case <-l.done:
		return nil
	default:
		_ = writeFrame(l.child.in, frameEnd, nil)
	}
	select {
	case <-l.done:
		return nil
	case <-time.After(time.Until(deadline)):
	}
	_ = l.signal(Kill)
	return fmt.Errorf("a peer process did not end: %w", os.ErrDeadlineExceeded)
}

func (l *childLink) signal(sig Signal) error {
	switch sig {
	case Stop:
		return l.child.cmd.Process.Signal(syscall.SIGSTOP)
	case Continue:
		return l.child.cmd.Process.Signal(syscall.SIGCONT)
	}
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	err := l.child.cmd.Process.Kill()
	<-l.done
	return err
}

// childHost is the Host of a role inside a child process.
type childHost struct {
	started time.Time
	box     *mailbox
	mu      *sync.Mutex // guards out
	out     io.Writer
}

// playPeers plays one role after another, as the parent asks, until its end of the pipe closes.
func playPeers(env Env) error {
	in, out := os.NewFile(3, "from parent"), os.NewFile(4, "to parent")
	if in == nil || out == nil {
		return errors.New("it is started by verbstest only")
	}
	r := bufio.NewReader(in)
	started := time.Now()
	var h *childHost
	done := make(chan struct{})
	for {
		kind, b, err := readFrame(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch kind {
		case framePlay:
			if h != nil {
				<-done // the parent saw its last frame, so it ends at once
			}
			h = &childHost{started: started, box: newMailbox(), mu: new(sync.Mutex), out: out}
			done = make(chan struct{})
			go func(h *childHost, done chan struct{}) {
				defer close(done)
				newProc(env, h, Processes).run(role(string(b)))
				h.frame(frameDone, nil)
			}(h, done)
		case frameMessage:
			if err := h.box.put(b); err != nil {
				return err
			}
		case frameEnd:
			h.box.shut()
		}
	}
}

func (h *childHost) frame(kind byte, b []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = writeFrame(h.out, kind, b) // a parent that is gone ends this process by itself
}

func (h *childHost) Now() time.Duration    { return time.Since(h.started) }
func (h *childHost) Sleep(d time.Duration) { time.Sleep(d) }
func (h *childHost) Pause(idle int)        { pause(idle) }
func (h *childHost) Fail(text string)      { h.frame(frameFail, []byte(text)) }
func (h *childHost) Log(text string)       { h.frame(frameLog, []byte(text)) }

func (h *childHost) WaitEvent(ch *verbs.Channel, deadline time.Duration) error {
	return waitEvent(ch, h.started.Add(deadline))
}

func (h *childHost) Send(_ int, msg []byte) error {
	h.frame(frameMessage, msg)
	return nil
}

func (h *childHost) Recv(_ int, deadline time.Duration) ([]byte, error) {
	return h.box.take(h.started.Add(deadline))
}

func (h *childHost) Start(string, bool) (int, error) { return 0, errors.ErrUnsupported }
func (h *childHost) End(int, time.Duration) error    { return errors.ErrUnsupported }
func (h *childHost) Signal(int, Signal) error        { return errors.ErrUnsupported }

func (h *childHost) Thread(f func(Host)) (join func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(h)
	}()
	return func() { <-done }
}
