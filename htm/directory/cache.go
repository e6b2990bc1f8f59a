package directory

import "drtmd/htm/bloom"

// Filter bits of a private line (module 1).
const (
	recordedRead uint8 = 1 << iota
	recordedWrite
)

// private is an L1 or an L2 cache of a core.
type private struct {
	sets   uint64
	ways   int
	cycles int
	lines  []privateLine
}

// privateLine is a way of a set.
type privateLine struct {
	stored     uint32 // line number + 1; 0: empty
	generation uint32 // of the core when bits were set: older ones are cleared
	used       uint64 // time of the last use
	bits       uint8
}

func newPrivate(c Cache) private {
	return private{sets: uint64(c.Sets), ways: c.Ways, cycles: c.Cycles, lines: make([]privateLine, c.Sets*c.Ways)}
}

func (p *private) set(line bloom.Line) []privateLine {
	at := int(uint64(line)&(p.sets-1)) * p.ways
	return p.lines[at : at+p.ways]
}

// find is the line's way, or nil.
func (p *private) find(line bloom.Line) *privateLine {
	set, stored := p.set(line), uint32(line+1)
	for i := range set {
		if set[i].stored == stored {
			return &set[i]
		}
	}
	return nil
}

// take brings a line in, in the place of the least recently used one.
func (p *private) take(line bloom.Line) *privateLine {
	if w := p.find(line); w != nil {
		return w
	}
	set := p.set(line)
	oldest := &set[0]
	for i := range set {
		if set[i].used < oldest.used { // an empty way has 0
			oldest = &set[i]
		}
	}
	*oldest = privateLine{stored: uint32(line + 1)}
	return oldest
}

func (p *private) drop(line bloom.Line) {
	if w := p.find(line); w != nil {
		*w = privateLine{}
	}
}

// recorded are the bits that are still set.
func (w *privateLine) recorded(generation uint32) uint8 {
	if w.generation != generation {
		return 0
	}
	return w.bits
}

// record sets a bit.
func (w *privateLine) record(generation uint32, bits uint8, now uint64) {
	w.bits = w.recorded(generation) | bits
	w.generation, w.used = generation, now
}

// shared is the last-level cache.
type shared struct {
	sets  uint64 // of all slices: a power of two times the number of cores
	ways  int
	lines []sharedLine
}

// sharedLine is a way of a set.
type sharedLine struct {
	used   uint64 // time of the last use
	stored uint32 // line number + 1; 0: empty
	tx     TX     // WrTX_ID, if tagged
	tagged bool   // its valid bit: a transaction has written the line
	dirty  bool   // memory has an older value
}

func (s *shared) setOf(line bloom.Line) int { return int(uint64(line) % s.sets) }

func (s *shared) set(number int) []sharedLine { return s.lines[number*s.ways : (number+1)*s.ways] }

func (s *shared) find(line bloom.Line) *sharedLine {
	set, stored := s.set(s.setOf(line)), uint32(line+1)
	for i := range set {
		if set[i].stored == stored {
			return &set[i]
		}
	}
	return nil
}

// victim is the way that a new line takes: an empty one, else the least recently used one without a tag, else
// the least recently used one.
func (s *shared) victim(line bloom.Line) *sharedLine {
	set := s.set(s.setOf(line))
	best := &set[0]
	for i := range set {
		switch w := &set[i]; {
		case w.stored == 0:
			return w
		case w.tagged != best.tagged:
			if best.tagged {
				best = w
			}
		case w.used < best.used:
			best = w
		}
	}
	return best
}
