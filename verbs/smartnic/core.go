package smartnic

import (
	"errors"
	"fmt"

	"drtmd/internal/invariant"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// ErrDMA: a region that the host does not have, or bytes outside of it.
var ErrDMA = errors.New("DMA to memory that is not there")

// CoreConfig of NewCore.
type CoreConfig struct {
	Node  int // of the board
	Index int // of the core
	// Batching is what is gathered; 0 = Gathered.
	Batching Batching
	// Blocking: every DMA is a vector, and the core does nothing else until it is done. Otherwise programs await DMAs.
	Blocking bool
}

// Batching is what a core or a port gathers in a pass.
type Batching uint8

// Kinds of batching.
const (
	// Gathered: messages share packets, packets cross PCIe in bursts, DMAs share vectors.
	Gathered Batching = iota + 1
	// Bursts: every message is a packet; packets cross PCIe in bursts, and DMAs share vectors.
	Bursts
	// Separate: every message is a packet that crosses PCIe alone, and every DMA is a vector.
	Separate
)

var batchings = [...]string{Gathered: "gathered", Bursts: "bursts", Separate: "separate"}

func (b Batching) String() string {
	if b >= Gathered && b <= Separate {
		return batchings[b]
	}
	return fmt.Sprintf("batching(%d)", uint8(b))
}

// or is b, or Gathered if b is 0.
func (b Batching) or() Batching {
	if b == 0 {
		return Gathered
	}
	return b
}

// CoreStats counts what a core did.
type CoreStats struct {
	Received, Sent     uint64 // packets, of the network and of the host
	MessagesIn         uint64
	MessagesOut        uint64
	Vectors, Transfers uint64 // submissions to the DMA engine, and their elements
}

// Core is a core of a NIC: a part of the worker whose fibers are its programs. See the package comment.
type Core struct {
	Stats CoreStats

	w        *fiber.Worker
	b        Board
	cfg      CoreConfig
	handlers handlers
	in       inbox
	nodes    [][]gather // by node and core there
	hosts    []gather   // by thread
	toNodes  []target   // of which something was gathered, in the order of the first message
	toHosts  []int
	read     staged
	write    staged
	finished []*batch
	free     *batch
}

type target struct{ node, core int }

// staged is the DMAs that a core has gathered.
type staged struct{ transfers []*Transfer }

// batch is DMAs that were submitted together. Pooled.
type batch struct {
	core      *Core
	transfers []*Transfer
	ok        bool
	done      func(ok bool) // bound once
	next      *batch
}

// Transfer is a DMA under way. It can be used again when it is done.
type Transfer struct {
	cond    fiber.Cond
	pending bool
	ok      bool
}

// NewCore makes a worker a core of a NIC.
func NewCore(w *fiber.Worker, b Board, cfg CoreConfig) (*Core, error) {
	cfg.Batching = cfg.Batching.or()
	c := &Core{w: w, b: b, cfg: cfg}
	if _, err := w.AddPart(c, 0); err != nil {
		return nil, err
	}
	b.OnPacket(cfg.Index, func(from int, packet []byte) {
		c.in.push(from, packet)
		w.Wake()
	})
	return c, nil
}

// Worker runs the core's fibers.
func (c *Core) Worker() *fiber.Worker { return c.w }

// Index of the core.
func (c *Core) Index() int { return c.cfg.Index }

// Handle says who takes messages of a kind.
func (c *Core) Handle(kind uint8, h Handler) { c.handlers.by[kind] = h }

// Work spends the time that so many picoseconds of work on a host core take here.
func (c *Core) Work(f *fiber.Fiber, hostPs int64) { f.Charge(c.b.WorkPs(hostPs)) }

// Send sends a message to a core of a node's NIC, at the end of the pass. The bytes are copied.
func (c *Core) Send(node, core int, kind uint8, payload []byte) {
	c.Stats.MessagesOut++
	for len(c.nodes) <= node {
		c.nodes = append(c.nodes, make([]gather, c.b.Cores()))
	}
	g := &c.nodes[node][core]
	if !g.dirty {
		g.dirty = true
		c.toNodes = append(c.toNodes, target{node, core})
	}
	g.add(c.b.MTU(), c.cfg.Batching == Gathered, kind, uint8(c.cfg.Index), payload)
	if g.count > maxPackets {
		c.transmit(target{node, core}, g)
	}
}

// SendHost sends a message to a thread of the own host, at the end of the pass. The bytes are copied.
func (c *Core) SendHost(thread int, kind uint8, payload []byte) {
	c.Stats.MessagesOut++
	for len(c.hosts) <= thread {
		c.hosts = append(c.hosts, gather{})
	}
	g := &c.hosts[thread]
	if !g.dirty {
		g.dirty = true
		c.toHosts = append(c.toHosts, thread)
	}
	g.add(c.b.MTU(), c.cfg.Batching == Gathered, kind, uint8(c.cfg.Index), payload)
	if g.count > maxPackets {
		c.raise(thread, g)
	}
}

// transmit sends what was gathered for a core.
func (c *Core) transmit(t target, g *gather) {
	packets := g.take()
	if t.node == c.cfg.Node {
		// It costs no packet. Cores of one NIC share its memory, and send each other nothing.
		invariant.Assert(t.core == c.cfg.Index, "smartnic: a core sends to another one of its own NIC")
		for _, p := range packets {
			c.in.push(c.cfg.Node, p)
		}
		c.w.Wake()
		return
	}
	c.Stats.Sent += uint64(len(packets))
	c.w.RPCWork(len(packets), 0)
	for _, p := range packets {
		c.b.Transmit(t.node, t.core, p)
	}
}

// raise sends what was gathered for a thread of the host.
func (c *Core) raise(thread int, g *gather) {
	packets := g.take()
	c.Stats.Sent += uint64(len(packets))
	c.w.RPCWork(len(packets), 0)
	if c.cfg.Batching != Separate {
		c.b.ToHost(thread, packets)
		return
	}
	for i := range packets {
		c.b.ToHost(thread, packets[i:i+1])
	}
}

// Poll implements fiber.Poller: a burst of packets, and all DMAs that are done.
func (c *Core) Poll() bool {
	busy := len(c.finished) > 0
	for i, b := range c.finished {
		c.end(b)
		c.finished[i] = nil
	}
	c.finished = c.finished[:0]
	packets, messages := 0, 0
	for n := min(c.in.len(), burstPackets); n > 0; n-- {
		a := c.in.pop()
		if a.from != c.cfg.Node {
			packets++
		}
		messages += c.handlers.packet(a.from, a.bytes)
		c.in.recycle(a)
		busy = true
	}
	if packets+messages > 0 {
		c.Stats.Received += uint64(packets)
		c.Stats.MessagesIn += uint64(messages)
		c.w.RPCWork(0, packets)
		c.w.Polled(messages)
	}
	if c.in.len() > 0 {
		c.w.Wake()
	}
	return busy
}

// Flush implements fiber.Part. What is for the own host goes first: clients wait for it.
func (c *Core) Flush() {
	c.submit(&c.read, false)
	c.submit(&c.write, true)
	for _, thread := range c.toHosts {
		g := &c.hosts[thread]
		g.dirty = false
		c.raise(thread, g)
	}
	c.toHosts = c.toHosts[:0]
	for _, t := range c.toNodes {
		g := &c.nodes[t.node][t.core]
		g.dirty = false
		c.transmit(t, g)
	}
	c.toNodes = c.toNodes[:0]
}

// StartRead begins to read bytes of a region of the host into a buffer, which is the engine's until the transfer is
// done.
func (c *Core) StartRead(t *Transfer, rkey uint32, off int, buf []byte) {
	c.start(t, &c.read, false, rkey, off, buf)
}

// StartWrite begins to write a buffer, which is the engine's until the transfer is done.
func (c *Core) StartWrite(t *Transfer, rkey uint32, off int, buf []byte) {
	c.start(t, &c.write, true, rkey, off, buf)
}

func (c *Core) start(t *Transfer, s *staged, write bool, rkey uint32, off int, buf []byte) {
	invariant.Assert(!t.pending, "smartnic: a transfer is used while it is under way")
	t.pending = true
	c.b.Stage(c.cfg.Index, write, rkey, off, buf)
	s.transfers = append(s.transfers, t)
	if len(s.transfers) == c.b.MaxVector() || c.cfg.Batching == Separate || c.cfg.Blocking {
		c.submit(s, write)
	}
	if c.cfg.Blocking {
		c.w.Spend(c.b.TransferPs(write))
	}
}

// submit gives what was gathered to the DMA engine.
func (c *Core) submit(s *staged, write bool) {
	if len(s.transfers) == 0 {
		return
	}
	b := c.free
	if b == nil {
		b = &batch{core: c}
		b.done = b.finish
	} else {
		c.free = b.next
	}
	b.transfers = append(b.transfers[:0], s.transfers...)
	clear(s.transfers)
	s.transfers = s.transfers[:0]
	c.Stats.Vectors++
	c.Stats.Transfers += uint64(len(b.transfers))
	c.w.Spend(c.b.SubmitPs())
	c.b.Submit(c.cfg.Index, write, b.done)
}

// finish is the engine's completion.
func (b *batch) finish(ok bool) {
	b.ok = ok
	b.core.finished = append(b.core.finished, b)
	b.core.w.Wake()
}

// end resumes who waits for a batch.
func (c *Core) end(b *batch) {
	for i, t := range b.transfers {
		t.pending, t.ok = false, b.ok
		t.cond.Broadcast()
		b.transfers[i] = nil
	}
	b.next, c.free = c.free, b
}

// Done reports whether a transfer is over.
func (t *Transfer) Done() bool { return !t.pending }

// Await waits until a transfer is over, and says whether it was done. A fiber that is cancelled leaves it under way.
func (t *Transfer) Await(f *fiber.Fiber) error {
	for t.pending {
		if err := t.cond.Wait(f, 0); err != nil {
			return err
		}
	}
	if !t.ok {
		return ErrDMA
	}
	return nil
}

// Completed implements fiber.Part: it posts no requests.
func (c *Core) Completed(*verbs.WC) { invariant.Assert(false, "smartnic: a completion of nothing") }

// Fence implements fiber.Part: there is nothing that waits on a peer.
func (c *Core) Fence(error) {}

// Close implements fiber.Part.
func (c *Core) Close() error {
	c.b.OnPacket(c.cfg.Index, nil)
	return nil
}
