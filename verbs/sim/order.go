package sim

import (
	"drtmd/internal/invariant"
	"drtmd/verbs"
)

// An Order decides which of the messages in flight arrives next, instead of their times. While a world has one,
// every message waits on its channel, those of a node to its own NIC included. When nothing else is about to happen, Pick chooses
// the channel whose first message arrives; whatever follows from it at its destination happens before the next
// choice. So a run depends on its choices only, and a program that makes all choices makes all orders.
//
// What a CPU does between two arrivals is one step. Timers go on: what they start is part of the step under way.
type Order struct {
	// Pick gives the index of one of the arrivals that are possible, of which there is at least one; they are in
	// the order of their channels. With PickEnd it ends the order, as World.SetOrder with nil. With PickAgain it
	// has changed the world, such as by a crash, and is asked again; with PickLater when time has passed.
	Pick func(possible []Arrival) int
	// Quiet is how long nothing must be due before the next arrival, and Longest after what time it comes anyhow.
	Quiet, Longest Time
}

// What Order.Pick gives instead of an index.
const (
	PickEnd   = -1
	PickAgain = -2
	PickLater = -3
)

// Channel is where messages keep their order: one direction of a pair of QPs, or the begin of a program, which
// is an arrival from nowhere. It is comparable.
type Channel struct {
	From, To     int // nodes, by index; From is -1 for a program
	FromQP, ToQP uint32
	Answers      bool // answers to requests do not wait for requests
}

// Arrival is a message that may arrive next, or a program that may begin.
type Arrival struct {
	Channel
	// Sent is how many arrivals the world had seen when the message left: what its sender did later is not
	// its cause.
	Sent int
	// Reads: it is a READ, which changes nothing where it arrives.
	Reads bool
}

// waiting is what a channel holds.
type waiting struct {
	Arrival
	message *message // nil: begin is set
	begin   func()
}

// order is the state of an Order.
type order struct {
	*Order
	held     []waiting // in the order of their channels, those of a channel in the order of sending
	possible []Arrival // for Pick; reused
	channels []int     // indices in held of these
	arrived  int
	last     Time // of the last arrival
}

// SetOrder has messages that leave from now on arrive in an order of the caller's choice. With nil, those that wait
// arrive at once, each channel's in their order, and times count again.
func (w *World) SetOrder(o *Order) {
	if o != nil {
		w.order = &order{Order: o, last: w.now}
		return
	}
	if w.order == nil {
		return
	}
	held := w.order.held
	w.order = nil
	for i := range held {
		w.arriveNow(&held[i])
	}
}

// OrderIdle reports whether there is no order, or nothing has arrived for some time and nothing is to arrive.
func (w *World) OrderIdle(d Time) bool {
	return w.order == nil || len(w.order.held) == 0 && w.now >= w.order.last+d
}

// Begin has a program begin: now, or when the order chooses so. number tells the programs of a node apart.
func (w *World) Begin(n *Node, number uint32, begin func()) {
	if w.order == nil {
		begin()
		return
	}
	w.order.hold(waiting{Arrival: Arrival{Channel: Channel{From: -1, To: n.index, ToQP: number}}, begin: begin})
}

// Lose drops the messages of a node to another that have not arrived.
func (w *World) Lose(from, to *Node) {
	if w.order == nil {
		return
	}
	kept := w.order.held[:0]
	for _, x := range w.order.held {
		if x.message != nil && x.From == from.index && x.To == to.index {
			w.drop(x.message)
			continue
		}
		kept = append(kept, x)
	}
	w.order.held = kept
}

// fly has a message on the wire arrive: at a time, or when its turn comes.
func (w *World) fly(m *message, head Time) {
	if w.order == nil {
		w.post(head, evArrive, m)
		return
	}
	w.order.hold(waiting{message: m, Arrival: Arrival{Sent: w.order.arrived,
		Reads: m.kind == mkRequest && m.op == verbs.OpRead, Channel: Channel{From: m.src.index,
			To: m.dst.index, FromQP: m.srcQPN, ToQP: m.dstQPN, Answers: m.kind == mkResponse}}})
}

// hold puts what is to arrive behind what its channel has.
func (o *order) hold(x waiting) {
	at := len(o.held)
	for at > 0 && x.Channel.before(&o.held[at-1].Channel) {
		at--
	}
	o.held = append(o.held, waiting{})
	copy(o.held[at+1:], o.held[at:])
	o.held[at] = x
}

// before is the order of channels.
func (c *Channel) before(d *Channel) bool {
	switch {
	case c.To != d.To:
		return c.To < d.To
	case c.From != d.From:
		return c.From < d.From
	case c.ToQP != d.ToQP:
		return c.ToQP < d.ToQP
	case c.FromQP != d.FromQP:
		return c.FromQP < d.FromQP
	}
	return !c.Answers && d.Answers
}

// letArrive lets the next message arrive, if it is time to, and reports whether it did.
func (w *World) letArrive() bool {
	o := w.order
	if len(o.held) == 0 || w.first < len(w.instant) || w.heap.len() > 0 && w.heap.a[0].at <= w.now+o.Quiet &&
		w.now <= o.last+o.Longest {
		return false
	}
	o.possible, o.channels = o.possible[:0], o.channels[:0]
	for i := range o.held {
		if i == 0 || o.held[i].Channel != o.held[i-1].Channel {
			o.possible, o.channels = append(o.possible, o.held[i].Arrival), append(o.channels, i)
		}
	}
	n := o.Pick(o.possible)
	switch n {
	case PickEnd:
		w.SetOrder(nil)
		return true
	case PickAgain:
		return true
	case PickLater:
		return false
	}
	invariant.Assert(n >= 0 && n < len(o.channels), "the order picks what cannot arrive")
	at := o.channels[n]
	x := o.held[at]
	o.held = append(o.held[:at], o.held[at+1:]...)
	o.arrived++
	o.last = w.now
	w.arriveNow(&x)
	return true
}

// arriveNow lets one message arrive, or one program begin.
func (w *World) arriveNow(x *waiting) {
	if x.message != nil {
		w.post(w.now, evArrive, x.message)
		return
	}
	w.At(w.now, x.begin)
}
