package endtoend

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"drtmd/cmd/drtmd/internal/status"
)

// network is some hosts on a bridge, a network namespace each; the hub is where clients run.
type network struct {
	t     *testing.T
	hub   netns.NsHandle
	hosts []netns.NsHandle
}

// inside calls f on a thread that is in a namespace; processes that it starts are, too.
func inside(ns netns.NsHandle, f func() error) error {
	result := make(chan error, 1)
	go func() {
		// The thread is never given back: it ends with the goroutine.
		runtime.LockOSThread()
		if err := netns.Set(ns); err != nil {
			result <- err
			return
		}
		result <- f()
	}()
	return <-result
}

// newNamespace makes one without leaving the caller's.
func newNamespace() (ns netns.NsHandle, err error) {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		var err error
		ns, err = netns.New()
		result <- err
	}()
	return ns, <-result
}

// address of host i; the hub is 0.
func address(i int) string { return fmt.Sprintf("10.77.9.%d", i+1) }

func newNetwork(t *testing.T, hosts int) *network {
	t.Helper()
	n := &network{t: t}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if n.hub, err = newNamespace(); err != nil {
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
			t.Skip("this process may not make network namespaces: ", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { ok(n.hub.Close()) })
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
	up := func(name, cidr string) error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if cidr != "" {
			a, err := netlink.ParseAddr(cidr)
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(l, a); err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(l)
	}
	ok(inside(n.hub, func() error {
		if err := netlink.LinkAdd(bridge); err != nil {
			return err
		}
		return errors.Join(up("lo", ""), up("br0", address(0)+"/24"))
	}))
	for i := 1; i <= hosts; i++ {
		ns, err := newNamespace()
		ok(err)
		t.Cleanup(func() { ok(ns.Close()) })
		n.hosts = append(n.hosts, ns)
		name := fmt.Sprintf("v%d", i)
		ok(inside(n.hub, func() error {
			v := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "eth0",
				PeerNamespace: netlink.NsFd(ns)}
			if err := netlink.LinkAdd(v); err != nil {
				return err
			}
			if err := netlink.LinkSetMaster(v, bridge); err != nil {
				return err
			}
			return up(name, "")
		}))
		ok(inside(ns, func() error { return errors.Join(up("lo", ""), up("eth0", address(i)+"/24")) }))
	}
	return n
}

// drop has hosts a and b (from 1) lose every packet between them; heal ends it.
func (n *network) drop(a, b int) { n.route(a, b, netlink.RouteAdd) }
func (n *network) heal(a, b int) { n.route(a, b, netlink.RouteDel) }

func (n *network) route(a, b int, do func(*netlink.Route) error) {
	n.t.Helper()
	for _, x := range [][2]int{{a, b}, {b, a}} {
		err := inside(n.hosts[x[0]-1], func() error {
			return do(&netlink.Route{Type: unix.RTN_BLACKHOLE, Dst: &net.IPNet{
				IP: net.ParseIP(address(x[1])).To4(), Mask: net.CIDRMask(32, 32)}})
		})
		if err != nil {
			n.t.Fatal(err)
		}
	}
}

// TestNetworkIsDropped between two of three nodes, each on a network of its own: between two that
// need each other only for what they are asked, and between one and the node with etcd.
func TestNetworkIsDropped(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	n := newNetwork(t, 3)
	l.inside = func(f func() error) error { return inside(n.hub, f) }
	ca := filepath.Join(l.dir, "ca")
	for _, args := range [][]string{{ca, "--name", "node", "--host",
		strings.Join([]string{address(1), address(2), address(3)}, ",")},
		{ca, "--name", "me", "--host", "none"}} {
		if _, errs, code := l.run("certs", args...); code != 0 {
			t.Fatal(errs)
		}
	}
	file := func(name string) string { return filepath.Join(ca, name) }
	l.tls = []string{"--ca", file("ca.pem"), "--cert", file("me.pem"), "--key", file("me.key")}
	l.args = append(l.args, "--control-ca", file("ca.pem"), "--control-cert", file("node.pem"),
		"--control-key", file("node.key"))
	for i := 1; i <= 3; i++ {
		args := []string{"--control-listen", address(i) + ":7440", "--cluster-etcd-listen",
			address(i) + ":7450"}
		if i > 1 {
			args = append(args, "--cluster-join", l.nodes[0].control)
		}
		var x *node
		if err := inside(n.hosts[i-1], func() error {
			x = l.start(fmt.Sprintf("n%d", i-1), args...)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		x.await()
	}
	l.allReady(l.nodes[0], 3)
	l.proved(l.nodes[1])

	// Nodes 1 and 2 do not see each other; both see etcd and stay members. What node 1 is asked to
	// lead fails in words, and node 0 leads as before.
	epoch := l.status(l.nodes[0]).State.Active.Epoch
	n.drop(2, 3)
	if _, errs, code := l.bench(l.nodes[1], "--duration", "200ms"); code != 1 ||
		!strings.Contains(errs, "n2") && !strings.Contains(errs, address(3)) {
		t.Errorf("a run that cannot reach a member: exit code %d: %s", code, errs)
	}
	l.allReady(l.nodes[0], 3)
	l.proved(l.nodes[0])
	if now := l.status(l.nodes[0]).State.Active.Epoch; now != epoch {
		t.Errorf("epoch %d, was %d: members were removed", now, epoch)
	}
	n.heal(2, 3)

	// Node 2 does not see etcd: it is removed, refuses, and comes back as another.
	was := l.self(l.nodes[2]).Member
	n.drop(1, 3)
	until(t, "node 2 is removed", func() bool {
		st := l.status(l.nodes[0])
		return st != nil && !st.State.Active.Has(was)
	})
	until(t, "node 2 refuses", func() bool {
		x := l.self(l.nodes[2])
		return x != nil && x.Phase == status.Refusing
	})
	l.proved(l.nodes[1])
	n.heal(1, 3)
	l.allReady(l.nodes[0], 3)
	if now := l.self(l.nodes[2]).Member; now.Incarnation <= was.Incarnation {
		t.Errorf("was %v, is %v", was, now)
	}
	l.proved(l.nodes[2])
}
