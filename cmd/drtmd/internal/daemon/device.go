package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/service"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/verbs"
)

const (
	// deviceLook is how often the device is looked at, beside its events: not every driver tells.
	deviceLook = time.Second
	// calmLooks in a row see the same address before it counts: an interface that comes up gets its
	// addresses one after the other.
	calmLooks = 3
)

// openDevice says early what is wrong with the device, and keeps it open to look at it.
func (d *Daemon) openDevice() error {
	t := d.cfg.Transport
	c, err := d.provider.Open(t.Device)
	if err != nil {
		return fmt.Errorf("device (transport.device): %w; drtmd devices shows what there is", err)
	}
	s, problem, err := d.describeDevice(c)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	d.mu.Lock()
	d.port, d.device, d.portDown, d.missing = c, s, problem, nil
	d.mu.Unlock()
	return nil
}

// closeDevice may be called twice.
func (d *Daemon) closeDevice() error {
	d.mu.Lock()
	c := d.port
	d.port = nil
	d.mu.Unlock()
	if c == nil {
		return nil
	}
	return c.Close()
}

// seenDevice is the device as it was last seen.
func (d *Daemon) seenDevice() status.Device {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.device
}

// describeDevice is the device as it is now, and what is wrong with its port.
func (d *Daemon) describeDevice(c *verbs.Context) (s status.Device, problem string, err error) {
	a := c.Attr()
	s = status.Device{Transport: d.cfg.Transport.Provider, Name: a.Name, Driver: a.Driver,
		Atomics: a.Atomic.String(), NUMA: service.DeviceNUMA(a.Name)}
	port, err := c.Port(1)
	if err != nil {
		return s, "", fmt.Errorf("device %s: %w", a.Name, err)
	}
	s.MTU, s.Port = port.ActiveMTU, port.State.String()
	problem = port.Problem(a.Name)
	entry, ok := verbs.ChooseGID(port.GIDs)
	if index := d.cfg.Transport.GIDIndex; index >= 0 {
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

// watchDevice keeps what is known of the device true: its port, its address and MTU, and that it is
// there at all.
func (d *Daemon) watchDevice(ctx context.Context) {
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

// deviceWatch is what watchDevice remembers from one look to the next.
type deviceWatch struct {
	d    *Daemon
	next status.Device // another address or MTU, seen count times
	seen int
}

// look notes what has changed. gone is what an event has said of the end of the device.
func (w *deviceWatch) look(c *verbs.Context, gone string) {
	d := w.d
	if err := d.present(c, gone); err != nil {
		d.deviceGone(err)
		return
	}
	now, problem, err := d.describeDevice(c)
	if err != nil && problem == "" {
		problem = err.Error()
	}
	d.mu.Lock()
	before, was := d.device, d.portDown
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
	d.device, d.portDown = now, problem
	d.mu.Unlock()
	switch {
	case problem != "" && was == "":
		d.event(status.Warn, problem)
	case problem == "" && was != "":
		d.event(status.Info, fmt.Sprintf("port 1 of %s is %s again", now.Name, now.Port))
	}
	if changed {
		d.deviceChanged(before, now)
	}
}

// present says that the device is gone.
func (d *Daemon) present(c *verbs.Context, gone string) error {
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

// deviceChanged has the node start anew if queue pairs that are there cannot go on.
func (d *Daemon) deviceChanged(before, now status.Device) {
	text := fmt.Sprintf("device %s: GID %s, MTU %d; before %s, %d", now.Name, now.GID, now.MTU,
		before.GID, before.MTU)
	if now.GID == before.GID && now.MTU >= before.MTU {
		d.event(status.Info, text)
		return
	}
	d.startAnew(errors.New(text + "; its queue pairs are made again"))
}

// startAnew takes the plane out of service, and has the node join again as another incarnation.
func (d *Daemon) startAnew(cause error) {
	d.fence(cause)
	select {
	case d.anew <- cause:
	default: // it is told already
	}
}

// deviceGone takes the node out of the cluster until the device is back. Nothing of the device stays
// open: until then the system does not remove it.
func (d *Daemon) deviceGone(cause error) {
	d.mu.Lock()
	d.missing = cause
	member := d.session != nil
	d.mu.Unlock()
	if member {
		d.startAnew(cause)
	} else {
		d.fence(cause)
	}
	if err := d.closeDevice(); err != nil {
		d.log.Warn("the device that is gone was not closed", zap.Error(err))
	}
}

// awaitDevice returns when the device is there, or the daemon ends.
func (d *Daemon) awaitDevice(ctx context.Context) {
	d.mu.Lock()
	cause := d.missing
	d.mu.Unlock()
	if cause == nil {
		return
	}
	if err := d.part.Close(); err != nil {
		d.log.Warn("the plane on the device that is gone was not closed", zap.Error(err))
	}
	tick := time.NewTicker(deviceLook)
	defer tick.Stop()
	for {
		d.setPhase(status.Refusing, cause.Error()+"; joins again when the device is back")
		select {
		case <-ctx.Done():
			return
		case <-d.drain:
			return
		case <-tick.C:
		}
		if d.openDevice() == nil {
			d.event(status.Info, fmt.Sprintf("device %s is back", d.seenDevice().Name))
			return
		}
	}
}
