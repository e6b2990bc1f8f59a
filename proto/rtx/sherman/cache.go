package sherman

import "drtmd/proto/rtx"

// cache keeps copies of internal nodes, one for each place of a table: a newer one takes its place.
type cache struct {
	root  rtx.Ptr // 0: not known
	level int
	ptrs  []rtx.Ptr
	nodes []byte
	size  int
}

func newCache(nodes, size int) cache {
	return cache{ptrs: make([]rtx.Ptr, nodes), nodes: make([]byte, nodes*size), size: size}
}

func (c *cache) place(p rtx.Ptr) int {
	return int(uint64(p) * 0x9E3779B97F4A7C15 >> 20 % uint64(len(c.ptrs)))
}

// get is the copy of a node; nil: there is none.
func (c *cache) get(p rtx.Ptr) []byte {
	i := c.place(p)
	if c.ptrs[i] != p || p == 0 {
		return nil
	}
	return c.nodes[i*c.size:][:c.size]
}

func (c *cache) put(p rtx.Ptr, node []byte) {
	i := c.place(p)
	c.ptrs[i] = p
	copy(c.nodes[i*c.size:][:c.size], node)
}

func (c *cache) drop(p rtx.Ptr) {
	if i := c.place(p); c.ptrs[i] == p {
		c.ptrs[i] = 0
	}
}

func (c *cache) clear() {
	c.root = 0
	clear(c.ptrs)
}
