package rpc

import (
	"encoding/binary"

	"drtmd/verbs"
)

// The layout is drawn in the package comment.
const (
	magic        = uint16('d') | uint16('R')<<8
	version      = 2
	headerBytes  = 40
	messageBytes = 16
	align        = 8

	// maxMessages in one datagram: the count is one byte.
	maxMessages = 255
	// hardMaxMessage bounds Config.MaxMessage: segments are counted in 16 bits at any MTU.
	hardMaxMessage = 1 << 20
	helloBytes     = verbs.EndpointBytes + 8
	resetBytes     = 16
)

// kind of a message.
type kind uint8

const (
	kindRequest  kind = iota + 1 // a segment of a request
	kindResponse                 // a segment of a response
	kindProgress                 // server to client: the request has segments up to here
	kindWant                     // client to server: the response has segments up to here
	kindHello                    // opens a session, or asks whether it is still there
	kindWelcome                  // answers a hello
	kindReset                    // the session is not, or no longer, there; type says why
	kindEnd
)

// Flags of messages.
const (
	flagError    = 1 << iota // response: the handler's error in words
	flagNoType               // response, with flagError: no handler for the type
	flagDeferred             // response: took longer than the network, not a round-trip sample
	flagRunning              // progress: the request is complete and its handler runs
	flagAgain                // want: send again from this segment on
)

// allowedFlags of each kind.
var allowedFlags = [kindEnd]uint8{
	kindResponse: flagError | flagNoType | flagDeferred,
	kindProgress: flagRunning,
	kindWant:     flagAgain,
}

// resetCode is why a peer refused.
type resetCode uint8

const (
	resetIncarnation resetCode = iota + 1 // the port restarted
	resetUnknown                          // no such session
	resetFull                             // no room for another session
	resetClosed                           // the peer closed it
	resetEnd
)

// Reason is why something that arrived was dropped.
type Reason uint8

const (
	ReasonShort       Reason = iota + 1 // shorter than its header
	ReasonMagic                         // not of this protocol
	ReasonVersion                       // another version of it
	ReasonLength                        // lengths that contradict each other
	ReasonKind                          // unknown kind, flag or code
	ReasonIncarnation                   // meant for another incarnation of this port
	ReasonSession                       // no such session, or not from its peer
	ReasonNumber                        // an acknowledgement of what was never sent
	ReasonSlot                          // a slot that was not granted
	ReasonSegment                       // a segment that does not fit its message
	ReasonSize                          // a message longer than agreed
	ReasonOpening                       // a hello or welcome that makes no sense
	ReasonEpoch                         // of an older epoch than the port's
	ReasonCount
)

var reasonNames = [ReasonCount]string{"none", "short", "magic", "version", "length", "kind",
	"incarnation", "session", "number", "slot", "segment", "size", "opening", "epoch"}

func (r Reason) String() string {
	if r < ReasonCount {
		return reasonNames[r]
	}
	return "unknown reason"
}

// header of a datagram, without what parse has checked and used up.
type header struct {
	srcIncarnation, dstIncarnation uint64
	src, dst                       uint32
	number                         uint32
	ack                            uint16 // the low half of a number
	epoch                          Epoch
}

// message is one of a datagram. body is a part of the receive buffer.
type message struct {
	kind    kind
	flags   uint8
	typ     uint8
	slot    uint8
	seq     uint32
	length  uint32
	segment uint16
	body    []byte
}

// parse takes a datagram apart. It checks all that can be told without knowing the session, and
// everything before it gives anything. For garbage it says why; 0 is none.
func parse(b []byte, h *header, msgs *[maxMessages]message) (n int, garbage Reason) {
	le := binary.LittleEndian
	switch {
	case len(b) < headerBytes:
		return 0, ReasonShort
	case le.Uint16(b) != magic:
		return 0, ReasonMagic
	case b[2] != version:
		return 0, ReasonVersion
	case int(le.Uint16(b[4:])) != len(b):
		return 0, ReasonLength
	}
	n = int(b[3])
	*h = header{srcIncarnation: le.Uint64(b[8:]), dstIncarnation: le.Uint64(b[16:]),
		src: le.Uint32(b[24:]), dst: le.Uint32(b[28:]), number: le.Uint32(b[32:]),
		ack: le.Uint16(b[6:]), epoch: Epoch(le.Uint32(b[36:]))}
	b = b[headerBytes:]
	for i := range n {
		if len(b) < messageBytes {
			return 0, ReasonLength
		}
		m := &msgs[i]
		*m = message{kind: kind(b[0]), flags: b[1], typ: b[2], slot: b[3], seq: le.Uint32(b[4:]),
			length: le.Uint32(b[8:]), segment: le.Uint16(b[12:])}
		size := int(le.Uint16(b[14:]))
		padded := (size + align - 1) &^ (align - 1)
		if len(b)-messageBytes < padded {
			return 0, ReasonLength
		}
		m.body = b[messageBytes : messageBytes+size : messageBytes+size]
		b = b[messageBytes+padded:]
		if r := m.check(); r != 0 {
			return 0, r
		}
	}
	if len(b) != 0 {
		return 0, ReasonLength
	}
	return n, 0
}

// check is what holds for a message of any session.
func (m *message) check() Reason {
	if m.kind == 0 || m.kind >= kindEnd || m.flags&^allowedFlags[m.kind] != 0 {
		return ReasonKind
	}
	want := 0
	switch m.kind {
	case kindRequest, kindResponse:
		if m.length > hardMaxMessage {
			return ReasonSize
		}
		if uint32(len(m.body)) > m.length {
			return ReasonLength
		}
		return 0
	case kindHello, kindWelcome:
		want = helloBytes
	case kindReset:
		want = resetBytes
		if m.typ == 0 || resetCode(m.typ) >= resetEnd {
			return ReasonKind
		}
	}
	if len(m.body) != want || m.length != 0 {
		return ReasonLength
	}
	return 0
}

// putHeader writes the header of a datagram that is complete in b.
func putHeader(b []byte, h *header, count int) {
	le := binary.LittleEndian
	le.PutUint16(b, magic)
	b[2], b[3] = version, byte(count)
	le.PutUint16(b[4:], uint16(len(b)))
	le.PutUint16(b[6:], h.ack)
	le.PutUint64(b[8:], h.srcIncarnation)
	le.PutUint64(b[16:], h.dstIncarnation)
	le.PutUint32(b[24:], h.src)
	le.PutUint32(b[28:], h.dst)
	le.PutUint32(b[32:], h.number)
	le.PutUint32(b[36:], uint32(h.epoch))
}

// sizeOf is the room that a message takes in a datagram.
func sizeOf(body int) int { return messageBytes + (body+align-1)&^(align-1) }

// putMessage writes a message at the start of b, which has room, and says how much it took.
func putMessage(b []byte, m *message) int {
	le := binary.LittleEndian
	b[0], b[1], b[2], b[3] = byte(m.kind), m.flags, m.typ, m.slot
	le.PutUint32(b[4:], m.seq)
	le.PutUint32(b[8:], m.length)
	le.PutUint16(b[12:], m.segment)
	le.PutUint16(b[14:], uint16(len(m.body)))
	n := messageBytes + copy(b[messageBytes:], m.body)
	for n%align != 0 {
		b[n] = 0
		n++
	}
	return n
}

// opening is the content of hello and welcome.
type opening struct {
	endpoint   verbs.Endpoint
	window     int // datagrams that the receiver of this may have in flight to its sender
	slots      int // requests that it may have outstanding there
	maxMessage int
}

// Bounds of what a peer may offer.
const (
	maxWindow = 1024
	maxSlots  = 256
)

func (o *opening) put(b []byte) error {
	e, err := o.endpoint.MarshalBinary()
	if err != nil {
		return err
	}
	copy(b, e)
	b = b[verbs.EndpointBytes:]
	le := binary.LittleEndian
	le.PutUint16(b, uint16(o.window))
	le.PutUint16(b[2:], uint16(o.slots))
	le.PutUint32(b[4:], uint32(o.maxMessage))
	return nil
}

// get decodes b, which has helloBytes.
func (o *opening) get(b []byte) bool {
	if o.endpoint.UnmarshalBinary(b[:verbs.EndpointBytes]) != nil ||
		o.endpoint.Type != verbs.UD {
		return false
	}
	b = b[verbs.EndpointBytes:]
	le := binary.LittleEndian
	o.window, o.slots = int(le.Uint16(b)), int(le.Uint16(b[2:]))
	size := le.Uint32(b[4:])
	o.maxMessage = int(size)
	return o.window >= 1 && o.window <= maxWindow && o.slots >= 1 && o.slots <= maxSlots &&
		size >= minMessage && size <= hardMaxMessage
}
