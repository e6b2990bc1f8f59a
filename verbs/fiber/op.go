package fiber

import (
	"encoding/binary"
	"time"

	"drtmd/verbs"
)

// quiesceInterval is how often Quiesce looks.
const quiesceInterval = 50 * time.Microsecond

// Op is an operation that was posted and not awaited yet. The worker owns it: after Await has
// returned it must not be touched.
type Op struct {
	w         *Worker
	conn      *Conn
	waiter    *Fiber
	next      *Op // free list
	index     uint32
	done      bool
	abandoned bool        // nobody will await it
	then      func(error) // of one that nobody awaits
	free      bool
	err       error
	scratch   []byte    // 8 bytes of registered memory: the result of an atomic
	sge       verbs.SGE // the same
}

// opSlab is the number of operations that are made at once.
const opSlab = 512

// growOps makes a slab of operations with memory for their results.
func (w *Worker) growOps() error {
	mr, err := w.cfg.PD.AllocMR(8*opSlab, verbs.AccessLocalWrite, verbs.MROptions{NoHuge: true})
	if err != nil {
		return err
	}
	w.scratch = append(w.scratch, mr)
	slab := make([]Op, opSlab)
	for i := range slab {
		o := &slab[i]
		o.w, o.index, o.free = w, uint32(len(w.ops)), true
		o.scratch = mr.Bytes()[8*i : 8*i+8]
		o.sge = mr.SGE(8*i, 8)
		w.ops = append(w.ops, o)
	}
	for i := len(slab) - 1; i >= 0; i-- {
		slab[i].next, w.freeOps = w.freeOps, &slab[i]
	}
	return nil
}

// newOp takes an operation from the free list, which grows with the operations that were posted
// and not awaited.
func (w *Worker) newOp(c *Conn) (*Op, error) {
	if w.freeOps == nil {
		if err := w.growOps(); err != nil {
			return nil, err
		}
	}
	o := w.freeOps
	w.freeOps = o.next
	o.conn, o.waiter, o.next, o.err, o.then = c, nil, nil, nil, nil
	o.done, o.abandoned, o.free = false, false, false
	return o, nil
}

func (o *Op) release() {
	if o.free {
		return
	}
	o.free = true
	o.next, o.w.freeOps = o.w.freeOps, o
}

// finish ends the operation and readies who waits for it.
func (o *Op) finish(err error) {
	o.done, o.err = true, err
	if o.abandoned {
		then := o.then
		if o.release(); then != nil {
			then(err)
		}
		return
	}
	if f := o.waiter; f != nil {
		o.waiter = nil
		o.w.ready(f)
	}
}

// Post queues a request on the conn, waiting for room, and returns the operation to await. ID,
// Token and FlagSignaled of wr are the worker's. The request is rung in when the fiber next
// waits, or at the end of the worker's pass; Flush does it at once.
func (c *Conn) Post(f *Fiber, wr *verbs.WR) (*Op, error) {
	o, err := c.begin(f)
	if err != nil {
		return nil, err
	}
	if wr.Op.IsAtomic() && wr.NumSGE == 0 {
		wr.NumSGE = 1
		wr.SGE[0] = o.sge
	}
	c.add(o, wr)
	return o, nil
}

// begin waits for room and takes an operation, whose request next gives.
func (c *Conn) begin(f *Fiber) (*Op, error) {
	if c.w.region != regionIdle {
		c.w.region = regionPosted
		return nil, ErrInRegion
	}
	if err := f.cancelled(); err != nil {
		return nil, err
	}
	if c.n == c.depth {
		if err := c.room(f); err != nil {
			return nil, err
		}
	}
	return c.w.newOp(c)
}

// access makes an empty request a READ into sge, or a WRITE or, without an address, a SEND of it.
func access(wr *verbs.WR, op verbs.Opcode, sge verbs.SGE, addr uint64, rkey uint32) {
	wr.Op, wr.NumSGE, wr.RemoteAddr, wr.RKey, wr.SGE[0] = op, 1, addr, rkey, sge
}

// atomic makes an empty request an atomic of its operation.
func (o *Op) atomic(wr *verbs.WR, op verbs.Opcode, addr uint64, rkey uint32, compareAdd, swap uint64) {
	access(wr, op, o.sge, addr, rkey)
	wr.CompareAdd, wr.Swap = compareAdd, swap
}

// TryPost queues a request that nobody awaits, for parts: false if the queue has no room now. then, if not nil,
// is called on the worker when it has ended; Err tells of its failure too.
func (c *Conn) TryPost(wr *verbs.WR, then func(error)) (bool, error) {
	if c.n == c.depth {
		c.flush()
		return false, nil
	}
	o, err := c.w.newOp(c)
	if err != nil {
		return false, err
	}
	o.abandoned, o.then = true, then
	c.add(o, wr)
	return true, nil
}

// Flush rings in what is pending on the conn.
func (c *Conn) Flush() { c.flush() }

// old is the value that an atomic found.
func (o *Op) old() uint64 { return binary.NativeEndian.Uint64(o.scratch) }

// Await waits for the operation and returns its error.
func (f *Fiber) Await(o *Op) error { return f.AwaitUntil(o, 0) }

// AwaitUntil is Await with a deadline on the node's clock (0: none). After ErrDeadline or
// ErrCancelled the operation is still in flight: its buffer must not be reused before the conn
// is quiet (Conn.Quiesce).
func (f *Fiber) AwaitUntil(o *Op, deadline time.Duration) error {
	if err := f.settle(o, deadline); err != nil {
		o.waiter = nil
		o.abandoned = true
		return err
	}
	err := o.err
	o.release()
	return err
}

// settle waits until o is done, without releasing it.
func (f *Fiber) settle(o *Op, deadline time.Duration) error {
	if !o.done {
		o.conn.flush()
		if f.w.eager || f.w.hopes() {
			f.w.poll()
		}
	}
	for !o.done {
		o.waiter = f
		if err := f.wait(deadline); err != nil && !o.done {
			return err
		}
	}
	return nil
}

// Read copies sge.Length bytes of remote memory into sge and waits for it.
func (c *Conn) Read(f *Fiber, sge verbs.SGE, addr uint64, rkey uint32) error {
	return c.run(f, verbs.OpRead, sge, addr, rkey)
}

// Write copies sge to remote memory and waits for it.
func (c *Conn) Write(f *Fiber, sge verbs.SGE, addr uint64, rkey uint32) error {
	return c.run(f, verbs.OpWrite, sge, addr, rkey)
}

// Send sends sge to the peer, whose queue pair needs a receive posted, and waits until it has been
// delivered.
func (c *Conn) Send(f *Fiber, sge verbs.SGE) error {
	return c.run(f, verbs.OpSend, sge, 0, 0)
}

func (c *Conn) run(f *Fiber, op verbs.Opcode, sge verbs.SGE, addr uint64, rkey uint32) error {
	o, err := c.begin(f)
	if err != nil {
		return err
	}
	access(c.next(o), op, sge, addr, rkey)
	return f.Await(o)
}

// CAS stores swap in a remote 8-byte word if it holds expect, and returns what it held.
func (c *Conn) CAS(f *Fiber, addr uint64, rkey uint32, expect, swap uint64) (uint64, error) {
	return c.atomic(f, verbs.OpCAS, addr, rkey, expect, swap)
}

// FAA adds to a remote 8-byte word and returns what it held.
func (c *Conn) FAA(f *Fiber, addr uint64, rkey uint32, add uint64) (uint64, error) {
	return c.atomic(f, verbs.OpFAA, addr, rkey, add, 0)
}

func (c *Conn) atomic(f *Fiber, op verbs.Opcode, addr uint64, rkey uint32, compareAdd, swap uint64) (uint64, error) {
	o, err := c.begin(f)
	if err != nil {
		return 0, err
	}
	o.atomic(c.next(o), op, addr, rkey, compareAdd, swap)
	if err := f.settle(o, 0); err != nil {
		o.waiter, o.abandoned = nil, true
		return 0, err
	}
	old, err := o.old(), o.err
	o.release()
	return old, err
}
