//go:build linux && amd64

package shm

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"drtmd/internal/invariant"
	"drtmd/verbs"
)

// quietPolls is how many polls in a row must find nothing before a CQ takes back the bit by
// which senders know that it looks at their QP anyway.
const quietPolls = 64

// cq is a completion queue. Completions of sends and of flushed requests stand in ring; those of
// receives are made by Poll out of the receive areas.
//
// All but the atomics belongs to the owner: the holder of the layer's lock, or the one goroutine
// of a SingleThreaded CQ. While pending is set, which only the owner does, it shares ring and
// the send halves of its QPs with the device's ticker, and both take mu.
type cq struct {
	dev     *device
	id      uint32 // the layer's
	index   uint32 // into control.cqs
	entry   *cqEntry
	channel *channel

	ring       []cqe
	mask       uint32
	head, tail uint32
	quiet      int
	unsettled  settling // what the last look at the receives left behind
	mu         sync.Mutex
	waiting    []*qp // send queues with pending requests; guarded by mu

	// attention says that the slow path of Poll has something to do: QPs failed.
	attention atomic.Bool
	pending   atomic.Bool // waiting is not empty; set by the owner, cleared by who holds mu
	// unconsumed: an event was made, and the CQ armed again before it was consumed.
	unconsumed atomic.Bool

	// groups are the QPs that receive here, spread over the bits of cqEntry.ready; copied on
	// write under listMu. senders are those that send here.
	groups  [64]atomic.Pointer[[]*qp]
	senders atomic.Pointer[[]*qp]
	listMu  sync.Mutex
	nextBit uint32 // guarded by listMu
}

// settling says what a receive queue waits for that no sender will announce.
type settling uint8

const (
	settled      settling = iota
	waitsForDead          // slots are claimed, perhaps by a dead sender
	waitsBehind           // messages stand behind such a slot, or a buffer's line is locked
)

// CreateCQ makes a completion queue.
func (d *device) CreateCQ(depth int, id uint32, ch verbs.DriverChannel, _ bool) (
	verbs.DriverCQ, error) {
	n := uint32(1)
	for n < uint32(depth) {
		n *= 2
	}
	c := &cq{dev: d, id: id, ring: make([]cqe, n), mask: n - 1}
	d.mu.Lock()
	switch n := len(d.cqFree); {
	case n > 0:
		c.index, d.cqFree = d.cqFree[n-1], d.cqFree[:n-1]
	case d.cqNext < maxCQ:
		c.index = d.cqNext
		d.cqNext++
	default:
		d.mu.Unlock()
		return nil, &verbs.Error{Op: "ibv_create_cq", Errno: syscall.ENOMEM,
			Detail: fmt.Sprintf("a context has at most %d CQs", maxCQ)}
	}
	d.mu.Unlock()
	c.entry = &d.ctl.cqs[c.index]
	c.entry.ready.Store(0)
	c.entry.armed.Store(armIdle)
	c.entry.channel.Store(0)
	if ch != nil {
		c.channel = ch.(*channel)
		c.entry.channel.Store(c.channel.id)
		c.channel.add(c)
	}
	return c, nil
}

// Close frees the index. No QP is left on the CQ.
func (c *cq) Close() error {
	if c.channel != nil {
		c.channel.remove(c)
	}
	c.entry.armed.Store(armIdle)
	c.entry.channel.Store(0)
	c.dev.ticker.forget(c)
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	c.dev.cqFree = append(c.dev.cqFree, c.index)
	return nil
}

// cqe is a completion in the ring: a WC in words of 8 bytes. A WC itself, written in words of 4
// and copied in words of 16, would make the copy wait until the writes have left the processor's
// store buffer.
type cqe struct {
	token  uint64
	status uint64 // status 8 | vendor error << 8 | QPN << 32
	length uint64 // byte length | imm << 32
	source uint64 // source QPN | opcode << 32 | flags << 48
}

func (e *cqe) fill(wc *verbs.WC) {
	wc.ID = e.token
	wc.Status, wc.QPN = verbs.WCStatus(uint8(e.status)), uint32(e.status>>32)
	if wc.ByteLen = uint32(e.length); e.source == 0 && wc.Status == verbs.WCSuccess {
		return // a send: the layer fills in the rest
	}
	wc.Imm = uint32(e.length >> 32)
	wc.SrcQPN, wc.Op = uint32(e.source), verbs.WCOpcode(uint16(e.source>>32))
	wc.Flags, wc.VendorErr, wc.Raw = verbs.WCFlags(e.source>>48), uint32(e.status)>>8, 0
}

// push adds a completion. The layer has made sure that there is room.
func (c *cq) push(token uint64, qpn uint32, status verbs.WCStatus) {
	c.add(cqe{token: token, status: uint64(status) | uint64(qpn)<<32})
}

// pushFailed adds the completion of a request that ended with an error.
func (c *cq) pushFailed(token uint64, qpn uint32, out outcome) {
	c.add(cqe{token: token,
		status: uint64(out.status()) | uint64(out.vendor())<<8 | uint64(qpn)<<32})
}

// pushReceive adds the completion of a receive.
func (c *cq) pushReceive(wc *verbs.WC) {
	c.add(cqe{token: wc.ID, status: uint64(wc.Status) | uint64(wc.QPN)<<32,
		length: uint64(wc.ByteLen) | uint64(wc.Imm)<<32,
		source: uint64(wc.SrcQPN) | uint64(wc.Op)<<32 | uint64(wc.Flags)<<48})
}

// next gives the place of one more completion, for the caller to fill in and announce.
func (c *cq) next() *cqe {
	invariant.Assert(c.tail-c.head <= c.mask, "a completion queue never overruns")
	at := &c.ring[c.tail&c.mask]
	c.tail++
	return at
}

func (c *cq) add(e cqe) {
	at := c.next()
	at.token, at.status, at.length, at.source = e.token, e.status, e.length, e.source
	if c.channel != nil {
		c.announce(verbs.WCStatus(uint8(e.status)))
	}
}

// announce makes the event if the CQ is armed for such a completion.
func (c *cq) announce(status verbs.WCStatus) {
	if a := c.entry.armed.Load(); a == armAny || a == armSolicited &&
		status != verbs.WCSuccess {
		c.fire()
	}
}

// fire makes the event that the CQ is armed for, if it still is. Safe from any goroutine.
func (c *cq) fire() {
	a := c.entry.armed.Load()
	if c.channel != nil && (a == armAny || a == armSolicited) &&
		c.entry.armed.CompareAndSwap(a, armFired) {
		c.channel.signal()
	}
}

// Poll gives completions: first what failed QPs and pending requests bring, then the ring, then
// receives.
func (c *cq) Poll(wcs []verbs.WC) (int, error) {
	n := 0
	if c.pending.Load() || c.attention.Load() {
		n = c.pollSlow(wcs)
	} else {
		for n < len(wcs) && c.head != c.tail { // pop, without a call
			c.ring[c.head&c.mask].fill(&wcs[n])
			c.head++
			n++
		}
	}
	if n < len(wcs) {
		if ready := c.entry.ready.Load(); ready != 0 {
			n += c.pollReceives(wcs[n:], ready)
		}
	}
	return n, nil
}

func (c *cq) pop(wcs []verbs.WC) int {
	n := 0
	for n < len(wcs) && c.head != c.tail {
		c.ring[c.head&c.mask].fill(&wcs[n])
		c.head++
		n++
	}
	return n
}

// pollReceives looks at the QPs of the groups that senders marked.
func (c *cq) pollReceives(wcs []verbs.WC, ready uint64) int {
	c.unsettled = settled
	n := c.drain(wcs, ready)
	if n > 0 {
		c.quiet = 0
		return n
	}
	if c.unsettled != settled {
		// Nobody will announce when this is over: keep looking, and do not sleep for long.
		if c.channel != nil && c.entry.armed.Load() != armIdle {
			c.dev.ticker.wake(c, c.unsettled)
		}
		return 0
	}
	if c.quiet++; c.quiet < quietPolls {
		return 0
	}
	// Take the bits back, then look once more: a sender that still saw them set has published
	// before this look.
	c.quiet = 0
	c.entry.ready.And(^ready)
	if n = c.drain(wcs, ready); n > 0 || c.unsettled != settled {
		c.entry.ready.Or(ready)
	}
	return n
}

func (c *cq) drain(wcs []verbs.WC, ready uint64) int {
	n := 0
	for bit := 0; ready != 0; bit, ready = bit+1, ready>>1 {
		if ready&1 == 0 {
			continue
		}
		list := c.groups[bit].Load()
		if list == nil {
			continue
		}
		for _, q := range *list {
			for n < len(wcs) && q.receive(&wcs[n]) {
				n++
			}
			if n == len(wcs) {
				return n
			}
		}
	}
	return n
}

// pollSlow lets pending requests go on and flushes what failed QPs still hold. It waits while the
// ticker is at it: a poll that gives nothing must mean that the ring is empty, or a caller that
// has just armed the CQ would sleep on a completion that came before.
func (c *cq) pollSlow(wcs []verbs.WC) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.goOn()
	if c.attention.Swap(false) {
		if list := c.senders.Load(); list != nil {
			for _, q := range *list {
				q.flushSends()
			}
		}
		for i := range c.groups {
			if list := c.groups[i].Load(); list != nil {
				for _, q := range *list {
					q.flushReceives()
				}
			}
		}
	}
	return c.pop(wcs)
}

// goOn runs pending requests and reports whether any are left; if not, nothing of the CQ may be
// looked at after it but by the owner. Caller holds mu.
func (c *cq) goOn() bool {
	kept := c.waiting[:0]
	for _, q := range c.waiting {
		if q.progress() {
			kept = append(kept, q)
		}
	}
	clear(c.waiting[len(kept):])
	c.waiting = kept
	if len(kept) == 0 {
		c.pending.Store(false) // from here on the owner takes no lock
		return false
	}
	return true
}

// help is goOn for others than the owner, which may sleep or poll nothing. It reports whether
// requests are still pending.
func (c *cq) help() bool {
	if !c.pending.Load() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.pending.Load() {
		return false // the owner was faster, and may be at it again without the lock
	}
	return c.goOn()
}

// wait enters a QP whose send queue has pending requests. The caller is the owner, and holds mu
// if pending is set.
func (c *cq) wait(q *qp) {
	c.waiting = append(c.waiting, q)
	c.pending.Store(true)
	c.dev.ticker.add(c)
}

// unwait removes a QP that is closed. Caller holds mu.
func (c *cq) unwait(q *qp) {
	for i, w := range c.waiting {
		if w == q {
			c.waiting = append(c.waiting[:i], c.waiting[i+1:]...)
			return
		}
	}
}

// Arm asks for an event. What it replaces was asked for or consumed by the same owner. The swap
// is a full fence: the caller's next poll sees whatever a sender published before it saw the
// armed word.
func (c *cq) Arm(solicitedOnly bool) error {
	to := armAny
	if solicitedOnly {
		to = armSolicited
		if c.entry.armed.Load() == armAny {
			return nil // the stronger wish stands
		}
	}
	if c.entry.armed.Swap(to) == armFired {
		c.unconsumed.Store(true)
	}
	if c.attention.Load() {
		c.fire()
	}
	return nil
}

// enlist makes a QP's completions come here.
func (c *cq) enlist(q *qp, receives bool) {
	c.listMu.Lock()
	defer c.listMu.Unlock()
	if !receives {
		c.senders.Store(with(c.senders.Load(), q))
		return
	}
	q.group = c.nextBit % 64
	c.nextBit++
	c.groups[q.group].Store(with(c.groups[q.group].Load(), q))
}

func (c *cq) delist(q *qp, receives bool) {
	c.listMu.Lock()
	defer c.listMu.Unlock()
	if !receives {
		c.senders.Store(without(c.senders.Load(), q))
		return
	}
	c.groups[q.group].Store(without(c.groups[q.group].Load(), q))
}

func with(list *[]*qp, q *qp) *[]*qp {
	var old []*qp
	if list != nil {
		old = *list
	}
	n := append(old[:len(old):len(old)], q)
	return &n
}

func without(list *[]*qp, q *qp) *[]*qp {
	n := make([]*qp, 0, len(*list))
	for _, o := range *list {
		if o != q {
			n = append(n, o)
		}
	}
	return &n
}
