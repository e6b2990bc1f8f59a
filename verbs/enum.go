package verbs

import (
	"fmt"
	"strings"
)

// Opcode is what a work request asks for (ibv_wr_opcode, renumbered; the drivers translate).
type Opcode uint8

const (
	OpSend Opcode = iota + 1
	OpSendImm
	OpWrite
	OpWriteImm
	OpRead
	OpCAS // IBV_WR_ATOMIC_CMP_AND_SWP
	OpFAA // IBV_WR_ATOMIC_FETCH_AND_ADD
	// OpRecv is the opcode of a completed receive; it cannot be posted with PostSend.
	OpRecv
	// OpRecvWriteImm is a receive consumed by a WRITE with immediate.
	OpRecvWriteImm
	opEnd
)

var opNames = [...]string{"?", "SEND", "SEND_WITH_IMM", "RDMA_WRITE", "RDMA_WRITE_WITH_IMM",
	"RDMA_READ", "ATOMIC_CMP_AND_SWP", "ATOMIC_FETCH_AND_ADD", "RECV",
	"RECV_RDMA_WITH_IMM"}

func (o Opcode) String() string { return enumName(opNames[:], int(o), "opcode") }

// IsAtomic reports whether the operation is an 8-byte read-modify-write.
func (o Opcode) IsAtomic() bool { return o == OpCAS || o == OpFAA }

// Flags of a send work request (ibv_send_flags).
type Flags uint8

const (
	FlagSignaled  Flags = 1 << iota // the request completes on the CQ even when it succeeds
	FlagFence                       // wait for earlier READs and atomics of this QP
	FlagSolicited                   // the receiver's completion is a solicited one
	FlagInline                      // the payload is copied at post: the buffer is free at once
)

// Access rights of an MR or QP (ibv_access_flags, same bits).
type Access uint32

const (
	AccessLocalWrite   Access = 1 << iota // IBV_ACCESS_LOCAL_WRITE
	AccessRemoteWrite                     // IBV_ACCESS_REMOTE_WRITE, needs AccessLocalWrite
	AccessRemoteRead                      // IBV_ACCESS_REMOTE_READ
	AccessRemoteAtomic                    // IBV_ACCESS_REMOTE_ATOMIC, needs AccessLocalWrite

	// AccessAll is every right.
	AccessAll = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic
)

func (a Access) String() string {
	var s []string
	for i, n := range []string{"LOCAL_WRITE", "REMOTE_WRITE", "REMOTE_READ", "REMOTE_ATOMIC"} {
		if a&(1<<i) != 0 {
			s = append(s, n)
		}
	}
	if rest := a &^ AccessAll; rest != 0 {
		s = append(s, fmt.Sprintf("%#x", uint32(rest)))
	}
	if len(s) == 0 {
		return "none"
	}
	return strings.Join(s, "|")
}

// QPType is the transport service of a queue pair.
type QPType uint8

const (
	RC QPType = iota + 1 // reliable connected
	UD                   // unreliable datagram
)

func (t QPType) String() string { return enumName([]string{"?", "RC", "UD"}, int(t), "QP type") }

// QPState is the state of a queue pair (ibv_qp_state). SQD and SQE do not occur: the layer
// turns SQE into ERR.
type QPState uint32

const (
	StateReset QPState = iota + 1
	StateInit
	StateRTR
	StateRTS
	StateErr
	StateClosed // the QP was destroyed
)

func (s QPState) String() string {
	return enumName([]string{"?", "RESET", "INIT", "RTR", "RTS", "ERR", "CLOSED"}, int(s), "state")
}

// AtomicScope says whom the device's atomics exclude (ibv_atomic_cap; design decision 3).
type AtomicScope uint8

const (
	AtomicNone AtomicScope = iota + 1
	AtomicHCA              // only other atomics of the same device
	AtomicGlob             // the CPU's atomic instructions as well
)

func (s AtomicScope) String() string {
	return enumName([]string{"?", "NONE", "ATOMIC_HCA", "ATOMIC_GLOB"}, int(s), "scope")
}

// LinkLayer is that of a port.
type LinkLayer uint8

const (
	LinkInfiniBand LinkLayer = iota + 1
	LinkEthernet             // RoCE: a GRH is mandatory
	LinkMemory               // shm, sim
)

func (l LinkLayer) String() string {
	return enumName([]string{"?", "InfiniBand", "Ethernet", "memory"}, int(l), "link layer")
}

// PortState as in ibv_port_state.
type PortState uint8

const (
	PortDown PortState = iota + 1
	PortInit
	PortArmed
	PortActive
)

func (s PortState) String() string {
	return enumName([]string{"?", "DOWN", "INIT", "ARMED", "ACTIVE"}, int(s), "port state")
}

func enumName(names []string, i int, kind string) string {
	if i > 0 && i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("unknown %s %d", kind, i)
}
