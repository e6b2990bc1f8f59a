package smartnic

import (
	"drtmd/internal/invariant"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// PortStats counts what a port did.
type PortStats struct {
	Received, Sent          uint64 // packets
	MessagesIn, MessagesOut uint64
}

// Port is a host thread's end of the queues to its NIC: a part of the thread's worker. See the package comment.
type Port struct {
	Stats PortStats

	w        *fiber.Worker
	b        Board
	thread   int
	batching Batching
	handlers handlers
	in       inbox
	cores    []gather
	toCores  []int // of which something was gathered, in the order of the first message
}

// NewPort opens the queues of a thread. The batching is what is gathered; 0 = Gathered.
func NewPort(w *fiber.Worker, b Board, thread int, batching Batching) (*Port, error) {
	p := &Port{w: w, b: b, thread: thread, batching: batching.or(), cores: make([]gather, b.Cores())}
	if _, err := w.AddPart(p, 0); err != nil {
		return nil, err
	}
	b.OnHost(thread, func(packet []byte) {
		p.in.push(Host, packet)
		w.Wake()
	})
	return p, nil
}

// Handle says who takes messages of a kind.
func (p *Port) Handle(kind uint8, h Handler) { p.handlers.by[kind] = h }

// Send sends a message to a core of the own NIC, at the end of the pass. The bytes are copied.
func (p *Port) Send(core int, kind uint8, payload []byte) {
	p.Stats.MessagesOut++
	g := &p.cores[core]
	if !g.dirty {
		g.dirty = true
		p.toCores = append(p.toCores, core)
	}
	g.add(p.b.MTU(), p.batching == Gathered, kind, uint8(p.thread), payload)
	if g.count > maxPackets {
		p.lower(core, g)
	}
}

// lower sends what was gathered for a core.
func (p *Port) lower(core int, g *gather) {
	packets := g.take()
	p.Stats.Sent += uint64(len(packets))
	p.w.RPCWork(len(packets), 0)
	if p.batching != Separate {
		p.b.ToCore(core, packets)
		return
	}
	for i := range packets {
		p.b.ToCore(core, packets[i:i+1])
	}
}

// Poll implements fiber.Poller.
func (p *Port) Poll() bool {
	packets := min(p.in.len(), burstPackets)
	for range packets {
		a := p.in.pop()
		p.Stats.MessagesIn += uint64(p.handlers.packet(a.from, a.bytes))
		p.in.recycle(a)
	}
	if packets > 0 {
		p.Stats.Received += uint64(packets)
		p.w.RPCWork(0, packets)
	}
	if p.in.len() > 0 {
		p.w.Wake()
	}
	return packets > 0
}

// Flush implements fiber.Part.
func (p *Port) Flush() {
	for _, core := range p.toCores {
		g := &p.cores[core]
		g.dirty = false
		p.lower(core, g)
	}
	p.toCores = p.toCores[:0]
}

// Completed implements fiber.Part: it posts no requests.
func (p *Port) Completed(*verbs.WC) { invariant.Assert(false, "smartnic: a completion of nothing") }

// Fence implements fiber.Part: there is nothing that waits on a peer.
func (p *Port) Fence(error) {}

// Close implements fiber.Part.
func (p *Port) Close() error {
	p.b.OnHost(p.thread, nil)
	return nil
}
