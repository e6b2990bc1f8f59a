//go:build linux && amd64

package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"drtmd/verbs"
	"drtmd/verbs/shm/internal/fabric"
)

// DeviceName is the one device of the provider.
const DeviceName = "shm0"

// Options of New.
type Options struct {
	// Dir is the run directory: processes with the same one reach each other. Empty is the
	// user's own default below /dev/shm.
	Dir string
}

// Provider opens the shared memory device. Safe for concurrent use.
type Provider struct {
	dir string

	mu   sync.Mutex
	open map[fabric.ProcID]*device // guarded by mu: contexts of this process, reached directly
}

var (
	_ verbs.Provider   = (*Provider)(nil)
	_ verbs.KeptMemory = (*Provider)(nil)
)

// New makes a provider. Nothing is touched before Open.
func New(o Options) *Provider {
	return &Provider{dir: o.Dir, open: map[fabric.ProcID]*device{}}
}

// RunDir is a run directory of this user beside the default one: processes of different names do not
// meet.
func RunDir(name string) string { return filepath.Join(filepath.Dir(fabric.DefaultDir()), name) }

// Name is "shm".
func (p *Provider) Name() string { return "shm" }

// Devices lists shm0. Its GID is that of no process yet: every Open is a port of its own.
func (p *Provider) Devices() ([]verbs.DeviceInfo, error) {
	d := device{}
	port, err := d.QueryPort(1)
	return []verbs.DeviceInfo{{DeviceAttr: d.Attr(), PortAttrs: []verbs.PortAttr{port}}}, err
}

// Open joins the fabric as a new member: each Context has a GID of its own and dies alone.
func (p *Provider) Open(name string) (*verbs.Context, error) {
	if name != "" && name != DeviceName {
		return nil, &verbs.Error{Op: "ibv_open_device", Device: name, Err: verbs.ErrNoDevice,
			Hint: "the shm transport has " + DeviceName}
	}
	d, err := newDevice(p)
	if err != nil {
		return nil, &verbs.Error{Op: "ibv_open_device", Device: DeviceName, Err: err}
	}
	return verbs.NewContext(d, verbs.ContextOptions{})
}

// Kept lists the names of kept MRs, open ones too.
func (p *Provider) Kept() ([]string, error) {
	var names []string
	err := p.visit(func(f *fabric.Fabric) (err error) {
		names, err = f.ListKept()
		return err
	})
	return names, err
}

// RemoveKept deletes a kept MR that no process has open.
func (p *Provider) RemoveKept(name string) error {
	return p.visit(func(f *fabric.Fabric) error { return f.RemoveKept(name) })
}

// CopyKept implements verbs.KeptCopier.
func (p *Provider) CopyKept(name string, w io.Writer) error {
	return p.visit(func(f *fabric.Fabric) error { return f.CopyKept(name, w) })
}

// PutKept implements verbs.KeptCopier.
func (p *Provider) PutKept(name string, size int64, r io.Reader) error {
	return p.visit(func(f *fabric.Fabric) error { return f.PutKept(name, size, r) })
}

// visit joins the fabric for a moment.
func (p *Provider) visit(do func(*fabric.Fabric) error) error {
	f, err := fabric.Open(fabric.Options{Dir: p.dir})
	if err != nil {
		return err
	}
	return errors.Join(do(f), f.Close())
}

func (p *Provider) add(d *device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[d.self] = d
}

// remove forgets a context that closes, and tells the others, which nobody else does: they watch
// members of other processes only.
func (p *Provider) remove(d *device) {
	p.mu.Lock()
	delete(p.open, d.self)
	others := slices.Collect(maps.Values(p.open))
	p.mu.Unlock() // a device's lock may be held around this one
	for _, o := range others {
		o.mu.Lock()
		known := o.peers[d.self]
		o.mu.Unlock()
		if known != nil {
			known.die()
		}
	}
}

// inProcess finds an open context of this process.
func (p *Provider) inProcess(id fabric.ProcID) *device {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open[id]
}

// gidOf names a member of the fabric: an address of the unique local range (fd00::/8) with
// "shm" in it, the slot and the incarnation.
//
//	0  fd 1 | "shm" 3 | zero 2 | slot 2 | incarnation 8
func gidOf(p fabric.ProcID) verbs.GID {
	g := verbs.GID{0xfd, 's', 'h', 'm'}
	binary.BigEndian.PutUint16(g[6:], p.Slot)
	binary.BigEndian.PutUint64(g[8:], p.Incarnation)
	return g
}

// procOf reads back what gidOf wrote.
func procOf(g verbs.GID) (fabric.ProcID, error) {
	p := fabric.ProcID{Slot: binary.BigEndian.Uint16(g[6:]),
		Incarnation: binary.BigEndian.Uint64(g[8:])}
	if g != gidOf(p) || p.Incarnation == 0 {
		return p, &verbs.Error{Op: "resolve address", Errno: syscall.EINVAL,
			Detail: fmt.Sprintf("GID %s is not one of the shm transport", g),
			Hint:   "take the GID from the peer's Endpoint"}
	}
	return p, nil
}
