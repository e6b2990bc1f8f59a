//go:build cgo && linux

package ibv

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

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

// denied is why this process may not use the device's node, EACCES or EPERM (as the device rules of
// a container say); 0 if it may, or the node is not there.
func (p *provider) denied(name string) syscall.Errno {
	node := p.uverbs(name)
	if node == "" {
		return 0
	}
	fd, err := unix.Open(filepath.Join(p.nodes, node), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd) // nothing was done with it
		return 0
	}
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return err.(syscall.Errno)
	}
	return 0
}

// hasNode reports whether the node of a device is there.
func (p *provider) hasNode(node string) bool {
	_, err := os.Stat(filepath.Join(p.nodes, node))
	return !errors.Is(err, os.ErrNotExist)
}

func contains(names []string, name string) bool { return slices.Contains(names, name) }
