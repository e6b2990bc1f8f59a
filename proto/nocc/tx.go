package nocc

import (
	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/txset"
)

// record is a record of the transaction.
type record = txset.Record[place]

// tx is the engine's one transaction.
type tx struct {
	txset.Set[place]
	e *Engine
}

// Load copies the records from index from on. All look-ups come first: the processor overlaps their
// cache misses, as it does those of the other protocols.
func (x *tx) Load(from, to int) error {
	for i := from; i < to; i++ {
		r := &x.Records[i]
		r.Own = x.e.find(r.Node, r.Table, r.Key)
	}
	for i := from; i < to; i++ {
		r := &x.Records[i]
		v := r.Own.version()
		if v.Live() {
			txset.CopyValue(r.Value, r.Own.value(len(r.Value)))
		}
		r.Accept(v, v.Live())
	}
	return nil
}

// Commit stores what was written. Entries for what was inserted are made first, since only that can
// fail.
func (x *tx) Commit() error {
	for i := range x.Records {
		r := &x.Records[i]
		if !r.Changes() || r.Own.entry != nil {
			continue
		}
		if err := x.e.ensure(r); err != nil {
			for j := range i {
				if r := &x.Records[j]; r.Changes() && !r.Was {
					x.e.reclaim(r)
				}
			}
			x.Abort(err)
			return err
		}
	}
	x.NoteWrites()
	changes, entries := 0, 0
	for i := range x.Records {
		r := &x.Records[i]
		if !r.Changes() {
			continue
		}
		if changes++; r.Is != r.Was {
			entries++
		}
		r.Own.setVersion(r.Next())
		if !r.Is {
			x.e.reclaim(r)
			continue
		}
		txset.CopyValue(r.Own.value(len(r.Value)), r.Value)
	}
	x.e.stats.Committed++
	x.end(history.Committed, copyCostPs*int64(changes)+recordCostPs*int64(entries))
	return nil
}

// end closes the transaction, and charges its CPU time: more is that of its changes. Other fibers may run then.
func (x *tx) end(o history.Outcome, more int64) {
	f, records := x.F, int64(len(x.Records))
	x.Close(o)
	f.Charge((recordCostPs+copyCostPs)*records + more)
}

// Rollback forgets what was written.
func (x *tx) Rollback() error {
	x.e.stats.RolledBack++
	x.end(history.UserAborted, 0)
	return nil
}

// Abort forgets what was written.
func (x *tx) Abort(error) { x.end(history.Aborted, 0) }

// maxRegions bounds the attempts of a region that nothing can conflict with: remote operations
// on the same lines are all that can abort it.
const maxRegions = 100

// ensure makes an absent entry for a key that has none.
func (e *Engine) ensure(r *record) error {
	p := &r.Own
	for range maxRegions {
		e.stats.RegionRuns++
		if !e.region.Begin() {
			continue
		}
		at, v, ok, err := p.table.Index().EnsureIn(e.region, uint64(r.Key), 0)
		if ok && err != nil {
			e.region.Abort(abortFull)
			return proto.Aborting(proto.ReasonFull)
		}
		if ok && e.region.Commit(nil) {
			p.put(at)
			r.Version = v
			return nil
		}
	}
	return proto.Aborting(proto.ReasonConflict)
}

// abortFull is the code of a region that found no room.
const abortFull = 1

// reclaim gives the entry of an absent key back.
func (e *Engine) reclaim(r *record) {
	for range maxRegions {
		e.stats.RegionRuns++
		if !e.region.Begin() {
			continue
		}
		ok, err := r.Own.table.Index().ReclaimIn(e.region, uint64(r.Key), 0)
		invariant.Assert(!ok || err == nil, "the entry of an absent key cannot be given back")
		if ok && e.region.Commit(nil) {
			r.Own.entry = nil
			return
		}
	}
}
