package rtxtest

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"drtmd/proto/memnode"
	"drtmd/proto/rtx"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// RealTime counts from 1970.
type RealTime struct{}

// Now is the time of day.
func (RealTime) Now() time.Duration { return time.Duration(time.Now().UnixNano()) }

// ProcessTiming fits shared memory on a busy machine.
var ProcessTiming = rtx.Timing{Op: 200 * time.Microsecond, Drift: 8 * time.Millisecond, Commit: 8 * time.Millisecond,
	Wait: 20 * time.Microsecond, MaxWait: time.Millisecond, Horizon: 50 * time.Millisecond}

// Process is a client of a memory node, on a thread of its own.
type Process struct {
	Device *verbs.Context
	Thread *fiber.Thread
	Worker *fiber.Worker
	Way    *memnode.Way
}

// NewProcess opens a session, over a provider's first device.
func NewProcess(over verbs.Provider, ask memnode.Ask, id memnode.ClientID) (p *Process, err error) {
	p = &Process{}
	if p.Device, err = over.Open(""); err != nil {
		return nil, err
	}
	if p.Thread, err = fiber.NewThread(fiber.ThreadConfig{Drain: 50 * time.Millisecond}); err != nil {
		return nil, err
	}
	pd, err := p.Device.AllocPD()
	if err != nil {
		return nil, err
	}
	if p.Worker, err = p.Thread.NewWorker(fiber.WorkerConfig{Name: "client", PD: pd}); err != nil {
		return nil, err
	}
	p.Way, err = memnode.Join(ask, id, []*fiber.Worker{p.Worker}, verbs.ConnectAttr{})
	return p, err
}

// Run runs a fiber to its end.
func (p *Process) Run(body func(*fiber.Fiber) error) error {
	var ended error
	p.Worker.Submit("client", body, func(err error) { ended = err; p.Thread.Stop() })
	return errors.Join(fiber.Threads(context.Background(), p.Thread), ended)
}

// Close frees what the client had. The memory node has fenced it.
func (p *Process) Close() error { return errors.Join(p.Thread.Close(), p.Device.Close()) }

// askParent asks for a session over the standard input and output.
func askParent(r memnode.Request) (reply memnode.Reply, err error) {
	if err = gob.NewEncoder(os.Stdout).Encode(r); err == nil {
		err = gob.NewDecoder(os.Stdin).Decode(&reply)
	}
	return reply, err
}

// lostStatus is the exit status of a client that has lost its way to the memory: another process was stopped for long
// while it held a line of it.
const lostStatus = 3

// Child is main of a process that Parent.Start has started: it runs body until the parent closes the standard input.
func Child(over verbs.Provider, body func(*Process, *fiber.Fiber) error) (status int) {
	p, err := NewProcess(over, askParent, 0)
	if err == nil {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // until the parent closes it
			p.Thread.Stop()
		}()
		err = p.Run(func(f *fiber.Fiber) error { return body(p, f) })
	}
	failed := (*verbs.Error)(nil)
	switch {
	case err == nil || errors.Is(err, fiber.ErrCancelled):
		return 0
	case errors.As(err, &failed):
		return lostStatus
	}
	fmt.Fprintln(os.Stderr, "client:", err)
	return 1
}

// kills in a test, which soakKills in the environment makes more.
const (
	kills     = 5
	soakKills = "DRTMD_SOAK_KILLS"
)

// Kills is how many clients a test kills.
func Kills(t *testing.T) int {
	t.Helper()
	text := os.Getenv(soakKills)
	if text == "" {
		return kills
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s: %q is no number of kills", soakKills, text)
	}
	return n
}

// Parent is a process with a memory node, whose clients are processes.
type Parent struct {
	t      *testing.T
	over   verbs.Provider
	Server *memnode.Server
}

// NewParent makes a memory node.
func NewParent(t *testing.T, over verbs.Provider, cfg memnode.Config) *Parent {
	t.Helper()
	p := &Parent{t: t, over: over}
	device, err := over.Open("")
	p.must(err)
	t.Cleanup(func() { p.must(device.Close()) })
	p.Server, err = memnode.NewServer(device, cfg)
	p.must(err)
	t.Cleanup(func() { p.must(p.Server.Close()) })
	return p
}

func (p *Parent) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// Own runs a client in this process to its end, under a number.
func (p *Parent) Own(id memnode.ClientID, body func(*Process, *fiber.Fiber) error) {
	p.t.Helper()
	x, err := NewProcess(p.over, p.Server.Admit, id)
	p.must(err)
	p.must(x.Run(func(f *fiber.Fiber) error { return body(x, f) }))
	p.must(p.Server.Leave(id))
	p.must(x.Close())
}

// Client is a client in a process of its own.
type Client struct {
	p   *Parent
	env []string
	cmd *exec.Cmd
	in  io.WriteCloser
	id  memnode.ClientID
}

// Start starts a client, under the first number that is free, with variables in its environment: they tell the test
// binary to be one.
func (p *Parent) Start(env ...string) *Client {
	p.t.Helper()
	k := &Client{p: p, env: env}
	k.start()
	return k
}

func (k *Client) start() {
	k.p.t.Helper()
	must := k.p.must
	k.cmd = exec.Command(os.Args[0])
	k.cmd.Env = append(os.Environ(), k.env...)
	k.cmd.Stderr = os.Stderr
	in, err := k.cmd.StdinPipe()
	must(err)
	out, err := k.cmd.StdoutPipe()
	must(err)
	must(k.cmd.Start())
	var r memnode.Request
	must(gob.NewDecoder(out).Decode(&r))
	reply, err := k.p.Server.Admit(r)
	must(err)
	must(gob.NewEncoder(in).Encode(reply))
	k.in, k.id = in, reply.Client
}

// Kill kills the client, wherever it is, and starts another one. It may have lost its way and ended before; any other
// end fails the test.
func (k *Client) Kill() {
	k.p.t.Helper()
	k.p.must(k.cmd.Process.Kill())
	_ = k.cmd.Wait() // its state says the same
	if err := ended(k.cmd.ProcessState); err != nil {
		k.p.t.Errorf("a client that was to be killed: %v", err)
	}
	k.p.must(k.p.Server.Leave(k.id))
	k.start()
}

// errEnded is the end of a client that nobody has told to end.
var errEnded = errors.New("it had ended by itself")

// ended refuses the end of a process that was killed, if it had ended before the kill, but for the loss of its way.
func ended(s *os.ProcessState) error {
	status, ok := s.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() && status.Signal() == syscall.SIGKILL || s.ExitCode() == lostStatus {
		return nil
	}
	return fmt.Errorf("%w: %v", errEnded, s)
}

// Pause stops the client for a while, wherever it is. Then it goes on.
func (k *Client) Pause(d time.Duration) {
	k.p.t.Helper()
	k.p.must(k.cmd.Process.Signal(syscall.SIGSTOP))
	time.Sleep(d)
	k.p.must(k.cmd.Process.Signal(syscall.SIGCONT))
}

// End has the client end by itself. It may have lost its way.
func (k *Client) End() {
	k.p.t.Helper()
	k.p.must(k.in.Close())
	failed := (*exec.ExitError)(nil)
	if err := k.cmd.Wait(); err != nil && (!errors.As(err, &failed) || failed.ExitCode() != lostStatus) {
		k.p.t.Errorf("a client ends: %v", err)
	}
	k.p.must(k.p.Server.Leave(k.id))
}
