package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
	"drtmd/verbs/smartnic"
)

// playedWay carries packets of a NIC that is played to another member, and from there: each once and in order, as
// smartnic.Board has it. Every part is a call, which a fiber of the first worker makes until it is answered: a session that
// fails, because the peer was silent for a while, is opened anew by the keeper, and the part is sent again. Parts are
// numbered, so what comes twice is dropped, and what comes early waits. It belongs to the members' thread.
type playedWay struct {
	board    *playedNIC
	to       int                // node
	waiting  [][]byte           // parts, in order, that nobody sends yet
	senders  int                // fibers, fewer than playedWindow or as many
	lost     bool               // the peer takes no more: it was removed, or the cluster stops
	last     uint64             // number of the last part
	answered uint64             // number of the last part up to which all are answered
	beyond   [playedWindow]bool // parts beyond that are answered, by number modulo playedWindow

	former [][]byte // parts that are to be sent again

	// What has come from there.
	taken  uint64            // number of the last part that was taken
	early  map[uint64][]byte // parts behind one that is missing: fewer than playedWindow
	packet []byte            // the beginning of one
}

// typePackets carries a part of a packet from one member to another:
//
//	0 sender 2 | core 1 | 1: the packet's last part 1 | 4 number of the part, from 1 8 | 12 bytes
const typePackets rpc.Type = 0x67

const (
	playedHead = 12
	// playedPart bounds the bytes of a part.
	playedPart = 8 << 10
	// playedWindow bounds the parts under way to a member.
	playedWindow = 8
	// playedBehind is how many parts come before one comes again, with playedNIC.twice.
	playedBehind = 16
	// playedRetry is how long a sender waits for the keeper to open a session anew.
	playedRetry = time.Millisecond
	// playedLongest bounds a packet: one message that is longer than the MTU has a packet of its own.
	playedLongest = smartnic.MaxPayload + playedMTU
)

var (
	errPart       = errors.New("no part of a NIC's packet: run the same program on all nodes")
	errPlayedSent = errors.New("the cluster stops, or the peer was removed")
)

// send sends a packet, unless nobody is there to take it. The bytes are copied.
func (w *playedWay) send(core int, packet []byte) {
	if w.lost {
		return
	}
	for rest := packet; ; {
		n := min(len(rest), playedPart)
		w.last++
		part := make([]byte, playedHead, playedHead+n)
		binary.LittleEndian.PutUint16(part, uint16(w.board.first.Node))
		if part[2] = byte(core); n == len(rest) {
			part[3] = 1
		}
		binary.LittleEndian.PutUint64(part[4:], w.last)
		w.waiting = append(w.waiting, append(part, rest[:n]...))
		if rest = rest[n:]; len(rest) == 0 {
			break
		}
	}
	w.begin()
}

// begin has parts sent that may be.
func (w *playedWay) begin() {
	for n := min(len(w.waiting), int(w.answered+playedWindow+1-w.next())); n > 0 && w.senders < playedWindow; n-- {
		w.senders++
		w.board.first.Worker.Go("packets", nil, w.run)
		w.board.first.Worker.Wake()
	}
}

// next is the number of the first part that waits.
func (w *playedWay) next() uint64 { return w.last + 1 - uint64(len(w.waiting)) }

// run sends parts until none waits, or until the peer may have no more of them.
func (w *playedWay) run(f *fiber.Fiber) error {
	defer func() { w.senders-- }()
	for len(w.waiting) > 0 && w.next() <= w.answered+playedWindow {
		number, part := w.next(), w.waiting[0]
		w.waiting[0] = nil
		w.waiting = w.waiting[1:]
		err := w.deliver(f, part)
		if w.board.twice {
			if w.former = append(w.former, part); err == nil && len(w.former) > playedBehind {
				part, w.former = w.former[0], w.former[1:]
				err = w.deliver(f, part)
			}
		}
		if err != nil {
			w.lost, w.waiting = true, nil
			return err
		}
		w.beyond[number%playedWindow] = true
		for i := (w.answered + 1) % playedWindow; w.beyond[i]; i = (w.answered + 1) % playedWindow {
			w.beyond[i] = false
			w.answered++
		}
		w.begin()
	}
	return nil
}

// deliver has the peer take a part.
func (w *playedWay) deliver(f *fiber.Fiber, part []byte) error {
	first := w.board.first
	for {
		err := rpc.ErrClosed
		if s := first.Peers[w.to].Session; s != nil {
			_, err = s.Call(f, typePackets, part, nil, 0)
		}
		var refused *rpc.RemoteError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &refused):
			first.Worker.Fence(invariant.Violation{What: fmt.Sprintf("node %d refuses a packet of the NIC: %v", w.to, err)})
			return err
		case f.Err() != nil:
			return f.Err()
		case first.over.Load() || first.Fenced(proto.NodeID(w.to)):
			return errPlayedSent
		}
		if err := f.Sleep(playedRetry); err != nil {
			return err
		}
	}
}

// take is the handler of parts: it gives whole packets to their cores.
func (b *playedNIC) take(req, _ []byte) (int, error) {
	if len(req) < playedHead {
		return 0, errPart
	}
	from, core := int(binary.LittleEndian.Uint16(req)), int(req[2])
	number := binary.LittleEndian.Uint64(req[4:])
	if from >= len(b.ways) || core >= playedCores {
		return 0, errPart
	}
	w := &b.ways[from]
	switch {
	case number <= w.taken || w.early[number] != nil: // it has come before
		if whole := req[3] != 0; b.again && whole && number <= w.taken {
			b.deliver(from, core, req[playedHead:])
		}
		return 0, nil
	case number > w.taken+playedWindow:
		return 0, errPart
	case number > w.taken+1:
		w.early[number] = append([]byte(nil), req...)
		return 0, nil
	}
	for part := req; part != nil; part = w.early[w.taken+1] {
		if err := w.part(part); err != nil {
			return 0, err
		}
		delete(w.early, w.taken)
	}
	return 0, nil
}

// part takes the next part.
func (w *playedWay) part(part []byte) error {
	w.taken++
	core, whole := int(part[2]), part[3] != 0
	if w.packet = append(w.packet, part[playedHead:]...); len(w.packet) > playedLongest {
		return errPart
	}
	if whole {
		w.board.deliver(w.to, core, w.packet)
		w.packet = w.packet[:0]
	}
	return nil
}
