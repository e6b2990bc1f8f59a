package rpc

import (
	"encoding/binary"

	"drtmd/internal/invariant"
)

// The layout of compact datagrams is drawn in the package comment.
const (
	compactMark        = 0x80 // in the version's byte, with the flow in three bits and the version in four
	flowShift          = 4
	compactHeaderBytes = 26
	idBytes            = 4
	targetBytes        = 12

	// lockRequestBytes is what a request of 13 bytes takes: one key to lock, with its table and its
	// version, header included. The bound is 16.
	lockRequestBytes = compactMessageBytes + 13
	// compactMessageBytes is the header of a request with the next ID.
	compactMessageBytes = 3
)

// compactKind of a message; 0 is none.
type compactKind uint8

const (
	compactRequest  compactKind = iota + 1
	compactResponse             // to a request of any sort
	compactRunning              // the request has come and its handler runs
	compactOneWay
	compactForward // a request whose answer goes to its target
	compactAnswer  // the answer to a forwarded request, for the fiber that awaits its ticket
	compactEnd
)

// Bits of a message's first byte, above the kind.
const (
	compactKindBits = 0x07
	compactHasID    = 0x08 // it does not have the ID after that of the message before
	compactSame     = 0x10 // type and length are those of the message before
	compactError    = 0x20 // response or answer: the handler's error in words
	compactNoType   = 0x40 // with compactError: no handler for the type
	compactDeferred = 0x40 // without: took longer than the network, not a round-trip sample
	compactLong     = 0x80 // the length has two bytes
)

// hasID reports whether messages of the kind have an ID, hasType whether they have a type.
func (k compactKind) hasID() bool   { return k != compactOneWay }
func (k compactKind) hasType() bool { return k.isRequest() || k == compactOneWay }

// isRequest reports whether messages of the kind take a slot and are answered.
func (k compactKind) isRequest() bool {
	return k == compactRequest || k == compactForward || k == compactAnswer
}

// compactMessage is one of a compact datagram. body is a part of the receive buffer.
type compactMessage struct {
	kind   compactKind
	flags  uint8 // compactError, compactNoType or compactDeferred
	typ    uint8
	id     uint32
	target Target // of a forwarded request
	body   []byte
}

// compactState is what a message may leave out because the one before it said it.
type compactState struct {
	id     uint32 // that a message has that names none
	any    bool   // there was a message before
	typ    uint8
	length int
}

func (c *compactState) same(m *compactMessage) bool {
	return c.any && c.typ == m.typ && c.length == len(m.body)
}

// sizeOf is the room that a message takes in the datagram.
func (c *compactState) sizeOf(m *compactMessage) int {
	n := 1 + len(m.body)
	if m.kind.hasID() && c.id != m.id {
		n += idBytes
	}
	if m.kind == compactForward {
		n += targetBytes
	}
	if m.kind == compactRunning || c.same(m) {
		return n
	}
	if m.kind.hasType() {
		n++
	}
	if len(m.body) > 0xff {
		n++
	}
	return n + 1
}

// put appends a message, for which b has room.
func (c *compactState) put(b []byte, m *compactMessage) []byte {
	le := binary.LittleEndian
	at := len(b)
	b = append(b, byte(m.kind)|m.flags)
	if m.kind == compactRunning {
		invariant.Assert(len(m.body) == 0, "a body where there is none")
	} else if c.same(m) {
		b[at] |= compactSame
	} else {
		if m.kind.hasType() {
			b = append(b, m.typ)
		}
		if len(m.body) > 0xff {
			b[at] |= compactLong
			b = le.AppendUint16(b, uint16(len(m.body)))
		} else {
			b = append(b, byte(len(m.body)))
		}
	}
	if m.kind.hasID() {
		if c.id != m.id {
			b[at] |= compactHasID
			b = le.AppendUint32(b, m.id)
		}
		c.id = m.id + 1
	}
	if m.kind == compactForward {
		b = le.AppendUint16(b, m.target.Node)
		b = le.AppendUint16(b, m.target.Worker)
		b = le.AppendUint64(b, uint64(m.target.Ticket))
	}
	if m.kind != compactRunning {
		c.any, c.typ, c.length = true, m.typ, len(m.body)
	}
	return append(b, m.body...)
}

// compactHeader of a datagram.
type compactHeader struct {
	flow   FlowID
	count  int
	dst    uint32
	tag    uint32
	epoch  Epoch
	number uint32
	ack    uint16
	id     uint32 // of the first message that has one and does not name it
}

func (h *compactHeader) put(b []byte) {
	le := binary.LittleEndian
	le.PutUint16(b, magic)
	b[2], b[3] = compactMark|byte(h.flow)<<flowShift|version, byte(h.count)
	le.PutUint32(b[4:], h.dst)
	le.PutUint32(b[8:], h.tag)
	le.PutUint32(b[12:], uint32(h.epoch))
	le.PutUint32(b[16:], h.number)
	le.PutUint16(b[20:], h.ack)
	le.PutUint32(b[22:], h.id)
}

// parseCompact takes a compact datagram apart, as parse does the others. b begins with the magic and a
// version with compactMark.
func parseCompact(b []byte, h *compactHeader, msgs *[maxMessages]compactMessage) Reason {
	le := binary.LittleEndian
	if len(b) < compactHeaderBytes {
		return ReasonShort
	}
	if b[2]&(1<<flowShift-1) != version {
		return ReasonVersion
	}
	*h = compactHeader{flow: FlowID(b[2] &^ compactMark >> flowShift), count: int(b[3]),
		dst: le.Uint32(b[4:]), tag: le.Uint32(b[8:]), epoch: Epoch(le.Uint32(b[12:])),
		number: le.Uint32(b[16:]), ack: le.Uint16(b[20:]), id: le.Uint32(b[22:])}
	if h.flow == 0 {
		return ReasonKind
	}
	b = b[compactHeaderBytes:]
	c := compactState{id: h.id}
	for i := range h.count {
		var r Reason
		if b, r = c.get(b, &msgs[i]); r != 0 {
			return r
		}
	}
	if len(b) != 0 {
		return ReasonLength
	}
	return 0
}

// get takes the message at the start of b, and gives what follows it.
func (c *compactState) get(b []byte, m *compactMessage) ([]byte, Reason) {
	le := binary.LittleEndian
	if len(b) == 0 {
		return nil, ReasonLength
	}
	first := b[0]
	k := compactKind(first & compactKindBits)
	*m = compactMessage{kind: k, flags: first & (compactError | compactNoType)}
	answers := k == compactResponse || k == compactAnswer
	switch {
	case k == 0 || k >= compactEnd,
		!answers && m.flags != 0,
		!k.hasID() && first&compactHasID != 0,
		first&compactSame != 0 && (!c.any || first&compactLong != 0),
		k == compactRunning && first&(compactSame|compactLong) != 0:
		return nil, ReasonKind
	}
	// The longest header has 1 + 1 + 2 + 4 + 12 bytes; what is missing reads as zero and fails below.
	need := 1
	typeAt, lengthAt, idAt, targetAt := 0, 0, 0, 0
	if k != compactRunning && first&compactSame == 0 {
		if k.hasType() {
			typeAt, need = need, need+1
		}
		lengthAt, need = need, need+1
		if first&compactLong != 0 {
			need++
		}
	}
	if first&compactHasID != 0 {
		idAt, need = need, need+idBytes
	}
	if k == compactForward {
		targetAt, need = need, need+targetBytes
	}
	if len(b) < need {
		return nil, ReasonLength
	}
	length := 0
	if first&compactSame != 0 {
		m.typ, length = c.typ, c.length
	} else if lengthAt > 0 {
		length = int(b[lengthAt])
		if first&compactLong != 0 {
			length = int(le.Uint16(b[lengthAt:]))
		}
		if typeAt > 0 {
			m.typ = b[typeAt]
		}
	}
	if k.hasID() {
		m.id = c.id
		if idAt > 0 {
			m.id = le.Uint32(b[idAt:])
		}
		c.id = m.id + 1
	}
	if targetAt > 0 {
		m.target = Target{Node: le.Uint16(b[targetAt:]), Worker: le.Uint16(b[targetAt+2:]),
			Ticket: Ticket(le.Uint64(b[targetAt+4:]))}
	}
	b = b[need:]
	if len(b) < length {
		return nil, ReasonLength
	}
	m.body = b[:length:length]
	if k != compactRunning {
		c.any, c.typ, c.length = true, m.typ, length
	}
	return b[length:], 0
}

// tagOf binds a compact datagram to both incarnations and both sessions, whose 24 bytes it stands for:
// a port of a later life takes one of an earlier for its own in one of 2^32 cases, and only if it has a
// session of that number with that queue pair.
func tagOf(from, to uint64, src, dst uint32) uint32 {
	x := from
	for _, y := range [...]uint64{to, uint64(src)<<32 | uint64(dst)} {
		x ^= x >> 33
		x *= 0xff51afd7ed558ccd
		x ^= x >> 33
		x = (x ^ y) * 0x9e3779b97f4a7c15
	}
	return uint32(x>>32) ^ uint32(x)
}
