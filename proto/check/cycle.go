package check

import (
	"cmp"
	"slices"
)

// searchBudget bounds the edges that are looked at for a shorter cycle. Within it the cycle is
// the shortest of all; in a huge component it is a short one.
const searchBudget = 200_000_000

// cycleSearch looks for a short cycle in the components.
type cycleSearch struct {
	*checker
	budget int
	best   []uint32 // transactions, each before the next and the last before the first

	// Of the breadth-first search, by node: who led here, and in which search that was.
	parent, seen []uint32
	searches     uint32
	now, next    []uint32
	links        []uint32
}

// shortest gives the transactions of a cycle; there must be components.
func (c *checker) shortest() ([]uint32, error) {
	s := &cycleSearch{checker: c, budget: searchBudget}
	slices.SortStableFunc(c.components,
		func(a, b []uint32) int { return cmp.Compare(len(a), len(b)) })
	c.number(c.member)
	if s.pairs() {
		return s.best, nil
	}
	n := c.nodeCount()
	s.parent, s.seen = make([]uint32, n), make([]uint32, n)
	for _, nodes := range c.components {
		starts := s.starts(nodes)
		for i, v := range starts {
			if s.best != nil && (s.budget <= 0 || len(s.best) <= 3) {
				return s.best, nil // there are none of two, pairs saw to that
			}
			if i%256 == 0 {
				if err := c.ctx.Err(); err != nil {
					return nil, err
				}
			}
			s.through(v)
		}
	}
	return s.best, nil
}

// starts are the transactions of a component, from the earliest start on.
func (s *cycleSearch) starts(nodes []uint32) []uint32 {
	var t []uint32
	for _, v := range nodes {
		if s.isTxn(v) {
			t = append(t, v)
		}
	}
	slices.SortFunc(t, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(s.txns[a].start, s.txns[b].start), cmp.Compare(a, b))
	})
	return t
}

// pairs looks for two transactions that each come before the other. One of the two edges is not
// of real time, so looking at those is enough.
func (s *cycleSearch) pairs() bool {
	for _, nodes := range s.components {
		for _, v := range nodes {
			if !s.isTxn(v) {
				continue
			}
			for _, w := range s.to[s.from[v]:s.from[v+1]] {
				if s.budget--; s.budget <= 0 {
					return false
				}
				if s.isTxn(w) && s.member[w] == s.member[v] && (s.precedes(w, v) || s.points(w, v)) {
					s.best = []uint32{v, w}
					return true
				}
			}
		}
	}
	return false
}

// points says whether the graph has an edge that is not of real time.
func (s *cycleSearch) points(from, to uint32) bool {
	edges := s.to[s.from[from]:s.from[from+1]]
	s.budget -= len(edges)
	return slices.Contains(edges, to)
}

// through finds the shortest cycle through a transaction, and keeps it if it is shorter than the
// best. Links of a chain cost nothing: any way over them is one edge of real time. Neither do joints.
func (s *cycleSearch) through(start uint32) {
	s.searches++
	s.now = append(s.now[:0], start)
	for length := 1; len(s.now) > 0 && (s.best == nil || length < len(s.best)); length++ {
		s.next, s.links = s.next[:0], s.links[:0]
		for _, v := range s.now {
			if s.expand(v, start, &s.next, &s.links) {
				s.keep(start, v)
				return
			}
		}
		for i := 0; i < len(s.links); i++ { // grows on the way
			if s.expand(s.links[i], start, &s.next, &s.links) {
				s.keep(start, s.links[i])
				return
			}
		}
		s.now, s.next = s.next, s.now
		if s.best != nil && s.budget <= 0 {
			return
		}
	}
}

// expand looks at the successors of v; true if the cycle is closed.
func (s *cycleSearch) expand(v, start uint32, txns, links *[]uint32) bool {
	for i := uint32(0); ; i++ {
		w, more := s.successor(v, i)
		if !more {
			return false
		}
		s.budget--
		if w == start {
			return true
		}
		if s.member[w] != s.member[v] || s.seen[w] == s.searches {
			continue
		}
		s.seen[w], s.parent[w] = s.searches, v
		if !s.isTxn(w) {
			*links = append(*links, w)
		} else {
			*txns = append(*txns, w)
		}
	}
}

// keep walks back from the last node of the cycle.
func (s *cycleSearch) keep(start, last uint32) {
	var cycle []uint32
	for v := last; v != start; v = s.parent[v] {
		if s.isTxn(v) {
			cycle = append(cycle, v)
		}
	}
	cycle = append(cycle, start)
	slices.Reverse(cycle)
	s.best = cycle
}
