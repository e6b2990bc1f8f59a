package inventory

import (
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"drtmd/verbs"
)

// fake is a provider that only lists.
type fake struct {
	infos []verbs.DeviceInfo
	err   error
}

func (f fake) Name() string                         { return "fake" }
func (f fake) Devices() ([]verbs.DeviceInfo, error) { return f.infos, f.err }
func (f fake) Open(string) (*verbs.Context, error)  { return nil, verbs.ErrNoDevice }

func dev(name string, netdevs ...string) verbs.DeviceInfo {
	d := verbs.DeviceInfo{DeviceAttr: verbs.DeviceAttr{Name: name}}
	p := verbs.PortAttr{Port: 1}
	for i, n := range netdevs {
		p.GIDs = append(p.GIDs, verbs.GIDEntry{Index: i, NetDev: n})
	}
	d.PortAttrs = []verbs.PortAttr{p}
	return d
}

func TestInterfacesComeFromRdmamapAndGIDTables(t *testing.T) {
	gone := errors.New("gone")
	n := Network{
		Links: func() ([]string, error) { return []string{"lo", "eth0", "ib0", "eth9"}, nil },
		Device: func(link string) string {
			return map[string]string{"eth0": "mlx5_0", "ib0": "mlx5_1"}[link]
		},
		Describe: func(name string) (Interface, error) {
			if name == "vlan7" {
				return Interface{}, gone
			}
			return Interface{Type: "device", Up: true, MTU: 1500}, nil
		},
	}
	// eth0 carries mlx5_0 and, over it, rxe0: rdmamap finds the first only.
	got, err := List(fake{infos: []verbs.DeviceInfo{dev("mlx5_0", "eth0", "eth0", "vlan7"),
		dev("mlx5_1", ""), dev("rxe0", "eth0"), dev("bare")}}, n)
	if err != nil {
		t.Fatal(err)
	}
	up := func(name, source string) Interface {
		return Interface{Name: name, Source: source, Type: "device", Up: true, MTU: 1500}
	}
	want := map[string][]Interface{
		"mlx5_0": {up("eth0", "rdmamap, gid table"), {Name: "vlan7", Source: "gid table", Err: gone}},
		"mlx5_1": {up("ib0", "rdmamap")},
		"rxe0":   {up("eth0", "gid table")},
		"bare":   nil,
	}
	for _, d := range got {
		if diff := cmp.Diff(want[d.Name], d.Interfaces, cmpopts.EquateErrors()); diff != "" {
			t.Errorf("%s: %s", d.Name, diff)
		}
	}
}

func TestDevicesAreListedWithoutNetlink(t *testing.T) {
	n := Network{Links: func() ([]string, error) { return nil, os.ErrPermission },
		Describe: func(string) (Interface, error) { return Interface{}, os.ErrPermission }}
	got, err := List(fake{infos: []verbs.DeviceInfo{dev("rxe0", "eth0")}}, n)
	if !errors.Is(err, os.ErrPermission) || len(got) != 1 || len(got[0].Interfaces) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestProviderErrorIsReturned(t *testing.T) {
	if _, err := List(fake{err: verbs.ErrNotBuilt}, Network{}); !errors.Is(err, verbs.ErrNotBuilt) {
		t.Errorf("%v", err)
	}
}

func TestKernelDescribesLoopback(t *testing.T) {
	n := Kernel()
	names, err := n.Links()
	if err != nil || len(names) == 0 {
		t.Fatalf("%q, %v", names, err)
	}
	lo, err := n.Describe("lo")
	if err != nil {
		t.Fatal(err)
	}
	if lo.MTU <= 0 || lo.State == "" || n.Device("lo") != "" {
		t.Errorf("%+v", lo)
	}
	if _, err := n.Describe("no-such-link"); err == nil {
		t.Error("described an interface that there is not")
	}
}
