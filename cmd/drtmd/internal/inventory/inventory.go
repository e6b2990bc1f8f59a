// Package inventory lists devices together with the network interfaces behind them.
package inventory

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/Mellanox/rdmamap"
	"github.com/vishvananda/netlink"

	"drtmd/verbs"
)

// Device is a device and its network interfaces.
type Device struct {
	verbs.DeviceInfo
	Interfaces []Interface
}

// Interface is a network interface behind a device, as netlink describes it.
type Interface struct {
	Name         string
	Type         string   // veth, device, ipoib...
	Up           bool     // administratively
	State        string   // operational: up, down, lower-layer-down, unknown...
	MTU          int      // bytes
	HardwareAddr string   // "" if none
	Addresses    []string // with prefix length
	// Source says who named the interface: "rdmamap", "gid table", or both.
	Source string
	Err    error // why the rest is missing
}

// Network is what the kernel tells of interfaces. Its functions may be replaced in tests.
type Network struct {
	// Links names the interfaces.
	Links func() ([]string, error)
	// Device is the RDMA device on an interface, "" if none.
	Device func(link string) string
	// Describe fills in an interface by its name.
	Describe func(name string) (Interface, error)
}

// Kernel asks netlink and rdmamap.
func Kernel() Network { return Network{Links: links, Device: deviceOn, Describe: describe} }

// List lists the devices of a provider with their interfaces. An error beside devices means that
// the interfaces may not be all.
//
// rdmamap goes from an interface to the first device on it, by sysfs, also for devices without
// a PCI parent such as rxe. Where two devices share an interface (rxe on a port of a NIC) it
// finds only one, so the interfaces that the GID tables name are added.
func List(p verbs.Provider, n Network) ([]Device, error) {
	infos, err := p.Devices()
	if err != nil {
		return nil, err
	}
	var devices []Device
	for _, info := range infos {
		devices = append(devices, Device{DeviceInfo: info})
	}
	sources := make([]map[string][]string, len(devices))
	for i, d := range devices {
		sources[i] = map[string][]string{}
		for _, port := range d.PortAttrs {
			for _, e := range port.GIDs {
				if s := sources[i]; e.NetDev != "" && s[e.NetDev] == nil {
					s[e.NetDev] = []string{"gid table"}
				}
			}
		}
	}
	err = mapLinks(devices, sources, n)
	for i := range devices {
		for name, from := range sources[i] {
			devices[i].Interfaces = append(devices[i].Interfaces, interfaceOf(n, name, from))
		}
		slices.SortFunc(devices[i].Interfaces, func(a, b Interface) int {
			return strings.Compare(a.Name, b.Name)
		})
	}
	return devices, err
}

// mapLinks adds what rdmamap knows.
func mapLinks(devices []Device, sources []map[string][]string, n Network) error {
	if len(devices) == 0 {
		return nil
	}
	names, err := n.Links()
	if err != nil {
		return fmt.Errorf("list network interfaces: %w", err)
	}
	for _, name := range names {
		on := n.Device(name)
		for i := range devices {
			if on != "" && devices[i].Name == on {
				sources[i][name] = append([]string{"rdmamap"}, sources[i][name]...)
			}
		}
	}
	return nil
}

func interfaceOf(n Network, name string, from []string) Interface {
	i, err := n.Describe(name)
	i.Name, i.Source, i.Err = name, strings.Join(from, ", "), err
	return i
}

func links() ([]string, error) {
	list, err := netlink.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, err
	}
	var names []string
	for _, l := range list {
		names = append(names, l.Attrs().Name)
	}
	return names, nil
}

func deviceOn(link string) string {
	name, err := rdmamap.GetRdmaDeviceForNetdevice(link)
	if err != nil {
		return "" // it has none, which is the usual case and no error to tell
	}
	return name
}

func describe(name string) (Interface, error) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return Interface{}, err
	}
	a := l.Attrs()
	i := Interface{Type: l.Type(), Up: a.Flags&net.FlagUp != 0, State: a.OperState.String(),
		MTU: a.MTU, HardwareAddr: a.HardwareAddr.String()}
	addrs, err := netlink.AddrList(l, netlink.FAMILY_ALL)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return i, err
	}
	for _, ad := range addrs {
		i.Addresses = append(i.Addresses, ad.IPNet.String())
	}
	return i, nil
}
