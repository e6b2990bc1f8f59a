package verbs

// The Driver interfaces are what a provider implements. Programs do not use them: they go
// through Context, which enforces the contract. Unless said otherwise the layer has checked the
// arguments (states, sizes, opcodes, queue space, alignment, rights of a request's kind) and
// serializes the calls on one object; keys and addresses are the driver's to check, and their
// violation is a completion status.

// Provider opens devices of one transport.
type Provider interface {
	Name() string
	// Devices lists what can be opened; none is not an error.
	Devices() ([]DeviceInfo, error)
	// Open opens a device by name; "" is the first one with an active port.
	Open(name string) (*Context, error)
}

// Presence is implemented by a provider whose devices can go away while they are open. Present is nil
// while a device is there, else it says what is left of it. It opens nothing, and is cheap.
type Presence interface {
	Present(name string) error
}

// DeviceInfo is a device with its ports, as listed without keeping it open.
type DeviceInfo struct {
	DeviceAttr
	PortAttrs []PortAttr
	Err       error // why the device cannot be opened; nil if it can
}

// Driver is an open device.
type Driver interface {
	Attr() DeviceAttr
	Quirks() Quirks
	QueryPort(port int) (PortAttr, error)
	AllocPD() (DriverPD, error)
	CreateChannel() (DriverChannel, error)
	// CreateCQ makes a CQ of at least depth entries. id is what the channel's Consume reports.
	CreateCQ(depth int, id uint32, ch DriverChannel, singleThreaded bool) (DriverCQ, error)
	// Start hands over the sink of asynchronous events, once, before any object is made. The
	// sink never blocks and may be called from any goroutine until Close has returned. CQ
	// events name the CQ by DriverEvent.CQID.
	Start(sink func(DriverEvent)) error
	Close() error
}

// DriverEvent is an Event before the layer has found the object behind it.
type DriverEvent struct {
	Event
	CQID uint32
}

// DriverPD is a protection domain.
type DriverPD interface {
	AllocMR(size int, access Access, o MROptions) (DriverMR, error)
	CreateQP(c DriverQPConfig) (DriverQP, error)
	CreateAH(a AHAttr) (DriverAH, error)
	Close() error
}

// DriverQPConfig is QPConfig with the layer's CQs resolved and every default filled in.
type DriverQPConfig struct {
	QPConfig
	DriverSendCQ, DriverRecvCQ DriverCQ
}

// DriverMR is a registered region.
type DriverMR interface {
	Bytes() []byte
	LKey() uint32
	RKey() uint32
	// Lines is the table of line words, one per 64-byte line of the region, or nil.
	Lines() []uint64
	Close() error
}

// DriverAH is an address handle. Handle is what WR.AH carries: small, unique within the device,
// never 0, and safe to look up (a stale one is the layer's to refuse).
type DriverAH interface {
	Handle() uint32
	Close() error
}

// DriverChannel is a completion channel.
type DriverChannel interface {
	// FD is readable while events wait; -1 where there is none (sim).
	FD() int
	// Consume takes waiting events without blocking, acknowledges them, and calls each with the
	// id of the CQ.
	Consume(each func(cqID uint32)) error
	Close() error
}

// DriverCQ is a completion queue. Poll gives completions whose ID is the request's Token; it
// fills in Status, QPN, VendorErr always, and of a success ByteLen, Imm, SrcQPN, Flags and, for
// receives, Op where they apply. It gives one for every signaled request, for the request that
// failed, and for every one flushed after it. Poll never blocks and does not allocate.
type DriverCQ interface {
	Poll(wcs []WC) (int, error)
	// Arm asks for one event at the next (solicited) completion. The caller polls once more
	// after it.
	Arm(solicitedOnly bool) error
	Close() error
}

// DriverQP is a queue pair. Transitions come in order; the attributes are complete.
type DriverQP interface {
	QPN() uint32
	ToInit() error
	ToRTR(peer *Endpoint, a RTRAttr) error // peer is nil for UD
	ToRTS(psn uint32, a RTSAttr) error
	// ToError may be called at any time from any goroutine, twice as well. What is posted is
	// flushed, as is what is posted later.
	ToError() error
	// PostSend takes a prefix of wrs and says how many; each names its completion by Token.
	PostSend(wrs []WR) (int, error)
	PostRecv(wrs []RecvWR) (int, error)
	Close() error
}

// DriverResetter is implemented by a QP that can go back from ERR to RESET under its number, when
// everything that was posted to it has been polled.
type DriverResetter interface {
	ToReset() error
}

// DriverNotifier is implemented by a CQ and a channel whose provider has no descriptor to wait on
// (sim). f is called, inside the event loop, whenever a completion was added to the CQ or an event
// to the channel; by a channel also when it is closed, and within OnArrival if events wait. One f
// at a time; nil is none.
type DriverNotifier interface {
	OnArrival(f func())
}

// DriverLineNotifier is the same for line words (sim): f is called once, when the word of the
// line differs from seen and is unlocked. The returned function takes f back.
type DriverLineNotifier interface {
	OnLineChange(line int, seen uint64, f func()) (cancel func())
}

// DriverLineOwners is implemented by an MR with line words that htm may lock (see LineOwner). The
// journal is idle, has room for lineword.JournalLines lines, and is valid until Close.
type DriverLineOwners interface {
	ClaimLineOwner() (slot uint16, journal []uint64, err error)
	ReleaseLineOwner(slot uint16) error
	RescueLine(line int)
}

// Quirks are the deviations of a driver from the contract that the layer corrects.
type Quirks struct {
	// RecvTooSmallLocal and RecvTooSmallRemote are the statuses that the driver reports in
	// place of LOC_LEN_ERR (at the receiver) and REM_INV_REQ_ERR (at the sender) when a
	// receive buffer is too small; WCSuccess = it reports the right ones.
	RecvTooSmallLocal, RecvTooSmallRemote WCStatus
}
