//go:build linux && amd64

package shm

import (
	"unsafe"

	"drtmd/verbs"
	"drtmd/verbs/lineword"
)

const (
	// maxRingSlots bounds the ring of a UD QP, which has two slots for each receive, so that they
	// can be freed many at a time. A receive queue of more than half of it loses datagrams
	// earlier.
	maxRingSlots = 2048
	// claimTries bounds how many tickets a sender tries before it drops the datagram.
	claimTries = 64
)

// datagramTarget is a UD QP of a peer that datagrams were sent to.
type datagramTarget struct {
	ringView
	handle uint32
	peer   *peer
	entry  *qpEntry
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
	if state>>8 != t.qpn || !receives(uint32(state&0xff)) {
		stats.dropNoQP.Add(1)
		q.setTarget(cacheIndex(wr), nil)
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
	s, word := t.claim(stats)
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
	s.word.Swap(word) // a full fence: see peer.notify
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
	if t == nil || t.handle != wr.AH || t.qpn != uint64(wr.RemoteQPN) || t.peer.dead.Load() {
		return q.findTarget(wr)
	}
	// A handle may have been closed and made anew for another peer.
	if h := q.dev.ahs.Get(wr.AH); h == nil || h.peer != t.peer {
		return q.findTarget(wr)
	}
	return t, success
}

func (q *qp) findTarget(wr *verbs.WR) (*datagramTarget, outcome) {
	p := q.dev.peerOf(wr.AH)
	if p == nil {
		q.dev.stats.dropNoQP.Add(1)
		return nil, success
	}
	t, out := q.newTarget(wr, p)
	if t == nil {
		p.letGo()
		return nil, out
	}
	q.setTarget(cacheIndex(wr), t)
	return t, success
}

// setTarget remembers a target in place i, which it uses the peer of; nil forgets.
func (q *qp) setTarget(i uint32, t *datagramTarget) {
	if old := q.send.datagrams[i]; old != nil {
		old.peer.letGo()
	}
	q.send.datagrams[i] = t
}

// newTarget is findTarget for a peer that the caller uses.
func (q *qp) newTarget(wr *verbs.WR, p *peer) (*datagramTarget, outcome) {
	stats := &q.dev.stats
	qpn := uint64(wr.RemoteQPN)
	t := &datagramTarget{handle: wr.AH, peer: p,
		entry: &p.ctl.qps[wr.RemoteQPN&(maxQP-1)]}
	e := t.entry
	w, slots := e.word.Load(), uint64(e.areaSlots.Load())
	if w>>8 != qpn || e.kind.Load() != uint32(verbs.UD) ||
		slots == 0 || slots&(slots-1) != 0 || slots > maxRingSlots {
		stats.dropNoQP.Add(1)
		return nil, success
	}
	base, out := p.area(e.areaSegment.Load(), e.areaOffset.Load(), ringBytes(slots))
	switch {
	case out.waits():
		return nil, out
	case out != success:
		stats.dropNoQP.Add(1)
		return nil, success
	}
	t.ringView = newRingView(base, slots, qpn)
	if t.sender = uint64(p.senderSlot()); t.sender == 0 {
		stats.dropRing.Add(1)
		return nil, success
	}
	return t, success
}

// prefetchAhead is how many tickets early a sender asks for a slot's lines, which the receiver's
// core has: it hides most of a line's way between two cores.
const prefetchAhead = 2

func (t *datagramTarget) prefetch(ticket uint64) {
	s := t.slot(ticket)
	lineword.PrefetchWrite(word64(&s.word))
	lineword.PrefetchWrite((*uint64)(unsafe.Pointer(&s.data[0])))
}

// claim draws a ticket, takes its slot, and gives the word that publishes it; nil if there is no
// receive for it.
func (t *datagramTarget) claim(stats *stats) (*datagram, uint64) {
	for range claimTries {
		ticket := t.ring.tail.Load()
		if t.limit-ticket-1 > t.mask {
			if t.limit = t.entry.posted.Load(); t.limit-ticket-1 > t.mask {
				stats.dropNoBuffer.Add(1)
				return nil, 0
			}
		}
		claim, lap := t.claimWord(ticket), t.lap(ticket)
		w := claim.Load()
		switch {
		case !t.own(w):
			stats.dropNoQP.Add(1)
			return nil, 0
		case w&slotState == slotFree && (lap-slotLap(w))&slotLapMask < 1<<25:
			if claim.CompareAndSwap(w, slotWord(t.qpn, lap, t.sender, slotClaimed)) {
				t.ring.tail.CompareAndSwap(ticket, ticket+1)
				t.prefetch(ticket + prefetchAhead)
				return t.slot(ticket), slotWord(t.qpn, lap, 0, slotFull)
			}
		case w&slotState == slotFree:
			// Freed for a later lap: the tail has moved on.
		default:
			// Taken by a sender that has not moved the tail yet, or claimed in an earlier lap by
			// one that stopped: go on.
			t.ring.tail.CompareAndSwap(ticket, ticket+1)
		}
		lineword.Pause()
	}
	stats.dropRing.Add(1)
	return nil, 0
}
