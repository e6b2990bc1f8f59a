package onesided

import (
	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/protocol"
	"drtmd/store/layout"
)

// pair is a key of a range and the place of its entry.
type pair struct{ key, place uint64 }

// walk is a look at a range of a table of the own machine, in a region.
type walk struct {
	list       []pair
	n          int
	keys, sum  uint64
	take, hash func(key uint64, place int) bool // add and count, made once
}

func (w *walk) add(key uint64, place int) bool {
	w.list[w.n] = pair{key, uint64(place)}
	w.n++
	return w.n < len(w.list)
}

// glance finds the first keys of a range without a region, which would copy all nodes on the way to them. false: it cannot,
// or others change the range, so that the keys are not in their order.
func (w *walk) glance(x protocol.OrderedIndex, from, to proto.Key) bool {
	g, ok := x.(protocol.GlancedIndex)
	if w.n = 0; !ok || !g.Glance(uint64(from), uint64(to), w.take) {
		return false
	}
	for i := 1; i < w.n; i++ {
		if a, b := w.list[i-1].key, w.list[i].key; a == b || (a < b) != (from <= to) {
			return false
		}
	}
	return true
}

// livesOf says which of the keys found are of records that are there: bit i for list[i].
func (w *walk) livesOf(x protocol.OrderedIndex) (live uint64) {
	for i := range w.list[:w.n] {
		if m, off := x.At(int(w.list[i].place)); VersionOf(m, uint64(off)).Live() {
			live |= 1 << i
		}
	}
	return live
}

func (w *walk) count(key uint64, _ int) bool {
	w.keys++
	w.sum += layout.Hash(key)
	return true
}

// ordered is a table of a share, if it is ordered.
func ordered(s *protocol.Share, t proto.TableID) (protocol.OrderedIndex, bool) {
	if s == nil {
		return nil, false
	}
	x, ok := s.Tables[t-1].(protocol.OrderedIndex)
	return x, ok
}

// looks runs a look in a region until it commits: what it has seen counts only then, so that its lines are compared once.
func (b *Base) looks(look func(*htm.Region) bool) Code {
	for range HostTries {
		b.Counters.RegionRuns++
		b.region.Begin()
		b.region.Hurry()
		if look(b.region) && b.region.Commit(nil) {
			return Done
		}
	}
	return Busy
}

// keysAt finds the first keys of a range in a share. If lives, it says which are of records that are there, bit i of live
// for list[i]: as they are behind the look at the range, each at a moment of its own.
func (b *Base) keysAt(s *protocol.Share, t proto.TableID, from, to proto.Key, lives bool, list []pair) (n int,
	live, stamp uint64, c Code) {
	x, ok := ordered(s, t)
	if !ok {
		return 0, 0, 0, Kept
	}
	w := &b.walk
	w.list = list
	if lives && w.glance(x, from, to) {
		return w.n, w.livesOf(x), 0, Done
	}
	c = b.looks(func(r *htm.Region) bool {
		w.n = 0
		v, ok := x.AbsentIn(r)
		stamp = uint64(v) + 1
		return ok && x.Scan(r, uint64(from), uint64(to), w.take)
	})
	if lives {
		live = w.livesOf(x)
	}
	return w.n, live, stamp, c
}

// checkAt is Done if a range of a share has an entry for so many keys with this sum of hashes, and the stamp is
// the same, unless it is 0. Kept: it has not.
func (b *Base) checkAt(s *protocol.Share, t proto.TableID, low, high proto.Key, keys, sum, stamp uint64) Code {
	x, ok := ordered(s, t)
	if !ok {
		return Kept
	}
	w, now := &b.walk, uint64(0)
	c := b.looks(func(r *htm.Region) bool {
		w.keys, w.sum = 0, 0
		v, ok := x.AbsentIn(r)
		now = uint64(v) + 1
		return ok && x.Scan(r, uint64(low), uint64(high), w.hash)
	})
	if c == Done && (w.keys != keys || w.sum != sum || stamp != 0 && stamp != now) {
		return Kept
	}
	return c
}
