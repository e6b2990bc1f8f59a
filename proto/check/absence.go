package check

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"drtmd/proto/history"
)

// state is what a key was between two writes.
type state struct {
	at     int    // position of the write among the key's ops, -1 for the initial state
	txn    uint32 // the writer, nobody for the initial state
	absent bool
	maybe  bool // by an unknown transaction that does not count (yet): only a delete is kept
}

// placement is which absences an absent read can have seen: states first to last, of which both
// are absent; first is -1 if there is none.
type placement struct{ first, last int }

// timeline is a key's states in their order, to place absent reads without a version. It belongs
// to the checker, which has one.
type timeline struct {
	c          *checker
	ops        []op
	base       uint32 // position of ops[0] among all ops
	states     []state
	soonest    []int64 // least latest-end of this and all later states that count
	latest     []int64 // greatest earliest-start of this and all earlier states that count
	absentFrom []int   // the first absent state from here on, len(states) for none
	absentTo   []int   // the last absent state up to here, -1 for none
	owners     []int   // the written states, by transaction
}

// hasAbsences: absent reads without a version stand first.
func hasAbsences(ops []op) bool { return len(ops) > 0 && ops[0].version == 0 }

// eachAbsenceKey calls fn with every key that has absent reads without a version.
func (c *checker) eachAbsenceKey(fn func(key uint32)) error {
	for k := range c.keys.entries {
		if k%tickEvery == 0 {
			if err := c.ctx.Err(); err != nil {
				return err
			}
		}
		if hasAbsences(c.of(uint32(k))) {
			fn(uint32(k))
		}
	}
	return nil
}

// timelineOf builds the timeline of a key, in the place of the one before.
func (c *checker) timelineOf(key uint32) *timeline {
	l := &c.line
	l.c, l.ops, l.base = c, c.of(key), c.first[key]
	l.states = append(l.states[:0], state{at: -1, txn: nobody, absent: !c.initiallyThere(key, l.ops)})
	for i := range l.ops {
		w := &l.ops[i]
		switch s := c.sightOf(w); {
		case w.class() != classWrite && w.class() != classDelete && w.class() != classAdd:
		case s == sawUnknown && l.installedAlike(i):
			// Somebody who counts has installed the version: this one never did.
		case s == sawInstalled, s == sawUnknown && w.class() == classDelete:
			l.states = append(l.states, state{at: i, txn: w.txn(),
				absent: w.class() == classDelete, maybe: s == sawUnknown})
		}
	}
	l.index()
	l.owners = l.owners[:0]
	for i := range l.states[1:] {
		l.owners = append(l.owners, i+1)
	}
	slices.SortFunc(l.owners, func(a, b int) int {
		return cmp.Compare(l.states[a].txn, l.states[b].txn)
	})
	return l
}

// installedAlike reports whether a transaction that counts has installed the version of write i.
func (l *timeline) installedAlike(i int) bool {
	from, to := i, i+1
	for from > 0 && l.ops[from-1].version == l.ops[i].version {
		from--
	}
	for to < len(l.ops) && l.ops[to].version == l.ops[i].version {
		to++
	}
	return l.c.installed(l.ops[from:from+reads(l.ops[from:to])]) >= 0
}

// initiallyThere: the key was loaded; or, if that was not recorded, a version was read that nobody
// wrote and that lies below all writes.
func (c *checker) initiallyThere(key uint32, ops []op) bool {
	if c.initial.known {
		return c.initial.of(key).state == history.Present
	}
	for i := range ops {
		switch o := &ops[i]; {
		case o.class() < classRead:
			return false
		case o.class() == classRead && c.inGraph[o.txn()]:
			return true
		}
	}
	return false
}

// index prepares the searches by time and for absent states.
func (l *timeline) index() {
	n := len(l.states)
	l.soonest = slices.Grow(l.soonest[:0], n)[:n]
	l.latest = slices.Grow(l.latest[:0], n)[:n]
	l.absentFrom = slices.Grow(l.absentFrom[:0], n)[:n]
	l.absentTo = slices.Grow(l.absentTo[:0], n)[:n]
	last, most := -1, int64(math.MinInt64)
	for i, s := range l.states {
		if s.txn != nobody && !s.maybe {
			most = max(most, l.c.earliestStart(s.txn))
		}
		l.latest[i] = most
		if s.absent {
			last = i
		}
		l.absentTo[i] = last
	}
	next, least := n, int64(math.MaxInt64)
	for i := n - 1; i >= 0; i-- {
		s := l.states[i]
		if s.txn != nobody && !s.maybe {
			least = min(least, l.c.latestEnd(s.txn))
		}
		l.soonest[i] = least
		if s.absent {
			next = i
		}
		l.absentFrom[i] = next
	}
}

// eachAbsence places every absent read without a version; at is its position among the key's ops.
func (l *timeline) eachAbsence(fn func(at int, p placement)) {
	for at := range l.ops {
		r := &l.ops[at]
		if r.version != 0 {
			return
		}
		if l.c.inGraph[r.txn()] {
			fn(at, l.place(at, r.txn()))
		}
	}
}

// place says which absences reader can have seen.
func (l *timeline) place(at int, reader uint32) placement {
	if s, ok := l.chosen(l.base + uint32(at)); ok {
		return placement{s, s}
	}
	n := len(l.states)
	low, high := 0, n-1
	if l.c.oneClock {
		start, end := l.c.earliestStart(reader), l.c.latestEnd(reader)
		// The last state whose writer had ended when the reader started, and the last state
		// before the first one whose writer started after the reader's end.
		low = max(0, sort.Search(n, func(i int) bool { return l.soonest[i] >= start })-1)
		high = sort.Search(n, func(i int) bool { return l.latest[i] > end }) - 1
	}
	own := l.own(reader)
	if own >= 0 { // it saw what its own write replaced
		for low, high = own-1, own-1; l.states[low].maybe; {
			low--
		}
	}
	first, last := n, -1
	if low < n {
		first = l.absentFrom[low]
	}
	if first == own && first+1 < n { // not what it wrote itself
		first = l.absentFrom[first+1]
	} else if first == own {
		first = n
	}
	if high >= 0 {
		last = l.absentTo[high]
	}
	switch {
	case first <= last:
		return placement{first, last}
	case last >= 0: // none fits: whichever is taken, a cycle shows what is wrong
		return placement{last, last}
	case first < n:
		return placement{first, first}
	}
	return placement{-1, -1}
}

// own finds the state that a transaction that counts wrote itself, -1 if none.
func (l *timeline) own(t uint32) int {
	i, ok := slices.BinarySearchFunc(l.owners, t, func(s int, t uint32) int {
		return cmp.Compare(l.states[s].txn, t)
	})
	if !ok {
		return -1
	}
	return l.owners[i]
}

// next finds the first counted state after i, -1 if none.
func (l *timeline) next(i int) int {
	for i++; i < len(l.states); i++ {
		if !l.states[i].maybe {
			return i
		}
	}
	return -1
}

// edges emits what is certain of an absent read: it comes after the first absence that it can
// have seen and before what followed the last.
func (l *timeline) edges(key uint32, emit func(edge)) {
	l.eachAbsence(func(at int, p placement) {
		if p.first < 0 {
			return
		}
		reader := l.ops[at].txn()
		if s := l.states[p.first]; s.at >= 0 && !s.maybe && s.txn != reader {
			emit(edge{from: s.txn, to: reader, relation: WriteRead, key: key,
				a: l.base + uint32(s.at), b: l.base + uint32(at)})
		}
		if n := l.next(p.last); n >= 0 && l.states[n].txn != reader {
			emit(edge{from: reader, to: l.states[n].txn, relation: ReadWrite, key: key,
				a: l.base + uint32(at), b: l.base + uint32(l.states[n].at)})
		}
	})
}
