package sim

import (
	"fmt"
	"math/bits"

	"drtmd/verbs"
)

// messageKind is what travels.
type messageKind uint8

const (
	mkRequest  messageKind = iota + 1 // of an RC QP
	mkResponse                        // answers it: data, an acknowledgement or a refusal
	mkDatagram                        // of a UD QP
	mkProgram                         // of a program on a NIC
	mkPacket                          // of a NIC core
)

func (k messageKind) String() string {
	switch k {
	case mkRequest:
		return "request"
	case mkResponse:
		return "answer"
	case mkDatagram:
		return "datagram"
	case mkProgram:
		return "message of a program"
	case mkPacket:
		return "packet of a NIC core"
	}
	return fmt.Sprintf("unknown message %d", uint8(k))
}

// answer says what a response means.
type answer uint8

const (
	ansDone     answer = iota + 1 // the request was executed
	ansError                      // refused with message.status, for good
	ansRNR                        // no receive buffer: again after message.wait
	ansSequence                   // a request is missing: again from message.seq
)

func (a answer) String() string {
	switch a {
	case ansDone:
		return "done"
	case ansError:
		return "refused"
	case ansRNR:
		return "receiver not ready"
	case ansSequence:
		return "a request is missing"
	}
	return fmt.Sprintf("unknown answer %d", uint8(a))
}

// message is what is on its way: one object from the send queue to the completion, owned by the
// one event that refers to it. Pooled.
type message struct {
	kind   messageKind
	op     verbs.Opcode
	answer answer
	flags  verbs.Flags
	status verbs.WCStatus

	src, dst    *Node
	here        *Node  // where it is
	incarnation uint32 // of src, when it was sent
	srcQPN      uint32
	dstQPN      uint32

	seq     uint64 // of the request on its QP
	length  uint32 // payload bytes that travel with it
	want    uint32 // READ and atomics: bytes of answer wanted
	imm     uint32
	rkey    uint32
	qkey    uint32
	addr    uint64
	compare uint64
	swap    uint64
	wait    Time // ansRNR

	buf []byte // payload; pooled

	// The memory access that is going on at here.
	qp     *qp // whose access it is
	mode   accessMode
	spans  [verbs.MaxSGE]extent
	nspans int
	index  int  // span
	pos    int  // bytes done in that span
	done   int  // bytes done in all
	piece  int  // lines that become visible together
	pace   Time // between pieces
	since  Time // of waiting for a locked line; 0 = not waiting
	recv   recvWR
	hasRQ  bool // recv is the receive that it consumed
	ready  bool // its access may start as soon as its turn comes
	// stalled: its next piece has been put off by a stall of the node's memory.
	stalled bool
	// halved: it is an atomic that has read its word, which was was, and writes it later (splitting).
	halved bool
	was    uint64
	next   *message
}

// extent is a piece of an MR.
type extent struct {
	mr  *mr
	off int
	n   int
}

// at is where the message is.
func (m *message) at() *Node { return m.here }

// pool keeps messages and buffers for reuse.
type pool struct {
	messages *message
	buffers  [maxPooledClass + 1][][]byte
}

// Buffers are pooled by powers of two, from 64 B to 64 KiB.
const (
	minPooledClass = 6
	maxPooledClass = 16
)

func (w *World) newMessage() *message {
	m := w.pool.messages
	if m == nil {
		return &message{}
	}
	w.pool.messages = m.next
	m.next = nil
	return m
}

// free ends a message.
func (w *World) free(m *message) {
	w.freeBuffer(m.buf)
	*m = message{next: w.pool.messages}
	w.pool.messages = m
}

func (w *World) buffer(n int) []byte {
	if n == 0 {
		return nil
	}
	class := max(bits.Len(uint(n-1)), minPooledClass)
	if class > maxPooledClass {
		return make([]byte, n)
	}
	free := &w.pool.buffers[class]
	if last := len(*free) - 1; last >= 0 {
		b := (*free)[last]
		*free = (*free)[:last]
		return b[:n]
	}
	return make([]byte, n, 1<<class)
}

func (w *World) freeBuffer(b []byte) {
	c := cap(b)
	if c < 1<<minPooledClass || c > 1<<maxPooledClass || c&(c-1) != 0 {
		return
	}
	class := bits.Len(uint(c)) - 1
	w.pool.buffers[class] = append(w.pool.buffers[class], b)
}

// clone copies a message that has not started an access.
func (w *World) clone(m *message) *message {
	c := w.newMessage()
	*c = *m
	c.next = nil
	c.buf = w.buffer(len(m.buf))
	copy(c.buf, m.buf)
	return c
}
