package nics

import (
	"slices"

	"drtmd/store/nicindex"
)

// This file is the end of a recovery: what earlier views have left is released.

// clean releases what earlier views have left: all their transactions are decided.
func (r *recovering) clean() error {
	n := r.n
	for _, here := range n.shards {
		if here == nil {
			continue
		}
		for _, c := range slices.Clone(here.claims) {
			if n.views(c.tx) < 0 {
				if err := r.reorder(c); err != nil {
					return err
				}
			}
		}
		for _, x := range here.indexes {
			type lock struct {
				segment int
				key     uint64
				by      nicindex.Owner
			}
			var old []lock
			x.EachLocked(func(segment int, key uint64, by nicindex.Owner) {
				if n.views(uint64(by)) < 0 {
					old = append(old, lock{segment, key, by})
				}
			})
			for _, l := range old {
				x.Unlock(l.segment, l.key, l.by)
				n.counts.Released++
			}
		}
	}
	for tx := range n.shipped {
		if n.views(tx) < 0 {
			delete(n.shipped, tx)
		}
	}
	for tx := range n.cfg.Yard.gone {
		if n.views(tx) < 0 {
			delete(n.cfg.Yard.gone, tx)
		}
	}
	return nil
}
