package htm

import (
	"encoding/binary"
	"sync/atomic"
)

// Memory without line words: what was written is buffered word by word, everything else is read
// as it is. Only written lines are in the set.

func (r *Region) loadPlain(m *Memory, off int) (uint64, bool) {
	if r.state != active {
		return 0, false
	}
	r.plain = true
	if len(r.written) > 0 {
		if i := r.lines.find(m.key(off)); i >= 0 {
			l, w := &r.lines.at[i], off/8%lineWords
			if l.dirty>>w&1 != 0 {
				return l.image[w], true
			}
		}
	}
	return atomic.LoadUint64(m.at(off)), true
}

func (r *Region) loadPlainBytes(m *Memory, off int, dst []byte) bool {
	for len(dst) > 0 {
		v, ok := r.loadPlain(m, off&^7)
		if !ok {
			return false
		}
		b := bytesOf(v)
		n := copy(dst, b[off%8:])
		dst, off = dst[n:], off+n
	}
	return r.state == active
}

// touchPlain is touch for a store. It never sets lineSet.last: the image has dirty words only.
func (r *Region) touchPlain(m *Memory, off int) *line {
	if r.state != active {
		return nil
	}
	r.plain = true
	s := &r.lines
	k := m.key(off)
	i := s.find(k)
	if i < 0 {
		if i = s.n; i == r.cfg.ReadLines {
			r.abort(Capacity, 0)
			return nil
		}
		if r.disturbed() {
			return nil
		}
		if i == len(s.at) {
			s.grow()
		}
		l := &s.at[i]
		l.number, l.dirty = off/LineBytes, 0
		s.add(k)
	}
	return &s.at[i]
}

// complete fills in the words of which a store of n bytes at off writes a part.
func (l *line) complete(m *Memory, off, n int) {
	for _, at := range [...]int{off, off + n - 1} {
		w := at / 8 % lineWords
		if l.dirty>>w&1 == 0 {
			l.image[w] = atomic.LoadUint64(m.at(at))
		}
	}
}

func bytesOf(v uint64) (b [8]byte) {
	binary.NativeEndian.PutUint64(b[:], v)
	return b
}
