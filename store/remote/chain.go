package remote

import "drtmd/store/layout"

// setLink changes the eighth slot of a copy.
func setLink(b *layout.Bucket, s layout.Slot) { b[2*layout.LinkSlot] = uint64(s) }

// sanitize takes out of a copy what only a cache may hold: memory of a peer proves nothing.
func (s *shard) sanitize(b *layout.Bucket) {
	if s.mutation != KeepCached && b.Slot(layout.LinkSlot).Type() == layout.Cached {
		setLink(b, 0)
	}
}

// reclaim gives the chain behind a copy back, from its end, and puts the slot word that stood
// there back into the copy.
func (s *shard) reclaim(b *layout.Bucket) {
	link := b.Slot(layout.LinkSlot)
	if link.Type() != layout.Cached {
		return
	}
	i := int32(link.Offset())
	x := &s.chain[i]
	s.reclaim(&x.bucket)
	setLink(b, x.home)
	x.next, s.free = s.free, i
	s.stats.Reclaimed++
}

// take gives a chained frame for the chain of f, if need be one of somebody else's chain.
func (s *shard) take(f *frame) int32 {
	for looks := 0; s.free == noFrame; looks++ {
		if looks == evictLooks {
			return noFrame
		}
		s.hand = (s.hand + 1) % len(s.frames)
		if other := &s.frames[s.hand]; other != f {
			s.reclaim(&other.bucket)
		}
	}
	i := s.free
	s.free = s.chain[i].next
	return i
}

// Invalidate drops what the cache, which may be nil, has of key's main bucket and the chain behind
// it, in all extents of the table.
func (c *Cache) Invalidate(t *Table, key uint64) {
	if c == nil || t.inline() {
		return
	}
	list := t.extents.Load()
	if list == nil {
		c.invalidate(t, key)
		return
	}
	for _, x := range *list {
		c.invalidate(x, key)
	}
}

func (c *Cache) invalidate(t *Table, key uint64) {
	source, main := t.source, t.d.BucketOffset(key)
	s, set := c.enter(source, main)
	if s == nil {
		return
	}
	defer s.leave()
	if f := findFrame(set, source, main); f != nil {
		s.reclaim(&f.bucket)
		f.main = 0
		s.stats.Invalidated++
	}
}
