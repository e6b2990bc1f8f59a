package htm

import "drtmd/internal/invariant"

// Load64 reads the aligned word at off. false: the region has aborted, and so will all that
// follows report.
func (r *Region) Load64(m *Memory, off int) (uint64, bool) {
	m.check(off, 8)
	aligned(off)
	s := &r.lines
	if m.key(off) == s.last {
		return s.at[s.lastAt].image[off/8%lineWords], true
	}
	if m.words == nil {
		return r.loadPlain(m, off)
	}
	l := r.touch(m, off)
	if l == nil {
		return 0, false
	}
	return l.image[off/8%lineWords], true
}

func aligned(off int) {
	if off%8 != 0 {
		invariant.Assertf(false, "htm access to a word at offset %d, which is not aligned", off)
	}
}

// Load reads len(dst) bytes from off on, which may span lines. false: the region has aborted, and
// dst may hold anything.
func (r *Region) Load(m *Memory, off int, dst []byte) bool {
	m.check(off, len(dst))
	if m.words == nil {
		return r.loadPlainBytes(m, off, dst)
	}
	for len(dst) > 0 {
		l := r.touch(m, off)
		if l == nil {
			return false
		}
		n := copy(dst, l.bytes()[off%LineBytes:])
		dst, off = dst[n:], off+n
	}
	return r.state == active
}

// Store64 writes the aligned word at off. false: the region has aborted.
func (r *Region) Store64(m *Memory, off int, v uint64) bool {
	m.check(off, 8)
	aligned(off)
	l := r.own(m, off)
	if l == nil {
		return false
	}
	w := off / 8 % lineWords
	l.image[w] = v
	l.dirty |= 1 << w
	return true
}

// Store writes src from off on, which may span lines. false: the region has aborted.
func (r *Region) Store(m *Memory, off int, src []byte) bool {
	m.check(off, len(src))
	for len(src) > 0 {
		l := r.own(m, off)
		if l == nil {
			return false
		}
		at := off % LineBytes
		n := min(LineBytes-at, len(src))
		first, last := at/8, (at+n-1)/8
		if m.words == nil {
			l.complete(m, off, n)
		}
		copy(l.bytes()[at:at+n], src)
		l.dirty |= uint8(1<<(last+1) - 1<<first)
		src, off = src[n:], off+n
	}
	return r.state == active
}

// own gives the line at off to write to; nil if the region has aborted.
func (r *Region) own(m *Memory, off int) *line {
	var l *line
	if m.words == nil {
		l = r.touchPlain(m, off)
	} else {
		l = r.touch(m, off)
	}
	if l == nil || l.dirty != 0 {
		return l
	}
	return r.firstWrite(m, l)
}

// firstWrite counts a line that was not written before.
func (r *Region) firstWrite(m *Memory, l *line) *line {
	if r.target == nil {
		r.target = m
	}
	invariant.Assert(r.target == m, "htm region writes to two memories")
	w := &r.ways[r.set(l.number)]
	if int(*w) == r.cfg.Ways || m.Journal != nil && len(r.written) == m.journal.Lines() {
		r.abort(Capacity, 0)
		return nil
	}
	*w++
	r.written = append(r.written, r.lines.position(l))
	return l
}
