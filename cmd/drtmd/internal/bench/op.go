package bench

import (
	"fmt"

	"drtmd/verbs"
)

// Op is a measured operation.
type Op uint8

const (
	Read Op = iota + 1
	Write
	CAS
	FAA
	Send
	Datagram
)

// Ops are all operations, in the order of the table.
func Ops() []Op { return []Op{Read, Write, CAS, FAA, Send, Datagram} }

var opNames = [...]string{"?", "read", "write", "cas", "faa", "send", "ud"}

func (o Op) String() string {
	if o > 0 && int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("unknown operation %d", uint8(o))
}

// ParseOp is the reverse of String.
func ParseOp(s string) (Op, bool) {
	for _, o := range Ops() {
		if o.String() == s {
			return o, true
		}
	}
	return 0, false
}

func (o Op) atomic() bool   { return o == CAS || o == FAA }
func (o Op) twoSided() bool { return o == Send || o == Datagram }

func (o Op) qpType() verbs.QPType {
	if o == Datagram {
		return verbs.UD
	}
	return verbs.RC
}

func (o Op) opcode() verbs.Opcode {
	switch o {
	case Read:
		return verbs.OpRead
	case Write:
		return verbs.OpWrite
	case CAS:
		return verbs.OpCAS
	case FAA:
		return verbs.OpFAA
	}
	return verbs.OpSend
}

// access is what memory and queue pair must allow for the operation, and no more.
func (o Op) access() verbs.Access {
	switch o {
	case Read:
		return verbs.AccessLocalWrite | verbs.AccessRemoteRead
	case Write:
		return verbs.AccessLocalWrite | verbs.AccessRemoteWrite
	case CAS, FAA:
		return verbs.AccessLocalWrite | verbs.AccessRemoteAtomic
	}
	return verbs.AccessLocalWrite
}

// Phase is what is measured of an operation.
type Phase uint8

const (
	Latency Phase = iota + 1
	Rate
)

func (p Phase) String() string {
	switch p {
	case Latency:
		return "latency"
	case Rate:
		return "rate"
	}
	return fmt.Sprintf("unknown phase %d", uint8(p))
}

func parsePhase(s string) (Phase, bool) {
	switch s {
	case "latency":
		return Latency, true
	case "rate":
		return Rate, true
	}
	return 0, false
}

// LatencyKind says which time a latency is.
type LatencyKind uint8

const (
	// Completion is the time from the post to the polled completion.
	Completion LatencyKind = iota + 1
	// HalfPingPong is half of the time until the other side's answer has arrived.
	HalfPingPong
)

func (k LatencyKind) String() string {
	switch k {
	case Completion:
		return "completion"
	case HalfPingPong:
		return "half ping-pong"
	}
	return fmt.Sprintf("unknown kind %d", uint8(k))
}

func (c Case) latencyKind() LatencyKind {
	if c.Op.twoSided() || c.Op == Write && c.Size > 0 {
		return HalfPingPong
	}
	return Completion
}

// Case is one row of the table.
type Case struct {
	Op   Op
	Size int // bytes
}

func (c Case) String() string { return fmt.Sprintf("%s %d B", c.Op, c.Size) }
