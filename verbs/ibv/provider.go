//go:build cgo && linux

package ibv

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"syscall"

	"drtmd/verbs"
)

// New returns the provider. It opens nothing yet, and is safe for concurrent use.
func New() verbs.Provider { return NewWith(Options{}) }

// NewWith is New with options.
func NewWith(o Options) verbs.Provider {
	return &provider{sys: "/sys/class", nodes: "/dev/infiniband", keepDir: o.KeepDir,
		inline: map[string]int{}}
}

var _ verbs.KeptMemory = (*provider)(nil)

type provider struct {
	sys   string // where sysfs has its classes
	nodes string // where the nodes of devices are

	keepDir string // of kept memory; "": none

	mu     sync.Mutex
	inline map[string]int // guarded by mu: inline limit of each device that was probed
}

func (p *provider) Name() string { return providerName }

// Devices lists what libibverbs sees, and what only the kernel sees, with the reason why it
// cannot be opened.
func (p *provider) Devices() ([]verbs.DeviceInfo, error) {
	list, err := listDevices()
	if err != nil {
		return nil, err
	}
	defer list.free()
	var infos []verbs.DeviceInfo
	seen := map[string]bool{}
	for i := range list.n {
		name := list.name(i)
		seen[name] = true
		infos = append(infos, p.describe(list, i))
	}
	for _, name := range p.kernelDevices() {
		if !seen[name] {
			infos = append(infos, verbs.DeviceInfo{DeviceAttr: p.bare(name), Err: p.unseen(name)})
		}
	}
	return infos, nil
}

// describe opens the device for as long as it takes to query it.
func (p *provider) describe(list *deviceList, i int) verbs.DeviceInfo {
	name := list.name(i)
	info := verbs.DeviceInfo{DeviceAttr: p.bare(name)}
	d, err := p.openDevice(list, i)
	if err != nil {
		info.Err = err
		return info
	}
	info.DeviceAttr = d.attr
	for port := 1; port <= d.attr.Ports && info.Err == nil; port++ {
		var a verbs.PortAttr
		if a, info.Err = d.QueryPort(port); info.Err == nil {
			info.PortAttrs = append(info.PortAttrs, a)
		}
	}
	info.Err = cmp.Or(info.Err, d.Close())
	return info
}

// bare is what is known of a device that is not open.
func (p *provider) bare(name string) verbs.DeviceAttr {
	return verbs.DeviceAttr{Name: name, Provider: providerName, Driver: p.driver(name)}
}

// Open opens a device by name; "" is the first with an active port, or else the first.
func (p *provider) Open(name string) (*verbs.Context, error) {
	const op = "ibv_open_device"
	list, err := listDevices()
	if err != nil {
		return nil, err
	}
	defer list.free()
	var errs []error
	var spare *device // the first without an active port
	for i := range list.n {
		if name != "" && list.name(i) != name {
			continue
		}
		d, err := p.openDevice(list, i)
		switch {
		case err != nil && name != "":
			return nil, err
		case err != nil:
			errs = append(errs, err)
		case name != "" || d.active():
			if spare != nil {
				_ = spare.Close() // it was never used
			}
			return verbs.NewContext(d, verbs.ContextOptions{})
		case spare == nil:
			spare = d
		default:
			_ = d.Close() // it was never used
		}
	}
	if spare != nil {
		return verbs.NewContext(spare, verbs.ContextOptions{})
	}
	if len(errs) > 0 {
		return nil, errs[0]
	}
	return nil, p.noDevice(op, name, list)
}

// noDevice says what there is instead.
func (p *provider) noDevice(op, name string, list *deviceList) error {
	var names []string
	for i := range list.n {
		names = append(names, list.name(i))
	}
	e := &verbs.Error{Op: op, Device: name, Err: verbs.ErrNoDevice}
	switch kernel := p.kernelDevices(); {
	case len(names) > 0:
		e.Hint = "available: " + strings.Join(names, ", ")
	case name == "" && len(kernel) > 0:
		return p.unseen(kernel[0])
	case name != "" && contains(kernel, name):
		return p.unseen(name)
	default:
		e.Hint = "there is no RDMA device on this machine: run `./soft-roce-setup.sh up` for " +
			"Soft-RoCE, or use --transport shm"
	}
	return e
}

// unseen explains a device of the kernel that libibverbs does not list.
func (p *provider) unseen(name string) error {
	e := &verbs.Error{Op: "ibv_get_device_list", Device: name, Err: verbs.ErrNoDevice,
		Detail: fmt.Sprintf("the kernel has it, as %s/infiniband/%s, but libibverbs does not "+
			"list it", p.sys, name)}
	node := p.uverbs(name)
	switch {
	case node == "":
		e.Hint = "load the module that makes /dev/infiniband/uverbs*: modprobe ib_uverbs; of a device " +
			"that was deleted, this is what is left until the last program closes it"
	case !p.hasNode(node):
		e.Detail = fmt.Sprintf("the kernel has the device, but its node %s/%s is not there", p.nodes,
			node)
		e.Hint = fmt.Sprintf("in a container pass --device %s (docker, podman), on a host run udevadm "+
			"trigger", p.nodes)
	default:
		e.Hint = fmt.Sprintf("the user-space driver for %q is missing or of another ABI than "+
			"the kernel's: install ibverbs-providers of this distribution", p.driver(name))
	}
	return e
}

// Present implements verbs.Presence.
func (p *provider) Present(name string) error {
	switch node := p.uverbs(name); {
	case node == "":
		return &verbs.Error{Op: "use", Device: name, Err: verbs.ErrNoDevice,
			Detail: "the device was removed",
			Hint:   "make it again (rdma link add, ./soft-roce-setup.sh up), or load its driver"}
	case !p.hasNode(node):
		return p.unseen(name)
	}
	return nil
}

// hintOpen adds the well-known causes of a device that cannot be opened.
func (p *provider) hintOpen(name string, errno syscall.Errno) string {
	node := cmp.Or(p.uverbs(name), "uverbs*")
	switch errno {
	case syscall.EACCES, syscall.EPERM:
		return fmt.Sprintf("no permission on /dev/infiniband/%s: run as root, or give your "+
			"group the node with a udev rule", node)
	case syscall.ENOENT, syscall.ENXIO, syscall.ENODEV:
		return fmt.Sprintf("/dev/infiniband/%s is not there: modprobe ib_uverbs, or in a "+
			"container pass --device /dev/infiniband/%s", node, node)
	}
	return ""
}
