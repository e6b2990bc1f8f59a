package nocc

import (
	"drtmd/proto"
)

// keys are some of a scan: those that one region has found.
type keys struct {
	list [32]proto.Key
	n    int
	take func(key uint64, place int) bool // add, made once
}

func (s *keys) add(key uint64, _ int) bool {
	s.list[s.n] = proto.Key(key)
	s.n++
	return s.n < len(s.list)
}

// Keys implements txset.Scanner. The tree is read in regions, as all code that knows nodes is written for
// them; nothing comes between two, because nothing else runs on the thread.
func (x *tx) Keys(t proto.TableID, at proto.Location, from, to proto.Key, visit func(proto.Key) bool) error {
	s := &x.e.keys
	for {
		if err := x.e.someKeys(&x.e.cfg.Tables[at.Primary][t-1], from, to); err != nil {
			return err
		}
		for _, k := range s.list[:s.n] {
			if !visit(k) {
				return nil
			}
		}
		if s.n < len(s.list) || s.list[s.n-1] == to {
			return nil
		}
		if from < to {
			from = s.list[s.n-1] + 1
		} else {
			from = s.list[s.n-1] - 1
		}
	}
}

// someKeys finds the first keys of a range.
func (e *Engine) someKeys(t *Table, from, to proto.Key) error {
	for range maxRegions {
		e.stats.RegionRuns++
		if !e.region.Begin() {
			continue
		}
		e.keys.n = 0
		if t.Ordered.Scan(e.region, uint64(from), uint64(to), e.keys.take) && e.region.Commit(nil) {
			return nil
		}
	}
	return proto.Aborting(proto.ReasonConflict)
}
