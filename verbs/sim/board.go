package sim

import (
	"errors"
	"fmt"

	"drtmd/internal/invariant"
)

// This file is the model of a NIC with cores: it implements smartnic.Board. Cores run programs on a Timeline of their
// own; what a packet or a message costs them is in the section cores of the cost model.

// activeFor is how long a core counts as one that works after it has last run: the more work, the slower each is.
// Assumed.
const activeFor = 1 * Microsecond

// Errors of boards.
var (
	// ErrNoCores: the cost model has a NIC without cores.
	ErrNoCores = errors.New("the NIC of this cost model has no cores for programs")
	// ErrNICMemory: the NIC's memory is used up.
	ErrNICMemory = errors.New("the NIC's memory is used up")
)

// Board is the NIC of a node whose cores run programs, in one life of the node. It belongs to the event loop.
type Board struct {
	node        *Node
	incarnation uint32
	cores       []boardCore
	host        []func(packet []byte) // of threads
	pausedUntil Time
	up, down    server // host-NIC queues: to the host, from it
	queues      []server
	used        int64 // of the NIC's memory
	freeBursts  *burst
	freeVectors *vector
}

// boardCore is what the model knows of a core.
type boardCore struct {
	receive       func(from int, packet []byte) // from the network, or the host: -1
	ran           Time                          // when it last ran
	active        bool                          // it has run
	reads, writes []element                     // staged
}

// burst is packets on their way between a host and its NIC. Pooled.
type burst struct {
	board   *Board
	toHost  bool
	index   int // of the thread or core
	packets [][]byte
	run     func() // bound once
	next    *burst
}

// AttachBoard has programs run on the cores of the node's NIC, until the node crashes.
func (n *Node) AttachBoard() (*Board, error) {
	c := &n.world.cost.Cores
	switch {
	case c.Count == 0:
		return nil, fmt.Errorf("%w: %s", ErrNoCores, n.world.cost.Name)
	case !n.up || n.board != nil && n.board.alive():
		return nil, ErrAttached
	}
	n.board = &Board{node: n, incarnation: n.incarnation, cores: make([]boardCore, c.Count),
		queues: make([]server, c.DMAQueues)}
	return n.board, nil
}

func (b *Board) alive() bool { return b.node.up && b.node.incarnation == b.incarnation }

// Cores implements smartnic.Board.
func (b *Board) Cores() int { return len(b.cores) }

// MTU implements smartnic.Board.
func (b *Board) MTU() int { return int(b.node.world.cost.Link.MTU) }

// MaxVector implements smartnic.Board.
func (b *Board) MaxVector() int { return int(b.node.world.cost.Cores.DMAVector) }

// Timeline gives the event loop to a core, in the node's present life.
func (b *Board) Timeline(core int) *Timeline {
	return &Timeline{node: b.node, worker: core, incarnation: b.incarnation, board: b}
}

// OnPacket implements smartnic.Board.
func (b *Board) OnPacket(core int, f func(from int, packet []byte)) { b.cores[core].receive = f }

// OnHost implements smartnic.Board.
func (b *Board) OnHost(thread int, f func(packet []byte)) {
	for len(b.host) <= thread {
		b.host = append(b.host, nil)
	}
	b.host[thread] = f
}

// Pause stops all cores for a span. The DMA engine and the queues work on.
func (b *Board) Pause(d Time) { b.pausedUntil = max(b.pausedUntil, b.node.world.now.add(d)) }

// readyAt is when a core that is about to run may do so.
func (b *Board) readyAt(core int) Time {
	now := b.node.world.now
	if b.pausedUntil > now {
		return b.pausedUntil
	}
	b.cores[core].ran, b.cores[core].active = now, true
	return now
}

// WorkPs implements smartnic.Board: the fewer cores work, the faster each is.
func (b *Board) WorkPs(hostPs int64) int64 {
	c := &b.node.world.cost.Cores
	others, now := int64(-1), b.node.world.now
	for i := range b.cores {
		if b.cores[i].active && now-b.cores[i].ran <= activeFor {
			others++
		}
	}
	factor := int64(c.Alone)
	if rest := int64(len(b.cores) - 1); rest > 0 {
		factor += (int64(c.Together) - int64(c.Alone)) * max(others, 0) / rest
	}
	return int64(b.node.slow(Time(scale(hostPs, factor, 1000))))
}

// SubmitPs implements smartnic.Board.
func (b *Board) SubmitPs() int64 { return int64(b.node.slow(b.node.world.cost.Cores.DMASubmit)) }

// TransferPs implements smartnic.Board.
func (b *Board) TransferPs(write bool) int64 {
	p := &b.node.world.cost.PCIe
	if write {
		return int64(b.node.slow(p.Write))
	}
	return int64(b.node.slow(p.Read))
}

// Alloc implements smartnic.Board.
func (b *Board) Alloc(n int) ([]byte, error) {
	limit := int64(b.node.world.cost.Cores.Memory)
	if int64(n) > limit-b.used {
		return nil, fmt.Errorf("%w: %d bytes asked for, %d of %d in use", ErrNICMemory, n, b.used, limit)
	}
	b.used += int64(n)
	return make([]byte, n), nil
}

// Transmit implements smartnic.Board.
func (b *Board) Transmit(node, core int, packet []byte) {
	if !b.alive() {
		return
	}
	n, w := b.node, b.node.world
	invariant.Assert(node != n.index && node >= 0 && node < len(w.nodes), "a NIC core sends to its own node, or to none")
	m := w.newMessage()
	m.kind, m.src, m.here, m.dst, m.incarnation = mkPacket, n, n, w.nodes[node], n.incarnation
	m.seq, m.imm = uint64(m.dst.incarnation), uint32(core)
	m.length = uint32(len(packet))
	m.buf = w.buffer(len(packet))
	copy(m.buf, packet)
	w.post(w.now+n.slow(w.cost.NIC.Pipeline), evWire, m)
}

// deliverPacket gives a packet to the core that it was sent to, if that lives.
func (n *Node) deliverPacket(m *message) {
	w, b := n.world, n.board
	if !n.up || b == nil || !b.alive() || m.seq != uint64(n.incarnation) || int(m.imm) >= len(b.cores) ||
		b.cores[m.imm].receive == nil {
		w.drop(m)
		return
	}
	b.cores[m.imm].receive(m.src.index, m.buf)
	w.free(m)
}

// ToHost implements smartnic.Board.
func (b *Board) ToHost(thread int, packets [][]byte) { b.cross(true, thread, packets) }

// ToCore implements smartnic.Board.
func (b *Board) ToCore(core int, packets [][]byte) { b.cross(false, core, packets) }

// cross sends a burst over PCIe.
func (b *Board) cross(toHost bool, index int, packets [][]byte) {
	if !b.alive() || len(packets) == 0 {
		return
	}
	n, w := b.node, b.node.world
	x := b.freeBursts
	if x == nil {
		x = &burst{board: b}
		x.run = x.arrive
	} else {
		b.freeBursts = x.next
	}
	x.toHost, x.index, x.next = toHost, index, nil
	bytes := 0
	for _, p := range packets {
		c := w.buffer(len(p))
		copy(c, p)
		x.packets = append(x.packets, c)
		bytes += w.cost.pcieBytes(len(p))
	}
	queue, link, latency := &b.down, &n.toNIC, w.cost.NIC.Doorbell+w.cost.PCIe.Read
	if toHost {
		queue, link, latency = &b.up, &n.toHost, w.cost.PCIe.Write
	}
	c := &w.cost.Cores
	handled := queue.take(w.now, n.slow(c.QueueBurst+Time(len(packets))*c.QueuePacket))
	carried := link.take(w.now, n.slow(span(bytes, w.rate.pciePerByte)))
	w.schedule(max(handled, carried)+n.slow(latency), event{kind: evCall, call: x.run})
}

// arrive is the end of a burst's way.
func (x *burst) arrive() {
	b := x.board
	for i, p := range x.packets {
		if b.alive() {
			if x.toHost && x.index < len(b.host) && b.host[x.index] != nil {
				b.host[x.index](p)
			} else if !x.toHost && b.cores[x.index].receive != nil {
				b.cores[x.index].receive(-1, p)
			}
		}
		b.node.world.freeBuffer(p)
		x.packets[i] = nil
	}
	x.packets = x.packets[:0]
	x.next, b.freeBursts = b.freeBursts, x
}
