//go:build linux && amd64

package fabric

import (
	"encoding/binary"
	"fmt"
)

// One datagram of a SOCK_SEQPACKET connection is one frame, little-endian:
//
//	 0  4  magic "drtf"
//	 4  1  protocol version
//	 5  1  op
//	 6  1  kind of call (opCall)
//	 7  1  status (opReply)
//	 8  2  from: slot
//	10  2  to: slot
//	12  4  payload length, exactly the rest of the datagram
//	16  8  from: incarnation
//	24  8  to: incarnation
//	32  8  request number, repeated by the reply
//	40  .  payload: opFetchSegment and opFetchEvent carry the id (8)
//
// A reply to opFetchSegment carries size (8), flags (1) and, for kept memory, its name.
const (
	frameMagic     = 0x66747264 // "drtf"
	frameVersion   = 1
	frameHeadBytes = 40
	maxFrameBytes  = frameHeadBytes + MaxMessage
)

// MaxMessage bounds the request and the answer of a Call, in bytes.
const MaxMessage = 64 << 10

type frameOp uint8

const (
	opFetchSegment frameOp = iota + 1
	opFetchEvent
	opCall
	opReply
)

func (o frameOp) String() string {
	switch o {
	case opFetchSegment:
		return "fetch segment"
	case opFetchEvent:
		return "fetch event"
	case opCall:
		return "call"
	case opReply:
		return "reply"
	}
	return fmt.Sprintf("op %d", uint8(o))
}

// status is the outcome that a reply reports.
type status uint8

const (
	statusOK          status = iota + 1
	statusNotExported        // nothing under this id, or memory that cannot leave its process
	statusNoHandler
	statusHandlerError // payload: the handler's text
	statusWrongTarget  // the socket's owner is not the process the request names
)

// frame is a decoded frame; payload aliases the buffer it was decoded from.
type frame struct {
	op      frameOp
	kind    uint8
	status  status
	from    ProcID
	to      ProcID
	seq     uint64
	payload []byte
}

// appendTo encodes the frame.
func (f *frame) appendTo(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, frameMagic)
	b = append(b, frameVersion, byte(f.op), f.kind, byte(f.status))
	b = le.AppendUint16(b, f.from.Slot)
	b = le.AppendUint16(b, f.to.Slot)
	b = le.AppendUint32(b, uint32(len(f.payload)))
	b = le.AppendUint64(b, f.from.Incarnation)
	b = le.AppendUint64(b, f.to.Incarnation)
	b = le.AppendUint64(b, f.seq)
	return append(b, f.payload...)
}

// parseFrame decodes one datagram that a peer wrote. It accepts exactly what appendTo produces.
func parseFrame(b []byte) (frame, error) {
	le := binary.LittleEndian
	switch {
	case len(b) < frameHeadBytes:
		return frame{}, fmt.Errorf("%w: %d bytes, at least %d needed", ErrBadFrame, len(b),
			frameHeadBytes)
	case len(b) > maxFrameBytes:
		return frame{}, fmt.Errorf("%w: %d bytes, at most %d allowed", ErrBadFrame, len(b),
			maxFrameBytes)
	case le.Uint32(b) != frameMagic:
		return frame{}, fmt.Errorf("%w: not a drtmd process", ErrBadFrame)
	case b[4] != frameVersion:
		return frame{}, fmt.Errorf("%w: protocol version %d, this is %d", ErrBadFrame, b[4],
			frameVersion)
	}
	f := frame{
		op:      frameOp(b[5]),
		kind:    b[6],
		status:  status(b[7]),
		from:    ProcID{Slot: le.Uint16(b[8:]), Incarnation: le.Uint64(b[16:])},
		to:      ProcID{Slot: le.Uint16(b[10:]), Incarnation: le.Uint64(b[24:])},
		seq:     le.Uint64(b[32:]),
		payload: b[frameHeadBytes:],
	}
	if n := le.Uint32(b[12:]); uint64(n) != uint64(len(f.payload)) {
		return frame{}, fmt.Errorf("%w: payload of %d bytes announced as %d", ErrBadFrame,
			len(f.payload), n)
	}
	return f, f.check()
}

// check refuses field values that no sender of this version produces.
func (f *frame) check() error {
	bad := func(what string) error {
		return fmt.Errorf("%w: %s in %s", ErrBadFrame, what, f.op)
	}
	for _, p := range []ProcID{f.from, f.to} {
		if p.Slot >= MaxProcs || p.Incarnation == 0 {
			return bad("bad process id")
		}
	}
	if f.kind != 0 && f.op != opCall {
		return bad("kind")
	}
	switch f.op {
	case opFetchSegment, opFetchEvent:
		if len(f.payload) != 8 {
			return bad("bad id")
		}
	case opCall:
	case opReply:
		if f.status < statusOK || f.status > statusWrongTarget {
			return bad("unknown status")
		}
		return nil
	default:
		return bad("unknown operation")
	}
	if f.status != 0 {
		return bad("status")
	}
	return nil
}

// segmentInfo is what a reply says of the memory whose descriptor it carries.
type segmentInfo struct {
	size    uint64
	hugeTLB bool
	kept    string
}

const flagHugeTLB = 1

func (i segmentInfo) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, i.size)
	var flags byte
	if i.hugeTLB {
		flags = flagHugeTLB
	}
	return append(append(b, flags), i.kept...)
}

// parseSegmentInfo decodes and checks a peer's description; maxSegmentBytes bounds the size.
func parseSegmentInfo(b []byte) (segmentInfo, error) {
	if len(b) < 9 {
		return segmentInfo{}, fmt.Errorf("%w: segment described in %d bytes", ErrBadFrame, len(b))
	}
	i := segmentInfo{
		size:    binary.LittleEndian.Uint64(b),
		hugeTLB: b[8] == flagHugeTLB,
		kept:    string(b[9:]),
	}
	switch {
	case i.size == 0 || i.size > maxSegmentBytes:
		return segmentInfo{}, fmt.Errorf("%w: announced size %d", ErrBadSegment, i.size)
	case b[8] > flagHugeTLB:
		return segmentInfo{}, fmt.Errorf("%w: unknown flags %#x", ErrBadFrame, b[8])
	case i.kept != "" && (checkKeptName(i.kept) != nil || i.hugeTLB):
		return segmentInfo{}, fmt.Errorf("%w: bad kept name %.80q", ErrBadFrame, i.kept)
	}
	return i, nil
}
