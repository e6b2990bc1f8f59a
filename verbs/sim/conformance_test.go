package sim

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"testing"
	"time"

	"drtmd/internal/invariant"
	"drtmd/verbs"
	"drtmd/verbs/verbstest"
)

// The conformance suite in virtual time: each proc is a coroutine on the world. What the suite
// calls goroutines are nodes of their own here, reached over the network; what it calls processes
// live on one node, are reached by the NIC's loopback, and lose their devices when killed.

func TestMain(m *testing.M) { verbstest.Main(m, simEnv(nil)) }

func TestConformance(t *testing.T) {
	c := &stage{}
	verbstest.Run(t, simEnv(c))
}

func simEnv(c *stage) verbstest.Env {
	env := verbstest.Env{Provider: "sim", Rounds: 0.25, MaxBytes: 1 << 20}
	if invariant.Enabled { // the race detector makes the same events ten times as slow
		env.Rounds, env.MaxBytes, env.Objects = 0.02, 64<<10, 200
	}
	if c != nil {
		env.Open = c.open
		env.World = c.run
		c.env = env
	}
	return env
}

// stage runs the cases, each in a world of its own.
type stage struct {
	env     verbstest.Env
	t       *testing.T
	w       *World
	running *proc // whose code runs now
	live    int   // procs that have not ended
	over    bool  // the case has ended; what is left is unwound
	stops   []func()
}

// proc is a coroutine; it implements verbstest.Host.
type proc struct {
	s      *stage
	place  *place
	resume func() (struct{}, bool)
	yield  func(struct{}) bool
	parent *wire
	peers  []*wire
	ended  bool
	joiner func()

	devices []*device // that it opened
	killed  bool
	stopped bool
	missed  bool // it was to be resumed while it was stopped
}

// place is the node of a proc and its threads, made when it is first needed.
type place struct{ node *Node }

const caseLimit = 300 * Second // of virtual time

func (s *stage) run(t *testing.T, start func(verbstest.Host)) {
	s.t, s.live, s.stops, s.over = t, 0, nil, false
	s.w = worldOf(t, Config{Seed: 1, EventLimit: 30e6})
	defer func() {
		s.over = true
		for _, stop := range s.stops {
			stop()
		}
	}()
	s.spawn(&proc{s: s, place: &place{}}, func(p *proc) {
		start(p)
		p.endAll()
	})
	for s.live > 0 {
		if s.w.Stats().Events >= 30e6 || !s.w.RunOne(caseLimit) {
			t.Errorf("the case did not end: %s of virtual time, %d procs left", s.w.Now(), s.live)
			return
		}
	}
}

func (s *stage) spawn(p *proc, body func(*proc)) {
	s.live++
	var stop func()
	p.resume, stop = iter.Pull(func(yield func(struct{}) bool) {
		p.yield = yield
		body(p)
	})
	s.stops = append(s.stops, stop)
	s.w.After(0, p.goOn)
}

// goOn runs the coroutine until it waits, or ends.
func (p *proc) goOn() {
	if p.killed {
		return
	}
	if p.stopped {
		p.missed = true
		return
	}
	before := p.s.running
	p.s.running = p
	_, alive := p.resume()
	p.s.running = before
	if !alive {
		p.end()
	}
}

// end tells the others that the proc has ended.
func (p *proc) end() {
	if p.ended {
		return
	}
	p.ended = true
	p.s.live--
	if p.parent != nil {
		p.parent.out.shut()
		p.parent.out.wake()
	}
	if p.joiner != nil {
		p.joiner()
	}
}

// Signal kills, stops or continues a process.
func (p *proc) Signal(n int, sig verbstest.Signal) error {
	far := p.wire(n).far
	if !far.parent.process {
		return errors.ErrUnsupported
	}
	switch sig {
	case verbstest.Kill:
		far.killed = true
		for _, d := range far.devices {
			d.die()
			d.node.devices = remove(d.node.devices, d)
		}
		far.end()
	case verbstest.Stop:
		far.stopped = true
	case verbstest.Continue:
		far.stopped = false
		if far.missed {
			far.missed = false
			p.s.w.After(0, far.goOn)
		}
	}
	return nil
}

// suspend waits until the function that register was given is called, inside an event.
func (p *proc) suspend(register func(resume func())) {
	register(p.goOn)
	if !p.yield(struct{}{}) {
		panic("the case is over")
	}
}

// open opens the device of the proc that runs.
func (s *stage) open() (*verbs.Context, error) {
	n := s.running.place.get(s.w)
	ctx, err := n.Open()
	if err == nil {
		s.running.devices = append(s.running.devices, n.devices[len(n.devices)-1])
	}
	return ctx, err
}

func (p *place) get(w *World) *Node {
	if p.node == nil {
		n, err := w.AddNode(NodeConfig{})
		if err != nil {
			panic(err)
		}
		p.node = n
	}
	return p.node
}

func (p *proc) Now() time.Duration { return p.s.w.Now().Duration() }

func (p *proc) Sleep(d time.Duration) {
	p.suspend(func(resume func()) { p.s.w.After(Of(d), resume) })
}

// Pause passes more time the longer nothing has happened.
func (p *proc) Pause(idle int) {
	p.Sleep(min(time.Duration(100+idle*10)*time.Nanosecond, 20*time.Microsecond))
}

// await waits until wake was called or the deadline has come, and says which.
func (p *proc) await(deadline time.Duration, register func(wake func())) bool {
	if p.Now() >= deadline {
		return false
	}
	woken := false
	p.suspend(func(resume func()) {
		timer := p.s.w.At(Of(deadline), resume)
		register(func() {
			if !woken && p.s.w.Cancel(timer) {
				woken = true
				p.s.w.After(0, resume)
			}
		})
	})
	return woken
}

func (p *proc) WaitEvent(ch *verbs.Channel, deadline time.Duration) error {
	there, wake := false, func() {}
	err := ch.OnArrival(func() {
		there = true
		wake()
	})
	if err != nil {
		return err
	}
	for !there {
		if !p.await(deadline, func(w func()) { wake = w }) {
			return errors.Join(ch.OnArrival(nil), os.ErrDeadlineExceeded)
		}
	}
	return ch.OnArrival(nil) // ErrClosed if that is what woke it
}

// Fail notes a failure, unless it is that of a coroutine which is only unwound.
func (p *proc) Fail(text string) {
	if !p.killed && !p.s.over {
		p.s.t.Error(text)
	}
}

func (p *proc) Log(text string) { p.s.t.Log(text) }

func (p *proc) Start(role string, process bool) (int, error) {
	down, up := &mail{}, &mail{}
	child := &proc{s: p.s, place: &place{},
		parent: &wire{in: down, out: up, process: process}}
	placement := verbstest.Goroutines
	if process {
		p.place.get(p.s.w)
		child.place, placement = p.place, verbstest.Processes
	}
	p.peers = append(p.peers, &wire{in: up, out: down, far: child})
	p.s.spawn(child, func(c *proc) {
		verbstest.Play(p.s.env, c, placement, role)
		c.endAll()
	})
	return len(p.peers), nil
}

func (p *proc) Thread(f func(verbstest.Host)) (join func()) {
	child := &proc{s: p.s, place: p.place}
	p.s.spawn(child, func(c *proc) { f(c) })
	return func() {
		if !child.ended {
			p.suspend(func(resume func()) {
				child.joiner = func() { p.s.w.After(0, resume) }
			})
		}
	}
}

func (p *proc) endAll() {
	for i := range p.peers {
		if err := p.End(i+1, p.Now()+10*time.Second); err != nil {
			p.Fail("end of a peer: " + err.Error())
		}
	}
}

// wire is one end of the way between a parent and a node that it started.
type wire struct {
	in, out *mail
	far     *proc
	process bool
}

// mail is one direction of it.
type mail struct {
	messages [][]byte
	closed   bool
	reader   func()
}

func (m *mail) wake() {
	if m.reader != nil {
		m.reader()
	}
}

func (m *mail) shut() { m.closed = true }

func (p *proc) wire(n int) *wire {
	if n == 0 {
		return p.parent
	}
	return p.peers[n-1]
}

func (p *proc) Send(n int, msg []byte) error {
	m := p.wire(n).out
	if m.closed {
		return verbstest.ErrEnded
	}
	m.messages = append(m.messages, append([]byte(nil), msg...))
	m.wake()
	return nil
}

func (p *proc) Recv(n int, deadline time.Duration) ([]byte, error) {
	m := p.wire(n).in
	for len(m.messages) == 0 {
		if m.closed {
			return nil, verbstest.ErrEnded
		}
		if !p.await(deadline, func(wake func()) { m.reader = wake }) {
			return nil, os.ErrDeadlineExceeded
		}
	}
	msg := m.messages[0]
	m.messages = m.messages[1:]
	return msg, nil
}

func (p *proc) End(n int, deadline time.Duration) error {
	x := p.wire(n)
	x.out.shut()
	x.out.wake()
	for !x.far.ended {
		if !p.await(deadline, func(wake func()) { x.far.joiner = wake }) {
			return fmt.Errorf("a node did not end: %w", os.ErrDeadlineExceeded)
		}
	}
	return nil
}
