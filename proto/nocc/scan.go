package nocc

import (
	"drtmd/proto"
	"drtmd/proto/protocol"
)

// keys are some of a scan: those that one region has found.
type keys struct {
	list []proto.Key
	n    int
	take func(key uint64, place int) bool // add, made once
}

func (s *keys) add(key uint64, _ int) bool {
	s.list[s.n] = proto.Key(key)
	s.n++
	return s.n < len(s.list)
}

// Keys implements txset.Scanner. The tree is read in a region, as all code that knows nodes is written for
// them; nothing comes between two, because nothing else runs on the thread.
func (x *tx) Keys(t proto.TableID, at proto.Location, from, to proto.Key, list []proto.Key) (n int, err error) {
	return x.e.someKeys(&x.e.cfg.Tables[at.Primary][t-1], from, to, list)
}

// someKeys finds the first keys of a range.
func (e *Engine) someKeys(t *protocol.Entries, from, to proto.Key, list []proto.Key) (n int, err error) {
	e.keys.list = list
	for range maxRegions {
		e.stats.RegionRuns++
		if !e.region.Begin() {
			continue
		}
		e.keys.n = 0
		if t.Ordered.Scan(e.region, uint64(from), uint64(to), e.keys.take) && e.region.Commit(nil) {
			return e.keys.n, nil
		}
	}
	return 0, proto.Aborting(proto.ReasonConflict)
}
