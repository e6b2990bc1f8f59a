package verbstest

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"drtmd/verbs"
)

// Host is what an environment does for one Proc: all that takes time or reaches another Proc.
// Its calls are made by the code of that proc only. In a simulator they yield.
type Host interface {
	// Now is the time since some origin common to all procs of a process.
	Now() time.Duration
	Sleep(d time.Duration)
	// Pause lets others run; idle counts the pauses since something last happened.
	Pause(idle int)
	// WaitEvent waits until the channel has an event, or gives os.ErrDeadlineExceeded.
	WaitEvent(ch *verbs.Channel, deadline time.Duration) error
	// Start starts a node that plays a role and says its number.
	Start(role string, process bool) (int, error)
	// Send gives a peer a message, Recv takes the oldest one of a peer: the parent is number 0,
	// a node that was started has the number that Start gave. errEnded: the peer has ended.
	Send(peer int, msg []byte) error
	Recv(peer int, deadline time.Duration) ([]byte, error)
	// End tells a peer that nothing more comes, and waits until it has ended.
	End(peer int, deadline time.Duration) error
	// Signal sends a signal to a peer that is a process (SIGKILL, SIGSTOP, SIGCONT).
	Signal(peer int, sig Signal) error
	// Thread runs f beside the caller on the same node; join waits for it.
	Thread(f func(Host)) (join func())
	// Fail notes a failure of the case, Log a remark.
	Fail(text string)
	Log(text string)
}

// Signal for a peer that is a process.
type Signal int

const (
	Kill Signal = iota + 1 // and wait until it is gone
	Stop
	Continue
)

// errEnded: the peer has ended, or its parent wants nothing more.
var errEnded = errors.New("the peer has ended")

// Proc is a node of a case, or one of its threads: the device, and everything that takes time.
type Proc struct {
	Env
	Placement Placement

	host     Host
	ctx      *verbs.Context
	opened   bool // ctx is this proc's to close
	cleanups []func()
}

func newProc(env Env, h Host, placement Placement) *Proc {
	return &Proc{Env: env, host: h, Placement: placement}
}

// run runs the body and then the clean-ups, also after a failure.
func (p *Proc) run(body func(*Proc)) {
	p.guarded(func() { body(p) })
	p.cleanup()
	if p.opened {
		p.guarded(func() { p.Must("close the device", p.ctx.Close()) })
	}
}

// cleanup runs what Cleanup was given, last one first.
func (p *Proc) cleanup() {
	for len(p.cleanups) > 0 {
		last := len(p.cleanups) - 1
		f := p.cleanups[last]
		p.cleanups = p.cleanups[:last]
		p.guarded(f)
	}
}

// with is a proc of the same node for another context, with clean-ups of its own.
func (p *Proc) with(ctx *verbs.Context) *Proc {
	q := newProc(p.Env, p.host, p.Placement)
	q.ctx = ctx
	return q
}

// guarded ends f at a Fatalf, and turns a panic into a failure of the case.
func (p *Proc) guarded(f func()) {
	defer func() {
		switch r := recover(); r {
		case nil, stopped{}:
		default:
			p.host.Fail(fmt.Sprintf("panic: %v\n%s", r, stack()))
		}
	}()
	f()
}

// Context is the node's open device; it is closed after the clean-ups, and must close cleanly.
func (p *Proc) Context() *verbs.Context {
	if p.ctx != nil {
		return p.ctx
	}
	ctx, err := p.Open()
	p.Must("open the device", err)
	p.ctx, p.opened = ctx, true
	return ctx
}

// Cleanup runs f after the body, last one first.
func (p *Proc) Cleanup(f func()) { p.cleanups = append(p.cleanups, f) }

// Fatalf fails the case and ends this proc.
func (p *Proc) Fatalf(format string, args ...any) {
	p.host.Fail(fmt.Sprintf(format, args...))
	panic(stopped{})
}

// Errorf fails the case and goes on.
func (p *Proc) Errorf(format string, args ...any) { p.host.Fail(fmt.Sprintf(format, args...)) }

// Logf remarks something.
func (p *Proc) Logf(format string, args ...any) { p.host.Log(fmt.Sprintf(format, args...)) }

// Must ends the proc unless err is nil.
func (p *Proc) Must(what string, err error) {
	if err != nil {
		p.Fatalf("%s: %v", what, err)
	}
}

// MustBe fails unless errors.Is(err, want).
func (p *Proc) MustBe(what string, err, want error) {
	if !errors.Is(err, want) {
		p.Fatalf("%s: %v; want %v", what, err, want)
	}
}

// Now is the time.
func (p *Proc) Now() time.Duration { return p.host.Now() }

// Sleep lets time pass.
func (p *Proc) Sleep(d time.Duration) { p.host.Sleep(d) }

// Deadline is when the patience of the environment ends, counted from now.
func (p *Proc) Deadline() time.Duration { return p.Now() + p.Patience }

// Scaled is the number of rounds to do of n: at least min(n, 3).
func (p *Proc) Scaled(n int) int { return max(min(n, 3), int(float64(n)*p.Rounds)) }

// WaitCQ polls until there is a completion or an error; past the deadline it gives 0.
func (p *Proc) WaitCQ(cq *verbs.CQ, wcs []verbs.WC, deadline time.Duration) (int, error) {
	for idle := 0; ; idle++ {
		n, err := cq.Poll(wcs)
		if n > 0 || err != nil {
			return n, err
		}
		if p.Now() >= deadline {
			return 0, nil
		}
		p.host.Pause(idle)
	}
}

// WaitFor pauses until ok holds; what says in words what is waited for.
func (p *Proc) WaitFor(what string, ok func() bool) {
	deadline := p.Deadline()
	for idle := 0; !ok(); idle++ {
		if p.Now() >= deadline {
			p.Fatalf("waited %s for %s", p.Patience, what)
		}
		p.host.Pause(idle)
	}
}

// Pause lets others run between two looks at something.
func (p *Proc) Pause() { p.host.Pause(0) }

// WaitEvent waits for an event on the channel, or gives os.ErrDeadlineExceeded.
func (p *Proc) WaitEvent(ch *verbs.Channel, deadline time.Duration) error {
	return p.host.WaitEvent(ch, deadline)
}

// Thread is a second thread of a node.
type Thread struct{ join func() }

// Thread runs f beside the caller, on the same device.
func (p *Proc) Thread(f func(p *Proc)) *Thread {
	p.Context()
	return &Thread{join: p.host.Thread(func(h Host) {
		q := newProc(p.Env, h, p.Placement)
		q.ctx = p.ctx
		q.run(f)
	})}
}

// Join waits for the thread's end.
func (t *Thread) Join() { t.join() }

// sendJSON and recvJSON carry structures between procs.
func (p *Proc) sendJSON(peer int, v any) error {
	b, err := json.Marshal(v)
	p.Must("encode a message", err)
	return p.host.Send(peer, b)
}

func (p *Proc) recvJSON(peer int, v any, deadline time.Duration) error {
	b, err := p.host.Recv(peer, deadline)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}
