//go:build cgo && linux

package ibv

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"drtmd/verbs"
)

// fakeSys makes a provider that looks at a made-up sysfs: files by path, "->" links.
func fakeSys(t *testing.T, files map[string]string) *provider {
	t.Helper()
	p := New().(*provider)
	p.sys = t.TempDir()
	for path, content := range files {
		full := filepath.Join(p.sys, path)
		check(t, os.MkdirAll(filepath.Dir(full), 0o755))
		if target, link := strings.CutPrefix(content, "->"); link {
			check(t, os.Symlink(target, full))
			continue
		}
		check(t, os.WriteFile(full, []byte(content), 0o644))
	}
	return p
}

func TestDriverIsFoundInSysfs(t *testing.T) {
	p := fakeSys(t, map[string]string{
		"infiniband/mlx5_0/device/driver":   "->../../../bus/pci/drivers/mlx5_core",
		"infiniband/bnxt_re0/device/driver": "->../../../bus/pci/drivers/bnxt_en",
		"infiniband/soft/parent":            "eth0\n",
		"infiniband/siw7/node_guid":         "0\n",
	})
	for name, want := range map[string]string{"mlx5_0": "mlx5", "bnxt_re0": "bnxt",
		"soft": driverRXE, "siw7": "siw"} {
		if got := p.driver(name); got != want {
			t.Errorf("driver of %s is %q, want %q", name, got, want)
		}
	}
}

// A device that libibverbs does not list is listed all the same, with the reason.
func TestDeviceThatTheLibraryDoesNotSee(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		hint  string
	}{
		"no uverbs module": {map[string]string{"infiniband/hidden0/parent": "eth0"},
			"modprobe ib_uverbs"},
		"no user-space driver": {map[string]string{"infiniband/hidden0/parent": "eth0",
			"infiniband_verbs/uverbs9/ibdev": "hidden0\n"}, "ibverbs-providers"},
	} {
		t.Run(name, func(t *testing.T) {
			p := fakeSys(t, test.files)
			p.nodes = t.TempDir()
			check(t, os.WriteFile(filepath.Join(p.nodes, "uverbs9"), nil, 0o600))
			infos, err := p.Devices()
			check(t, err)
			last := infos[len(infos)-1]
			if last.Name != "hidden0" || !errors.Is(last.Err, verbs.ErrNoDevice) ||
				!strings.Contains(last.Err.Error(), test.hint) {
				t.Errorf("listed as %q: %v", last.Name, last.Err)
			}
			_, err = p.Open("hidden0")
			if !errors.Is(err, verbs.ErrNoDevice) ||
				len(infos) == 1 && !strings.Contains(err.Error(), test.hint) {
				t.Errorf("open: %v", err)
			}
		})
	}
}

func TestUnknownDeviceListsTheOthers(t *testing.T) {
	c := requireDevice(t)
	_, err := New().Open("nonesuch")
	if !errors.Is(err, verbs.ErrNoDevice) || !strings.Contains(err.Error(), c.Attr().Name) {
		t.Fatal(err)
	}
}

func TestWithoutDevicesTheNextStepIsNamed(t *testing.T) {
	p := fakeSys(t, nil)
	infos, err := p.Devices()
	check(t, err)
	if len(infos) > 0 {
		t.Skipf("this machine has %s", infos[0].Name)
	}
	_, err = p.Open("")
	if !errors.Is(err, verbs.ErrNoDevice) || !strings.Contains(err.Error(), "soft-roce-setup.sh") {
		t.Fatal(err)
	}
}

func TestDescriptionOfRXE(t *testing.T) {
	c := requireDevice(t)
	infos, err := New().Devices()
	check(t, err)
	for _, d := range infos {
		check(t, d.Err)
		if len(d.PortAttrs) != d.Ports || d.Provider != providerName || d.Driver == "" {
			t.Errorf("%+v", d)
		}
	}
	a := c.Attr()
	if a.Driver != driverRXE {
		t.Skipf("the rest is about rxe, this is %s", a.Driver)
	}
	if a.Atomic != verbs.AtomicHCA || a.NodeGUID == 0 || a.MaxSGE != verbs.MaxSGE ||
		a.MaxMsgBytes == 0 || a.MaxRdAtomic == 0 || a.MaxInitDepth == 0 {
		t.Errorf("attributes %+v", a)
	}
	p, err := c.Port(1)
	check(t, err)
	if p.Link != verbs.LinkEthernet || !p.GRH || p.ActiveMTU == 0 || p.MaxMTU < p.ActiveMTU {
		t.Errorf("port %+v", p)
	}
	for _, g := range p.GIDs {
		if g.Type != verbs.GIDTypeRoCEv2 || g.NetDev == "" || g.GID.IsZero() {
			t.Errorf("GID %+v", g)
		}
	}
	if g, ok := verbs.ChooseGID(p.GIDs); !ok || !strings.HasPrefix(g.GID.String(), "::ffff:") {
		t.Errorf("chosen: %+v, %v", g, ok)
	}
}

// unprivileged runs the test once more in a process without rights, which inner tells apart.
func unprivileged(t *testing.T) {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "unprivileged.test")
	b, err := os.ReadFile("/proc/self/exe")
	check(t, err)
	check(t, os.WriteFile(exe, b, 0o755))
	for dir := filepath.Dir(exe); dir != "/"; dir = filepath.Dir(dir) {
		check(t, os.Chmod(dir, 0o755))
	}
	cmd := exec.Command(exe, "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), innerVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

const innerVariable = "DRTMD_IBV_UNPRIVILEGED"

func inner() bool { return os.Getenv(innerVariable) != "" }

func TestNoPermissionSaysSo(t *testing.T) {
	if inner() {
		_, err := New().Open("")
		if !errors.Is(err, syscall.EACCES) || !strings.Contains(err.Error(), "no permission on") {
			t.Fatal(err)
		}
		infos, err := New().Devices()
		check(t, err)
		if len(infos) == 0 || !errors.Is(infos[0].Err, syscall.EACCES) || infos[0].Driver == "" {
			t.Fatalf("listed as %+v", infos)
		}
		return
	}
	requireGuest(t)
	c := requireDevice(t)
	node := "/dev/infiniband/" + New().(*provider).uverbs(c.Attr().Name)
	check(t, os.Chmod(node, 0o600))
	defer func() { check(t, os.Chmod(node, 0o666)) }()
	unprivileged(t)
}

func TestMemlockLimitSaysSo(t *testing.T) {
	if !inner() {
		requireGuest(t)
		requireDevice(t)
		unprivileged(t)
		return
	}
	const limit = 64 << 10
	check(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit, Max: limit}))
	o := defaultConfig(verbs.RC)
	o.MRBytes = 4096
	a := newSide(t, requireDevice(t), o)
	_, err := a.pd.AllocMR(4*limit, verbs.AccessAll, verbs.MROptions{})
	if !errors.Is(err, syscall.ENOMEM) || !strings.Contains(err.Error(), "ulimit -l") {
		t.Fatal(err)
	}
}

// Closing twice is harmless for every object.
func TestClosingTwiceIsHarmless(t *testing.T) {
	r := newRaw(t, rawConfig{Type: verbs.UD})
	address, err := r.pd.CreateAH(verbs.AHAttr{Port: 1, GIDIndex: verbs.GIDAt(r.gid().Index), GID: r.gid().GID,
		HopLimit: 64})
	check(t, err)
	channel, err := r.dev.CreateChannel()
	check(t, err)
	for range 2 {
		check(t, address.Close())
		check(t, channel.Close())
		check(t, r.a.Close())
		check(t, r.b.Close())
		check(t, r.a.cq.Close())
		check(t, r.b.cq.Close())
		check(t, r.mr.Close())
		check(t, r.pd.Close())
		check(t, r.dev.Close())
	}
	if err := r.a.ToError(); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("to error after close: %v", err)
	}
	if err := channel.Consume(func(uint32) {}); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("consume after close: %v", err)
	}
}

// An address handle that is not there is refused at post, in C.
func TestStaleAddressHandleIsRefused(t *testing.T) {
	r := newRaw(t, rawConfig{Type: verbs.UD})
	address, err := r.pd.CreateAH(verbs.AHAttr{Port: 1, GIDIndex: verbs.GIDAt(r.gid().Index), GID: r.gid().GID,
		HopLimit: 64})
	check(t, err)
	stale := address.Handle()
	check(t, address.Close())
	for _, handle := range []uint32{0, stale, 1023, 1 << 19, 1 << 20, 1<<32 - 1} {
		wr := r.wr(verbs.OpSend, 1, 0, 8, 0)
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = handle, r.b.qpn, testQKey
		if n, err := r.a.PostSend([]verbs.WR{wr}); n != 0 || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("handle %#x: posted %d, %v", handle, n, err)
		}
	}
}
