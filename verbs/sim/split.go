package sim

import "encoding/binary"

// splitting has the NIC of a node read the word of an atomic, and write it some time later, as a device does whose atomics
// exclude each other and not the CPU's (ATOMIC_HCA): what the CPU stores meanwhile is lost. A CAS that fails writes, too, as
// Soft-RoCE does.
type splitting struct {
	ppm     int
	by      Time
	until   Time
	outcome *Outcome
	words   []splitWord // atomics on these are between their two halves
}

// splitWord is a word that an atomic has read and will write.
type splitWord struct {
	mr    *mr
	off   int
	until Time
}

// splits puts an atomic off that is to be split, or whose word another one is in the middle of.
func (w *World) splits(m *message) bool {
	s := &m.here.split
	if s.ppm == 0 || m.mode != accessCAS && m.mode != accessFAA || m.status != 0 {
		return false
	}
	x := &m.spans[0]
	left := s.words[:0]
	busy := Time(0)
	for _, b := range s.words {
		if b.until < w.now {
			continue
		}
		if left = append(left, b); b.mr == x.mr && b.off == x.off {
			busy = max(busy, b.until)
		}
	}
	s.words = left
	switch {
	case busy > 0:
		w.post(busy+1, evMem, m)
		return true
	case w.now >= s.until || x.mr.closed || w.Rand("split").IntN(1e6) >= s.ppm:
		return false
	}
	s.outcome.Hits++
	m.halved, m.was = true, binary.NativeEndian.Uint64(x.mr.mem.bytes[x.off:])
	s.words = append(s.words, splitWord{x.mr, x.off, w.now + s.by})
	w.post(w.now+s.by, evMem, m)
	return true
}
