//go:build linux && amd64

package shm

import (
	"slices"
	"unsafe"

	"drtmd/verbs"
	"drtmd/verbs/shm/internal/fabric"
)

// passNs is how long the receiver waits for a slot that is claimed and not published, before it
// asks whether the sender is alive and turns to those behind it.
const passNs = 50_000

// datagramRing is the receiver's side of the ring of a UD QP.
type datagramRing struct {
	ringView
	next  uint64 // ticket to look at
	freed uint64 // tickets before this one have their slots freed; the rest is at publishLimit
	// stalled are slots that next has passed while they were claimed and not published; their
	// receives are set aside.
	stalled []uint64
	since   int64 // when next met a claimed slot, or asked about it last; 0 = it has not
	asked   int64 // when the stalled were looked after last
	stuck   int64 // since when a buffer could not be written; 0 = it can
}

func (g *datagramRing) open(p unsafe.Pointer, mask, qpn uint32) {
	g.ringView = newRingView(p, uint64(mask)+1, uint64(qpn))
	g.ring.tail.Store(0)
	for i := range g.mask + 1 {
		g.claimWord(i).Store(slotWord(g.qpn, 0, 0, slotFree))
		g.slot(i).word.Store(0)
	}
}

// free gives the slot of a claim word back, for a later lap.
func (g *datagramRing) free(slot, w uint64) {
	put64(g.claimWord(slot), slotWord(g.qpn, slotLap(w)+1, 0, slotFree))
}

// freeTaken frees the slots whose datagrams were taken since the last time. It is done for many
// at once, so that their claim words do not go to and fro between two cores with each of them:
// the limit lets nobody further than half a ring, so the other half may lag.
func (g *datagramRing) freeTaken() {
	for ; g.freed != g.next; g.freed++ {
		w := g.claimWord(g.freed).Load()
		if g.own(w) && w&slotState == slotClaimed && slotLap(w) == g.lap(g.freed) &&
			!g.isStalled(g.freed) {
			g.free(g.freed, w)
		}
	}
}

func (g *datagramRing) isStalled(ticket uint64) bool {
	return len(g.stalled) > 0 && slices.Contains(g.stalled, ticket&g.mask)
}

// idle reports whether no live sender is writing to the ring of a closed QP.
func (g *datagramRing) idle(q *qp) bool {
	for i := range g.mask + 1 {
		w := g.claimWord(i).Load()
		if g.own(w) && w&slotState == slotClaimed && !g.published(i, slotLap(w)) &&
			q.senderAlive(w) {
			return false
		}
	}
	return true
}

// senderAlive reports whether the process that claimed a slot lives.
func (q *qp) senderAlive(word uint64) bool {
	e := &q.dev.ctl.senders[word>>slotSenderShift&maxSender]
	inc, slot := e.incarnation.Load(), e.slot.Load()
	return inc != 0 && slot != 0 && slot <= fabric.MaxProcs &&
		q.dev.fab.Alive(fabric.ProcID{Slot: uint16(slot - 1), Incarnation: inc})
}

// publishLimit tells senders up to which ticket datagrams may come: one for each receive that
// is posted and not set aside for a stalled slot.
func (q *qp) publishLimit() {
	h := &q.recv
	g := &h.dgrams
	if g.next-g.freed > g.mask/4 {
		g.freeTaken()
	}
	free := h.posted - h.taken
	free -= min(free, uint64(len(g.stalled)))
	put64(&q.entry.posted, g.next+min(free, (g.mask+1)/2))
}

// unsettled notes that the CQ must look again by itself.
func (q *qp) unsettled(s settling) { q.recvCQ.unsettled = max(q.recvCQ.unsettled, s) }

// receiveDatagram completes the oldest receive with the next datagram, if there is one.
func (q *qp) receiveDatagram(wc *verbs.WC) bool {
	g := &q.recv.dgrams
	if len(g.stalled) > 0 {
		if i := q.lookAfterStalled(); i >= 0 {
			slot := g.stalled[i]
			if !q.takeDatagram(g.slot(slot), wc) {
				return false
			}
			g.free(slot, g.claimWord(slot).Load())
			g.unstall(i)
			q.publishLimit()
			return true
		}
	}
	for range g.mask + 1 {
		if g.published(g.next, g.lap(g.next)) {
			if !q.takeDatagram(g.slot(g.next), wc) {
				return false
			}
			g.next++
			g.since = 0
			return true
		}
		if g.ring.tail.Load()-g.next-1 > g.mask {
			return false // nobody has drawn this ticket; or tail was scribbled over
		}
		if !q.pass() {
			return false
		}
	}
	return false
}

// pass goes past a slot whose ticket was drawn and that has no datagram: at once if it was
// passed by the senders too, after a while if its sender stands still. False: wait.
func (q *qp) pass() bool {
	g := &q.recv.dgrams
	w := g.claimWord(g.next).Load() // after the look at tail
	switch {
	case g.published(g.next, g.lap(g.next)):
		return true // published meanwhile
	case !g.own(w):
		g.claimWord(g.next).Store(slotWord(g.qpn, g.lap(g.next), 0, slotFree)) // scribbled over
	case w&slotState == slotFree:
		// Senders passed it because it was still claimed in an earlier lap.
	case slotLap(w) != g.lap(g.next):
		// Still claimed in an earlier lap, or late by a sender that slept after it drew its
		// ticket.
		if !g.isStalled(g.next) {
			g.stalled = append(g.stalled, g.next&g.mask)
		}
	default:
		return q.passClaimed(w)
	}
	g.next++
	q.publishLimit()
	return true
}

func (q *qp) passClaimed(w uint64) bool {
	g := &q.recv.dgrams
	now := nanotime()
	if g.since == 0 {
		g.since = now
	}
	behind := g.fullBehind()
	if now-g.since < passNs {
		q.unsettled(waitsForDead)
		if behind {
			q.unsettled(waitsBehind)
		}
		return false
	}
	g.since = now
	alive := q.senderAlive(w)
	switch {
	case g.published(g.next, g.lap(g.next)):
		return true // before the one behind it, or with its last breath
	case !alive:
		g.free(g.next, w)
		q.dev.stats.recovered.Add(1)
	case !behind:
		q.unsettled(waitsForDead)
		return false
	default:
		g.stalled = append(g.stalled, g.next&g.mask)
	}
	g.next++
	g.since = 0
	q.publishLimit()
	return true
}

// fullBehind reports whether a later slot has been published.
func (g *datagramRing) fullBehind() bool {
	tail := g.ring.tail.Load()
	for t, n := g.next+1, uint64(0); n < g.mask && t != tail; t, n = t+1, n+1 {
		if g.published(t, g.lap(t)) {
			return true
		}
	}
	return false
}

// lookAfterStalled finds a passed slot that was published meanwhile, as an index into stalled,
// or -1, and frees those of the dead.
func (q *qp) lookAfterStalled() int {
	g := &q.recv.dgrams
	now := nanotime()
	ask := now-g.asked >= passNs
	if ask {
		g.asked = now
	}
	for i := len(g.stalled) - 1; i >= 0; i-- {
		slot := g.stalled[i]
		w := g.claimWord(slot).Load()
		if g.own(w) && w&slotState == slotClaimed {
			alive := !ask || q.senderAlive(w)
			switch {
			case g.published(slot, slotLap(w)):
				return i
			case alive:
				q.unsettled(waitsForDead)
				continue
			}
			g.free(slot, w)
			q.dev.stats.recovered.Add(1)
		}
		g.unstall(i)
		q.publishLimit()
	}
	return -1
}

func (g *datagramRing) unstall(i int) {
	g.stalled[i] = g.stalled[len(g.stalled)-1]
	g.stalled = g.stalled[:len(g.stalled)-1]
}

// takeDatagram copies a published datagram into the oldest receive and frees its slot. What the
// slot says is read once, then checked. False: a line of the buffer is locked by somebody, try
// again.
func (q *qp) takeDatagram(s *datagram, wc *verbs.WC) bool {
	h := &q.recv
	g := &h.dgrams
	length, flags := s.length.Load(), s.flags.Load()
	if h.taken == h.posted {
		return false // a sender that minds no limit
	}
	wr := &h.ring[h.taken&uint64(len(h.ring)-1)]
	wc.ID, wc.Status, wc.Op = wr.Token, verbs.WCSuccess, 0
	wc.ByteLen, wc.Imm = length+verbs.GRHBytes, 0
	wc.QPN, wc.SrcQPN = q.qpn, s.source.Load()&(1<<24-1)
	wc.VendorErr, wc.Flags, wc.Raw = 0, verbs.WCWithGRH, 0
	if flags&datagramImm != 0 {
		wc.Flags |= verbs.WCWithImm
		wc.Imm = s.imm.Load()
	}
	out := outcome(verbs.WCLocLenErr)
	if length <= mtuBytes {
		out = q.place(wr, s, length)
	}
	if out.waits() {
		now := nanotime()
		if g.stuck == 0 {
			g.stuck = now
		}
		if now-g.stuck < q.send.retryNs {
			q.unsettled(waitsBehind)
			return false
		}
		out = outcome(verbs.WCRespTimeoutErr)
	}
	g.stuck = 0
	h.taken++
	if out != success {
		q.receiveFailed(wc, out.status())
	}
	return true
}

// place writes GRH and payload to the buffers of a receive. It may be called again if it had to
// wait.
func (q *qp) place(wr *verbs.RecvWR, s *datagram, length uint32) outcome {
	h := &q.recv
	fillGRH(&h.grh, s.gid[0].Load(), s.gid[1].Load(), length)
	l := &h.lane
	l.enter()
	defer l.leave()
	l.op++
	rest, payload := h.grh[:], s.data[:length]
	inPayload := false
	for i := range min(wr.NumSGE, verbs.MaxSGE) {
		sge := &wr.SGE[i]
		if sge.Length == 0 {
			continue
		}
		r, off := q.local(sge, uint64(sge.Length))
		if r == nil || r.access&verbs.AccessLocalWrite == 0 {
			return outcome(verbs.WCLocProtErr)
		}
		v := l.view(r)
		for end := off + uint64(sge.Length); off < end; {
			line, at := off/lineBytes, off%lineBytes
			room := min(lineBytes-at, end-off)
			n := uint64(copy(l.scratch[at:at+room], rest))
			rest = rest[n:]
			if len(rest) == 0 && !inPayload {
				rest, inPayload = payload, true
				k := copy(l.scratch[at+n:at+room], rest)
				rest = rest[k:]
				n += uint64(k)
			}
			if n == 0 {
				return success
			}
			out := l.store(v, line, at, n, &l.scratch)
			if l.lent != nil {
				l.giveBack()
			}
			switch {
			case out == outcome(verbs.WCRemAccessErr):
				return outcome(verbs.WCLocProtErr)
			case out != success:
				return out
			}
			off += n
		}
	}
	if len(rest) > 0 || !inPayload {
		return outcome(verbs.WCLocLenErr)
	}
	return success
}
