package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/config"
	"drtmd/cmd/drtmd/internal/daemon/board"
	"drtmd/cmd/drtmd/internal/service"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
	"drtmd/verbs"
)

const (
	// deviceLook is how often the device is looked at, beside its events: not every driver tells.
	deviceLook = time.Second
	// calmLooks in a row see the same address before it counts: an interface that comes up gets its
	// addresses one after the other.
	calmLooks = 3
)

// device is the RDMA device as the node sees it. It is beside the rooms: it tells the planes and
// membership of faults, with no lock held, and they do not know it.
type device struct {
	log      *zap.Logger
	cfg      config.Transport
	provider verbs.Provider
	board    *board.Board
	planes   interface {
		Fence(cause error)
		ClosePlane() error
	}
	members interface {
		Self() (member.Member, bool)
		StartAnew(cause error)
	}

	mu      sync.Mutex     // guards what follows
	port    *verbs.Context // to look at the device; nil while it is gone
	now     status.Device
	down    string // what is wrong with the port; "" is nothing
	missing error  // the device is gone
}

// open says early what is wrong with the device, and keeps it open to look at it.
func (d *device) open() error {
	c, err := d.provider.Open(d.cfg.Device)
	if err != nil {
		return fmt.Errorf("device (transport.device): %w; drtmd devices shows what there is", err)
	}
	s, problem, err := d.look(c)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	d.mu.Lock()
	d.port, d.now, d.down, d.missing = c, s, problem, nil
	d.mu.Unlock()
	return nil
}

// close may be called twice.
func (d *device) close() error {
	d.mu.Lock()
	c := d.port
	d.port = nil
	d.mu.Unlock()
	if c == nil {
		return nil
	}
	return c.Close()
}

// seen is the device as it was last seen.
func (d *device) seen() status.Device {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// Describe implements board.Describer, after the planes: links are down with the port.
func (d *device) Describe(_ context.Context, n *status.Node) {
	d.mu.Lock()
	n.Device = d.now
	down := d.down
	d.mu.Unlock()
	if down == "" {
		return
	}
	n.Degraded = append(n.Degraded, down)
	for j := range n.Links {
		n.Links[j].State = "down"
	}
}

// gid is what queue pairs take.
func (d *device) gid() verbs.GIDChoice {
	if d.cfg.GIDIndex < 0 {
		return verbs.GIDChoice{}
	}
	return verbs.GIDAt(d.cfg.GIDIndex)
}

// look gives the device as it is now, and what is wrong with its port.
func (d *device) look(c *verbs.Context) (s status.Device, problem string, err error) {
	a := c.Attr()
	s = status.Device{Transport: d.cfg.Provider, Name: a.Name, Driver: a.Driver,
		Atomics: a.Atomic.String(), NUMA: service.DeviceNUMA(a.Name)}
	port, err := c.Port(1)
	if err != nil {
		return s, "", fmt.Errorf("device %s: %w", a.Name, err)
	}
	s.MTU, s.Port = port.ActiveMTU, port.State.String()
	problem = port.Problem(a.Name)
	entry, ok := verbs.ChooseGID(port.GIDs)
	if index := d.cfg.GIDIndex; index >= 0 {
		ok = false
		for _, e := range port.GIDs {
			if e.Index == index {
				entry, ok = e, true
			}
		}
		if !ok {
			return s, problem, fmt.Errorf("device %s has no GID at index %d (transport.gid_index); its "+
				"table is:\n%s", a.Name, index, verbs.GIDTable(port.GIDs))
		}
	}
	if ok {
		s.GIDIndex, s.GID = entry.Index, entry.GID.String()
	}
	return s, problem, nil
}

// watch keeps what is known of the device true until ctx ends: its port, its address and MTU, and that
// it is there at all.
func (d *device) watch(ctx context.Context) {
	tick := time.NewTicker(deviceLook)
	defer tick.Stop()
	w := deviceWatch{d: d}
	for {
		d.mu.Lock()
		c := d.port
		d.mu.Unlock()
		var events <-chan verbs.Event
		if c != nil {
			events = c.Events()
		}
		gone := ""
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case e, ok := <-events:
			if ok && e.Type == verbs.EventDeviceFatal {
				gone = e.Text
			}
			if !ok {
				<-tick.C // it is being closed
			}
		}
		if c != nil {
			w.look(c, gone)
		}
	}
}

// deviceWatch is what watch remembers from one look to the next.
type deviceWatch struct {
	d    *device
	next status.Device // another address or MTU, seen count times
	seen int
}

// look notes what has changed. gone is what an event has said of the end of the device.
func (w *deviceWatch) look(c *verbs.Context, gone string) {
	d := w.d
	if err := d.present(c, gone); err != nil {
		d.gone(err)
		return
	}
	now, problem, err := d.look(c)
	if err != nil && problem == "" {
		problem = err.Error()
	}
	d.mu.Lock()
	before, was := d.now, d.down
	if problem != "" { // its addresses go with the port
		now.GID, now.GIDIndex, now.MTU = before.GID, before.GIDIndex, before.MTU
	}
	if now.GID != w.next.GID || now.MTU != w.next.MTU {
		w.next, w.seen = now, 0
	}
	w.seen++
	changed := w.seen >= calmLooks && (now.GID != before.GID || now.MTU != before.MTU)
	if !changed {
		now.GID, now.GIDIndex, now.MTU = before.GID, before.GIDIndex, before.MTU
	}
	d.now, d.down = now, problem
	d.mu.Unlock()
	switch {
	case problem != "" && was == "":
		d.board.Event(status.Warn, problem)
	case problem == "" && was != "":
		d.board.Event(status.Info, fmt.Sprintf("port 1 of %s is %s again", now.Name, now.Port))
	}
	if changed {
		d.changed(before, now)
	}
}

// present says that the device is gone.
func (d *device) present(c *verbs.Context, gone string) error {
	name := c.Attr().Name
	if gone != "" {
		return fmt.Errorf("device %s: %s", name, gone)
	}
	if p, ok := d.provider.(verbs.Presence); ok {
		if err := p.Present(name); err != nil {
			return fmt.Errorf("device: %w", err)
		}
	}
	return nil
}

// changed has the node start anew if queue pairs that are there cannot go on.
func (d *device) changed(before, now status.Device) {
	text := fmt.Sprintf("device %s: GID %s, MTU %d; before %s, %d", now.Name, now.GID, now.MTU,
		before.GID, before.MTU)
	if now.GID == before.GID && now.MTU >= before.MTU {
		d.board.Event(status.Info, text)
		return
	}
	d.startAnew(errors.New(text + "; its queue pairs are made again"))
}

// startAnew takes the plane out of service, and has the node join again as another incarnation.
func (d *device) startAnew(cause error) {
	d.planes.Fence(cause)
	d.members.StartAnew(cause)
}

// gone takes the node out of the cluster until the device is back. Nothing of the device stays open:
// until then the system does not remove it.
func (d *device) gone(cause error) {
	d.mu.Lock()
	d.missing = cause
	d.mu.Unlock()
	if _, member := d.members.Self(); member {
		d.startAnew(cause)
	} else {
		d.planes.Fence(cause)
	}
	if err := d.close(); err != nil {
		d.log.Warn("the device that is gone was not closed", zap.Error(err))
	}
}

// await returns when the device is there, or ctx ends.
func (d *device) await(ctx context.Context) {
	d.mu.Lock()
	cause := d.missing
	d.mu.Unlock()
	if cause == nil {
		return
	}
	if err := d.planes.ClosePlane(); err != nil {
		d.log.Warn("the plane on the device that is gone was not closed", zap.Error(err))
	}
	tick := time.NewTicker(deviceLook)
	defer tick.Stop()
	for {
		d.board.Set(status.Refusing, cause.Error()+"; joins again when the device is back")
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if d.open() == nil {
			d.board.Event(status.Info, fmt.Sprintf("device %s is back", d.seen().Name))
			return
		}
	}
}
