package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/protocol"
	"drtmd/store/layout"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/lineword"
	"drtmd/verbs/rpc"
)

// playedNIC is a NIC with cores that a member's only worker plays, where there is no simulator: an emulation, which shows
// that programs of NICs are right on threads and real networks, and no NIC's speed. Cores are parts of that worker; packets
// go to other members by RPC, those that are gathered while one is under way in the next; DMA is a copy between two steps
// of the worker's fibers. It belongs to the worker's thread, and implements smartnic.Board.
type playedNIC struct {
	worker *Worker
	cores  [playedCores]func(from int, packet []byte)
	host   func(packet []byte)
	ways   []playedWay // by node
	mrs    map[uint32]*verbs.MR
	staged [2][playedCores][]playedElement // reads, writes
	left   int                             // of its memory
}

// playedWay is what is on its way to another member, and what has come from there.
type playedWay struct {
	out  []byte
	sent uint64 // bytes of the stream that the member has taken
	busy bool   // a fiber sends
	lost bool   // the member was removed, or refuses the stream: what would follow is dropped
	in   []byte // the beginning of a packet
	seen uint64 // bytes of the stream that have come
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
	// typePackets carries bytes of packets from one member to another: the sender's number 2, how many bytes of the stream
	// came before 8, and a part of the stream of packets, each as core 2 | length 4 | bytes.
	typePackets    rpc.Type = 0x67
	playedHead              = 10
	playedPacket            = 6
	playedRequests          = 8 << 10 // bytes of a call
)

// errPlayed: the NIC is played by one worker.
var errPlayed = errors.New("without a simulator the NIC's cores are played by the node's only worker: use --workers 1, or " +
	"--transport sim")

// playNIC makes the NIC of a member.
func (m *Member) playNIC() (protocol.Board, error) {
	if len(m.Workers) != 1 {
		return protocol.Board{}, fmt.Errorf("%w: %d workers per node", errPlayed, len(m.Workers))
	}
	b := &playedNIC{worker: m.Workers[0], ways: make([]playedWay, m.cluster.Nodes), mrs: map[uint32]*verbs.MR{}, left: playedMemory}
	for _, s := range m.shares {
		if s != nil {
			b.mrs[s.mr.RKey()] = s.mr
		}
	}
	if p := b.worker.Port; p != nil {
		p.Handle(typePackets, b.take)
	}
	return protocol.Board{Board: b, Played: true,
		NewWorker: func(int, fiber.WorkerConfig) (*fiber.Worker, error) { return b.worker.Worker, nil },
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
	invariant.Assert(thread == 0, "node: a NIC that is played has one thread of the host")
	b.host = f
}

// ToHost implements smartnic.Board.
func (b *playedNIC) ToHost(_ int, packets [][]byte) {
	for _, p := range packets {
		if b.host != nil {
			b.host(p)
		}
	}
}

// ToCore implements smartnic.Board.
func (b *playedNIC) ToCore(core int, packets [][]byte) {
	for _, p := range packets {
		if b.cores[core] != nil {
			b.cores[core](-1, p)
		}
	}
}

// Transmit implements smartnic.Board.
func (b *playedNIC) Transmit(node, core int, packet []byte) {
	w := &b.ways[node]
	if w.lost {
		return
	}
	w.out = binary.LittleEndian.AppendUint16(w.out, uint16(core))
	w.out = binary.LittleEndian.AppendUint32(w.out, uint32(len(packet)))
	if w.out = append(w.out, packet...); w.busy {
		return
	}
	w.busy = true
	b.worker.Worker.Go("packets", nil, func(f *fiber.Fiber) error {
		err := b.send(f, proto.NodeID(node))
		w.busy, w.lost, w.out = false, err != nil, w.out[:0]
		return err
	})
	b.worker.Worker.Wake()
}

// send sends what there is for a member, one call after the other, so that nothing overtakes. A call that ended without
// an answer may have arrived: it is made again, on the session that the keeper opens, and the member skips what it has.
func (b *playedNIC) send(f *fiber.Fiber, node proto.NodeID) error {
	w := &b.ways[node]
	for len(w.out) > 0 {
		n := min(len(w.out), playedRequests)
		req := binary.LittleEndian.AppendUint16(make([]byte, 0, playedHead+n), uint16(b.worker.Node))
		req = binary.LittleEndian.AppendUint64(req, w.sent)
		req = append(req, w.out[:n]...)
		w.out = append(w.out[:0], w.out[n:]...)
		if err := b.call(f, node, req); err != nil {
			return err
		}
		w.sent += uint64(n)
	}
	return nil
}

// call has a member take a request, however long the network is away; an error is that the member is gone, or we are.
func (b *playedNIC) call(f *fiber.Fiber, node proto.NodeID, req []byte) error {
	for {
		err := rpc.ErrClosed
		if s := b.worker.Peers[node].Session; s != nil {
			_, err = s.Call(f, typePackets, req, nil, 0)
		}
		if err == nil || !unanswered(err) || b.worker.Fenced(node) || b.worker.over.Load() {
			return err
		}
		if err := f.Sleep(b.worker.keeper.times.Look); err != nil {
			return err
		}
	}
}

// unanswered: the session has failed, and whether the request was executed is not known.
func unanswered(err error) bool {
	for _, e := range []error{rpc.ErrPeerGone, rpc.ErrPeerReset, rpc.ErrUnanswered, rpc.ErrClosed, rpc.ErrRefused, rpc.ErrFull} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// take takes bytes of packets, and gives whole ones to their cores.
func (b *playedNIC) take(req, _ []byte) (int, error) {
	if len(req) < playedHead || int(binary.LittleEndian.Uint16(req)) >= len(b.ways) {
		return 0, errPackets
	}
	from := int(binary.LittleEndian.Uint16(req))
	w := &b.ways[from]
	before, part := binary.LittleEndian.Uint64(req[2:]), req[playedHead:]
	switch {
	case before > w.seen:
		return 0, errPackets
	case w.seen-before >= uint64(len(part)):
		return 0, nil // it came before
	}
	part = part[w.seen-before:]
	w.seen += uint64(len(part))
	w.in = append(w.in, part...)
	at := 0
	for len(w.in)-at >= playedPacket {
		core, n := int(binary.LittleEndian.Uint16(w.in[at:])), int(binary.LittleEndian.Uint32(w.in[at+2:]))
		if n > playedMTU {
			return 0, errPackets
		}
		if len(w.in)-at-playedPacket < n {
			break
		}
		if at += playedPacket; core < playedCores && b.cores[core] != nil {
			b.cores[core](from, w.in[at:at+n])
		}
		at += n
	}
	w.in = append(w.in[:0], w.in[at:]...)
	return 0, nil
}

var errPackets = errors.New("no packets of a NIC: run the same program on all nodes")

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
