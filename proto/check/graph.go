package check

import (
	"slices"
)

// edge is why one transaction comes before another. a and b are the positions of the ops that
// say so, of from and of to.
type edge struct {
	from, to uint32
	relation Relation
	key      uint32
	a, b     uint32
}

// graph has two kinds of nodes: transactions, by their number, and links of the chains of real
// time, numbered after them. The edges to and from links are implied by the order of ends and
// starts.
//
// Where several additions and several reads of one key come before others of these, all edges lead through a joint,
// so that there are no more of them than operations. Joints are numbered between transactions and links.
type graph struct {
	from   []uint64 // by transaction and joint: where its edges begin in to; one more at the end
	to     []uint32
	chains []chain
	// links are, by transaction, the links that its end is: in the chain of its scale, and in that
	// of its source; nobody for none. A kind without chains is nil.
	links [linkKinds][]uint32

	txnCount uint32 // joints begin there
	joint    uint32 // next of eachEdge, from 0
	// pairs, if not nil, has eachEdge emit no joints, but the edges between these transactions that they stand for.
	pairs  []bool
	levels [2]level
	both   []uint32 // by transaction: the joint at which it was met last, and 1
	meet   uint32

	components [][]uint32 // strongly connected ones of more than one node
	member     []uint32   // by node: number of its component, from 1; 0 for none
	position   []uint32   // by node: its place in an order, if there are no components
}

// chain is the real time of one scale or source of time: a link for each end, each before the next
// one and before every start between the two.
type chain struct {
	base   uint32   // number of its first link
	ends   []uint32 // transactions by latest end
	starts []uint32 // transactions by earliest start
	// free[i] is the first of starts after end i; one more at the end.
	free []uint32
}

// build makes the graph of what is in it now.
func (c *checker) build() error {
	c.txnCount = uint32(len(c.txns))
	joints := 0
	if c.additions {
		if err := c.eachEdge(func(edge) {}); err != nil {
			return err
		}
		joints = int(c.joint)
	}
	nodes := len(c.txns) + joints
	c.from = make([]uint64, nodes+1)
	if err := c.eachEdge(func(e edge) { c.from[e.from+1]++ }); err != nil {
		return err
	}
	for t := range nodes {
		c.from[t+1] += c.from[t]
	}
	c.result.Edges = c.from[nodes]
	c.to = slices.Grow(c.to[:0], int(c.result.Edges))[:c.result.Edges]
	// Filling moves each beginning to its end, which is the next one's beginning.
	if err := c.eachEdge(func(e edge) {
		c.to[c.from[e.from]] = e.to
		c.from[e.from]++
	}); err != nil {
		return err
	}
	copy(c.from[1:], c.from[:nodes])
	c.from[0] = 0
	if c.chains == nil {
		c.buildChains()
	}
	return nil
}

// eachEdge emits every edge but those of real time, key by key.
func (c *checker) eachEdge(emit func(edge)) error {
	keys := len(c.keys.entries)
	c.joint = 0
	for k := range keys {
		if k%tickEvery == 0 {
			if err := c.tick(Linking, k, keys); err != nil {
				return err
			}
		}
		if c.additions && hasAdditions(c.of(uint32(k))) {
			c.additionEdges(uint32(k), emit)
		} else {
			c.keyEdges(uint32(k), emit)
		}
		if hasAbsences(c.of(uint32(k))) {
			c.timelineOf(uint32(k)).edges(uint32(k), emit)
		}
	}
	return nil
}

// keyEdges emits the edges that a key's versions give. A ww edge is left out where the same two
// transactions have a wr edge because the second read what it replaced.
func (c *checker) keyEdges(key uint32, emit func(edge)) {
	ops, base := c.of(key), c.first[key]
	writer := -1 // position of the newest installed write
	since := 0   // the reads from here on are of that write, or initial ones
	for i := 0; i < len(ops); {
		end := version(ops, i)
		from := i + reads(ops[i:end])
		w := c.installed(ops[i:from])
		if w < 0 {
			i = end
			continue
		}
		w += i
		t := ops[w].txn()
		if read := c.overwritten(ops[since:i], t, func(at int, reader uint32) {
			emit(edge{reader, t, ReadWrite, key, base + uint32(since+at), base + uint32(w)})
		}); writer >= 0 && !read && ops[writer].txn() != t {
			emit(edge{ops[writer].txn(), t, WriteWrite, key, base + uint32(writer), base + uint32(w)})
		}
		for j := from; j < end; j++ {
			if r := ops[j].txn(); r != t && c.inGraph[r] {
				emit(edge{t, r, WriteRead, key, base + uint32(w), base + uint32(j)})
			}
		}
		writer, since, i = w, from, end
	}
}

// overwritten calls fn with each read that the next write, of transaction t, replaced, and says
// whether t had read that itself.
func (c *checker) overwritten(ops []op, t uint32, fn func(at int, reader uint32)) (read bool) {
	for j := range ops {
		o := &ops[j]
		if o.class() < classRead || o.version == 0 || !c.inGraph[o.txn()] {
			continue
		}
		if o.txn() == t {
			read = true
			continue
		}
		fn(j, o.txn())
	}
	return read
}

// nodeCount is the number of transactions and links.
func (g *graph) nodeCount() int {
	n := len(g.from) - 1
	for i := range g.chains {
		n += len(g.chains[i].ends)
	}
	return n
}

// isTxn tells transactions from joints and links.
func (g *graph) isTxn(v uint32) bool { return v < g.txnCount }

// isLink tells links from transactions and joints.
func (g *graph) isLink(v uint32) bool { return int(v) >= len(g.from)-1 }

// successor gives the i-th node that v comes before, from 0; false when there are no more.
func (g *graph) successor(v, i uint32) (uint32, bool) {
	if !g.isLink(v) {
		edges := uint32(g.from[v+1] - g.from[v])
		if i < edges {
			return g.to[g.from[v]+uint64(i)], true
		}
		i -= edges
		for _, links := range g.links {
			if links == nil || !g.isTxn(v) || links[v] == nobody {
				continue
			}
			if i == 0 {
				return links[v], true
			}
			i--
		}
		return 0, false
	}
	ch := &g.chains[0]
	for k := 1; k < len(g.chains) && v >= g.chains[k].base; k++ {
		ch = &g.chains[k]
	}
	at := v - ch.base
	freed := ch.free[at+1] - ch.free[at]
	switch {
	case i < freed:
		return ch.starts[ch.free[at]+i], true
	case i == freed && int(at)+1 < len(ch.ends):
		return v + 1, true
	}
	return 0, false
}
