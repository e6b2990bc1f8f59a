package sim

import (
	"encoding/binary"

	"drtmd/verbs"
	"drtmd/verbs/lineword"
)

// accessMode is what a NIC does to the memory behind a message's spans.
type accessMode uint8

const (
	accessNone  accessMode = iota // nothing: a refusal, an empty message
	accessRead                    // memory to message.buf
	accessWrite                   // message.buf to memory
	accessCAS
	accessFAA
)

const (
	// maxPieces bounds the events of one access: a longer one has several lines in a piece.
	maxPieces = 16
	// lineRetry and lineRetryMax are the waits for a locked line, doubling from one to the other.
	lineRetry    = 200 * Nanosecond
	lineRetryMax = 100 * Microsecond
	// lineLimit ends that wait. Long before that the initiator's retries are exceeded.
	lineLimit = 5 * Second
)

// begin schedules an access: spans and mode are set, the first piece is due at t.
func (w *World) begin(m *message, t Time, perByte uint64) {
	lines, total := 0, 0
	for i := range m.nspans {
		s := &m.spans[i]
		total += s.n
		if s.n > 0 {
			lines += (s.off+s.n-1)/verbs.LineBytes - s.off/verbs.LineBytes + 1
		}
	}
	m.piece = max(1, (lines+maxPieces-1)/maxPieces)
	m.pace = span(w.cost.pcieBytes(m.piece*verbs.LineBytes), perByte)
	m.index, m.pos, m.done, m.since, m.ready, m.stalled, m.halved = 0, 0, 0, 0, false, false, false
	w.post(t, evMem, m)
}

// access runs the piece of an access that is due, and what follows when it was the last one.
func (w *World) access(m *message) {
	for m != nil {
		q := m.qp
		if q.state >= verbs.StateErr || m.here != q.node {
			w.free(m) // its QP failed or died meanwhile: nothing more is touched
			return
		}
		if m.kind != mkResponse && q.inbox.first() != m {
			m.ready = true // an earlier one of the same QP is not through yet
			return
		}
		m.ready = false // from here on an event refers to it whenever it is not through
		if !m.halved && (w.stalls(m) || w.splits(m)) || !w.piece(m) {
			return
		}
		m = w.accessed(m)
	}
}

// stall has the NIC of a node wait before it accesses a line, as a busy memory or bus does: what
// follows another access at once elsewhere, or is one access of several lines, is pulled apart.
type stall struct {
	ppm     int
	by      Time
	until   Time
	outcome *Outcome
}

// stalls puts the next piece of an access off if the node's memory stalls.
func (w *World) stalls(m *message) bool {
	s := &m.here.stall
	if s.ppm == 0 || w.now >= s.until {
		return false
	}
	if m.stalled {
		m.stalled = false
		return false
	}
	if w.Rand("stall").IntN(1e6) >= s.ppm {
		return false
	}
	s.outcome.Hits++
	m.stalled = true
	w.post(w.now+s.by, evMem, m)
	return true
}

// piece does one piece and reports whether the access is complete.
func (w *World) piece(m *message) bool {
	if m.mode == accessNone || m.status != verbs.WCSuccess {
		return true
	}
	for budget := m.piece; budget > 0; budget-- {
		for m.index < m.nspans && m.pos == m.spans[m.index].n {
			m.index, m.pos = m.index+1, 0
		}
		if m.index == m.nspans {
			return true
		}
		s := &m.spans[m.index]
		if s.mr.closed {
			m.status = w.gone(m)
			return true
		}
		off := s.off + m.pos
		line := off / verbs.LineBytes
		if lineword.Word(s.mr.mem.lines[line]).Locked() {
			return w.waitLine(m)
		}
		n := min(verbs.LineBytes-off%verbs.LineBytes, s.n-m.pos)
		m.touch(s.mr, off, n, line)
		m.since = 0
		m.pos += n
		m.done += n
	}
	rest := m.index < m.nspans && (m.pos < m.spans[m.index].n || m.index+1 < m.nspans)
	if rest {
		w.post(w.now+m.pace, evMem, m)
	}
	return !rest
}

// touch accesses n bytes of one line.
func (m *message) touch(r *mr, off, n, line int) {
	b := r.mem.bytes[off : off+n]
	switch m.mode {
	case accessRead:
		copy(m.buf[m.done:], b)
		return
	case accessWrite:
		copy(b, m.buf[m.done:m.done+n])
	default:
		old := binary.NativeEndian.Uint64(b)
		if m.halved {
			old = m.was
		}
		value := old + m.compare
		if m.mode == accessCAS {
			if value = m.swap; old != m.compare {
				value = old
			}
		}
		m.buf = r.node.world.buffer(8)
		binary.NativeEndian.PutUint64(m.buf, old)
		r.node.world.trace.mix(old)
		if m.mode == accessCAS && old != m.compare && !m.halved {
			return
		}
		binary.NativeEndian.PutUint64(b, value)
	}
	r.mem.lines[line] = uint64(lineword.Word(r.mem.lines[line]).Next())
	r.touched(line, line)
}

// waitLine puts an access off because its line is locked. It reports whether the access is
// given up.
func (w *World) waitLine(m *message) bool {
	if m.since == 0 {
		m.since = w.now
	}
	waited := w.now - m.since
	if waited > lineLimit {
		m.status = verbs.WCRetryExcErr
		return true
	}
	w.post(w.now+min(max(waited, lineRetry), lineRetryMax), evMem, m)
	return false
}

// gone is the status of an access whose MR was deregistered meanwhile.
func (w *World) gone(m *message) verbs.WCStatus {
	if m.kind == mkRequest && m.op != verbs.OpSend && m.op != verbs.OpSendImm {
		return verbs.WCRemAccessErr
	}
	return verbs.WCLocProtErr
}

// accessed goes on after an access, and returns the next message of the QP whose turn has come.
func (w *World) accessed(m *message) *message {
	q := m.qp
	if m.kind == mkResponse {
		w.finish(m)
		return nil
	}
	q.inbox.pop()
	if m.kind == mkDatagram {
		q.datagramLanded(m)
	} else {
		q.served(m)
	}
	if next := q.inbox.first(); next != nil && next.ready {
		return next
	}
	return nil
}

// sges resolves local scatter/gather entries; false if one is outside its MR or lacks a right.
func (q *qp) sges(sg []verbs.SGE, need verbs.Access, out *[verbs.MaxSGE]extent) (total int,
	ok bool) {
	for i, g := range sg {
		out[i] = extent{}
		if g.Length == 0 {
			continue
		}
		r := q.node.findMR(g.LKey)
		if r == nil || r.pd != q.pd || r.access&need != need {
			return 0, false
		}
		off, in := r.offset(g.Addr, int(g.Length))
		if !in {
			return 0, false
		}
		out[i] = extent{mr: r, off: off, n: int(g.Length)}
		total += int(g.Length)
	}
	return total, true
}

// locked reports whether somebody holds a line of the extent.
func (s extent) locked() bool {
	for i := s.off / verbs.LineBytes; s.n > 0 && i <= (s.off+s.n-1)/verbs.LineBytes; i++ {
		if lineword.Word(s.mr.mem.lines[i]).Locked() {
			return true
		}
	}
	return false
}

// gather copies spans into a fresh buffer.
func (w *World) gather(spans []extent, total int) []byte {
	b := w.buffer(total)
	at := 0
	for _, s := range spans {
		if s.n > 0 {
			at += copy(b[at:], s.mr.mem.bytes[s.off:s.off+s.n])
		}
	}
	return b
}

// clip shortens spans to n bytes in all and reports whether they are long enough.
func clip(spans []extent, n int) bool {
	for i := range spans {
		spans[i].n = min(spans[i].n, n)
		n -= spans[i].n
	}
	return n == 0
}

// inbox is the requests of a QP that were accepted and whose access is not complete, in order.
type inbox struct {
	a    []*message
	head int
}

func (b *inbox) push(m *message) { b.a = append(b.a, m) }

func (b *inbox) first() *message {
	if b.head == len(b.a) {
		return nil
	}
	return b.a[b.head]
}

func (b *inbox) pop() {
	b.a[b.head] = nil
	b.head++
	if b.head == len(b.a) {
		b.a, b.head = b.a[:0], 0
	} else if b.head >= 64 && b.head > len(b.a)/2 {
		n := copy(b.a, b.a[b.head:])
		clear(b.a[n:])
		b.a, b.head = b.a[:n], 0
	}
}
