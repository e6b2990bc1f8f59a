package drtm

import (
	"fmt"

	"drtmd/proto"
	"drtmd/verbs/fiber"
)

// Scans of ordered tables (§6.5, §7.5). In a region, a range of the own machine is in the read set like a record.
// The other ways have no region for all of the time: they read what a scan finds, without leases, and look at the
// range and then at its records again before they confirm their leases (package onesided). A range of another machine
// takes a call, for which a region would have to end: such a transaction has the fallback handler's way.

// Keys implements txset.Scanner.
func (t *tx) Keys(table proto.TableID, at proto.Location, from, to proto.Key, keys []proto.Key) (n int, err error) {
	t.F.Charge(costFind)
	if t.decl.AtBarrier != 0 && t.e.cfg.Chopped && at.Primary != t.e.Env.Node {
		return 0, fmt.Errorf("%w: node %d, a range of table %q, of node %d", ErrElsewhere, t.e.Env.Node,
			t.e.Env.Specs[table-1].Name, at.Primary)
	}
	if at.Primary != t.e.Env.Node && t.e.Env.Specs[table-1].AtHome {
		return 0, t.e.notAtHome(table, at.Primary, "a range")
	}
	if at.Primary != t.e.Env.Node && (t.way == &regional || t.inRegion) {
		t.ranged = true
		return 0, t.leave(proto.ReasonSystem)
	}
	if t.way != &regional {
		return t.Tx.Keys(table, at, from, to, keys)
	}
	if !t.inRegion {
		t.xbegin(0)
	}
	t.F.Step("drtm: before access")
	if t.e.lacks(ScanOutsideRegion) {
		return t.Tx.Keys(table, at, from, to, keys)
	}
	n, ok := t.KeysIn(t.region, table, at, from, to, keys)
	if !ok {
		return 0, t.regionOver()
	}
	return n, nil
}

// loadFound loads records that a scan has found, from index from to before index to.
func (t *tx) loadFound(from, to int) error {
	t.F.Charge(costAccess * int64(to-from))
	if t.way != &regional {
		t.F.Step("drtm: before access")
		return t.ReadFound(from, to)
	}
	for i := from; i < to; i++ {
		r := &t.Records[i]
		r.Own.Local = true
		t.Place(r)
		t.F.Step("drtm: before access")
		if t.e.lacks(DeleteUnprotected) && r.Own.Found && !t.e.VersionNow(r.Own.Off).Live() {
			r.Absent()
			continue
		}
		if err := t.readLocal(r); err != nil {
			return err
		}
	}
	return nil
}

// sameRanges is an abort if the ranges, or what was found there, have changed.
func (t *tx) sameRanges() error {
	if len(t.Ranges) == 0 {
		return nil
	}
	if err := t.CheckRanges(); err != nil {
		return err
	}
	t.F.Step("drtm: between rounds")
	return t.SameFound()
}

// elsewhere reports whether a range of another machine was scanned.
func (t *tx) elsewhere() bool {
	for i := range t.Ranges {
		if t.Ranges[i].At.Primary != t.e.Env.Node {
			return true
		}
	}
	return false
}

// PeekRange implements proto.RangePeeker.
func (e *Engine) PeekRange(f *fiber.Fiber, table proto.TableID, from, to proto.Key, keys []proto.Key) (int,
	error) {
	t := e.take(nil, 0)
	defer e.peeked(t, t.decl)
	return t.PeekRange(f, table, from, to, keys)
}
