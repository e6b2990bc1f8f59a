package bench

import (
	"errors"

	"drtmd/cmd/drtmd/internal/exchange"
	"drtmd/verbs"
)

// Device names what a side runs on.
type Device struct {
	Provider verbs.Provider
	Name     string // "": the first with an active port
	Port     int    // 0 = 1
	GIDIndex int    // -1: what verbs.ChooseGID takes
}

// Station is an open device, ready for measurements. It is made and closed by its user.
type Station struct {
	ctx    *verbs.Context
	pd     *verbs.PD
	port   verbs.PortAttr
	gid    verbs.GIDEntry
	choice verbs.GIDChoice // the GID index as asked for
}

// Open opens the device and checks port and GID index: a LimitError says what there is.
func Open(d Device) (*Station, error) {
	c, err := d.Provider.Open(d.Name)
	if err != nil {
		return nil, err
	}
	st, err := newStation(c, d)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return st, nil
}

func newStation(c *verbs.Context, d Device) (*Station, error) {
	a := c.Attr()
	if d.Port == 0 {
		d.Port = 1
	}
	if d.Port < 1 || d.Port > a.Ports {
		return nil, limitf("port %d is not in 1..%d, what %s has", d.Port, a.Ports, a.Name)
	}
	port, err := c.Port(d.Port)
	if err != nil {
		return nil, err
	}
	if port.State != verbs.PortActive {
		return nil, &verbs.Error{Op: "use port", Device: a.Name, Detail: port.Problem(a.Name),
			Hint: "drtmd devices shows interfaces and addresses"}
	}
	st := &Station{ctx: c, port: port}
	if err := st.findGID(d.GIDIndex); err != nil {
		return nil, err
	}
	st.pd, err = c.AllocPD()
	return st, err
}

func (st *Station) findGID(index int) error {
	if index == -1 {
		st.gid, _ = verbs.ChooseGID(st.port.GIDs) // none: the QP will say so if it needs one
		return nil
	}
	for _, e := range st.port.GIDs {
		if e.Index == index && !e.GID.IsZero() {
			st.gid, st.choice = e, verbs.GIDAt(index)
			return nil
		}
	}
	return limitf("GID index %d: port %d of %s has none there; its table (* = chosen by default):\n%s",
		index, st.port.Port, st.ctx.Attr().Name, verbs.GIDTable(st.port.GIDs))
}

// Attr describes the device.
func (st *Station) Attr() verbs.DeviceAttr { return st.ctx.Attr() }

// Port describes the port in use.
func (st *Station) Port() verbs.PortAttr { return st.port }

// GID is the entry in use; its GID is zero where there is none.
func (st *Station) GID() verbs.GIDEntry { return st.gid }

// Hello introduces the station to a peer.
func (st *Station) Hello() exchange.Hello {
	a := st.ctx.Attr()
	return exchange.Hello{Transport: a.Provider, Device: a.Name, Driver: a.Driver,
		ActiveMTU: st.port.ActiveMTU, MaxMsgBytes: a.MaxMsgBytes,
		MaxQueue: min(a.MaxQPWR, a.MaxCQE), Atomics: a.Atomic > verbs.AtomicNone}
}

// Close closes the device and whatever is left on it. It may be called twice.
func (st *Station) Close() error { return st.ctx.Close() }
