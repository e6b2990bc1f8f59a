//go:build cgo && linux

package ibv

// #include "shim.h"
import "C"

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"drtmd/verbs"
)

// deviceList is libibverbs' own; free it once.
type deviceList struct {
	p **C.struct_ibv_device
	n int
}

func listDevices() (*deviceList, error) {
	const op = "ibv_get_device_list"
	l := &deviceList{}
	var n C.int
	err := failed(op, C.drt_devices(&l.p, &n))
	if errors.Is(err, syscall.ENOSYS) {
		return l, nil // the kernel has no RDMA support loaded: no devices
	}
	l.n = int(n)
	return l, err
}

func (l *deviceList) at(i int) *C.struct_ibv_device { return unsafe.Slice(l.p, l.n)[i] }

func (l *deviceList) name(i int) string { return C.GoString(C.ibv_get_device_name(l.at(i))) }

func (l *deviceList) free() {
	if l.p != nil {
		C.ibv_free_device_list(l.p)
		l.p = nil
	}
}

// device is an open device (verbs.Driver).
type device struct {
	ctx  *C.struct_ibv_context
	attr verbs.DeviceAttr
	rxe  *softRoCE // nil on other drivers
	keep string    // folder of kept memory; "": none
	gids int       // entries in the GID tables of all ports

	ahs *C.struct_drt_ahs

	mu       sync.Mutex
	ahNext   uint32       // guarded by mu: handles below it were used
	ahFree   []uint32     // guarded by mu
	datagram map[*qp]bool // guarded by mu: open UD queue pairs
	closed   bool         // guarded by mu

	async  *os.File // duplicate of the context's descriptor of asynchronous events
	events sync.WaitGroup
}

func (p *provider) openDevice(list *deviceList, i int) (*device, error) {
	const op = "ibv_open_device"
	name := list.name(i)
	d := &device{datagram: map[*qp]bool{}, ahNext: 1, keep: p.keepDir}
	if errno := syscall.Errno(C.drt_open(list.at(i), &d.ctx)); errno != 0 {
		if own := p.denied(name); own != 0 {
			errno = own // which the library hides behind ENOENT
		}
		return nil, &verbs.Error{Op: op, Device: name, Errno: errno,
			Hint: p.hintOpen(name, errno)}
	}
	d.attr = p.bare(name)
	if d.attr.Driver == driverRXE {
		d.rxe = newSoftRoCE()
	}
	err := d.query()
	if err == nil {
		d.attr.MaxInline, err = p.inlineLimit(d)
	}
	if err == nil {
		if d.ahs = C.drt_ahs_new(); d.ahs == nil {
			err = &verbs.Error{Op: op, Device: name, Errno: syscall.ENOMEM}
		}
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// query fills in attr, MaxInline excepted.
func (d *device) query() error {
	var a C.struct_ibv_device_attr
	if errno := C.drt_query_device(d.ctx, &a); errno != 0 {
		return &verbs.Error{Op: "ibv_query_device", Device: d.attr.Name,
			Errno: syscall.Errno(errno)}
	}
	t := &d.attr
	t.FirmwareVer = C.GoString(&a.fw_ver[0])
	guid := uint64(a.node_guid) // network byte order
	t.NodeGUID = binary.BigEndian.Uint64((*[8]byte)(unsafe.Pointer(&guid))[:])
	t.VendorID = uint32(a.vendor_id)
	t.Ports = int(a.phys_port_cnt)
	switch a.atomic_cap {
	case C.IBV_ATOMIC_HCA:
		t.Atomic = verbs.AtomicHCA
	case C.IBV_ATOMIC_GLOB:
		t.Atomic = verbs.AtomicGlob
	default:
		t.Atomic = verbs.AtomicNone
	}
	t.MaxQP, t.MaxQPWR = int(a.max_qp), int(a.max_qp_wr)
	t.MaxSGE = min(int(a.max_sge), verbs.MaxSGE)
	t.MaxCQ, t.MaxCQE = int(a.max_cq), int(a.max_cqe)
	t.MaxMR, t.MaxMRBytes = int(a.max_mr), uint64(a.max_mr_size)
	t.MaxPD, t.MaxAH = int(a.max_pd), int(a.max_ah)
	t.MaxRdAtomic, t.MaxInitDepth = int(a.max_qp_rd_atom), int(a.max_qp_init_rd_atom)
	// Soft-RoCE carries out a request to the same machine in the post, or in the softirq that ends the post.
	t.Caps = verbs.Caps{PollableChannel: true, ResetUD: true, KeptMRs: d.keep != "", Loopback: d.rxe != nil}
	for port := 1; port <= t.Ports; port++ {
		var p C.struct_drt_port
		if err := failed("ibv_query_port", C.drt_query_port(d.ctx, C.int(port), &p)); err != nil {
			return err
		}
		d.gids += int(p.gid_entries)
		if n := uint32(p.max_msg_bytes); port == 1 || n < t.MaxMsgBytes {
			t.MaxMsgBytes = n
		}
	}
	return nil
}

func (d *device) Attr() verbs.DeviceAttr { return d.attr }

// QueryPort is ibv_query_port and ibv_query_gid_table.
func (d *device) QueryPort(port int) (verbs.PortAttr, error) {
	var p C.struct_drt_port
	if err := failed("ibv_query_port", C.drt_query_port(d.ctx, C.int(port), &p)); err != nil {
		return verbs.PortAttr{}, err
	}
	a := verbs.PortAttr{Port: port, State: portState(p.state), MaxMTU: int(p.max_mtu),
		ActiveMTU: int(p.active_mtu), LID: uint16(p.lid), Link: verbs.LinkInfiniBand}
	if p.link_layer == C.IBV_LINK_LAYER_ETHERNET {
		a.Link = verbs.LinkEthernet
	}
	a.GRH = a.Link == verbs.LinkEthernet || p.grh_required != 0
	var err error
	a.GIDs, err = d.gidTable(port)
	return a, err
}

func portState(s C.int) verbs.PortState {
	switch s {
	case C.IBV_PORT_INIT:
		return verbs.PortInit
	case C.IBV_PORT_ARMED:
		return verbs.PortArmed
	case C.IBV_PORT_ACTIVE, C.IBV_PORT_ACTIVE_DEFER:
		return verbs.PortActive
	}
	return verbs.PortDown
}

// gidTable gives the valid entries; the library wants room for those of all ports.
func (d *device) gidTable(port int) ([]verbs.GIDEntry, error) {
	rows := make([]C.struct_drt_gid, max(d.gids, 1))
	var n C.int
	err := failed("ibv_query_gid_table",
		C.drt_query_gids(d.ctx, C.int(port), &rows[0], C.int(len(rows)), &n))
	if err != nil {
		return nil, err
	}
	entries := make([]verbs.GIDEntry, 0, n)
	for i := range rows[:n] {
		r := &rows[i]
		e := verbs.GIDEntry{Index: int(r.index), NetDev: C.GoString(&r.netdev[0]),
			GID: *(*verbs.GID)(unsafe.Pointer(&r.gid))}
		switch r._type {
		case C.IBV_GID_TYPE_ROCE_V1:
			e.Type = verbs.GIDTypeRoCEv1
		case C.IBV_GID_TYPE_ROCE_V2:
			e.Type = verbs.GIDTypeRoCEv2
		default:
			e.Type = verbs.GIDTypeIB
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// active reports whether a port is up.
func (d *device) active() bool {
	for port := 1; port <= d.attr.Ports; port++ {
		var p C.struct_drt_port
		if C.drt_query_port(d.ctx, C.int(port), &p) == 0 && p.state == C.IBV_PORT_ACTIVE {
			return true
		}
	}
	return false
}

func (d *device) AllocPD() (verbs.DriverPD, error) {
	pd := &pd{dev: d}
	if err := failed("ibv_alloc_pd", C.drt_alloc_pd(d.ctx, &pd.c)); err != nil {
		return nil, err
	}
	return pd, nil
}

// Close ends the events and closes the device. The layer has closed what was made of it.
func (d *device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	d.stopEvents()
	err := failed("ibv_close_device", C.ibv_close_device(d.ctx))
	if d.ahs != nil {
		C.drt_ahs_free(d.ahs)
	}
	return err
}
