package verbs

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
)

// CQ is a completion queue (ibv_cq).
type CQ struct {
	ctx     *Context
	drv     DriverCQ
	id      uint32
	depth   uint32
	channel *Channel
	single  bool
	once    closeOnce

	broken atomic.Bool
	closed atomic.Bool

	// mu is the lock of the data path: it guards due, ghosts and the queue accounts of the QPs
	// that report here. Not taken when single.
	mu     sync.Mutex
	due    uint32 // requests outstanding on all queues that report here, and ghosts
	ghosts uint32 // requests of QPs that were closed; their completions may still sit here
	stash  []WC   // finished completions that reclaim took out; Poll gives these first
}

// CreateCQ makes a completion queue (ibv_create_cq). Size it for every request of every queue
// that reports to it, unsignaled ones included.
func (c *Context) CreateCQ(cfg CQConfig) (*CQ, error) {
	const op = "ibv_create_cq"
	if cfg.Depth < 1 || cfg.Depth > c.attr.MaxCQE {
		return nil, c.invalid(op, "", "depth %d is not in 1..%d", cfg.Depth, c.attr.MaxCQE)
	}
	if err := c.enter(op); err != nil {
		return nil, err
	}
	defer c.life.RUnlock()
	var dch DriverChannel
	if cfg.Channel != nil {
		if cfg.Channel.ctx != c {
			return nil, c.invalid(op, "", "the channel belongs to another context")
		}
		if cfg.Channel.isClosed() {
			return nil, c.fail(op, ErrClosed)
		}
		dch = cfg.Channel.drv
	}
	cq := &CQ{ctx: c, depth: uint32(cfg.Depth), channel: cfg.Channel, single: cfg.SingleThreaded}
	c.mu.Lock()
	c.nextCQID++
	cq.id = c.nextCQID
	c.mu.Unlock()
	d, err := c.drv.CreateCQ(cfg.Depth, cq.id, dch, cfg.SingleThreaded)
	if err != nil {
		return nil, c.wrap(op, err)
	}
	cq.drv = d
	if err := c.adopt(op, cq); err != nil {
		return nil, closeAfter(err, d)
	}
	c.mu.Lock()
	c.cqs[cq.id] = cq
	c.mu.Unlock()
	return cq, nil
}

// Depth is the number of completions that the queue holds.
func (cq *CQ) Depth() int { return int(cq.depth) }

func (cq *CQ) lock() {
	if !cq.single {
		cq.mu.Lock()
	}
}

func (cq *CQ) unlock() {
	if !cq.single {
		cq.release()
	}
}

// release is apart so that unlock is inlined, for CQs that have no lock to give back.
//
//go:noinline
func (cq *CQ) release() { cq.mu.Unlock() }

// Poll takes up to len(wcs) completions without blocking and says how many (ibv_poll_cq). On a
// broken CQ it returns ErrCQOverrun whenever it has nothing to give; flushed requests may still
// come after that.
func (cq *CQ) Poll(wcs []WC) (int, error) {
	if len(wcs) == 0 {
		return 0, nil
	}
	cq.lock()
	n, more, err := 0, true, error(nil)
	if len(cq.stash) == 0 && !cq.closed.Load() {
		n, more, err = cq.take(wcs)
	}
	if n == 0 || err != nil {
		n, err = cq.pollRest(wcs, n, more, err)
	}
	cq.unlock()
	return n, err
}

// pollRest goes on where a first take, if there was one, has not simply given something.
func (cq *CQ) pollRest(wcs []WC, kept int, more bool, err error) (int, error) {
	if cq.closed.Load() {
		return 0, cq.ctx.fail("ibv_poll_cq", ErrClosed)
	}
	if len(cq.stash) > 0 {
		n := copy(wcs, cq.stash)
		cq.stash = cq.stash[n:]
		return n, nil
	}
	for kept == 0 && more && err == nil { // 0 must mean that the queue is empty
		kept, more, err = cq.take(wcs)
	}
	if err != nil {
		return kept, cq.ctx.wrap("ibv_poll_cq", err)
	}
	if kept == 0 && cq.broken.Load() {
		return 0, cq.overrun("ibv_poll_cq", 0)
	}
	return kept, nil
}

// take polls the driver once and keeps what belongs to live QPs; more: it may hold more.
func (cq *CQ) take(wcs []WC) (kept int, more bool, err error) {
	got, err := cq.drv.Poll(wcs)
	for i := range got {
		if cq.finish(&wcs[i]) {
			if kept != i {
				wcs[kept] = wcs[i]
			}
			kept++
		}
	}
	if got < len(wcs) && cq.ghosts > 0 {
		// The queue is empty, so nothing of the closed QPs is left in it.
		cq.due -= cq.ghosts
		cq.ghosts = 0
	}
	return kept, got == len(wcs), err
}

// reclaim empties the queue into the stash, so that the places of closed QPs are free again.
func (cq *CQ) reclaim() {
	var buf [64]WC
	for cq.ghosts > 0 {
		n, _, err := cq.take(buf[:])
		cq.stash = append(cq.stash, buf[:n]...)
		if err != nil {
			return
		}
	}
}

// finish turns a driver's completion into the caller's; false drops it (of a closed QP).
func (cq *CQ) finish(wc *WC) bool {
	t := token(wc.ID)
	qp := cq.ctx.qps.Get(t.index())
	if qp == nil {
		return false
	}
	q := &qp.sq
	if t.recv() {
		q = &qp.rq
	}
	if t&^(1<<tokenSlotBits-1) != q.base || t.slot() > q.mask {
		return false
	}
	n := q.retire(t.slot())
	if n == 0 {
		return false
	}
	cq.due -= n
	s := q.slots[t.slot()]
	wc.ID = s.id
	if wc.Status != WCSuccess {
		qp.fail()
		raw := wc.Raw
		if raw == 0 {
			raw = wc.Status
		}
		*wc = WC{ID: s.id, Status: cq.ctx.quirk.status(wc.Status, t.recv()), QPN: wc.QPN,
			VendorErr: wc.VendorErr, Raw: raw}
		return true
	}
	if t.recv() {
		qp.received(wc)
		return true
	}
	// Field by field: a WC copied as a whole waits for the narrow stores that made it.
	wc.Op, wc.Imm, wc.SrcQPN = WCOpcode(s.op), 0, 0
	wc.VendorErr, wc.Flags, wc.Raw = 0, 0, 0
	wc.ByteLen = 0
	return true
}

// received leaves in a successful receive completion only what means something.
func (qp *QP) received(wc *WC) {
	if wc.Op != WCOpcode(OpRecvWriteImm) {
		wc.Op = WCOpcode(OpRecv)
	}
	wc.Flags &= WCWithGRH | WCWithImm
	if wc.Flags&WCWithImm == 0 {
		wc.Imm = 0
	}
	if qp.cfg.Type == RC {
		wc.SrcQPN = 0
		wc.Flags &^= WCWithGRH
	}
	wc.VendorErr, wc.Raw = 0, WCSuccess
}

// status corrects a deviating status.
func (q Quirks) status(s WCStatus, recv bool) WCStatus {
	switch {
	case recv && s == q.RecvTooSmallLocal && s != WCSuccess:
		return WCLocLenErr
	case !recv && s == q.RecvTooSmallRemote && s != WCSuccess:
		return WCRemInvReqErr
	}
	return s
}

// Arm asks for an event on the CQ's channel at its next completion, or its next solicited or
// failed one (ibv_req_notify_cq). A completion that came before is not announced: poll once
// more after arming and before waiting.
func (cq *CQ) Arm(solicitedOnly bool) error {
	const op = "ibv_req_notify_cq"
	if cq.channel == nil {
		return cq.ctx.invalid(op, "create the CQ with a Channel", "the CQ has no channel")
	}
	cq.lock()
	defer cq.unlock()
	if cq.closed.Load() {
		return cq.ctx.fail(op, ErrClosed)
	}
	return cq.ctx.wrap(op, cq.drv.Arm(solicitedOnly))
}

// OnArrival has f called whenever a completion was added, by providers without a descriptor to
// wait on (no Caps.PollableChannel); elsewhere it is ErrUnsupported. f runs in the provider's
// event loop and must not post or poll.
func (cq *CQ) OnArrival(f func()) error {
	d, ok := cq.drv.(DriverNotifier)
	if !ok {
		return cq.ctx.fail("notify on arrival", ErrUnsupported)
	}
	d.OnArrival(f)
	return nil
}

// roomy reports whether there is room for n more completions at first sight. Caller holds the
// lock, and may then raise due by n without reserve.
func (cq *CQ) roomy(n uint32) bool { return cq.due+n <= cq.depth && !cq.broken.Load() }

// reserve claims room for n more completions. Caller holds the lock.
func (cq *CQ) reserve(op string, n uint32) error {
	if cq.broken.Load() {
		return cq.overrun(op, 0)
	}
	if cq.due+n > cq.depth && cq.ghosts > 0 {
		cq.reclaim()
	}
	if cq.due+n > cq.depth {
		return cq.overrun(op, cq.due+n)
	}
	cq.due += n
	return nil
}

// overrun is the error; due is how many completions could have come, 0 if it happened before.
func (cq *CQ) overrun(op string, due uint32) error {
	e := &Error{Op: op, Device: cq.ctx.attr.Name, Errno: syscall.EIO, Err: ErrCQOverrun,
		Hint: "make the CQ at least as deep as all queues that report to it together, then " +
			"make CQ and QPs anew"}
	if due > 0 {
		e.Detail = fmt.Sprintf("%d completions may come to a CQ of %d", due, cq.depth)
	}
	return e
}

// breakDown puts the CQ and every QP on it into error and announces it, once.
func (cq *CQ) breakDown() {
	if cq.broken.Swap(true) {
		return
	}
	cq.ctx.mu.Lock()
	hit := cq.ctx.openLocked(cq.usedBy)
	cq.ctx.mu.Unlock()
	for _, o := range hit {
		o.(*QP).fail()
	}
	cq.ctx.announce(Event{Type: EventCQErr, CQ: cq, Text: ErrCQOverrun.Error()})
}

// usedBy reports whether an object is a QP that reports here.
func (cq *CQ) usedBy(o object) bool {
	qp, ok := o.(*QP)
	return ok && (qp.sendCQ == cq || qp.recvCQ == cq)
}

// forget drops the stashed completions of a QP that is closed. Caller holds the lock.
func (cq *CQ) forget(qpn uint32) {
	cq.stash = slices.DeleteFunc(cq.stash, func(wc WC) bool { return wc.QPN == qpn })
}

func (cq *CQ) closeRank() int { return rankCQ }

// Close destroys the CQ (ibv_destroy_cq); its events were acknowledged by Consume, what waits
// is dropped. With live QPs it fails with EBUSY and may be called again.
func (cq *CQ) Close() error {
	return cq.once.do(func() error {
		const op = "ibv_destroy_cq"
		cq.ctx.life.Lock()
		defer cq.ctx.life.Unlock()
		err := cq.ctx.inUse(op, cq.usedBy)
		if err != nil {
			return err
		}
		cq.closed.Store(true)
		cq.lock()
		defer cq.unlock()
		cq.ctx.mu.Lock()
		delete(cq.ctx.cqs, cq.id)
		cq.ctx.mu.Unlock()
		cq.ctx.disown(cq)
		return cq.ctx.wrap(op, cq.drv.Close())
	})
}
