package verbs

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Channel is a completion channel (ibv_comp_channel): its descriptor becomes readable when an
// armed CQ of it gets a completion.
//
// An ordinary goroutine waits with Wait, which parks in Go's poller. A worker locked to its OS
// thread waits with a Poller, an epoll set of its own. Neither ever sits inside libibverbs.
type Channel struct {
	ctx  *Context
	drv  DriverChannel
	once closeOnce

	turn   chan struct{} // one waiter at a time
	mu     sync.Mutex    // guards what follows
	file   *os.File      // the descriptor in Go's poller; made at the first Wait
	closed bool
}

// CreateChannel makes a completion channel (ibv_create_comp_channel).
func (c *Context) CreateChannel() (*Channel, error) {
	const op = "ibv_create_comp_channel"
	if err := c.enter(op); err != nil {
		return nil, err
	}
	defer c.life.RUnlock()
	d, err := c.drv.CreateChannel()
	if err != nil {
		return nil, c.wrap(op, err)
	}
	ch := &Channel{ctx: c, drv: d, turn: make(chan struct{}, 1)}
	if err := c.adopt(op, ch); err != nil {
		return nil, closeAfter(err, d)
	}
	return ch, nil
}

// FD is the descriptor for a poll set of the caller's own, valid until Close; the caller only
// polls it and calls Consume when it is readable. -1 without Caps.PollableChannel.
func (ch *Channel) FD() int { return ch.drv.FD() }

// Consume takes the events that wait, without blocking, acknowledges them
// (ibv_get_cq_event, ibv_ack_cq_events) and calls each, which may be nil, with their CQs.
func (ch *Channel) Consume(each func(*CQ)) error {
	if ch.isClosed() {
		return ch.ctx.fail("ibv_get_cq_event", ErrClosed)
	}
	if each == nil { // without a closure: a worker does this each time that it sleeps
		return ch.ctx.wrap("ibv_get_cq_event", ch.drv.Consume(ignoreCQ))
	}
	return ch.ctx.wrap("ibv_get_cq_event", ch.drv.Consume(func(id uint32) {
		ch.ctx.mu.Lock()
		cq := ch.ctx.cqs[id]
		ch.ctx.mu.Unlock()
		if cq != nil {
			each(cq)
		}
	}))
}

func ignoreCQ(uint32) {}

// OnArrival has f called whenever an event was added to the channel, and when it is closed, by
// providers without a descriptor to wait on (no Caps.PollableChannel); elsewhere it is
// ErrUnsupported. If events wait already, f is called before OnArrival returns, so that none is
// missed. f replaces the one before it, nil takes it back. f runs in the provider's event loop and
// must not post, poll or consume.
func (ch *Channel) OnArrival(f func()) error {
	const op = "notify on arrival"
	if ch.isClosed() {
		return ch.ctx.fail(op, ErrClosed)
	}
	d, ok := ch.drv.(DriverNotifier)
	if !ok {
		return ch.ctx.fail(op, ErrUnsupported)
	}
	d.OnArrival(f)
	return nil
}

// Wait blocks until an event waits on the channel or ctx is done, in which case it returns
// ctx's error. It does not consume. One goroutine at a time waits; others queue.
func (ch *Channel) Wait(ctx context.Context) error {
	select {
	case ch.turn <- struct{}{}:
		defer func() { <-ch.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	f, err := ch.pollable()
	if err != nil {
		return err
	}
	deadline, timed := ctx.Deadline() // the zero time is no deadline
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := readWhen(ctx, f, deadline)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return ch.ctx.fail("wait for completion event", errors.Join(ErrClosed, err))
		case timed && !time.Now().Before(deadline):
			return context.DeadlineExceeded // ctx's own timer is about to say the same
		}
		// The cancellation of an earlier Wait came late and moved the deadline: again.
	}
}

// readWhen parks until the descriptor is readable, the deadline, or the end of ctx.
func readWhen(ctx context.Context, f *os.File, deadline time.Time) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	_ = f.SetReadDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	return raw.Read(readable)
}

// readable reports whether the descriptor has something, without taking it.
func readable(fd uintptr) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0
}

// pollable puts a duplicate of the descriptor into Go's poller.
func (ch *Channel) pollable() (*os.File, error) {
	const op = "wait for completion event"
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.closed {
		return nil, ch.ctx.fail(op, ErrClosed)
	}
	if ch.file != nil {
		return ch.file, nil
	}
	if ch.drv.FD() < 0 {
		return nil, ch.ctx.fail(op, ErrUnsupported)
	}
	fd, err := unix.FcntlInt(uintptr(ch.drv.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		return nil, ch.ctx.wrap(op, err)
	}
	ch.file = os.NewFile(uintptr(fd), "completion channel")
	return ch.file, nil
}

func (ch *Channel) isClosed() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.closed
}

func (ch *Channel) closeRank() int { return rankChannel }

// Close destroys the channel (ibv_destroy_comp_channel); a waiter returns ErrClosed. With live
// CQs it fails with EBUSY and may be called again.
func (ch *Channel) Close() error {
	return ch.once.do(func() error {
		const op = "ibv_destroy_comp_channel"
		ch.ctx.life.Lock()
		defer ch.ctx.life.Unlock()
		err := ch.ctx.inUse(op, func(o object) bool {
			cq, ok := o.(*CQ)
			return ok && cq.channel == ch
		})
		if err != nil {
			return err
		}
		ch.ctx.disown(ch)
		ch.mu.Lock()
		ch.closed = true
		if ch.file != nil {
			_ = ch.file.Close()
		}
		ch.mu.Unlock()
		return ch.ctx.wrap(op, ch.drv.Close())
	})
}

// Poller waits on several channels from one goroutine, by an epoll call of its own. It is for
// workers that are locked to their OS thread; not safe for concurrent use, Wake excepted.
type Poller struct {
	epfd, wake int
	events     [16]unix.EpollEvent
	once       closeOnce
	mu         sync.Mutex // keeps Wake off descriptors that Close has freed
	closed     bool
}

// NewPoller makes a poller of channels.
func NewPoller(channels ...*Channel) (*Poller, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, &Error{Op: "epoll_create1", Err: err}
	}
	p := &Poller{epfd: epfd, wake: -1}
	if p.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err == nil {
		err = p.add(p.wake)
	}
	for _, ch := range channels {
		if err == nil {
			err = p.Add(ch)
		}
	}
	if err != nil {
		return nil, errors.Join(&Error{Op: "epoll_ctl", Err: err}, p.Close())
	}
	return p, nil
}

// Add puts one more channel into the set.
func (p *Poller) Add(ch *Channel) error {
	if ch.FD() < 0 {
		return &Error{Op: "epoll_ctl", Err: ErrUnsupported}
	}
	return p.add(ch.FD())
}

func (p *Poller) add(fd int) error {
	return unix.EpollCtl(p.epfd, unix.EPOLL_CTL_ADD, fd,
		&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// Wait blocks until a channel has an event, Wake was called, or the timeout is over (negative: no
// timeout). It says whether there was an event.
func (p *Poller) Wait(timeout time.Duration) (bool, error) {
	var ts *unix.Timespec // epoll_wait counts milliseconds; ppoll on the set counts nanoseconds
	if timeout >= 0 {
		t := unix.NsecToTimespec(int64(timeout))
		ts = &t
	}
	n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(p.epfd), Events: unix.POLLIN}}, ts, nil)
	if err == nil && n > 0 {
		n, err = unix.EpollWait(p.epfd, p.events[:], 0)
	}
	if errors.Is(err, unix.EINTR) {
		return false, nil
	}
	if err != nil {
		return false, &Error{Op: "ppoll", Err: err}
	}
	for _, e := range p.events[:n] {
		if int(e.Fd) == p.wake {
			var b [8]byte
			_, _ = unix.Read(p.wake, b[:])
		}
	}
	return n > 0, nil
}

// Wake ends a Wait from another goroutine.
func (p *Poller) Wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	one := [8]byte{1}
	_, _ = unix.Write(p.wake, one[:])
}

// Close frees the descriptors; the channels stay open. It may be called twice.
func (p *Poller) Close() error {
	return p.once.do(func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.closed = true
		err := unix.Close(p.epfd)
		if p.wake >= 0 {
			err = errors.Join(err, unix.Close(p.wake))
		}
		return err
	})
}
