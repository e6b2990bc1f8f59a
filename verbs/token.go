package verbs

import "syscall"

// token names an outstanding request towards the driver, in place of the caller's ID, so that
// any completion, also one with an error, leads to its QP and queue slot.
//
//	63..45 generation | 44..25 index into Context.qps | 24 receive | 23..0 slot
type token uint64

const (
	tokenSlotBits  = 24
	tokenIndexBits = 20
	tokenGenBits   = 64 - tokenSlotBits - 1 - tokenIndexBits
	tokenRecv      = token(1) << tokenSlotBits
)

func (t token) slot() uint32 { return uint32(t) & (1<<tokenSlotBits - 1) }
func (t token) recv() bool   { return t&tokenRecv != 0 }
func (t token) index() uint32 {
	return uint32(t>>(tokenSlotBits+1)) & (1<<tokenIndexBits - 1)
}

// queue is the layer's account of one of a QP's work queues: what was posted and not retired.
// Guarded by the lock of the CQ that it reports to.
type queue struct {
	base  token // of slot 0
	depth uint32
	mask  uint32
	head  uint32 // oldest outstanding request; counts up and wraps
	tail  uint32 // next to be posted
	slots []queueSlot
}

type queueSlot struct {
	id uint64 // the caller's
	op Opcode
}

func newQueue(depth int, base token) queue {
	n := 1
	for n < depth {
		n *= 2
	}
	return queue{base: base, depth: uint32(depth), mask: uint32(n - 1),
		slots: make([]queueSlot, n)}
}

func (q *queue) outstanding() uint32 { return q.tail - q.head }
func (q *queue) free() uint32        { return q.depth - (q.tail - q.head) }

// put notes request number i after the tail and names it.
func (q *queue) put(i uint32, id uint64, op Opcode) uint64 {
	slot := (q.tail + i) & q.mask
	q.slots[slot] = queueSlot{id: id, op: op}
	return uint64(q.base | token(slot))
}

// retire frees every request up to and including the slot, and says how many these were;
// 0 if the slot is not outstanding (a driver that reports twice).
func (q *queue) retire(slot uint32) uint32 {
	n := ((slot - q.head) & q.mask) + 1
	if n > q.outstanding() {
		return 0
	}
	q.head += n
	return n
}

// assignIndex gives a new QP its place in the table and returns the base of its tokens.
func (c *Context) assignIndex(qp *QP) (token, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var i uint32
	switch n := len(c.qpFree); {
	case n > 0:
		i, c.qpFree = c.qpFree[n-1], c.qpFree[:n-1]
	case len(c.qpGen) < maxQPs:
		i = uint32(len(c.qpGen))
		c.qpGen = append(c.qpGen, 0)
	default:
		return 0, &Error{Op: "ibv_create_qp", Device: c.attr.Name, Errno: syscall.ENOMEM,
			Detail: "a context has at most 1048576 QPs"}
	}
	c.qpGen[i]++
	qp.index = i
	gen := token(c.qpGen[i]) & (1<<tokenGenBits - 1)
	return gen<<(64-tokenGenBits) | token(i)<<(tokenSlotBits+1), nil
}

// publish makes completions find the QP; withdraw ends that and frees the index.
func (c *Context) publish(qp *QP) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.qps.Set(qp.index, qp)
}

func (c *Context) withdraw(qp *QP) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.qps.Get(qp.index) == qp {
		c.qps.Set(qp.index, nil)
	}
	c.qpFree = append(c.qpFree, qp.index)
}

// qpByNumber is for the slow path: events.
func (c *Context) qpByNumber(qpn uint32) *QP {
	c.mu.Lock()
	defer c.mu.Unlock()
	for o := range c.open {
		if qp, ok := o.(*QP); ok && qp.qpn == qpn {
			return qp
		}
	}
	return nil
}
