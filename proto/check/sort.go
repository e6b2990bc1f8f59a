package check

import (
	"cmp"
	"slices"
)

// sort puts the ops in the order of key, version, class and transaction: within a version of a
// key the writes come first.
func (c *checker) sort() error {
	keys := len(c.keys.entries)
	c.first = make([]uint32, keys+1)
	for i := range c.ops {
		c.first[c.ops[i].key+1]++
	}
	for k := range keys {
		c.first[k+1] += c.first[k]
	}
	next := slices.Clone(c.first[:keys])
	sorted := make([]op, len(c.ops))
	for i := range c.ops {
		o := &c.ops[i]
		sorted[next[o.key]] = *o
		next[o.key]++
	}
	c.ops = sorted
	for k := range keys {
		if k%tickEvery == 0 {
			if err := c.tick(Sorting, k, keys); err != nil {
				return err
			}
		}
		slices.SortFunc(c.of(uint32(k)), compareOps)
	}
	return c.tick(Sorting, keys, keys)
}

func compareOps(a, b op) int {
	switch {
	case a.version != b.version:
		return cmp.Compare(a.version, b.version)
	case a.class() != b.class():
		return cmp.Compare(a.class(), b.class())
	}
	return cmp.Compare(a.packed, b.packed)
}

// of gives the ops of a key.
func (c *checker) of(key uint32) []op { return c.ops[c.first[key]:c.first[key+1]] }

// version gives the end of the run of ops that share the version of ops[i].
func version(ops []op, i int) (end int) {
	end = i + 1
	for end < len(ops) && ops[end].version == ops[i].version {
		end++
	}
	return end
}

// reads gives where in a run of one version the reads begin.
func reads(run []op) int {
	i := 0
	for i < len(run) && run[i].class() < classRead {
		i++
	}
	return i
}
