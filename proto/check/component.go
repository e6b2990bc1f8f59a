package check

// finished marks a node whose component is known; it is greater than any number of a visit.
const finished = nobody

// frame is a node on the way of the depth-first search, and which successor comes next.
type frame struct{ node, next uint32 }

// connect finds the strongly connected components of more than one node (Tarjan 1972, without
// recursion). If there are none, position gives an order that respects every edge.
func (c *checker) connect() error {
	n := c.nodeCount()
	visited := make([]uint32, n) // number of the visit from 1; finished
	low := make([]uint32, n)     // the least visit that is reachable by way of the search
	var way []frame
	var open []uint32 // visited and not finished
	visits, done := uint32(0), uint32(0)
	c.components = nil
	c.position = make([]uint32, n)
	enter := func(v uint32) {
		visits++
		visited[v], low[v] = visits, visits
		way, open = append(way, frame{node: v}), append(open, v)
	}
	for root := range c.txns {
		if !c.inGraph[root] || visited[root] != 0 {
			continue
		}
		enter(uint32(root))
		for len(way) > 0 {
			f := &way[len(way)-1]
			v := f.node
			if w, more := c.successor(v, f.next); more {
				f.next++
				switch {
				case visited[w] == 0:
					enter(w)
				case visited[w] != finished:
					low[v] = min(low[v], visited[w])
				}
				continue
			}
			way = way[:len(way)-1]
			if len(way) > 0 {
				parent := way[len(way)-1].node
				low[parent] = min(low[parent], low[v])
			}
			if low[v] != visited[v] {
				continue
			}
			from := len(open) - 1
			for open[from] != v {
				from--
			}
			done += c.close(open[from:], visited, uint32(n)-done)
			open = open[:from]
			if done%tickEvery == 0 {
				if err := c.tick(Ordering, int(done), n); err != nil {
					return err
				}
			}
		}
	}
	if len(c.components) > 0 {
		c.number(low)
	}
	return nil
}

// close finishes a component, the last one in the order of those that are left.
func (c *checker) close(nodes, visited []uint32, position uint32) uint32 {
	for _, v := range nodes {
		visited[v], c.position[v] = finished, position
	}
	if len(nodes) > 1 {
		c.components = append(c.components, append([]uint32(nil), nodes...))
	}
	return uint32(len(nodes))
}

// number writes down which component a node is in, into an array that is no longer needed.
func (c *checker) number(member []uint32) {
	clear(member)
	for i, nodes := range c.components {
		for _, v := range nodes {
			member[v] = uint32(i + 1)
		}
	}
	c.member = member
}
