package htm

import (
	"drtmd/internal/invariant"
	"drtmd/verbs/lineword"
)

// state of a Region.
type state uint8

const (
	idle   state = iota + 1 // no region, or the last one has ended
	active                  // between Begin and Commit
	doomed                  // aborted, and the caller has not called Commit or Begin since
)

// Region runs one region after another. Make one per fiber.
type Region struct {
	Stats Stats

	cfg   Config
	flag  *uint32
	spins int
	state state
	code  Code // of the last abort
	arg   uint8

	lines   lineSet
	written []int32  // indexes of the lines that were written, in the order of the first write
	order   []uint64 // scratch of sortMany
	target  *Memory  // which they belong to
	ways    []uint8  // written lines in each set
	worded  bool     // memory with line words was touched
	plain   bool     // memory without was
	hurried bool     // see Hurry

	unused uint32 // what Config.Flag is if nobody looks
}

// NewRegion makes a Region. It panics if the geometry is not possible.
func NewRegion(cfg Config) *Region {
	if cfg.Geometry == (Geometry{}) {
		cfg.Geometry = DefaultGeometry()
	}
	g := cfg.Geometry
	invariant.Assert(g.LineBytes == LineBytes, "htm lines are 64 bytes")
	invariant.Assert(g.Sets > 0 && g.Sets&(g.Sets-1) == 0 && g.Sets <= maxLines &&
		g.Ways > 0 && g.Ways <= 255 && g.ReadLines > 0 && g.ReadLines <= maxLines,
		"htm geometry: sets a power of two, ways 1 to 255, lines up to 2^20")
	r := &Region{cfg: cfg, flag: cfg.Flag, state: idle, spins: cfg.Spins,
		ways: make([]uint8, g.Sets), written: make([]int32, 0, min(g.Sets*g.Ways, firstLines))}
	if r.flag == nil {
		r.flag = &r.unused
	}
	if r.spins == 0 {
		r.spins = DefaultSpins
	}
	r.lines.init(g.ReadLines)
	return r
}

// Begin starts a region (XBEGIN). Inside of one it aborts that with Nested and reports false.
func (r *Region) Begin() bool {
	if r.state == active {
		r.abort(Nested, 0)
		return false
	}
	r.reset()
	r.state, r.code, r.arg = active, 0, 0
	*r.flag = FlagActive
	r.Stats.Begun++
	return true
}

// reset forgets the lines of the last region.
func (r *Region) reset() {
	for _, i := range r.written {
		r.ways[r.lines.metas[i].number&(len(r.ways)-1)] = 0
	}
	r.written, r.target = r.written[:0], nil
	r.worded, r.plain, r.hurried = false, false, false
	r.lines.reset()
}

// Abort ends the region without effect (XABORT with an 8-bit code, of which Unconfirmed is
// taken). Without one, or in one that has aborted, it does nothing.
func (r *Region) Abort(n uint8) {
	if r.state == active {
		r.abort(Explicit, n)
	}
}

// abort ends the region; every later access of it reports false.
func (r *Region) abort(c Code, arg uint8) {
	r.end(doomed)
	r.code, r.arg = c, arg
	r.Stats.Aborts[c]++
}

func (r *Region) end(s state) {
	r.state = s
	r.lines.forget()
	*r.flag = FlagIdle
}

// Aborted is why the last region aborted, with the argument of Abort; 0 if it has not.
func (r *Region) Aborted() (Code, uint8) { return r.code, r.arg }

// Active reports whether a region is running that has not aborted.
func (r *Region) Active() bool { return r.state == active }

// disturbed aborts the region if a verb was posted inside, or if it is to abort for no reason.
func (r *Region) disturbed() bool {
	if *r.flag == FlagPosted && !r.lacks(PostInside) || r.cfg.Spurious != nil && r.cfg.Spurious() {
		r.abort(System, 0)
		return true
	}
	return false
}

// touch makes the line at off the one touched last, copying it if it is new; false if the region
// has aborted. With compare, all copies are a snapshot afterwards.
func (r *Region) touch(m *Memory, off int, compare bool) bool { return r.touchIn(m, off, compare, nil) }

// touchIn is touch with room for the copy; nil: the region's own. It is written out in one piece because calls
// would double its cost.
func (r *Region) touchIn(m *Memory, off int, compare bool, room *image) bool {
	if r.state != active {
		return false
	}
	k, s := m.key(off), &r.lines
	i := -1
	switch {
	case s.indexed:
		i = s.lookUp(k)
	case s.n > 0:
		i = s.search(k)
	}
	if i >= 0 {
		if room != nil {
			s.moveTo(i, room)
		}
		s.use(k, i)
		return !compare || r.Validate()
	}
	if s.n == len(s.keys) || *r.flag != FlagActive || r.cfg.Spurious != nil {
		if !r.room() {
			return false
		}
	}
	n := s.n
	number := int(uint(off) / LineBytes)
	p, to, l := m.word(number), room, &s.metas[n]
	if to == nil {
		to = &s.images[n]
	}
	var w lineword.Word
	var ok bool
	if raceEnabled {
		w, ok = m.readLocked(p, number, to.bytes())
	} else {
		w, ok = lineword.Read(to.bytes(), m.line(number), p)
	}
	if !ok && r.lacks(ReadLocked) {
		lineword.CopyLine(to.bytes(), m.line(number))
		w, ok = lineword.Load(p), true
	}
	if !ok {
		if w, ok = r.readBusy(m, p, number, to.bytes()); !ok {
			return false
		}
	}
	// With all lines touched before as they were, the copies are a snapshot of this moment.
	if n > 0 && !r.hurried {
		if compare && !r.valid() && !r.lacks(NoOpacity) {
			r.abort(Conflict, 0)
			return false
		}
		s.unchecked = !compare
	}
	r.worded = true
	s.checks[n] = check{p, w}
	l.number, l.image, l.dirty = number, to, 0
	s.keys[n] = k
	s.n = n + 1
	if n >= linearLines {
		s.addToIndex()
	}
	s.last, s.at, s.image, s.meta = k, n, to, l
	if s.opaque = k; s.unchecked {
		s.opaque = 0
	}
	return true
}

// Validate makes the values of all loads so far, those of Peek64 too, a snapshot: it compares the line words
// if lines were added without that. false: the region has aborted, for instance because one has changed.
// Without line words it compares nothing, nor in a hurry.
func (r *Region) Validate() bool {
	if r.hurried {
		return r.state == active
	}
	return r.Consistent()
}

// Hurry leaves out all comparisons from here to the end of the region, but for that of the commit: values of loads
// may never have existed together. For what follows the last load of the program, so that it costs n comparisons in
// place of n²/2. Who stores by what it loads then, checks and bounds it. An access outside of memory aborts a region
// whose view is not consistent. Consistent is to be asked before anything is concluded from a value.
func (r *Region) Hurry() {
	if r.state == active {
		r.hurried, r.lines.unchecked, r.lines.opaque = true, false, r.lines.last
	}
}

// Gather leaves out all comparisons up to Gathered: for several loads that follow each other, so that they cost n
// comparisons in place of n²/2. Until then, what Hurry says of values holds.
func (r *Region) Gather() { r.Hurry() }

// Gathered makes the values of all loads so far a snapshot; false: the region has aborted.
func (r *Region) Gathered() bool {
	ok := r.Consistent()
	r.hurried = false
	return ok
}

// Consistent is Validate, in a hurry too.
func (r *Region) Consistent() bool {
	if r.state != active {
		return false
	}
	s := &r.lines
	if !s.unchecked && !r.hurried || !r.worded {
		return true
	}
	if !r.valid() && !r.lacks(NoOpacity) {
		r.abort(Conflict, 0)
		return false
	}
	s.unchecked, s.opaque = false, s.last
	return true
}

// room makes room for one more line; false if the region has aborted.
func (r *Region) room() bool {
	s := &r.lines
	if s.n == len(s.keys) {
		if s.n == r.cfg.ReadLines {
			r.abort(Capacity, 0)
			return false
		}
		s.grow()
	}
	return !r.disturbed()
}

// readBusy is read again, some times, on a line that somebody holds.
func (r *Region) readBusy(m *Memory, p *uint64, number int,
	dst *[LineBytes]byte) (lineword.Word, bool) {
	for range r.spins {
		lineword.Pause()
		if w, ok := m.read(p, number, dst); ok {
			return w, true
		}
	}
	r.abort(Conflict, 0)
	r.rescue(m, number)
	return 0, false
}

// rescue has the provider look after a line whose owner may be dead.
func (r *Region) rescue(m *Memory, number int) {
	if m.Rescue != nil && lineword.Load(m.word(number)).Locked() {
		r.Stats.Rescues++
		m.Rescue(number)
	}
}

// valid reports whether every line touched so far still has the word that was seen.
func (r *Region) valid() bool {
	s := &r.lines
	for i := range s.checks[:s.n] {
		c := &s.checks[i]
		if lineword.Load(c.word) != c.seen && !r.settles(c) {
			return false
		}
	}
	return true
}

// settles waits for a line that is locked at the version that was seen: with the race detector
// on, that may be a reader.
func (r *Region) settles(c *check) bool {
	if !raceEnabled {
		return false
	}
	for range r.spins {
		w := lineword.Load(c.word)
		if w == c.seen {
			return true
		}
		if !w.Locked() || w.Version() != c.seen.Version() {
			return false
		}
		lineword.Pause()
	}
	return false
}
