package fiber

import (
	"fmt"
	"math/bits"
	"slices"

	"drtmd/internal/invariant"
	"drtmd/verbs"
)

// Conn is an RC queue pair of a worker to a peer's worker.
type Conn struct {
	w        *Worker
	qp       *verbs.QP
	depth    int
	pending  []verbs.WR // not rung in yet; its array has room for depth and never moves
	flight   []*Op      // ring of operations posted or pending, oldest at head; a power of two
	head     uint32     // counts up and wraps: see at
	n        int        // operations in flight
	waiters  fiberList  // fibers that wait for room
	isDirty  bool
	lastFail error          // why the QP is in error
	peer     verbs.Endpoint // of the queue pair at the other end, from Connect on

	// See Worker.giveUpStuck. patience is 0 before Connect.
	completed, seen uint32 // completions so far, and those at the last look; they wrap
	looks, patience int
}

// NewConn makes a queue pair in INIT. Exchange endpoints, then call Connect.
func (w *Worker) NewConn(access verbs.Access) (*Conn, error) {
	if len(w.conns) >= w.cfg.Conns {
		return nil, fmt.Errorf("worker %s: more than %d conns: raise WorkerConfig.Conns",
			w.cfg.Name, w.cfg.Conns)
	}
	qp, err := w.cfg.PD.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: w.cq, RecvCQ: w.cq,
		SendDepth: w.cfg.Depth, RecvDepth: 1, Access: access})
	if err != nil {
		return nil, err
	}
	c := &Conn{w: w, qp: qp, depth: w.cfg.Depth, pending: make([]verbs.WR, 0, w.cfg.Depth),
		flight: make([]*Op, 1<<bits.Len(uint(w.cfg.Depth-1)))}
	if err := qp.ToInit(); err != nil {
		return nil, err
	}
	w.conns = append(w.conns, c)
	return c, nil
}

// Endpoint is what the peer must know.
func (c *Conn) Endpoint() verbs.Endpoint { return c.qp.Endpoint() }

// Connect brings the queue pair to RTS. On a Thread, requests on which nothing completes for longer than
// a.RTS.GivesUpIn are flushed: also those that wait for a receive of the peer.
func (c *Conn) Connect(peer verbs.Endpoint, a verbs.ConnectAttr) error {
	c.patience = patience(a.RTS.GivesUpIn())
	c.peer = peer
	return c.qp.Connect(&peer, a)
}

// Peer is the queue pair at the other end, from Connect on.
func (c *Conn) Peer() verbs.Endpoint { return c.peer }

// QP is the queue pair itself, for states and events; requests go through the Conn.
func (c *Conn) QP() *verbs.QP { return c.qp }

// room waits until the queue takes one more request.
func (c *Conn) room(f *Fiber) error {
	for c.n == c.depth {
		c.flush()
		if c.w.eager && c.w.poll() && c.n < c.depth {
			break
		}
		c.waiters.push(f)
		if err := f.wait(0); err != nil {
			return err
		}
	}
	return nil
}

// at is the place of operation i in the ring, from the oldest one on.
func (c *Conn) at(i int) **Op { return &c.flight[(c.head+uint32(i))&uint32(len(c.flight)-1)] }

// next queues a request for the next doorbell and gives it to the caller to fill in: it is empty but for its ID. There
// is room. It is made where it is posted from: a copy would wait for the stores that made the request.
func (c *Conn) next(o *Op) *verbs.WR {
	i := len(c.pending)
	c.pending = c.pending[:i+1]
	wr := &c.pending[i]
	*wr = verbs.WR{}
	wr.ID = uint64(o.index)
	*c.at(c.n) = o
	c.n++
	if !c.isDirty {
		c.isDirty = true
		c.w.dirty = append(c.w.dirty, c)
	}
	return wr
}

// add queues a request for the next doorbell.
func (c *Conn) add(o *Op, wr *verbs.WR) {
	at := c.next(o)
	*at = *wr
	at.ID = uint64(o.index)
	at.Flags &^= verbs.FlagSignaled
}

// flush rings in what is pending: one post, the last request signaled.
func (c *Conn) flush() {
	if len(c.pending) == 0 {
		return
	}
	wrs := c.pending
	wrs[len(wrs)-1].Flags |= verbs.FlagSignaled
	n, err := c.qp.PostSend(wrs)
	c.w.Stats.posted(wrs[:n])
	if v := c.w.virtual; v != nil {
		v.posted(n)
	}
	c.pending = c.pending[:0]
	if n == len(wrs) {
		return
	}
	// Requests that the contract refuses are answered here; those before them were posted, and
	// may be without a signaled one behind them: what follows in a later doorbell signals them.
	invariant.Assert(err != nil, "post took fewer requests and gave no error")
	c.refuse(wrs[n:], err)
	if n > 0 {
		c.signalTail()
	}
}

// refuse completes requests that were not posted, newest first out of the flight ring.
func (c *Conn) refuse(wrs []verbs.WR, err error) {
	for i := len(wrs) - 1; i >= 0; i-- {
		o := c.w.ops[wrs[i].ID]
		c.n--
		invariant.Assert(*c.at(c.n) == o, "flight ring out of order")
		o.finish(err)
	}
}

// signalTail posts an empty signaled WRITE behind unsignaled requests, so that these complete.
func (c *Conn) signalTail() {
	o, err := c.w.newOp(c)
	if err != nil {
		_ = c.qp.ToError() // flushing them is all that is left
		return
	}
	o.abandoned = true
	c.add(o, &verbs.WR{Op: verbs.OpWrite}) // there is room: refused requests made it
	c.flush()
}

// complete takes a completion of one of the conn's operations: it completes all before it too.
func (w *Worker) complete(wc *verbs.WC) {
	o := w.ops[wc.ID]
	c := o.conn
	c.completed++
	err := wc.Err()
	for {
		invariant.Assert(c.n > 0, "completion of an operation that is not in flight")
		x := *c.at(0)
		c.head++
		c.n--
		if x == o {
			x.finish(err)
			break
		}
		x.finish(nil)
	}
	if err != nil && c.lastFail == nil {
		c.lastFail = err
	}
	for !c.waiters.empty() && c.n < c.depth {
		w.ready(c.waiters.pop())
	}
}

// flushAll rings in what every conn has pending.
func (w *Worker) flushAll() {
	for i := 0; i < len(w.dirty); i++ {
		c := w.dirty[i]
		c.isDirty = false
		c.flush()
	}
	w.dirty = w.dirty[:0]
}

// Quiesce waits until nothing of the conn is in flight. On a QP in error everything is flushed,
// so this ends.
func (c *Conn) Quiesce(f *Fiber) error {
	c.flush()
	for c.n > 0 {
		if err := f.Sleep(quiesceInterval); err != nil {
			return err
		}
	}
	return nil
}

// Close moves the queue pair to error, waits until everything in flight was flushed, and frees it
// and its place among WorkerConfig.Conns. Nothing may be posted on the conn from then on; it may
// be closed twice.
func (c *Conn) Close(f *Fiber) error {
	if !slices.Contains(c.w.conns, c) {
		return nil
	}
	if err := c.qp.ToError(); err != nil {
		return err
	}
	if err := c.Quiesce(f); err != nil {
		return err
	}
	if i := slices.Index(c.w.conns, c); i >= 0 {
		c.w.conns = slices.Delete(c.w.conns, i, i+1)
	}
	return c.qp.Close()
}

// Err is the first failure of the queue pair that has completed; nil while it is good. Once there is one, what is
// posted is flushed and never sent.
func (c *Conn) Err() error { return c.lastFail }
