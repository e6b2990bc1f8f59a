//go:build linux && amd64

package shm

import (
	"unsafe"

	"drtmd/verbs"
	"drtmd/verbs/lineword"
)

const (
	// maxRingSlots bounds the ring of a UD QP; a deeper receive queue loses datagrams earlier.
	maxRingSlots = 1024
	// claimTries bounds how many tickets a sender tries before it drops the datagram.
	claimTries = 64
)

// datagramTarget is a UD QP of a peer that datagrams were sent to.
type datagramTarget struct {
	handle uint32
	qpn    uint32
	peer   *peer
	entry  *qpEntry
	ring   *ring
	slots  unsafe.Pointer
	mask   uint64
	shift  uint
	sender uint64
	limit  uint64 // of the tickets, as last read from entry.posted
}

// datagramCache keeps the last targets of a QP, direct mapped.
type datagramCache [16]*datagramTarget

// execDatagram sends a datagram, or drops it where a network would.
func (q *qp) execDatagram(wr *verbs.WR) outcome {
	total, ok := q.sources(wr, &q.send.now)
	if !ok {
		return outcome(verbs.WCLocProtErr)
	}
	t, out := q.datagramTarget(wr)
	if t == nil {
		return out
	}
	stats := &q.dev.stats
	state := t.entry.word.Load()
	if state>>8 != uint64(t.qpn) || !receives(uint32(state&0xff)) {
		stats.dropNoQP.Add(1)
		q.send.datagrams[cacheIndex(wr)] = nil
		return success
	}
	key := wr.RemoteQKey
	if key>>31 != 0 {
		key = q.cfg.QKey // a privileged key means the QP's own
	}
	if t.entry.qkey.Load() != key {
		stats.dropQKey.Add(1)
		return success
	}
	s, w := t.claim(stats)
	if s == nil {
		return success
	}
	put32(&s.length, uint32(total))
	put32(&s.source, q.qpn)
	put32(&s.imm, wr.Imm)
	put32(&s.flags, 0)
	if wr.Op == verbs.OpSendImm {
		put32(&s.flags, datagramImm)
	}
	put64(&s.gid[0], q.dev.gidWords[0])
	put64(&s.gid[1], q.dev.gidWords[1])
	q.send.now.gather(s.data[:total], 0)
	// Only the receiver changes a claimed word, and only of a dead sender's.
	s.word.CompareAndSwap(w, w&^slotState|slotFull)
	t.peer.notify(t.entry.cq.Load(), t.entry.group.Load(), wr.Flags&verbs.FlagSolicited != 0)
	return success
}

func receives(state uint32) bool { return state == stateRTR || state == stateRTS }

func cacheIndex(wr *verbs.WR) uint32 {
	return (wr.AH*31 ^ wr.RemoteQPN) % uint32(len(datagramCache{}))
}

// datagramTarget finds the target of a request; nil: the datagram ends with the outcome.
func (q *qp) datagramTarget(wr *verbs.WR) (*datagramTarget, outcome) {
	t := q.send.datagrams[cacheIndex(wr)]
	if t == nil || t.handle != wr.AH || t.qpn != wr.RemoteQPN || t.peer.dead.Load() {
		return q.findTarget(wr)
	}
	// A handle may have been closed and made anew for another peer.
	if h := q.dev.ahs.get(wr.AH); h == nil || h.peer != t.peer {
		return q.findTarget(wr)
	}
	return t, success
}

func (q *qp) findTarget(wr *verbs.WR) (*datagramTarget, outcome) {
	stats := &q.dev.stats
	h := q.dev.ahs.get(wr.AH)
	if h == nil || h.peer.dead.Load() {
		stats.dropNoQP.Add(1)
		return nil, success
	}
	p := h.peer
	t := &datagramTarget{handle: wr.AH, qpn: wr.RemoteQPN, peer: p,
		entry: &p.ctl.qps[wr.RemoteQPN&(maxQP-1)]}
	e := t.entry
	w, slots := e.word.Load(), uint64(e.areaSlots.Load())
	if w>>8 != uint64(t.qpn) || e.kind.Load() != uint32(verbs.UD) ||
		slots == 0 || slots&(slots-1) != 0 || slots > maxRingSlots {
		stats.dropNoQP.Add(1)
		return nil, success
	}
	size := uint64(unsafe.Sizeof(ring{})) + slots*uint64(unsafe.Sizeof(datagram{}))
	base, out := p.area(e.areaSegment.Load(), e.areaOffset.Load(), size)
	switch {
	case out.waits():
		return nil, out
	case out != success:
		stats.dropNoQP.Add(1)
		return nil, success
	}
	t.ring = (*ring)(base)
	t.slots = unsafe.Add(base, unsafe.Sizeof(ring{}))
	t.mask = slots - 1
	for 1<<t.shift < slots {
		t.shift++
	}
	if t.sender = uint64(p.senderSlot()); t.sender == 0 {
		stats.dropRing.Add(1)
		return nil, success
	}
	q.send.datagrams[cacheIndex(wr)] = t
	return t, success
}

// prefetchAhead is how many tickets early a sender asks for a slot's lines, which the receiver's
// core has: it hides most of a line's way between two cores.
const prefetchAhead = 2

func (t *datagramTarget) prefetch(ticket uint64) {
	s := slotAt(t.slots, ticket&t.mask)
	lineword.PrefetchWrite(word64(&s.word))
	lineword.PrefetchWrite((*uint64)(unsafe.Pointer(&s.data[0])))
}

// claim draws a ticket and takes its slot; nil if there is no receive for it.
func (t *datagramTarget) claim(stats *stats) (*datagram, uint64) {
	for range claimTries {
		ticket := t.ring.tail.Load()
		if t.limit-ticket-1 > t.mask {
			if t.limit = t.entry.posted.Load(); t.limit-ticket-1 > t.mask {
				stats.dropNoBuffer.Add(1)
				return nil, 0
			}
		}
		s := slotAt(t.slots, ticket&t.mask)
		lap := ticket >> t.shift & slotLapMask
		w := s.word.Load()
		switch {
		case w>>slotQPNShift != uint64(t.qpn):
			stats.dropNoQP.Add(1)
			return nil, 0
		case w&slotState == slotFree && (lap-w>>slotLapShift)&slotLapMask < 1<<25:
			claimed := slotWord(uint64(t.qpn), lap, t.sender, slotClaimed)
			if s.word.CompareAndSwap(w, claimed) {
				t.ring.tail.CompareAndSwap(ticket, ticket+1)
				t.prefetch(ticket + prefetchAhead)
				return s, claimed
			}
		case w>>slotLapShift&slotLapMask == lap:
			// Taken by a sender that has not moved the tail yet.
			t.ring.tail.CompareAndSwap(ticket, ticket+1)
		case w&slotState == slotFree:
			// Freed for a later lap: the tail has moved on.
		default:
			// Claimed in an earlier lap by a sender that stopped: pass it.
			t.ring.tail.CompareAndSwap(ticket, ticket+1)
		}
		lineword.Pause()
	}
	stats.dropRing.Add(1)
	return nil, 0
}
