package htm

import (
	"unsafe"

	"drtmd/internal/invariant"
)

// Copies of lines in the caller's memory. A caller that keeps a copy of a record for its program has the region use that
// as its own: it is copied once, and what the program changes there is stored without a copy.

// moveTo makes room the copy of line i.
func (s *lineSet) moveTo(i int, room *image) {
	if l := &s.metas[i]; l.image != room {
		*room = *l.image
		l.image = room
	}
}

// roomAt is the line of room at an offset.
func roomAt(room []byte, at int) *image { return (*image)(unsafe.Pointer(&room[at])) }

// LoadLines is Load of whole lines from off on. The region's copies of them are in room, which has their size and is
// aligned to a word, until the region ends or Return is called: what is stored in the region stands there, and what
// the caller changes there takes effect if the caller stores it (StoreShared). position is that of the first line. Memory has
// line words. ok is false if the region has aborted, and room may hold anything.
func (r *Region) LoadLines(m *Memory, off int, room []byte) (position int, ok bool) {
	invariant.Assert(m.words != nil && off%LineBytes == 0 && len(room)%LineBytes == 0 && len(room) > 0,
		"htm LoadLines is for whole lines with line words")
	if !m.has(off, len(room)) {
		return 0, r.outside(m, off, len(room))
	}
	for at := 0; at < len(room); at += LineBytes {
		if !r.touchIn(m, off+at, at+LineBytes == len(room), roomAt(room, at)) {
			return 0, false
		}
		if at == 0 {
			position = r.lines.at
		}
	}
	return position, true
}

// LoadLine is LoadLines of one line.
func (r *Region) LoadLine(m *Memory, off int, room *[LineBytes]byte) (position int, ok bool) {
	invariant.Assert(m.words != nil && off%LineBytes == 0, "htm LoadLine is for a whole line with line words")
	if uint(off) >= uint(len(m.Bytes)) {
		return 0, r.outside(m, off, LineBytes)
	}
	ok = r.touchIn(m, off, true, (*image)(unsafe.Pointer(room)))
	return r.lines.at, ok
}

// Stored has the commit store words of the line at off, bit i being word i: the caller has changed them in the copy that
// LoadLine or LoadLines has put there, at a position. false: the region has aborted.
func (r *Region) Stored(m *Memory, position, off int, words uint8) bool {
	if r.state != active {
		return false
	}
	l := &r.lines.metas[position]
	invariant.Assert(r.lines.keys[position] == m.key(off), "htm Stored is for lines that the region has copied")
	if l.dirty == 0 && !r.addWritten(m, position, l) {
		return false
	}
	l.dirty |= words
	return true
}

// Words has the words of n bytes at an offset of a line, for Stored.
func Words(at, n int) uint8 { return uint8(1<<((uint(at+n)+7)/8) - 1<<(uint(at)/8)) }

// Return ends what LoadLines has begun: room is the caller's again, and the region makes copies of its own.
func (r *Region) Return(m *Memory, off int, room []byte) {
	s := &r.lines
	for at := 0; at < len(room); at += LineBytes {
		if i := s.find(m.key(off + at)); i >= 0 && s.metas[i].image == roomAt(room, at) {
			s.moveTo(i, &s.images[i])
		}
	}
	s.forget()
}

// StoreShared is Store of src, of which nothing is copied where LoadLines has put the copies of its lines. The first of them
// may be at a position; others are looked for.
func (r *Region) StoreShared(m *Memory, position, off int, src []byte) bool {
	s := &r.lines
	for len(src) > 0 {
		at := off % LineBytes
		n := min(LineBytes-at, len(src))
		if k := m.key(off); r.state == active && uint(position) < uint(s.n) && s.keys[position] == k {
			s.use(k, position)
			if position++; s.meta.dirty == 0 && !r.firstWrite(m) {
				return false
			}
		} else if !r.own(m, off, n == len(src)) {
			return false
		}
		if unsafe.Pointer(&src[0]) == unsafe.Pointer(&s.image.bytes()[at]) {
			s.meta.dirty |= Words(at, n)
		} else {
			r.put(m, off, src[:n])
		}
		src, off = src[n:], off+n
	}
	return r.state == active && (!s.unchecked || r.Validate())
}
