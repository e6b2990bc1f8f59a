package sherman

import "drtmd/proto/rtx"

// Cache keeps copies of internal nodes of one tree, one for each place of a table: a newer one takes its place. It
// belongs to a thread.
type Cache struct {
	root  rtx.Ptr // 0: not known
	level int
	ptrs  []rtx.Ptr
	nodes []byte
	size  int
}

// NewCache makes a cache of so many nodes of a size, which is rtx.Client.Payload of their class.
func NewCache(nodes, size int) *Cache {
	return &Cache{ptrs: make([]rtx.Ptr, nodes), nodes: make([]byte, nodes*size), size: size}
}

func (c *Cache) place(p rtx.Ptr) int {
	const golden = 0x9E3779B97F4A7C15 // its highest bits spread neighbours, and steps of any size
	return int(uint64(p) * golden >> 32 * uint64(len(c.ptrs)) >> 32)
}

// get is the copy of a node; nil: there is none.
func (c *Cache) get(p rtx.Ptr) []byte {
	i := c.place(p)
	if c.ptrs[i] != p || p == 0 {
		return nil
	}
	return c.nodes[i*c.size:][:c.size]
}

func (c *Cache) put(p rtx.Ptr, node []byte) {
	i := c.place(p)
	c.ptrs[i] = p
	copy(c.nodes[i*c.size:][:c.size], node)
}

func (c *Cache) drop(p rtx.Ptr) {
	if i := c.place(p); c.ptrs[i] == p {
		c.ptrs[i] = 0
	}
}

func (c *Cache) clear() {
	c.root = 0
	clear(c.ptrs)
}
