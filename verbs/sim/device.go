package sim

import (
	"fmt"
	"math"
	"strings"
	"syscall"

	"drtmd/verbs"
)

// Limits of a simulated device.
const (
	maxQPWR     = 1 << 16
	maxCQE      = 1 << 22
	maxMRBytes  = 1 << 34
	maxRdAtomic = 16
	maxAH       = 1 << 20
)

// device implements verbs.Driver: one open of a node's NIC, in one life of the node.
type device struct {
	node *Node
	dead bool // the node crashed
	sink func(verbs.DriverEvent)
	qps  []*qp
	mrs  []*mr
	ahs  []*Node // by handle - 1; nil is free
}

// Name, Devices and Open make a World a verbs.Provider: its devices are its nodes.
func (w *World) Name() string { return "sim" }

// Devices lists the nodes that are up.
func (w *World) Devices() ([]verbs.DeviceInfo, error) {
	var out []verbs.DeviceInfo
	for _, n := range w.nodes {
		if n.up {
			out = append(out, verbs.DeviceInfo{DeviceAttr: n.attr(),
				PortAttrs: []verbs.PortAttr{n.port()}})
		}
	}
	return out, nil
}

// Open opens the NIC of a node by name; "" is the first one that is up.
func (w *World) Open(name string) (*verbs.Context, error) {
	var names []string
	for _, n := range w.nodes {
		if n.up && (name == "" || n.name == name) {
			return n.Open()
		}
		names = append(names, n.name)
	}
	return nil, &verbs.Error{Op: "open", Device: name, Err: verbs.ErrNoDevice,
		Detail: "nodes of this world: " + strings.Join(names, ", ")}
}

// Open opens the NIC of the node. The Context lives until it is closed or the node crashes.
func (n *Node) Open() (*verbs.Context, error) {
	if !n.up {
		return nil, &verbs.Error{Op: "open", Device: n.name, Errno: syscall.ENODEV,
			Detail: "the node is down", Hint: "restart it first"}
	}
	d := &device{node: n}
	n.devices = append(n.devices, d)
	psn := n.world.Rand("psn/" + n.name)
	return verbs.NewContext(d, verbs.ContextOptions{PSN: psn.Uint32, Clock: n.Clock()})
}

func (n *Node) attr() verbs.DeviceAttr {
	c := n.world.cost
	return verbs.DeviceAttr{Name: n.name, Provider: "sim", Driver: "sim", FirmwareVer: c.Name,
		NodeGUID: uint64(n.index + 1), Ports: 1, Atomic: verbs.AtomicGlob, MaxQP: 1 << 20,
		MaxQPWR: maxQPWR, MaxSGE: verbs.MaxSGE, MaxCQ: 1 << 20, MaxCQE: maxCQE, MaxMR: maxMRs,
		MaxMRBytes: maxMRBytes, MaxPD: 1 << 20, MaxAH: maxAH, MaxRdAtomic: maxRdAtomic,
		MaxInitDepth: maxRdAtomic, MaxMsgBytes: 1 << 31, MaxInline: int(c.NIC.MaxInline),
		Caps: verbs.Caps{LineWords: true, AscendingWrites: true,
			KeptMRs: true, ResetUD: true}}
}

func (n *Node) port() verbs.PortAttr {
	mtu := int(n.world.cost.Link.MTU)
	return verbs.PortAttr{Port: 1, State: verbs.PortActive, Link: verbs.LinkMemory, MaxMTU: mtu,
		ActiveMTU: mtu, LID: uint16(n.index + 1),
		GIDs: []verbs.GIDEntry{{Type: verbs.GIDTypeMemory, GID: n.gid}}}
}

func (d *device) Attr() verbs.DeviceAttr { return d.node.attr() }
func (d *device) Quirks() verbs.Quirks   { return verbs.Quirks{} }

// QueryPort implements verbs.Driver; the layer has checked the number.
func (d *device) QueryPort(int) (verbs.PortAttr, error) { return d.node.port(), nil }

// alive is the error of a device whose node crashed.
func (d *device) alive() error {
	if !d.dead {
		return nil
	}
	return &verbs.Error{Op: "use", Device: d.node.name, Errno: syscall.ENODEV,
		Detail: "the node crashed", Hint: "open the restarted node anew"}
}

func (d *device) AllocPD() (verbs.DriverPD, error) { return &pd{dev: d}, d.alive() }

// Start implements verbs.Driver.
func (d *device) Start(sink func(verbs.DriverEvent)) error {
	d.sink = sink
	return nil
}

// Close implements verbs.Driver.
func (d *device) Close() error {
	d.node.devices = remove(d.node.devices, d)
	d.sink = nil
	return nil
}

// die is the crash of the node: every object is gone at once.
func (d *device) die() {
	d.dead = true
	for len(d.qps) > 0 {
		d.qps[len(d.qps)-1].destroy()
	}
	for len(d.mrs) > 0 {
		d.mrs[len(d.mrs)-1].drop()
	}
	d.ahs = nil
}

func (d *device) event(e verbs.DriverEvent) {
	if d.sink != nil && !d.dead {
		d.sink(e)
	}
}

// pd implements verbs.DriverPD.
type pd struct{ dev *device }

func (p *pd) Close() error { return nil }

// CreateAH implements verbs.DriverPD.
func (p *pd) CreateAH(a verbs.AHAttr) (verbs.DriverAH, error) {
	if err := p.dev.alive(); err != nil {
		return nil, err
	}
	dst := p.dev.node.world.byGID(a.GID)
	if dst == nil {
		return nil, noRoute("ibv_create_ah", a.GID)
	}
	d := p.dev
	for i, n := range d.ahs {
		if n == nil {
			d.ahs[i] = dst
			return &ah{d, uint32(i + 1)}, nil
		}
	}
	if len(d.ahs) >= maxAH {
		return nil, syscall.ENOMEM
	}
	d.ahs = append(d.ahs, dst)
	return &ah{d, uint32(len(d.ahs))}, nil
}

func noRoute(op string, g verbs.GID) error {
	return &verbs.Error{Op: op, Errno: syscall.EHOSTUNREACH,
		Detail: fmt.Sprintf("no node of this world has the GID %s", g),
		Hint:   "take the GID from the peer's endpoint"}
}

// ah implements verbs.DriverAH.
type ah struct {
	dev    *device
	handle uint32
}

func (a *ah) Handle() uint32 { return a.handle }

// Close implements verbs.DriverAH.
func (a *ah) Close() error {
	if i := int(a.handle) - 1; i < len(a.dev.ahs) {
		a.dev.ahs[i] = nil
	}
	return nil
}

// rnrTimers are the waits of the 5-bit codes of the specification, in units of 10 us.
var rnrTimers = [32]Time{65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384,
	512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152}

func rnrTimer(code int) Time { return rnrTimers[code&31] * 10 * Microsecond }

// ackTimeout is 4.096 us * 2^code, at most half of Forever.
func ackTimeout(code int) Time {
	const unit = 4096 * Nanosecond
	return unit << min(code, 31) & (math.MaxInt64 >> 1)
}
