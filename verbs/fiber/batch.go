package fiber

import (
	"time"

	"drtmd/verbs"
)

// Batch collects operations, on one or several conns, that are in flight together. It is reused
// with Reset and does not allocate in steady state. Not to be shared by fibers.
type Batch struct{ ops []batched }

// batched is an operation of a batch.
type batched struct {
	op  *Op    // nil: it is done, or was never posted
	err error  // of posting, then of the operation
	old uint64 // what an atomic found
}

// Reset forgets the results. Every operation must have been awaited.
func (b *Batch) Reset() { b.ops = b.ops[:0] }

// Len is the number of operations.
func (b *Batch) Len() int { return len(b.ops) }

// Post adds a request. When it cannot be posted, its error shows in Await like any other.
func (b *Batch) Post(f *Fiber, c *Conn, wr *verbs.WR) {
	o, err := c.Post(f, wr)
	b.ops = append(b.ops, batched{op: o, err: err})
}

// begin adds an operation; nil: it cannot be posted.
func (b *Batch) begin(f *Fiber, c *Conn) *Op {
	o, err := c.begin(f)
	b.ops = append(b.ops, batched{op: o, err: err})
	return o
}

func (b *Batch) access(f *Fiber, c *Conn, op verbs.Opcode, sge verbs.SGE, addr uint64, rkey uint32) {
	if o := b.begin(f, c); o != nil {
		access(c.next(o), op, sge, addr, rkey)
	}
}

func (b *Batch) atomic(f *Fiber, c *Conn, op verbs.Opcode, addr uint64, rkey uint32, compareAdd, swap uint64) {
	if o := b.begin(f, c); o != nil {
		o.atomic(c.next(o), op, addr, rkey, compareAdd, swap)
	}
}

// Read adds a READ into sge.
func (b *Batch) Read(f *Fiber, c *Conn, sge verbs.SGE, addr uint64, rkey uint32) {
	b.access(f, c, verbs.OpRead, sge, addr, rkey)
}

// Write adds a WRITE of sge.
func (b *Batch) Write(f *Fiber, c *Conn, sge verbs.SGE, addr uint64, rkey uint32) {
	b.access(f, c, verbs.OpWrite, sge, addr, rkey)
}

// Send adds a SEND of sge.
func (b *Batch) Send(f *Fiber, c *Conn, sge verbs.SGE) {
	b.access(f, c, verbs.OpSend, sge, 0, 0)
}

// CAS adds a compare-and-swap; Old gives what the word held.
func (b *Batch) CAS(f *Fiber, c *Conn, addr uint64, rkey uint32, expect, swap uint64) {
	b.atomic(f, c, verbs.OpCAS, addr, rkey, expect, swap)
}

// FAA adds a fetch-and-add; Old gives what the word held.
func (b *Batch) FAA(f *Fiber, c *Conn, addr uint64, rkey uint32, add uint64) {
	b.atomic(f, c, verbs.OpFAA, addr, rkey, add, 0)
}

// Did adds an operation that was carried out otherwise, at once: an atomic of the CPU, that has found old.
func (b *Batch) Did(old uint64) { b.ops = append(b.ops, batched{old: old}) }

// Await waits for all and returns the first error in the order of posting.
func (b *Batch) Await(f *Fiber) error { return b.AwaitUntil(f, 0) }

// AwaitUntil is Await with a deadline; what is not done by then has ErrDeadline as its error.
func (b *Batch) AwaitUntil(f *Fiber, deadline time.Duration) error {
	for i := range b.ops {
		if o := b.ops[i].op; o != nil && len(o.conn.pending) > 0 && !o.done {
			o.conn.flush()
		}
	}
	var first error
	for i := range b.ops {
		x := &b.ops[i]
		o := x.op
		if o == nil {
			if first == nil {
				first = x.err
			}
			continue
		}
		var err error
		if !o.done {
			err = f.settle(o, deadline)
		}
		if err != nil {
			o.waiter, o.abandoned = nil, true
		} else {
			err = o.err
			if err == nil {
				x.old = o.old()
			}
			o.release()
		}
		x.err, x.op = err, nil
		if first == nil {
			first = err
		}
	}
	return first
}

// Err is the error of operation i after it was awaited.
func (b *Batch) Err(i int) error { return b.ops[i].err }

// Old is what operation i, an atomic, found.
func (b *Batch) Old(i int) uint64 { return b.ops[i].old }
