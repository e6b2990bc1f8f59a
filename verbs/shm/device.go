//go:build linux && amd64

package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"drtmd/verbs"
	"drtmd/verbs/internal/table"
	"drtmd/verbs/shm/internal/fabric"
)

const (
	maxMRBytes  = 1 << 40
	maxMsgBytes = 1 << 30
	maxInline   = 1024
	maxRdAtomic = 128
	maxDepth    = 1 << 16
	maxCQE      = 1 << 22
	maxAH       = 1 << 16
	maxPD       = 1 << 16
)

// device is an open context: a member of the fabric with its own memory and queues.
type device struct {
	provider *Provider
	fab      *fabric.Fabric
	self     fabric.ProcID
	gid      verbs.GID
	gidWords [2]uint64 // gid as words in memory order
	ctlSeg   *fabric.Segment
	ctl      *control
	sink     func(verbs.DriverEvent)
	stats    stats

	// mrs are the own regions by the index of their key, ahs the address handles; read without
	// a lock.
	mrs []atomic.Pointer[region] // maxMR of them
	ahs table.Table[ah]

	mu       sync.Mutex // guards what follows, and writes to the tables above
	closed   bool
	nextID   uint64 // of segments exported
	nextPD   uint32
	mrGen    []uint32
	mrFree   []uint32
	qpGen    []uint32
	qpFree   []uint32
	qps      map[uint32]*qp // by index
	cqFree   []uint32
	cqNext   uint32
	ahFree   []uint32
	ahNext   uint32
	channels map[uint32]*channel
	nextChan uint32
	peers    map[fabric.ProcID]*peer
	arenas   arenas

	nextOwner atomic.Uint32 // where to look for a free owner entry

	ticker ticker
	wg     sync.WaitGroup // goroutines of the device
	done   chan struct{}  // closed by Close
}

// mr finds an own region by its key; nil if it is not registered.
func (d *device) mr(key uint32) *region {
	r := d.mrs[key%maxMR].Load()
	if r == nil || r.key != key {
		return nil
	}
	return r
}

// stats count what no completion tells. Read by tests and by metrics.
type stats struct {
	dropQKey, dropNoBuffer, dropNoQP, dropRing, recovered atomic.Uint64
}

func newDevice(p *Provider) (*device, error) {
	fab, err := fabric.Open(fabric.Options{Dir: p.dir})
	if err != nil {
		return nil, err
	}
	d := &device{provider: p, fab: fab, self: fab.Self(), nextID: firstID,
		mrs: make([]atomic.Pointer[region], maxMR), qps: map[uint32]*qp{},
		channels: map[uint32]*channel{}, peers: map[fabric.ProcID]*peer{},
		done: make(chan struct{})}
	d.gid = gidOf(d.self)
	d.gidWords[0] = binary.NativeEndian.Uint64(d.gid[:8])
	d.gidWords[1] = binary.NativeEndian.Uint64(d.gid[8:])
	d.ctlSeg, err = fab.NewSegment(fabric.SegmentOptions{Size: int(unsafe.Sizeof(control{})),
		Heap: raceEnabled})
	if err != nil {
		return nil, errors.Join(err, fab.Close())
	}
	d.ctl = (*control)(unsafe.Pointer(unsafe.SliceData(d.ctlSeg.Bytes())))
	d.ctl.magic, d.ctl.version = layoutMagic, layoutVersion
	d.ctl.incarnation = d.self.Incarnation
	fab.Export(controlID, d.ctlSeg)
	p.add(d)
	return d, nil
}

func (d *device) Attr() verbs.DeviceAttr {
	return verbs.DeviceAttr{Name: DeviceName, Provider: "shm", Driver: "shm",
		NodeGUID: d.self.Incarnation, Ports: 1, Atomic: verbs.AtomicGlob,
		MaxQP: maxQP, MaxQPWR: maxDepth, MaxSGE: verbs.MaxSGE, MaxCQ: maxCQ, MaxCQE: maxCQE,
		MaxMR: maxMR, MaxMRBytes: maxMRBytes, MaxPD: maxPD, MaxAH: maxAH,
		MaxRdAtomic: maxRdAtomic, MaxInitDepth: maxRdAtomic, MaxMsgBytes: maxMsgBytes,
		MaxInline: maxInline,
		Caps: verbs.Caps{LineWords: true, AscendingWrites: true,
			KeptMRs: !raceEnabled, PollableChannel: true, Immediate: true}}
}

func (d *device) Quirks() verbs.Quirks { return verbs.Quirks{} }

func (d *device) QueryPort(port int) (verbs.PortAttr, error) {
	return verbs.PortAttr{Port: port, State: verbs.PortActive, Link: verbs.LinkMemory,
		MaxMTU: mtuBytes, ActiveMTU: mtuBytes, GRH: true,
		GIDs: []verbs.GIDEntry{{Index: 0, Type: verbs.GIDTypeMemory, GID: gidOf(d.self)}}}, nil
}

func (d *device) Start(sink func(verbs.DriverEvent)) error {
	d.sink = sink
	return nil
}

// Close leaves the fabric. The layer has closed every object.
func (d *device) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	close(d.done)
	peers := d.peers
	d.peers = nil
	d.mu.Unlock()

	d.provider.remove(d)
	d.wg.Wait()
	var errs []error
	for _, p := range peers {
		errs = append(errs, p.close())
	}
	errs = append(errs, d.arenas.close(d))
	d.fab.Unexport(controlID)
	// The mapping goes last: the member is dead to its peers only after Close.
	errs = append(errs, d.fab.Close(), d.ctlSeg.Close())
	return errors.Join(errs...)
}

// newSegment makes memory of the device's kind and exports it.
func (d *device) newSegment(size int, keep string, huge bool) (*fabric.Segment, uint64, error) {
	seg, err := d.fab.NewSegment(fabric.SegmentOptions{Size: size, Keep: keep, Huge: huge,
		Heap: raceEnabled && keep == ""})
	if err != nil {
		return nil, 0, memoryError(err)
	}
	d.mu.Lock()
	id := d.nextID
	d.nextID++
	d.mu.Unlock()
	d.fab.Export(id, seg)
	return seg, id, nil
}

// memoryError keeps the fabric's words and hint in the layer's error type.
func memoryError(err error) error {
	var fe *fabric.Error
	if !errors.As(err, &fe) {
		return err
	}
	e := &verbs.Error{Op: fe.Op, Detail: fe.What, Hint: fe.Hint, Err: fe.Err}
	if errors.Is(err, fabric.ErrNoMemory) {
		e.Errno = syscall.ENOMEM
	}
	return e
}

// AllocPD makes a protection domain: a number that MRs and QPs carry.
func (d *device) AllocPD() (verbs.DriverPD, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nextPD++
	return &pd{dev: d, id: d.nextPD}, nil
}

type pd struct {
	dev *device
	id  uint32
}

func (p *pd) Close() error { return nil }

// ah is the way to a peer's port.
type ah struct {
	dev    *device
	handle uint32
	peer   *peer
}

func (p *pd) CreateAH(a verbs.AHAttr) (verbs.DriverAH, error) {
	d := p.dev
	to, err := d.peerByGID(a.GID)
	if err != nil {
		return nil, err
	}
	h, err := d.newAH(to)
	if err != nil {
		to.letGo()
		return nil, err
	}
	return h, nil
}

func (d *device) newAH(to *peer) (*ah, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := &ah{dev: d, peer: to}
	switch n := len(d.ahFree); {
	case n > 0:
		h.handle, d.ahFree = d.ahFree[n-1], d.ahFree[:n-1]
	case d.ahNext < maxAH:
		d.ahNext++
		h.handle = d.ahNext
	default:
		return nil, &verbs.Error{Op: "ibv_create_ah", Errno: syscall.ENOMEM,
			Detail: fmt.Sprintf("a context has at most %d address handles", maxAH)}
	}
	d.ahs.Set(h.handle, h)
	return h, nil
}

func (h *ah) Handle() uint32 { return h.handle }

func (h *ah) Close() error {
	h.dev.mu.Lock()
	h.dev.ahs.Set(h.handle, nil)
	h.dev.ahFree = append(h.dev.ahFree, h.handle)
	h.dev.mu.Unlock()
	h.peer.letGo()
	return nil
}

// peerOf gives the live peer of an address handle, for a user more; nil if there is none.
func (d *device) peerOf(handle uint32) *peer {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.ahs.Get(handle)
	if h == nil || h.peer.dead.Load() {
		return nil
	}
	h.peer.users.Add(1)
	return h.peer
}

// newGRH makes the 40 bytes in front of a datagram, but for what differs from one to the next:
// an IPv6 header as the specification lays out a GRH, to the own GID.
func newGRH(to verbs.GID) (b [verbs.GRHBytes]byte) {
	b[0] = 6 << 4
	b[6], b[7] = 0x1b, 64 // next header: BTH; hop limit
	copy(b[24:], to[:])
	return b
}

// fillGRH fills in the sender's GID, as words in memory order, and the length of the payload.
func fillGRH(b *[verbs.GRHBytes]byte, from0, from1 uint64, payload uint32) {
	binary.BigEndian.PutUint16(b[4:], uint16(payload))
	binary.NativeEndian.PutUint64(b[8:], from0)
	binary.NativeEndian.PutUint64(b[16:], from1)
}

// peerDied wakes the owners of QPs connected to a peer, so that what is pending ends.
func (d *device) peerDied(p *peer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.qps {
		if q.peer == p {
			q.sendCQ.fire()
		}
	}
}
