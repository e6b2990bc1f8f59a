package smartnic

import (
	"encoding/binary"
	"slices"

	"drtmd/internal/invariant"
)

const (
	messageHeader = 4
	// MaxPayload bounds a message.
	MaxPayload = 1<<16 - 1 - messageHeader
	// maxPackets bounds what is gathered for one destination before it is sent.
	maxPackets = 64
)

// Message is what a handler is given.
type Message struct {
	From    int   // node that it comes from: the own one too. Host: the own host
	Sender  uint8 // core or thread there
	Kind    uint8
	Payload []byte // the carrier's after the call
}

// Host is the Message.From of what the own host has sent.
const Host = -1

// Handler takes messages of a kind. It must not wait.
type Handler func(m *Message)

// handlers by kind.
type handlers struct {
	by      [256]Handler
	message Message // that is being handled
}

// packet gives every message of a packet to its handler, and says how many there were. A packet that is not whole ends
// the program: NICs do not damage packets, so it is a bug of ours.
func (h *handlers) packet(from int, b []byte) (messages int) {
	for len(b) > 0 {
		invariant.Assert(len(b) >= messageHeader, "smartnic: a packet ends inside of a message")
		n := int(binary.LittleEndian.Uint16(b[2:]))
		invariant.Assert(len(b) >= messageHeader+n && h.by[b[0]] != nil, "smartnic: a message is cut, or of no kind")
		h.message = Message{From: from, Kind: b[0], Sender: b[1], Payload: b[messageHeader : messageHeader+n]}
		h.by[b[0]](&h.message)
		b = b[messageHeader+n:]
		messages++
	}
	return messages
}

// gather is the packets for one destination.
type gather struct {
	packets [][]byte // of which the first count are in use
	count   int
	dirty   bool // it is in its owner's list
}

// add appends a message: to the last packet, if it fits there and messages are gathered.
func (g *gather) add(mtu int, gathers bool, kind, sender uint8, payload []byte) {
	invariant.Assert(len(payload) <= MaxPayload, "smartnic: a message is too long")
	fits := gathers && g.count > 0 && len(g.packets[g.count-1])+messageHeader+len(payload) <= mtu
	if !fits {
		if g.count == len(g.packets) {
			g.packets = append(g.packets, nil)
		}
		g.packets[g.count] = g.packets[g.count][:0]
		g.count++
	}
	p := &g.packets[g.count-1]
	*p = append(*p, kind, sender, 0, 0)
	binary.LittleEndian.PutUint16((*p)[len(*p)-2:], uint16(len(payload)))
	*p = append(*p, payload...)
}

// take is the packets, and forgets them; they hold until the next add.
func (g *gather) take() [][]byte {
	n := g.count
	g.count = 0
	return g.packets[:n]
}

// arrival is a packet that waits for the pass of a worker.
type arrival struct {
	from  int
	bytes []byte
}

// inbox is the packets that wait, in order. Buffers are used again.
type inbox struct {
	waiting []arrival
	first   int
	free    [][]byte
}

func (q *inbox) push(from int, packet []byte) {
	var b []byte
	if n := len(q.free); n > 0 {
		b, q.free = q.free[n-1], q.free[:n-1]
	}
	if q.first > 0 && len(q.waiting) == cap(q.waiting) {
		q.waiting = slices.Delete(q.waiting, 0, q.first)
		q.first = 0
	}
	q.waiting = append(q.waiting, arrival{from, append(b[:0], packet...)})
}

func (q *inbox) len() int { return len(q.waiting) - q.first }

func (q *inbox) pop() arrival {
	a := q.waiting[q.first]
	q.waiting[q.first] = arrival{}
	if q.first++; q.first == len(q.waiting) {
		q.waiting, q.first = q.waiting[:0], 0
	}
	return a
}

// recycle takes the buffer of a packet back.
func (q *inbox) recycle(a arrival) { q.free = append(q.free, a.bytes) }

// burstPackets bounds the packets of a pass (Xenic §3.3: 64).
const burstPackets = 64
