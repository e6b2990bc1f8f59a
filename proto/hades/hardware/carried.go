package hardware

import (
	"drtmd/internal/invariant"
	"drtmd/verbs/smartnic"
)

// Carried is a node whose NIC is the program on a smartnic.NIC, which carries its messages and its time.
type Carried struct {
	*Node
	nic     smartnic.NIC
	pool    *Pool
	cyclePs int64
	buffer  []byte // of the message that is sent
	steps   *later // free ones
}

// later is a step that the node waits for; it is used again.
type later struct {
	c    *Carried
	step Step
	run  func() // bound once
	next *later
}

// Carry makes a node. Hooks.Send and Hooks.Later of the configuration are its own. attach gives it the NIC, which hands
// messages to the Receiver. A cycle of a core takes so many picoseconds: 500 at the 2 GHz of HADES Table III.
func Carry(c Config, cyclePs int64, attach func(smartnic.Receiver) (smartnic.NIC, error)) (*Carried, error) {
	x := &Carried{pool: c.Pool, cyclePs: cyclePs}
	c.Hooks.Send, c.Hooks.Later = x.send, x.later
	var err error
	if x.Node, err = New(c); err != nil {
		return nil, err
	}
	if x.nic, err = attach(x.receive); err != nil {
		return nil, err
	}
	return x, nil
}

// Alive reports whether the life goes on in which the node was made.
func (c *Carried) Alive() bool { return c.nic.Alive() }

func (c *Carried) send(m *Message, cycles int) {
	c.buffer = m.encode(c.buffer[:0])
	c.nic.Send(int(m.To), c.buffer, int64(cycles)*c.cyclePs)
	c.pool.Put(m)
}

func (c *Carried) receive(from int, payload []byte) {
	m := c.pool.get()
	err := m.decode(payload)
	invariant.Assert(err == nil, "hardware: a NIC of the model sends what no NIC of the model sends")
	m.From, m.To = NodeID(from), c.cfg.Node
	c.Receive(m)
}

func (c *Carried) later(s Step, cycles int) {
	l := c.steps
	if l == nil {
		l = &later{c: c}
		l.run = func() {
			s := l.step
			l.step, l.next, l.c.steps = Step{}, l.c.steps, l
			l.c.Run(s)
		}
	} else {
		c.steps = l.next
	}
	l.step, l.next = s, nil
	c.nic.AfterPs(int64(cycles)*c.cyclePs, l.run)
}
