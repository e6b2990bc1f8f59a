package node

import (
	"fmt"
	"sync/atomic"

	"drtmd/internal/invariant"
	"drtmd/proto/protocol"
	"drtmd/store/layout"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/lineword"
)

// playedNIC is a NIC with cores that a worker of its own plays, where there is no simulator: an emulation, which shows
// that programs of NICs are right on threads and real networks, and no NIC's speed. Its cores are parts of that worker; all
// workers of a member run on one thread, so what NIC and host share has one thread. Packets go to other members by RPC of
// the member's first worker (playedWay); DMA is a copy between two steps of fibers. It implements smartnic.Board.
type playedNIC struct {
	first  *Worker       // whose port carries packets
	worker *fiber.Worker // of the cores
	cores  [playedCores]func(from int, packet []byte)
	hosts  []func(packet []byte) // by thread
	ways   []playedWay           // by node
	mrs    map[uint32]*verbs.MR
	staged [2][playedCores][]playedElement // reads, writes
	left   int                             // of its memory
	again  bool                            // a deliberate bug: see protocol.Board
	twice  bool                            // every part is sent a second time, behind others; for tests
}

type playedElement struct {
	mr  *verbs.MR
	off int
	buf []byte
}

const (
	playedCores  = 24
	playedMTU    = 1024
	playedVector = 15
	playedMemory = 16 << 30
)

// playsNIC reports whether the member has a worker that plays its NIC.
func (m *Member) playsNIC() bool { return m.cfg.PlaysNIC && playsNICs(&m.cluster.Protocol) }

// playsNICs reports whether a protocol runs on NICs with cores, which workers play where there is no simulator.
func playsNICs(p *Protocol) bool { return p.Chips != nil && p.Chips.Cores }

// playNIC makes the NIC of a member.
func (m *Member) playNIC() (protocol.Board, error) {
	if n := m.cluster.RPC.MaxMessage; n > 0 && n < playedHead+playedPart {
		return protocol.Board{}, fmt.Errorf("a NIC that a worker plays sends messages of %d bytes, and RPC.MaxMessage "+
			"is %d: raise it, or leave it out", playedHead+playedPart, n)
	}
	w, err := m.cfg.NewWorker(len(m.Workers), fiber.WorkerConfig{Name: fmt.Sprintf("n%d/nic", m.ID), PD: m.pd})
	if err != nil {
		return protocol.Board{}, err
	}
	m.cores = append(m.cores, w)
	b := &playedNIC{first: m.Workers[0], worker: w, hosts: make([]func([]byte), len(m.Workers)),
		ways: make([]playedWay, m.cluster.Nodes), mrs: map[uint32]*verbs.MR{}, left: playedMemory}
	for n := range b.ways {
		b.ways[n] = playedWay{board: b, to: n, early: map[uint64][]byte{}}
	}
	for _, s := range m.shares {
		if s != nil {
			b.mrs[s.mr.RKey()] = s.mr
		}
	}
	if p := b.first.Port; p != nil {
		p.Handle(typePackets, b.take)
	}
	return protocol.Board{Board: b, Played: true, Again: func() { b.again = true },
		NewWorker: func(int, fiber.WorkerConfig) (*fiber.Worker, error) { return w, nil },
		Register:  func(mr *verbs.MR) { b.mrs[mr.RKey()] = mr }}, nil
}

// Cores implements smartnic.Board.
func (b *playedNIC) Cores() int { return playedCores }

// MTU implements smartnic.Board.
func (b *playedNIC) MTU() int { return playedMTU }

// MaxVector implements smartnic.Board.
func (b *playedNIC) MaxVector() int { return playedVector }

// OnPacket implements smartnic.Board.
func (b *playedNIC) OnPacket(core int, f func(from int, packet []byte)) { b.cores[core] = f }

// OnHost implements smartnic.Board.
func (b *playedNIC) OnHost(thread int, f func(packet []byte)) {
	invariant.Assert(thread < len(b.hosts), "node: a NIC that is played has a thread of the host for each worker")
	b.hosts[thread] = f
}

// ToHost implements smartnic.Board.
func (b *playedNIC) ToHost(thread int, packets [][]byte) {
	for _, p := range packets {
		if f := b.hosts[thread]; f != nil {
			f(p)
		}
	}
}

// ToCore implements smartnic.Board.
func (b *playedNIC) ToCore(core int, packets [][]byte) {
	for _, p := range packets {
		b.deliver(-1, core, p)
	}
}

// deliver gives a packet to a core, unless that has gone.
func (b *playedNIC) deliver(from, core int, packet []byte) {
	if f := b.cores[core]; f != nil {
		f(from, packet)
	}
}

// Transmit implements smartnic.Board.
func (b *playedNIC) Transmit(node, core int, packet []byte) { b.ways[node].send(core, packet) }

// Stage implements smartnic.Board.
func (b *playedNIC) Stage(core int, write bool, rkey uint32, off int, buf []byte) {
	s := b.stage(core, write)
	*s = append(*s, playedElement{b.mrs[rkey], off, buf})
}

func (b *playedNIC) stage(core int, write bool) *[]playedElement {
	if write {
		return &b.staged[1][core]
	}
	return &b.staged[0][core]
}

// Submit implements smartnic.Board. No region runs while it copies, and no other thread is in this memory.
func (b *playedNIC) Submit(core int, write bool, done func(ok bool)) {
	s := b.stage(core, write)
	ok := true
	for _, e := range *s {
		if e.mr == nil || e.off < 0 || e.off > e.mr.Len()-len(e.buf) {
			ok = false
			continue
		}
		host := e.mr.Bytes()[e.off : e.off+len(e.buf)]
		if !write {
			copy(e.buf, host)
			continue
		}
		copy(host, e.buf)
		if lines := e.mr.Lines(); lines != nil && len(e.buf) > 0 {
			for i := e.off / layout.LineBytes; i <= (e.off+len(e.buf)-1)/layout.LineBytes; i++ {
				atomic.StoreUint64(&lines[i], uint64(lineword.Load(&lines[i]).Next()))
			}
		}
	}
	clear(*s)
	*s = (*s)[:0]
	done(ok)
}

// SubmitPs implements smartnic.Board.
func (b *playedNIC) SubmitPs() int64 { return 0 }

// TransferPs implements smartnic.Board.
func (b *playedNIC) TransferPs(bool) int64 { return 0 }

// WorkPs implements smartnic.Board.
func (b *playedNIC) WorkPs(int64) int64 { return 0 }

// Alloc implements smartnic.Board: the programs have their memory, and this counts it.
func (b *playedNIC) Alloc(n int) ([]byte, error) {
	if n > b.left {
		return nil, fmt.Errorf("a NIC has %d bytes of memory, of which %d are left: %d asked for", playedMemory, b.left, n)
	}
	b.left -= n
	return nil, nil
}
