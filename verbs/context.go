package verbs

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"drtmd/verbs/internal/table"
)

// ContextOptions of NewContext.
type ContextOptions struct {
	// PSN draws the first packet sequence number of a QP (24 bits are used). Nil is random;
	// the simulator gives its seeded source.
	PSN func() uint32
	// Clock stamps events. Nil is the monotonic clock.
	Clock Clock
}

// Context is an open device (ibv_context). Safe for concurrent use.
type Context struct {
	drv   Driver
	attr  DeviceAttr
	quirk Quirks
	psn   func() uint32
	clock Clock
	gid   GIDChoice // PreferGID; set before objects are made

	events  chan Event
	dropped atomic.Uint64

	// Tables that the data path reads without a lock; written under mu.
	qps table.Table[QP]
	ahs table.Table[AH]

	// life is held for reading while an object is made or the device queried, and for writing
	// while an object that others refer to is closed: nothing is made on top of what is going.
	// It is taken before mu, and never on the data path.
	life sync.RWMutex

	mu       sync.Mutex
	closed   bool
	nextID   uint64            // creation order of objects
	open     map[object]uint64 // live objects and their order
	qpGen    []uint32          // generation of each index of qps ever used
	qpFree   []uint32          // free indexes of qps
	cqs      map[uint32]*CQ    // by the id that the driver knows
	nextCQID uint32
}

// object is anything that a Context closes.
type object interface {
	// closeRank orders the closing: QPs first, then what they refer to.
	closeRank() int
	Close() error
}

// eventBacklog bounds the asynchronous events that wait to be read.
const eventBacklog = 256

// maxQPs bounds the QPs of a context: the index bits of a token.
const maxQPs = 1 << tokenIndexBits

// NewContext puts the contract on top of a provider's open device. Providers call it.
func NewContext(drv Driver, o ContextOptions) (*Context, error) {
	c := &Context{drv: drv, attr: drv.Attr(), quirk: drv.Quirks(), psn: o.PSN, clock: o.Clock,
		events: make(chan Event, eventBacklog), open: map[object]uint64{}, cqs: map[uint32]*CQ{}}
	if c.psn == nil {
		c.psn = randomPSN
	}
	if c.clock == nil {
		c.clock = NewMonotonicClock()
	}
	if err := drv.Start(c.event); err != nil {
		return nil, errors.Join(c.wrap("open", err), drv.Close())
	}
	return c, nil
}

func randomPSN() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return binary.NativeEndian.Uint32(b[:])
}

// Attr describes the device.
func (c *Context) Attr() DeviceAttr { return c.attr }

// Clock is the clock of the context.
func (c *Context) Clock() Clock { return c.clock }

// Port queries a port and its GID table, counted from 1 (ibv_query_port).
func (c *Context) Port(port int) (PortAttr, error) {
	if port < 1 || port > c.attr.Ports {
		return PortAttr{}, &Error{Op: "ibv_query_port", Device: c.attr.Name, Errno: syscall.EINVAL,
			Detail: fmt.Sprintf("port %d of %d", port, c.attr.Ports)}
	}
	if err := c.enter("ibv_query_port"); err != nil {
		return PortAttr{}, err
	}
	defer c.life.RUnlock()
	return c.queryPort(port)
}

// queryPort is Port for callers that have entered.
func (c *Context) queryPort(port int) (PortAttr, error) {
	p, err := c.drv.QueryPort(port)
	return p, c.wrap("ibv_query_port", err)
}

// enter takes life for reading, for a call on the open device, or says that it is closed.
func (c *Context) enter(op string) error {
	c.life.RLock()
	if c.isClosed() {
		c.life.RUnlock()
		return c.fail(op, ErrClosed)
	}
	return nil
}

// Events carries asynchronous events (ibv_get_async_event). It is closed with the context.
// Nobody needs to read it: past 256 waiting events new ones are dropped and counted.
func (c *Context) Events() <-chan Event { return c.events }

// EventsDropped counts events that found the channel full.
func (c *Context) EventsDropped() uint64 { return c.dropped.Load() }

// event is the driver's sink: it may be called from any goroutine and never blocks.
func (c *Context) event(e DriverEvent) {
	switch e.Type {
	case EventCQErr:
		c.mu.Lock()
		e.CQ = c.cqs[e.CQID]
		c.mu.Unlock()
		if e.CQ != nil {
			e.CQ.breakDown()
			return // breakDown announces it
		}
	case EventQPFatal, EventQPAccessErr, EventQPReqErr:
		if qp := c.qpByNumber(e.QPN); qp != nil {
			qp.fail()
		}
	}
	c.announce(e.Event)
}

func (c *Context) announce(e Event) {
	e.At = c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	select {
	case c.events <- e:
	default:
		c.dropped.Add(1)
	}
}

// Close destroys what is still open, in the right order, and the device. It may be called
// twice; the second call returns nil.
func (c *Context) Close() error {
	c.life.Lock() // what is being made is finished first, and then closed below
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		c.life.Unlock()
		return nil
	}
	c.closed = true
	close(c.events)
	left := c.openLocked(func(object) bool { return true })
	slices.SortStableFunc(left, func(a, b object) int {
		return cmp.Compare(a.closeRank(), b.closeRank())
	})
	c.mu.Unlock()
	c.life.Unlock()

	var errs []error
	for _, o := range left {
		errs = append(errs, o.Close())
	}
	return errors.Join(append(errs, c.wrap("ibv_close_device", c.drv.Close()))...)
}

// openLocked lists the live objects that the predicate holds for, in the order of their making.
// Caller holds mu.
func (c *Context) openLocked(which func(object) bool) []object {
	var list []object
	for o := range c.open {
		if which(o) {
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b object) int { return cmp.Compare(c.open[a], c.open[b]) })
	return list
}

// adopt registers a new object, or says that the context is closed.
func (c *Context) adopt(op string, o object) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.fail(op, ErrClosed)
	}
	c.nextID++
	c.open[o] = c.nextID
	return nil
}

func (c *Context) disown(o object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, o)
}

func (c *Context) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// inUse says which live objects satisfy the predicate, as an EBUSY, or nil.
func (c *Context) inUse(op string, uses func(object) bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := map[string]int{}
	for o := range c.open {
		if uses(o) {
			count[strings.TrimPrefix(fmt.Sprintf("%T", o), "*verbs.")]++
		}
	}
	if len(count) == 0 {
		return nil
	}
	var parts []string
	for name, n := range count {
		parts = append(parts, fmt.Sprintf("%d %s", n, name))
	}
	slices.Sort(parts)
	return &Error{Op: op, Device: c.attr.Name, Errno: syscall.EBUSY,
		Detail: "still used by " + strings.Join(parts, ", "), Hint: "close these first"}
}

// fail makes an Error of a sentinel.
func (c *Context) fail(op string, cause error) error {
	return &Error{Op: op, Device: c.attr.Name, Err: cause}
}

// wrap makes an *Error of a driver's error, filling in the device; nil stays nil.
func (c *Context) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		if e.Device == "" {
			e.Device = c.attr.Name
		}
		return err
	}
	if errno, ok := err.(syscall.Errno); ok {
		return &Error{Op: op, Device: c.attr.Name, Errno: errno}
	}
	e = &Error{Op: op, Device: c.attr.Name, Err: err}
	_ = errors.As(err, &e.Errno) // zero where there is none
	return e
}

// invalid is an EINVAL with words.
func (c *Context) invalid(op, hint, format string, args ...any) error {
	return &Error{Op: op, Device: c.attr.Name, Errno: syscall.EINVAL,
		Detail: fmt.Sprintf(format, args...), Hint: hint}
}
