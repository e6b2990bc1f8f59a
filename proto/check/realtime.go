package check

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"drtmd/proto/history"
)

// Real time. Readings of two clocks of one scale (history.Clock.Name) are ordered if they are further
// apart than both clocks' errors, and those of one source (history.Clock.Source) if they are further
// apart than its resolution. For each scale and each source the sorted ends are a chain, so that its
// edges are as many as transactions, whatever its orders.

// Kinds of chains.
const (
	ofScale = iota
	ofSource
	linkKinds
)

// family numbers the scales and the sources of the nodes.
type family struct {
	number []uint16 // by node
	count  uint16
}

func newFamily(nodes []history.Node, name func(n *history.Node) string) family {
	f := family{number: make([]uint16, len(nodes))}
	seen := map[string]uint16{}
	for i := range nodes {
		k := name(&nodes[i])
		if _, ok := seen[k]; !ok {
			seen[k] = f.count
			f.count++
		}
		f.number[i] = seen[k]
	}
	return f
}

// members are the nodes of one number.
func (f *family) members(number uint16) (in []int) {
	for i, n := range f.number {
		if n == number {
			in = append(in, i)
		}
	}
	return in
}

// sourceName names where a node's readings come from: the same for nodes that read one clock.
func sourceName(n *history.Node) string {
	if n.Source == "" {
		return "node " + strconv.Itoa(int(n.ID)) + "\x00" + n.Name
	}
	return n.Name + "\x00" + n.Source
}

// earliestStart and latestEnd take the error of the node's clock into account.
func (c *checker) earliestStart(t uint32) int64 {
	x := &c.txns[t]
	return earlier(x.start, c.nodes[x.node].ErrorNs)
}

func (c *checker) latestEnd(t uint32) int64 {
	x := &c.txns[t]
	return later(x.end, c.nodes[x.node].ErrorNs)
}

// startOf and endBefore are for transactions of one source: one had ended when another started if the
// one's endBefore is less than the other's startOf.
func (c *checker) startOf(t uint32) int64 { return c.txns[t].start }

func (c *checker) endBefore(t uint32) int64 {
	x := &c.txns[t]
	return later(x.end, c.resolution[c.sources.number[x.node]])
}

// earlier and later stay within what an int64 can say. A time of history.Never stays that.
func earlier(at, by int64) int64 {
	if at < math.MinInt64+by {
		return math.MinInt64
	}
	return at - by
}

func later(at, by int64) int64 {
	if at > math.MaxInt64-by {
		return math.MaxInt64
	}
	return at + by
}

// findClocks looks which nodes share a scale or a source.
func (c *checker) findClocks() {
	c.scales = newFamily(c.nodes, func(n *history.Node) string { return n.Name })
	c.sources = newFamily(c.nodes, sourceName)
	c.oneClock = c.scales.count <= 1
	c.resolution = make([]int64, c.sources.count)
	for i := range c.nodes {
		r := &c.resolution[c.sources.number[i]]
		*r = max(*r, c.nodes[i].ResolutionNs)
	}
}

// precedes says whether a had ended when b started.
func (c *checker) precedes(a, b uint32) bool {
	return c.precedesBySource(a, b) ||
		c.scales.number[c.txns[a].node] == c.scales.number[c.txns[b].node] &&
			c.latestEnd(a) < c.earliestStart(b)
}

// precedesBySource says so by readings of one source.
func (c *checker) precedesBySource(a, b uint32) bool {
	return c.sources.number[c.txns[a].node] == c.sources.number[c.txns[b].node] &&
		c.endBefore(a) < c.startOf(b)
}

// moment is a time of a transaction.
type moment struct {
	at  int64
	txn uint32
}

// buildChains sorts ends and starts, for each scale and each source by itself. A chain is left out
// where the other kind has the same edges or more.
func (c *checker) buildChains() {
	c.links = [linkKinds][]uint32{}
	c.chains = []chain{}
	base := uint32(len(c.from) - 1)
	for n := range c.scales.count {
		if in := c.scales.members(n); !c.bySourceAlone(in) {
			base = c.addChain(ofScale, in, base, c.latestEnd, c.earliestStart)
		}
	}
	for n := range c.sources.count {
		in := c.sources.members(n)
		_, most := c.errors(in)
		if alone := c.scales.members(c.scales.number[in[0]]); c.resolution[n] < later(most, most) ||
			c.bySourceAlone(alone) {
			base = c.addChain(ofSource, in, base, c.endBefore, c.startOf)
		}
	}
}

// bySourceAlone reports whether the nodes of a scale are of one source, whose resolution orders all
// that their errors order.
func (c *checker) bySourceAlone(in []int) bool {
	source := c.sources.number[in[0]]
	for _, n := range in {
		if c.sources.number[n] != source {
			return false
		}
	}
	least, _ := c.errors(in)
	return c.resolution[source] <= later(least, least)
}

// errors are the least and the greatest of some nodes' clocks.
func (c *checker) errors(in []int) (least, most int64) {
	least = math.MaxInt64
	for _, n := range in {
		least, most = min(least, c.nodes[n].ErrorNs), max(most, c.nodes[n].ErrorNs)
	}
	return least, most
}

// addChain adds a chain of some nodes' transactions, and gives the number of the next link.
func (c *checker) addChain(kind int, nodes []int, base uint32, end, start func(uint32) int64) uint32 {
	in := make([]bool, len(c.nodes))
	for _, n := range nodes {
		in[n] = true
	}
	ends, starts := c.moments(in, end), c.moments(in, start)
	for len(ends) > 0 && ends[len(ends)-1].at == math.MaxInt64 {
		ends = ends[:len(ends)-1] // what never ended precedes nothing
	}
	ch := chain{base: base, free: make([]uint32, 0, len(ends)+1)}
	next := 0
	for _, e := range ends {
		for next < len(starts) && starts[next].at <= e.at {
			next++
		}
		ch.free = append(ch.free, uint32(next))
	}
	ch.free = append(ch.free, uint32(len(starts)))
	ch.ends, ch.starts = transactions(ends), transactions(starts)
	if c.links[kind] == nil {
		c.links[kind] = make([]uint32, len(c.txns))
		for t := range c.links[kind] {
			c.links[kind][t] = nobody
		}
	}
	for i, t := range ch.ends {
		c.links[kind][t] = base + uint32(i)
	}
	c.chains = append(c.chains, ch)
	return base + uint32(len(ch.ends))
}

// moments gives the times of some nodes' transactions in their order.
func (c *checker) moments(in []bool, at func(uint32) int64) []moment {
	n := 0
	for t := range c.txns {
		if c.inGraph[t] && in[c.txns[t].node] {
			n++
		}
	}
	m := make([]moment, 0, n)
	for t := range c.txns {
		if c.inGraph[t] && in[c.txns[t].node] {
			m = append(m, moment{at(uint32(t)), uint32(t)})
		}
	}
	slices.SortFunc(m, func(a, b moment) int {
		if a.at != b.at {
			return cmp.Compare(a.at, b.at)
		}
		return cmp.Compare(a.txn, b.txn)
	})
	return m
}

func transactions(m []moment) []uint32 {
	t := make([]uint32, len(m))
	for i := range m {
		t[i] = m[i].txn
	}
	return t
}
