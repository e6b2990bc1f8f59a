package chop

import "slices"

// merging of the operations of one transaction into pieces.
type merging struct {
	g      *graph
	t      int
	group  []int // by operation: the least operation of its piece
	merges []Merge
	at     []int // by merge: an operation of its piece
}

// merge finds the pieces of a transaction.
func (g *graph) merge(t int) *merging {
	n := len(g.w.Transactions[t].Ops)
	m := &merging{g: g, t: t}
	for i := range n {
		m.group = append(m.group, i)
	}
	if g.out[t] {
		for i := 1; i < n; i++ {
			m.set(i, 0)
		}
		return m
	}
	for q := range n {
		for p := range q {
			if m.group[p] == m.group[q] {
				continue
			}
			cycle := g.path(t, p, func(x node) bool { return x == node{t, 0, q} })
			if cycle != nil {
				m.join(p, q, Merge{Why: ByCycle, Cycle: cycle})
			}
		}
	}
	if g.options.Mutation == SkipMerge && len(m.merges) > 0 {
		last := m.at[len(m.at)-1]
		m.merges, m.at = m.merges[:len(m.merges)-1], m.at[:len(m.at)-1]
		m.group[last] = last
	}
	if g.options.Mutation != AbortInSecondPiece {
		m.abortsFirst()
	}
	for m.close() {
	}
	return m
}

func (m *merging) ops() []Op { return m.g.w.Transactions[m.t].Ops }

// set moves the whole piece of an operation.
func (m *merging) set(op, to int) {
	from := m.group[op]
	to = m.group[to]
	least := min(from, to)
	for i, x := range m.group {
		if x == from || x == to {
			m.group[i] = least
		}
	}
}

func (m *merging) join(p, q int, why Merge) {
	why.Ops = [2]string{m.ops()[p].Name, m.ops()[q].Name}
	m.merges = append(m.merges, why)
	m.at = append(m.at, q)
	m.set(q, p)
}

// abortsFirst makes one piece of the user aborts and all that they need.
func (m *merging) abortsFirst() {
	first := slices.IndexFunc(m.ops(), func(o Op) bool { return o.Aborts })
	if first < 0 {
		return
	}
	for changed := true; changed; {
		changed = false
		for i, o := range m.ops() {
			if m.group[i] == m.group[first] || !o.Aborts && !m.neededBy(i, first) {
				continue
			}
			p, q := min(first, i), max(first, i)
			m.join(p, q, Merge{Why: ByAbort})
			changed = true
		}
	}
}

// neededBy reports whether an operation of a piece needs another one.
func (m *merging) neededBy(op, piece int) bool {
	for i := range m.ops() {
		if m.group[i] == m.group[piece] && m.g.w.Transactions[m.t].needs(i, op) {
			return true
		}
	}
	return false
}

// needsOf reports whether an operation needs one of a piece.
func (m *merging) needsOf(op, piece int) bool {
	for i := range m.ops() {
		if m.group[i] == m.group[piece] && m.g.w.Transactions[m.t].needs(op, i) {
			return true
		}
	}
	return false
}

// close merges a piece that needs another one which needs it, directly or by way of others. It reports whether it
// found one.
func (m *merging) close() bool {
	n := len(m.group)
	reach := make([][]bool, n) // from piece to the pieces that it needs
	for i := range n {
		reach[i] = make([]bool, n)
	}
	for i := range n {
		for j := range n {
			if m.group[i] != m.group[j] && m.g.w.Transactions[m.t].needs(i, j) {
				reach[m.group[i]][m.group[j]] = true
			}
		}
	}
	for k := range n {
		for i := range n {
			for j := range n {
				reach[i][j] = reach[i][j] || reach[i][k] && reach[k][j]
			}
		}
	}
	for i := range n {
		for j := i + 1; j < n; j++ {
			if reach[i][j] && reach[j][i] {
				m.join(i, j, Merge{Why: ByOrder})
				return true
			}
		}
	}
	return false
}

// reasons are the merges of a piece.
func (m *merging) reasons(group []int) (all []Merge) {
	for i := range m.merges {
		if slices.Contains(group, m.at[i]) {
			all = append(all, m.merges[i])
		}
	}
	return all
}

// ordered are the pieces in the order of their execution: the one with user aborts first, then as declared, with
// those that conflict with nobody as early as they can be, deferred ones last, and a search right before the piece that
// needs it.
func (m *merging) ordered() (pieces [][]int) {
	n := len(m.group)
	done := make([]bool, n)
	for {
		best, bestRank := -1, [3]int{}
		for i := range n {
			if done[i] || m.group[i] != i || !m.ready(i, done) {
				continue
			}
			if rank := m.rank(i); best < 0 || slices.Compare(rank[:], bestRank[:]) < 0 {
				best, bestRank = i, rank
			}
		}
		if best < 0 {
			return pieces
		}
		var piece []int
		for i := range n {
			if m.group[i] == best {
				piece, done[i] = append(piece, i), true
			}
		}
		pieces = append(pieces, piece)
	}
}

// ready reports whether all that a piece needs is done.
func (m *merging) ready(piece int, done []bool) bool {
	for i := range m.group {
		if !done[i] && m.group[i] != piece && m.neededBy(i, piece) {
			return false
		}
	}
	return true
}

// rank orders pieces that are ready.
func (m *merging) rank(piece int) [3]int {
	r := [3]int{2, piece, 0} // free pieces: 1; the one with aborts: 0; those with conflicts: 2; deferred ones: 3
	conflicts, aborts, deferred, searches := false, false, false, true
	for i := range m.group {
		if m.group[i] == piece {
			o := &m.ops()[i]
			conflicts = conflicts || len(m.g.of(m.t, i)) > 0
			aborts = aborts || o.Aborts
			deferred = deferred || m.g.later[[2]int{m.t, i}]
			searches = searches && isSearch(o)
		}
	}
	switch {
	case aborts && m.g.options.Mutation != AbortInSecondPiece:
		r[0] = 0
	case searches: // as late as the piece that needs it
		for i := range m.group {
			if m.needsOf(i, piece) && m.group[i] != piece {
				r = m.rank(m.group[i])
				break
			}
		}
		r[2] = -1
	case deferred: // the others are shown at once
		r[0] = 3
	case !conflicts:
		r[0] = 1
	}
	return r
}
