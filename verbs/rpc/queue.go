package rpc

// slotRef names a slot that has something to send.
type slotRef struct {
	index  uint8
	served bool // of served, else of calls
}

// slotQueue is a FIFO of slots; each is in it at most once (slot.queued, served.queued), so it
// never grows.
type slotQueue struct {
	ring       []slotRef
	head, tail uint32 // count up and wrap
}

func (q *slotQueue) init(bound int) {
	n := 1
	for n < bound {
		n *= 2
	}
	q.ring = make([]slotRef, n)
}

func (q *slotQueue) empty() bool    { return q.head == q.tail }
func (q *slotQueue) front() slotRef { return q.ring[q.head&uint32(len(q.ring)-1)] }
func (q *slotQueue) pop()           { q.head++ }
func (q *slotQueue) push(r slotRef) {
	q.ring[q.tail&uint32(len(q.ring)-1)] = r
	q.tail++
}

// outgoing is a message on its way to the peer, in segments.
type outgoing struct {
	count int // segments; at least 1
	acked int // the peer has those before
	sent  int // those before were sent
}

// more reports whether another segment may be sent; at most window unacknowledged ones.
func (o *outgoing) more(window int) bool { return o.sent < min(o.count, o.acked+window) }

// incoming is a message that comes in segments, in order.
type incoming struct {
	total int // bytes
	count int // segments
	next  int // the first that is missing
	told  int // the first that was missing when the peer was told last
}

// segments is the number that n bytes take.
func segments(n, segment int) int {
	if n <= segment { // no division in the usual case
		return 1
	}
	return (n + segment - 1) / segment
}

// bounds are those of segment i of a message of n bytes.
func bounds(i, n, segment int) (from, to int) {
	return i * segment, min(n, (i+1)*segment)
}

// fits checks a segment from the wire against its message's length.
func (s *Session) fits(m *message) bool {
	n := int(m.length)
	if int(m.segment) >= segments(n, s.segment) {
		return false
	}
	from, to := bounds(int(m.segment), n, s.segment)
	return len(m.body) == to-from
}

// grown gives b with room for n bytes, n long; it keeps what was there.
func grown(b []byte, n int) []byte {
	if n <= cap(b) {
		return b[:n]
	}
	return append(b[:cap(b)], make([]byte, n-cap(b))...)
}
