package verbs

import "time"

// Caps are what a provider offers beyond the common verbs.
type Caps struct {
	LineWords       bool // MR.Lines is not nil (design decision 6)
	AscendingWrites bool // a WRITE's lines become visible in ascending address order
	KeptMRs         bool // MROptions.Keep
	Immediate       bool // most operations have completed when the post returns
	Loopback        bool // most operations with a peer on the same machine have completed then
	ResetUD         bool // QP.ToReset
	PollableChannel bool // Channel.FD is a descriptor; otherwise waiting is virtual
}

// DeviceAttr describes an open device and its limits (ibv_query_device).
type DeviceAttr struct {
	Name         string
	Provider     string // "ibv", "shm", "sim"
	Driver       string // kernel or user driver, as in "rxe", "mlx5"; shm: "shm"
	FirmwareVer  string
	NodeGUID     uint64
	VendorID     uint32
	Ports        int
	Atomic       AtomicScope
	MaxQP        int
	MaxQPWR      int // work requests in one queue
	MaxSGE       int // at most MaxSGE
	MaxCQ        int
	MaxCQE       int
	MaxMR        int
	MaxMRBytes   uint64
	MaxPD        int
	MaxAH        int
	MaxRdAtomic  int // outstanding READs and atomics a QP may take as target
	MaxInitDepth int // ... and may issue
	MaxMsgBytes  uint32
	MaxInline    int // largest inline payload of a QP, probed
	Caps         Caps
}

// PortAttr describes a port (ibv_query_port) and its GID table.
type PortAttr struct {
	Port      int
	State     PortState
	Link      LinkLayer
	MaxMTU    int // bytes of payload in a packet: 256, 512, 1024, 2048 or 4096
	ActiveMTU int
	LID       uint16
	GRH       bool // a GRH is mandatory (RoCE, or IBV_QPF_GRH_REQUIRED)
	GIDs      []GIDEntry
}

// CQConfig describes a completion queue (ibv_create_cq).
type CQConfig struct {
	Depth   int      // completions it must hold; exactly this many are granted
	Channel *Channel // nil: no event notification
	// SingleThreaded leaves out the lock: the CQ, its Poll, and the posting of the requests
	// that complete on it belong to one goroutine at a time.
	SingleThreaded bool
}

// QPConfig describes a queue pair (ibv_create_qp).
type QPConfig struct {
	Type      QPType
	SendCQ    *CQ
	RecvCQ    *CQ
	SendDepth int // send work requests outstanding; exactly this many are granted
	RecvDepth int
	SendSGE   int // 0 = 1
	RecvSGE   int // 0 = 1
	MaxInline int // bytes; over the device's limit is refused
	SignalAll bool
	Port      int       // 0 = 1
	GIDIndex  GIDChoice // the zero value: what ChooseGID takes
	QKey      uint32
	Access    Access // what the peer may do through this QP
}

// RTRAttr are the options of the transition to RTR. The zero value has sane defaults.
type RTRAttr struct {
	PathMTU         int // 0 = the smaller of both ports' active MTUs; more than that is refused
	MaxDestRdAtomic int // 0 = what the device allows, at most 16; -1 = none
	MinRNRTimer     int // 5-bit code of the specification; 0 = 12 (0.64 ms)
	HopLimit        uint8
	TrafficClass    uint8
	ServiceLevel    uint8
}

// RTSAttr are the options of the transition to RTS. The zero value has sane defaults. Retries are
// always bounded: see GivesUpIn.
type RTSAttr struct {
	Timeout     int // 5-bit code, 4.096 us * 2^Timeout; 0 = 15 (134 ms). Infinite is not offered.
	RetryCount  int // 1..6; 0 = 6; -1 = none. 7 is refused: Soft-RoCE never gives up then
	RNRRetry    int // 3 bits without 7, which means for ever; 0 = 6; -1 = none
	MaxRdAtomic int // READs and atomics in flight; 0 = what both sides allow; -1 = none
}

// AHAttr describes the way to a peer's port (ibv_ah_attr).
type AHAttr struct {
	Port         int       // 0 = 1
	GIDIndex     GIDChoice // the own GID; the zero value: what ChooseGID takes
	GID          GID       // the peer's
	LID          uint16
	HopLimit     uint8
	TrafficClass uint8
	ServiceLevel uint8
}

// MROptions of PD.AllocMR.
type MROptions struct {
	// Keep names memory that outlives its process (Caps.KeptMRs); "" is anonymous. KeptMemory deletes it. A kept MR
	// that exists is opened again with its content and must have the same size and LineOwners.
	Keep string
	// NoHuge leaves huge pages alone. Otherwise they are used where the system has them.
	NoHuge bool
	// LineOwners is how many workers may claim a LineOwner at once, up to MaxLineOwners; each
	// costs 37 KB beside the memory. Needs Caps.LineWords. 0 = none.
	LineOwners int
}

// EventType of an asynchronous event (ibv_event_type).
type EventType uint8

const (
	EventCQErr EventType = iota + 1
	EventQPFatal
	EventQPAccessErr
	EventQPReqErr
	EventPortActive
	EventPortDown
	EventGIDChange
	EventLIDChange
	EventDeviceFatal // the device was removed
	EventOther
)

func (t EventType) String() string {
	return enumName([]string{"?", "CQ error", "QP fatal", "QP access error", "QP request error",
		"port active", "port down", "GID change", "LID change", "device fatal", "other"},
		int(t), "event")
}

// Event is an asynchronous event of a Context.
type Event struct {
	Type EventType
	Port int    // port events
	QPN  uint32 // QP events
	CQ   *CQ    // CQ events
	Text string // the provider's own words
	At   time.Duration
}
