package rpc

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"drtmd/internal/invariant"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Type of a request: which handler runs.
type Type uint8

// Handler runs at once, in the receive loop: it reads req, writes at most len(resp) bytes of
// response and says how many. It must be quick and cannot wait. Both slices are valid during the
// call only. Its error travels to the caller as words (RemoteError).
type Handler func(req, resp []byte) (int, error)

// FiberHandler is a Handler that runs as a fiber of its own and may await.
type FiberHandler func(f *fiber.Fiber, req, resp []byte) (int, error)

// request is one whose handler is about to run.
type request struct {
	Session *Session
	Body    []byte // valid during the call only
	flow    *Flow  // nil: none
	Epoch   Epoch  // of the datagram that completed it
	Type    Type
	slot    uint8
	oneWay  bool
}

// handler is one of the four.
type handler struct {
	inline    Handler
	from      CallerHandler
	fiber     FiberHandler
	fiberFrom CallerFiberHandler
}

// isFiber reports whether the handler runs as a fiber of its own.
func (h *handler) isFiber() bool { return h.fiber != nil || h.fiberFrom != nil }

// Port is a worker's UD queue pair with its sessions.
type Port struct {
	Stats Stats

	w         *fiber.Worker
	cfg       Config
	epoch     Epoch
	qp        *verbs.QP
	mr        *verbs.MR // receive buffers, then send buffers
	base      uint64    // of request IDs
	mtu       int       // bytes of the longest datagram
	stride    int       // bytes from one buffer to the next
	recvDepth int
	inline    int // bytes that a send takes inline

	handlers [256]handler
	caller   Caller // of the inline handler that runs
	scratch  []byte // response of the inline handler that runs
	jobs     *job   // free ones

	opening  [helloBytes]byte // what this side offers, encoded
	sessions []*Session       // at id & mask
	mask     uint32
	opened   uint32 // sessions ever made
	handles  []handle

	head        header // of the datagram that is being dealt with
	grh         []byte // what precedes it; nil where there is none
	msgs        [maxMessages]message
	compact     compactHeader // the same of compact datagrams
	compactMsgs [maxMessages]compactMessage
	batch       []request
	ahead       func(n int, request func(i int) (Type, []byte))
	inBatch     func(i int) (Type, []byte)
	reposts     []verbs.RecvWR
	wrs         []verbs.WR // datagrams that are complete and not rung in
	sendHead    uint32     // oldest send buffer in use; both count up and wrap
	sendTail    uint32
	unsignaled  int        // datagrams rung in since the last signaled one
	dirty       []*Session // have something to send
	idle        []*Session // the other half of dirty

	routes      []route // open sessions, ascending by key
	tickets     []ticket
	freeTickets []uint16

	timer   *fiber.Timer
	timerAt time.Duration // 0 = not set
	calls   *Call         // free ones
	broken  error
	closed  bool

	// down is why the queue pair is in error, while it is being brought back: see lose.
	down        error
	healAt      time.Duration // next try
	healBackoff uint          // tries since a datagram came
}

// recvBit tells receives from sends in request IDs.
const recvBit = 1 << 40

// handle is the way to the port with a GID and LID.
type handle struct {
	gid verbs.GID
	lid uint16
	ah  *verbs.AH
}

// maxHandles bounds the address handles, which are kept until Close.
const maxHandles = 4096

// NewPort makes a port on a worker, whose WorkerConfig.Extra has room for Config.Completions.
// It is closed with the worker. Register handlers before the address is given away.
func NewPort(w *fiber.Worker, cfg Config) (*Port, error) {
	cfg.fill()
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("rpc port of worker %s: %w", w.Name(), err)
	}
	p := &Port{w: w, cfg: cfg,
		scratch: make([]byte, cfg.MaxMessage), recvDepth: cfg.recvDepth()}
	p.timer = w.NewTimer(p.tick)
	size := 1 << bits.Len(uint(cfg.Peers-1))
	p.sessions, p.mask = make([]*Session, size), uint32(size-1)
	if err := p.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("rpc port of worker %s: %w", w.Name(), err), p.Close())
	}
	return p, nil
}

func (p *Port) open() error {
	pd := p.w.PD()
	attr := pd.Context().Attr()
	if most := attr.MaxQPWR; p.recvDepth > most {
		return fmt.Errorf("%d peers with a window of %d need %d receives, the device takes %d: "+
			"lower Peers or Window", p.cfg.Peers, p.cfg.Window, p.recvDepth, most)
	}
	p.inline = min(attr.MaxInline, p.cfg.Inline)
	var err error
	p.qp, err = pd.CreateQP(verbs.QPConfig{Type: verbs.UD, SendCQ: p.w.CQ(), RecvCQ: p.w.CQ(),
		SendDepth: p.cfg.SendDepth, RecvDepth: p.recvDepth, MaxInline: p.inline,
		QKey: p.cfg.QKey})
	if err != nil {
		return err
	}
	if err := p.qp.Connect(nil, verbs.ConnectAttr{}); err != nil {
		return err
	}
	p.mtu = p.qp.PathMTU()
	o := opening{endpoint: p.qp.Endpoint(), window: p.cfg.Window, slots: p.cfg.Slots,
		maxMessage: p.cfg.MaxMessage}
	if err := o.put(p.opening[:]); err != nil {
		return err
	}
	p.stride = (verbs.GRHBytes + p.mtu + verbs.LineBytes - 1) &^ (verbs.LineBytes - 1)
	p.mr, err = pd.AllocMR((p.recvDepth+p.cfg.SendDepth)*p.stride, verbs.AccessLocalWrite,
		verbs.MROptions{})
	if err != nil {
		return err
	}
	if p.base, err = p.w.AddPart(p, p.recvDepth+p.cfg.SendDepth); err != nil {
		return err
	}
	p.reposts = make([]verbs.RecvWR, 0, p.recvDepth)
	p.wrs = make([]verbs.WR, 0, p.cfg.SendDepth)
	for i := range p.recvDepth {
		p.repost(i)
	}
	return p.postReceives()
}

// Address is what peers must know.
func (p *Port) Address() Address {
	return Address{Endpoint: p.qp.Endpoint(), Incarnation: p.cfg.Incarnation}
}

// Handle registers a handler that runs at once; nil removes it.
func (p *Port) Handle(t Type, h Handler) { p.handlers[t] = handler{inline: h} }

// HandleFiber registers a handler that runs as a fiber of its own.
func (p *Port) HandleFiber(t Type, h FiberHandler) { p.handlers[t] = handler{fiber: h} }

// HandleFrom registers a handler that runs at once and knows its caller.
func (p *Port) HandleFrom(t Type, h CallerHandler) { p.handlers[t] = handler{from: h} }

// HandleFiberFrom registers a handler that runs as a fiber of its own and knows its caller.
func (p *Port) HandleFiberFrom(t Type, h CallerFiberHandler) {
	p.handlers[t] = handler{fiberFrom: h}
}

// ForgetServed has the port do what Config.ForgetServed says, from now on.
func (p *Port) ForgetServed() { p.cfg.ForgetServed = true }

// now is the time, as the worker has read it last.
func (p *Port) now() time.Duration { return p.w.Now() }

// Completed takes a completion of the port's queue pair (fiber.Part).
func (p *Port) Completed(wc *verbs.WC) {
	if p.closed || p.broken != nil {
		return
	}
	i := uint32(wc.ID)
	if err := wc.Err(); err != nil || p.down != nil {
		if wc.ID&recvBit != 0 {
			p.repost(int(i))
		}
		if p.down == nil {
			p.lose(wc.Status, err)
		}
		return
	}
	if wc.ID&recvBit == 0 {
		p.sendHead = i + 1 // and every one before it
		return
	}
	p.Stats.DatagramsReceived++
	p.healBackoff = 0
	p.w.RPCWork(0, 1)
	invariant.Assert(int(i) < p.recvDepth, "completion of a receive that does not exist")
	if wc.ByteLen < verbs.GRHBytes || int(wc.ByteLen) > p.stride {
		p.drop(ReasonShort)
	} else {
		b := p.mr.Bytes()[int(i)*p.stride:][:wc.ByteLen]
		p.grh = nil
		if wc.Flags&verbs.WCWithGRH != 0 {
			p.grh = b[:verbs.GRHBytes]
		}
		p.receive(b[verbs.GRHBytes:], wc.SrcQPN)
	}
	p.repost(int(i))
}

// repost has receive buffer i posted again at the end of the pass.
func (p *Port) repost(i int) {
	wr := verbs.RecvWR{ID: p.base | recvBit | uint64(i), NumSGE: 1}
	wr.SGE[0] = p.mr.SGE(i*p.stride, verbs.GRHBytes+p.mtu)
	p.reposts = append(p.reposts, wr)
}

func (p *Port) postReceives() error {
	if len(p.reposts) == 0 {
		return nil
	}
	_, err := p.qp.PostRecv(p.reposts)
	p.reposts = p.reposts[:0]
	return err
}

// drop counts garbage.
func (p *Port) drop(r Reason) { p.Stats.Garbage[r]++ }

// fail ends every session after the queue pair has failed.
func (p *Port) fail(cause error) {
	if p.broken != nil {
		return
	}
	p.broken = hint(errors.Join(ErrBroken, cause), "close the port and make a new one")
	_ = p.qp.ToError() // it usually is already
	p.failAll(p.broken)
}

func (p *Port) failAll(err error) {
	for _, s := range p.sessions {
		if s != nil {
			s.fail(err)
		}
	}
	p.failAnswers(err)
}

// Fence takes the port out (fiber.Part).
func (p *Port) Fence(cause error) { p.fail(cause) }

// Err is why the port is out of use; nil while it works.
func (p *Port) Err() error {
	if p.closed {
		return ErrClosed
	}
	return p.broken
}

// Close fails every session and frees the queue pair and its memory (fiber.Part). Peers are not
// told: close the sessions before where they should know at once. It may be called twice.
func (p *Port) Close() error {
	if p.closed {
		return nil
	}
	p.closed = true
	p.failAll(ErrClosed)
	p.timer.Stop()
	var errs []error
	if p.qp != nil {
		errs = append(errs, p.qp.Close())
	}
	for _, h := range p.handles {
		errs = append(errs, h.ah.Close())
	}
	if p.mr != nil {
		errs = append(errs, p.mr.Close())
	}
	return errors.Join(errs...)
}

// handleTo gives the address handle to an endpoint's port, made once.
func (p *Port) handleTo(e *verbs.Endpoint) (*verbs.AH, error) {
	for _, h := range p.handles {
		if h.gid == e.GID && h.lid == e.LID {
			return h.ah, nil
		}
	}
	if len(p.handles) == maxHandles {
		return nil, hint(ErrFull, "4096 addresses were seen: close the port and make a new one")
	}
	ah, err := p.w.PD().CreateAHTo(*e)
	if err != nil {
		return nil, err
	}
	p.handles = append(p.handles, handle{e.GID, e.LID, ah})
	return ah, nil
}
