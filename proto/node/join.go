package node

import (
	"errors"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
)

// Retired is a queue pair that Join has replaced. It is in error; Conn.Close, on a fiber of the
// worker, frees it when what was in flight is flushed.
type Retired struct {
	Worker *fiber.Worker
	Conn   *fiber.Conn
}

// Join connects worker i of two members, or of one with itself, by new queue pairs. The old ones
// are moved to error on both sides before: what of them is still on its way changes nothing any
// more. It makes no session: Worker.Mend opens it, with the port of the other's present life, and
// renews everything from then on. For members of one event loop; transactions may be under way, and
// addPeer the error of the queue pair that they used.
func Join(a, b *Member, i int) ([]Retired, error) {
	x, y := a.Workers[i], b.Workers[i]
	var old []Retired
	for _, r := range [...]Retired{{x.Worker, x.to(b)}, {y.Worker, y.from(a)}} {
		if r.Conn != nil {
			if err := r.Conn.QP().ToError(); err != nil {
				return nil, err
			}
			old = append(old, r)
		}
	}
	x.setTo(b, nil)
	y.setFrom(a, nil)
	near, err := x.Worker.NewConn(verbs.AccessAll)
	if err != nil {
		return old, err
	}
	far, err := y.Worker.NewConn(verbs.AccessAll)
	if err != nil {
		return append(old, Retired{x.Worker, near}), err
	}
	if err := errors.Join(near.Connect(far.Endpoint(), a.cluster.Connect),
		far.Connect(near.Endpoint(), a.cluster.Connect)); err != nil {
		return append(old, Retired{x.Worker, near}, Retired{y.Worker, far}), err
	}
	x.setTo(b, near)
	y.setFrom(a, far)
	there, back := b.describeMemory(), a.describeMemory()
	x.reach(&there)
	y.reach(&back)
	if a != b {
		x.addPeer(b.ID, b.ports())
		y.addPeer(a.ID, a.ports())
	}
	x.ports[a.ID], y.ports[b.ID] = a.ports(), b.ports()
	return old, nil
}

// Introduce has worker i of a know b, which does not know this life of a yet: as a member that has just
// come knows the others. On the worker's thread.
func Introduce(a, b *Member, i int) {
	there := b.describeMemory()
	a.Workers[i].reach(&there)
	a.Workers[i].addPeer(b.ID, b.ports())
}

// to is the queue pair to a member, from the one at which a member's queue pair to here ends.
// They are one, but for the loopback.
func (w *Worker) to(m *Member) *fiber.Conn { return w.conns[m.ID] }

func (w *Worker) from(m *Member) *fiber.Conn {
	if m.ID == w.Node {
		return w.loop
	}
	return w.conns[m.ID]
}

func (w *Worker) setTo(m *Member, c *fiber.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[m.ID] = c
}

func (w *Worker) setFrom(m *Member, c *fiber.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.ID == w.Node {
		w.loop = c
	} else {
		w.conns[m.ID] = c
	}
}

// Port is the address of a worker's RPC port.
func (m *Member) Port(i int) rpc.Address { return m.Workers[i].Env.Port.Address() }

// ports are the addresses of the ports of all workers.
func (m *Member) ports() (list []rpc.Address) {
	for i, w := range m.Workers {
		a := rpc.Address{}
		if w.Env.Port != nil {
			a = m.Port(i)
		}
		list = append(list, a)
	}
	return list
}

// ports are the addresses of the ports of all workers.
func (d *Descriptor) ports() (list []rpc.Address) {
	for i := range d.Workers {
		list = append(list, d.Workers[i].Port)
	}
	return list
}
