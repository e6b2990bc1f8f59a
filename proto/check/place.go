package check

import (
	"cmp"
	"slices"
	"sort"
)

// choice fixes the absence that a read saw: the read's position among all ops, and that of the
// delete among the key's, -1 for the initial absence.
type choice struct {
	read uint32
	at   int
}

func compareChoices(a, b choice) int { return cmp.Compare(a.read, b.read) }

// chosen gives the state that was chosen for a read, if there is one.
func (l *timeline) chosen(read uint32) (index int, ok bool) {
	i, ok := slices.BinarySearchFunc(l.c.choices, choice{read: read}, compareChoices)
	if !ok {
		return 0, false
	}
	at := l.c.choices[i].at
	return slices.IndexFunc(l.states, func(s state) bool { return s.at == at }), true
}

// attempts bounds how often the graph is built anew to place absences.
const attempts = 32

// stray is an absent read that stands where the key was there, in the order that was found.
type stray struct {
	key   uint32
	at    int // position of the read among the key's ops
	state int // the key's state at that place of the order
}

// strays looks where in the order that was found each ambiguous absent read stands. ambiguous
// counts them.
func (c *checker) strays() (found []stray, ambiguous uint64, err error) {
	err = c.eachAbsenceKey(func(key uint32) {
		l := c.timelineOf(key)
		l.eachAbsence(func(at int, p placement) {
			if p.first == p.last {
				return
			}
			ambiguous++
			if i := l.stateAt(c.position[l.ops[at].txn()]); !l.states[i].absent {
				found = append(found, stray{key, at, i})
			}
		})
	})
	return found, ambiguous, err
}

// stateAt finds the newest counted state at a place of the order.
func (l *timeline) stateAt(position uint32) int {
	i := sort.Search(len(l.states), func(i int) bool {
		if l.states[i].txn == nobody {
			return false
		}
		if l.states[i].maybe { // has no place: the next that has one decides
			if i = l.next(i); i < 0 {
				return true
			}
		}
		return l.c.position[l.states[i].txn] > position
	}) - 1
	for i > 0 && l.states[i].maybe {
		i--
	}
	return i
}

// settle narrows down what each stray can have seen by the edges that there are, and adds
// choices: all that are the only ones left, or guesses for some readers if there are none. For a read
// that has none left a choice is added that shows the contradiction.
func (c *checker) settle(found []stray) error {
	w := &walk{graph: &c.graph, seen: make([]uint32, c.nodeCount())}
	var forced []choice
	var single []guess // by stray
	for _, s := range found {
		l := c.timelineOf(s.key)
		reader := l.ops[s.at].txn()
		read := l.base + uint32(s.at)
		p := l.narrow(w, reader, l.place(s.at, reader))
		nearest := l.absentTo[s.state]
		if nearest < max(p.first, 0) {
			nearest = l.absentFrom[s.state]
		}
		switch {
		case p.first < 0:
			c.choose(choice{read, l.states[nearest].at})
			return nil
		case p.first == p.last:
			forced = append(forced, l.choice(read, p.first))
		case c.late:
			single = append(single, l.guess(read, reader, p.last))
		default:
			single = append(single, l.guess(read, reader, nearest))
		}
	}
	if len(forced) > 0 {
		c.choose(forced...)
		return nil
	}
	guesses, err := c.guesses(w, found, single)
	if err != nil {
		return err
	}
	c.take(guesses)
	return nil
}

// guesses has a guess for each reader of which an absence strays, for all of its absences. If that has none, it
// takes those for the strays: of each the nearest in the order, or the last.
func (c *checker) guesses(w *walk, found []stray, single []guess) (all []guess, err error) {
	of, err := c.sightings(w, found)
	if err != nil {
		return nil, err
	}
	for i, s := range found {
		reader := c.ops[c.first[s.key]+uint32(s.at)].txn()
		sightings, more := of[reader]
		if !more {
			continue // it has its guess
		}
		if g, ok := c.together(reader, sightings); ok {
			all = append(all, g)
			delete(of, reader)
		} else {
			all = append(all, single[i])
		}
	}
	return all, nil
}

// guess is of choices for one reader that the edges do not force. low and high are the places of the order
// between which its edges can lead back.
type guess struct {
	choices   []choice
	counts    []uint32 // the unknown transactions that count if the guess is taken
	low, high uint32
}

// guess is that a read saw a state.
func (l *timeline) guess(read, reader uint32, state int) guess {
	s := l.states[state]
	g := guess{choices: []choice{{read, s.at}}, low: l.c.position[reader]}
	g.high = g.low
	if s.maybe { // it brings edges that are not known yet
		g.counts, g.low, g.high = []uint32{s.txn}, 0, nobody
		return g
	}
	if s.txn != nobody {
		g.high = max(g.high, l.c.position[s.txn])
	}
	if n := l.next(state); n >= 0 {
		g.low = min(g.low, l.c.position[l.states[n].txn])
	}
	return g
}

// take takes guesses whose places do not overlap: no cycle goes through the edges of two of them,
// since all others lead on in the order. So they are as safe together as one alone.
func (c *checker) take(guesses []guess) {
	slices.SortFunc(guesses, func(a, b guess) int {
		return cmp.Or(cmp.Compare(a.high, b.high), compareChoices(a.choices[0], b.choices[0]))
	})
	var taken []choice
	end := uint32(0)
	for _, g := range guesses {
		if len(taken) > 0 && g.low <= end {
			continue
		}
		end = g.high
		taken = append(taken, g.choices...)
		c.recount = append(c.recount, g.counts...)
	}
	c.guessed = true
	c.choose(taken...)
}

func (c *checker) choose(more ...choice) {
	c.choices = append(c.choices, more...)
	slices.SortFunc(c.choices, compareChoices)
}

// choice makes a choice; an unknown transaction whose delete is chosen counts from now on.
func (l *timeline) choice(read uint32, state int) choice {
	if l.states[state].maybe {
		l.c.recount = append(l.c.recount, l.states[state].txn)
	}
	return choice{read, l.states[state].at}
}

// narrow keeps of a placement what the graph allows: states after the last whose writer reaches
// the reader, before the first whose writer the reader reaches.
func (l *timeline) narrow(w *walk, reader uint32, p placement) placement {
	// State i is over for the reader if the writer of the next one reaches it; and if that is
	// so for one state, it is for all before.
	n := p.last - p.first + 1
	p.first += sort.Search(n, func(i int) bool {
		next := l.next(p.first + i)
		return next < 0 || l.states[next].txn == reader || !w.reaches(l.states[next].txn, reader)
	})
	n = max(0, p.last-p.first+1)
	p.last = p.first - 1 + sort.Search(n, func(i int) bool {
		s := l.states[p.first+i]
		return s.txn != nobody && !s.maybe && w.reaches(reader, s.txn)
	})
	if p.first >= len(l.states) || p.last < 0 {
		return placement{-1, -1}
	}
	if p.first, p.last = l.absentFrom[p.first], l.absentTo[p.last]; p.first > p.last {
		return placement{-1, -1}
	}
	return p
}

// walk finds ways in a graph without cycles.
type walk struct {
	*graph
	seen  []uint32 // by node: the last walk that came by
	walks uint32
	todo  []uint32
}

// reaches says whether there is a way. It never leaves the places of the order between the two.
func (w *walk) reaches(from, to uint32) bool {
	w.walks++
	w.todo = append(w.todo[:0], from)
	for len(w.todo) > 0 {
		v := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		for i := uint32(0); ; i++ {
			x, more := w.successor(v, i)
			if !more {
				break
			}
			if x == to {
				return true
			}
			if w.position[x] < w.position[to] && w.seen[x] != w.walks {
				w.seen[x] = w.walks
				w.todo = append(w.todo, x)
			}
		}
	}
	return false
}
