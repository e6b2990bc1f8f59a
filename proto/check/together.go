package check

import "slices"

// What a reader saw of several keys it saw at one place of the order: where each of them was absent. Guesses for
// one key after the other can be of places that exclude each other.

// span is an absence, between two places of the order, both included; at is the position of its delete among
// the key's ops, -1 for the initial absence.
type span struct {
	low, high uint32
	at        int
}

// sighting is an ambiguous absent read and the absences that it can have seen, in their order.
type sighting struct {
	read  uint32 // position among all ops
	spans []span
}

// sightings collects the ambiguous absent reads of the transactions of which one strays.
func (c *checker) sightings(w *walk, found []stray) (map[uint32][]sighting, error) {
	of := make(map[uint32][]sighting, len(found))
	for _, s := range found {
		of[c.ops[c.first[s.key]+uint32(s.at)].txn()] = nil
	}
	err := c.eachAbsenceKey(func(key uint32) {
		l := c.timelineOf(key)
		l.eachAbsence(func(at int, p placement) {
			reader := l.ops[at].txn()
			if all, strays := of[reader]; strays && p.first != p.last {
				s := sighting{l.base + uint32(at), l.spans(l.narrow(w, reader, p))}
				of[reader] = append(all, s)
			}
		})
	})
	return of, err
}

// spans are the absences of a placement but those of unknown transactions, which have no place yet.
func (l *timeline) spans(p placement) (all []span) {
	for i := max(p.first, 0); i <= p.last; i++ {
		s := l.states[i]
		if !s.absent || s.maybe {
			continue
		}
		x := span{at: s.at, high: nobody}
		if s.txn != nobody {
			x.low = l.c.position[s.txn]
		}
		if n := l.next(i); n >= 0 {
			x.high = l.c.position[l.states[n].txn] - 1
		}
		all = append(all, x)
	}
	return all
}

// together guesses for all absences of a reader together: those of the place that is nearest to its own in the
// order, or of the last place. ok is false if there is no place at which all were absent.
func (c *checker) together(reader uint32, all []sighting) (g guess, ok bool) {
	now := c.position[reader]
	before, early := earlierPlace(all, now)
	after, late := laterPlace(all, now)
	place := after
	switch {
	case c.late:
		place, ok = earlierPlace(all, nobody)
	case early && (!late || now-before < after-now):
		place, ok = before, true
	default:
		ok = late
	}
	if !ok {
		return guess{}, false
	}
	g = guess{low: now, high: now}
	for _, s := range all {
		x := s.spans[slices.IndexFunc(s.spans, func(x span) bool { return x.low <= place && place <= x.high })]
		g.choices = append(g.choices, choice{s.read, x.at})
		g.high = max(g.high, x.low)
		if x.high != nobody {
			g.low = min(g.low, x.high+1)
		}
	}
	return g, true
}

// laterPlace finds the first place from some place on at which all were absent.
func laterPlace(all []sighting, place uint32) (uint32, bool) {
	for met := 0; met < len(all); {
		for _, s := range all {
			i := slices.IndexFunc(s.spans, func(x span) bool { return x.high >= place })
			if i < 0 {
				return 0, false
			}
			if met++; s.spans[i].low > place {
				place, met = s.spans[i].low, 1
			}
		}
	}
	return place, true
}

// earlierPlace finds the last place up to some place at which all were absent.
func earlierPlace(all []sighting, place uint32) (uint32, bool) {
	for met := 0; met < len(all); {
		for _, s := range all {
			i := len(s.spans) - 1
			for i >= 0 && s.spans[i].low > place {
				i--
			}
			if i < 0 {
				return 0, false
			}
			if met++; s.spans[i].high < place {
				place, met = s.spans[i].high, 1
			}
		}
	}
	return place, true
}
