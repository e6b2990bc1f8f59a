//go:build cgo && linux

package ibv

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// kernelDevices are the names below /sys/class/infiniband, sorted.
func (p *provider) kernelDevices() []string {
	entries, err := os.ReadDir(filepath.Join(p.sys, "infiniband"))
	if err != nil {
		return nil // no RDMA in this kernel
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names
}

// driver names the kernel driver of a device. Hardware has a link to its bus device and this to
// its driver. Of the software devices only rxe has the attribute "parent" (the interface that it
// sits on), so a renamed link is still found; otherwise the letters of the name must do.
func (p *provider) driver(name string) string {
	base := filepath.Join(p.sys, "infiniband", name)
	if link, err := os.Readlink(filepath.Join(base, "device", "driver")); err == nil {
		d := filepath.Base(link)
		for _, suffix := range []string{"_core", "_ib", "_en"} {
			d = strings.TrimSuffix(d, suffix)
		}
		return d
	}
	if _, err := os.Stat(filepath.Join(base, "parent")); err == nil {
		return driverRXE
	}
	return strings.TrimRight(strings.TrimRight(name, "0123456789"), "_")
}

// uverbs is the name of the device's node below /dev/infiniband, or "".
func (p *provider) uverbs(name string) string {
	nodes, err := filepath.Glob(filepath.Join(p.sys, "infiniband_verbs", "uverbs*"))
	if err != nil {
		return ""
	}
	for _, node := range nodes {
		b, err := os.ReadFile(filepath.Join(node, "ibdev"))
		if err == nil && strings.TrimSpace(string(b)) == name {
			return filepath.Base(node)
		}
	}
	return ""
}

// denied reports whether the device's node is there and this process may not use it.
func (p *provider) denied(name string) bool {
	node := p.uverbs(name)
	return node != "" && errors.Is(unix.Faccessat(unix.AT_FDCWD, "/dev/infiniband/"+node,
		unix.R_OK|unix.W_OK, unix.AT_EACCESS), unix.EACCES)
}

func (p *provider) hasUverbs(name string) bool { return p.uverbs(name) != "" }

func contains(names []string, name string) bool { return slices.Contains(names, name) }
