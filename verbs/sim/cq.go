package sim

import "drtmd/verbs"

// channel implements verbs.DriverChannel and verbs.DriverNotifier: it has no descriptor, and
// OnArrival is how one waits.
type channel struct {
	events  []uint32 // ids of CQs that announced something
	arrival func()
}

func (c *channel) FD() int { return -1 }

// OnArrival implements verbs.DriverNotifier.
func (c *channel) OnArrival(f func()) {
	c.arrival = f
	if f != nil && len(c.events) > 0 {
		f()
	}
}

// Close implements verbs.DriverChannel.
func (c *channel) Close() error {
	if c.arrival != nil {
		c.arrival()
	}
	return nil
}

// Consume implements verbs.DriverChannel.
func (c *channel) Consume(each func(cqID uint32)) error {
	for _, id := range c.events {
		each(id)
	}
	c.events = c.events[:0]
	return nil
}

// CreateChannel implements verbs.Driver.
func (d *device) CreateChannel() (verbs.DriverChannel, error) {
	return &channel{}, d.alive()
}

// CreateCQ implements verbs.Driver.
func (d *device) CreateCQ(depth int, id uint32, ch verbs.DriverChannel, _ bool) (verbs.DriverCQ,
	error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	q := &cq{dev: d, id: id, depth: depth}
	if ch != nil {
		q.channel = ch.(*channel)
	}
	return q, nil
}

// cq implements verbs.DriverCQ and verbs.DriverNotifier.
type cq struct {
	dev       *device
	id        uint32
	depth     int
	channel   *channel
	entries   []verbs.WC // a ring that grows up to depth
	head      int
	count     int
	armed     bool
	solicited bool // only solicited completions and errors are announced
	arrival   func()
}

// Poll implements verbs.DriverCQ.
func (c *cq) Poll(wcs []verbs.WC) (int, error) {
	n := min(len(wcs), c.count)
	for i := range n {
		wcs[i] = c.entries[c.head]
		if c.head++; c.head == len(c.entries) {
			c.head = 0
		}
	}
	c.count -= n
	if n == 0 {
		return 0, c.dev.alive()
	}
	return n, nil
}

// Arm implements verbs.DriverCQ.
func (c *cq) Arm(solicitedOnly bool) error {
	c.armed, c.solicited = true, solicitedOnly
	return c.dev.alive()
}

// Close implements verbs.DriverCQ.
func (c *cq) Close() error {
	c.entries, c.count, c.arrival = nil, 0, nil
	return nil
}

// OnArrival implements verbs.DriverNotifier.
func (c *cq) OnArrival(f func()) { c.arrival = f }

// push adds a completion.
func (c *cq) push(wc verbs.WC, solicited bool) {
	w := c.dev.node.world
	w.stats.Completions++
	w.trace.mix(uint64(wc.Status)<<32 | uint64(wc.ByteLen))
	if c.count == len(c.entries) && !c.grow() {
		c.dev.event(verbs.DriverEvent{Event: verbs.Event{Type: verbs.EventCQErr}, CQID: c.id})
		return
	}
	i := c.head + c.count
	if i >= len(c.entries) {
		i -= len(c.entries)
	}
	c.entries[i] = wc
	c.count++
	if c.armed && c.channel != nil && (!c.solicited || solicited || wc.Status != 0) {
		c.armed = false
		c.channel.events = append(c.channel.events, c.id)
		if c.channel.arrival != nil {
			c.channel.arrival()
		}
	}
	if c.arrival != nil {
		c.arrival()
	}
}

// grow doubles the ring; false if it has its full depth.
func (c *cq) grow() bool {
	if len(c.entries) >= c.depth {
		return false
	}
	bigger := make([]verbs.WC, min(c.depth, max(16, 2*len(c.entries))))
	n := copy(bigger, c.entries[c.head:])
	copy(bigger[n:], c.entries[:c.head])
	c.entries, c.head = bigger, 0
	return true
}
