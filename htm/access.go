package htm

import (
	"bytes"

	"drtmd/internal/invariant"
)

// Load64 reads the aligned word at off. false: the region has aborted, and so will all that
// follows report.
func (r *Region) Load64(m *Memory, off int) (uint64, bool) {
	if m.wordKey(off) == r.lines.opaque {
		return r.lines.image[wordOf(off)], true
	}
	return r.load64(m, off, true)
}

// Peek64 is Load64 without the comparison of the lines touched before: the value and those of other loads may
// never have existed together. For searches that check and bound what they find; Validate, a Load or the
// commit follows.
func (r *Region) Peek64(m *Memory, off int) (uint64, bool) {
	if m.wordKey(off) == r.lines.last {
		return r.lines.image[wordOf(off)], true
	}
	return r.load64(m, off, false)
}

func (r *Region) load64(m *Memory, off int, compare bool) (uint64, bool) {
	if off%8 != 0 || uint(off) >= uint(len(m.Bytes)) {
		return 0, r.badWord(m, off)
	}
	if m.words == nil {
		return r.loadPlain(m, off)
	}
	if !r.touch(m, off, compare) {
		return 0, false
	}
	return r.lines.image[wordOf(off)], true
}

// Load reads len(dst) bytes from off on, which may span lines: they are compared together, after the last.
// false: the region has aborted, and dst may hold anything.
func (r *Region) Load(m *Memory, off int, dst []byte) bool {
	if !m.has(off, len(dst)) {
		return r.outside(m, off, len(dst))
	}
	if m.words == nil {
		return r.loadPlainBytes(m, off, dst)
	}
	for len(dst) > 0 {
		at := uint(off) % LineBytes
		if m.key(off) != r.lines.opaque && !r.touch(m, off, uint(len(dst)) <= LineBytes-at) {
			return false
		}
		n := copy(dst, r.lines.image.bytes()[at:])
		dst, off = dst[n:], off+n
	}
	return r.state == active
}

// Store64 writes the aligned word at off. false: the region has aborted.
func (r *Region) Store64(m *Memory, off int, v uint64) bool {
	s := &r.lines
	if m.wordKey(off) != s.opaque || s.meta.dirty == 0 {
		if off%8 != 0 || uint(off) >= uint(len(m.Bytes)) {
			return r.badWord(m, off)
		}
		if !r.own(m, off, true) {
			return false
		}
	}
	w := wordOf(off)
	s.image[w] = v
	s.meta.dirty |= 1 << w
	if m.words == nil {
		s.forget() // the image has dirty words only: loads must look
	}
	return true
}

// Store writes src from off on, which may span lines. false: the region has aborted.
func (r *Region) Store(m *Memory, off int, src []byte) bool {
	if !m.has(off, len(src)) {
		return r.outside(m, off, len(src))
	}
	for len(src) > 0 {
		n := min(LineBytes-off%LineBytes, len(src))
		if !r.own(m, off, n == len(src)) {
			return false
		}
		r.put(m, off, src[:n])
		src, off = src[n:], off+n
	}
	return r.state == active
}

// Update is Store of what differs: lines that have the bytes of src already are read, and not written. Without line
// words it is Store.
func (r *Region) Update(m *Memory, off int, src []byte) bool {
	if m.words == nil {
		return r.Store(m, off, src)
	}
	if !m.has(off, len(src)) {
		return r.outside(m, off, len(src))
	}
	s := &r.lines
	for len(src) > 0 {
		at := off % LineBytes
		n := min(LineBytes-at, len(src))
		if m.key(off) != s.opaque && !r.touch(m, off, n == len(src)) {
			return false
		}
		if s.meta.dirty != 0 || !bytes.Equal(s.image.bytes()[at:at+n], src[:n]) {
			if s.meta.dirty == 0 && !r.firstWrite(m) {
				return false
			}
			r.put(m, off, src[:n])
		}
		src, off = src[n:], off+n
	}
	return r.state == active
}

// own makes the line at off the one touched last and part of the write set; false if the region
// has aborted. With compare, all copies are a snapshot afterwards.
func (r *Region) own(m *Memory, off int, compare bool) bool {
	if m.key(off) != r.lines.opaque {
		if m.words == nil {
			if !r.touchPlain(m, off) {
				return false
			}
		} else if !r.touch(m, off, compare) {
			return false
		}
	}
	return r.lines.meta.dirty != 0 || r.firstWrite(m)
}

// put writes src, which ends in the line touched last, to the copy of that line.
func (r *Region) put(m *Memory, off int, src []byte) {
	s := &r.lines
	at, n := off%LineBytes, len(src)
	if m.words == nil {
		r.complete(m, off, n)
		s.forget()
	}
	copy(s.image.bytes()[at:at+n], src)
	s.meta.dirty |= Words(at, n)
}

// firstWrite adds the line touched last to the write set.
func (r *Region) firstWrite(m *Memory) bool { return r.addWritten(m, r.lines.at, r.lines.meta) }

// addWritten adds the line at a position to the write set.
func (r *Region) addWritten(m *Memory, position int, l *meta) bool {
	if r.target != m {
		invariant.Assert(r.target == nil, "htm region writes to two memories")
		r.target = m
	}
	w := &r.ways[l.number&(len(r.ways)-1)]
	if int(*w) == r.cfg.Ways || m.Journal != nil && len(r.written) == m.journal.Lines() {
		r.abort(Capacity, 0)
		return false
	}
	*w++
	r.written = append(r.written, int32(position))
	return true
}
