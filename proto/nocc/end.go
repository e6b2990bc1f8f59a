package nocc

import (
	"unsafe"

	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/store/layout"
)

// Commit keeps what was written.
func (x *tx) Commit() error {
	x.e.stats.Committed++
	if x.record != nil {
		x.recordWrites()
	}
	for i := range x.undo {
		if p := &x.found[x.undo[i].at]; !p.version().Live() {
			x.e.reclaim(p)
		}
	}
	x.end(history.Committed)
	return nil
}

// recordWrites takes down what the transaction leaves behind.
func (x *tx) recordWrites() {
	for i := range x.undo {
		u := &x.undo[i]
		p := &x.found[u.at]
		t, k, v := history.Table(p.id), history.Key(p.key), p.version()
		if v == u.version {
			continue // inserted and deleted again
		}
		if v.Live() {
			x.record.Write(t, k, history.Version(v), history.DigestOf(p.value(p.table.ValueBytes())))
		} else {
			x.record.Delete(t, k, history.Version(v))
		}
	}
}

// Rollback takes back what was written.
func (x *tx) Rollback() error {
	x.restore()
	x.e.stats.RolledBack++
	x.end(history.UserAborted)
	return nil
}

// Abort takes back what was written.
func (x *tx) Abort(error) {
	x.restore()
	x.end(history.Aborted)
}

// restore undoes the changes, the last one first.
func (x *tx) restore() {
	for i := len(x.undo) - 1; i >= 0; i-- {
		u := &x.undo[i]
		p := &x.found[u.at]
		n := p.table.ValueBytes()
		copyValue(p.value(n), x.old[u.value:u.value+n])
		*p.word(layout.VersionOffset) = uint64(u.version)
		if u.ensured {
			x.e.reclaim(p)
		}
	}
}

func (x *tx) end(o history.Outcome) {
	x.running = false
	if x.record != nil {
		x.e.cfg.Recorder.End(x.record, int64(x.e.cfg.Clock.Now()), o)
		x.record = nil
	}
}

// maxRegions bounds the attempts of a region that nothing can conflict with: remote operations
// on the same lines are all that can abort it.
const maxRegions = 100

// ensure makes an absent entry for a key that has none.
func (e *Engine) ensure(p *place) (layout.Version, error) {
	for range maxRegions {
		e.stats.RegionRuns++
		if !e.region.Begin() {
			continue
		}
		off, v, ok, err := p.table.EnsureIn(e.region, uint64(p.key), 0)
		if ok && err != nil {
			e.region.Abort(abortFull)
			return 0, proto.Aborting(proto.ReasonFull)
		}
		if ok && e.region.Commit(nil) {
			p.entry = unsafe.Pointer(&p.table.Memory().Bytes[off])
			return v, nil
		}
	}
	return 0, proto.Aborting(proto.ReasonConflict)
}

// abortFull is the code of a region that found no room.
const abortFull = 1

// reclaim gives the entry of an absent key back.
func (e *Engine) reclaim(p *place) {
	for range maxRegions {
		e.stats.RegionRuns++
		if !e.region.Begin() {
			continue
		}
		ok, err := p.table.ReclaimIn(e.region, uint64(p.key), 0)
		invariant.Assert(!ok || err == nil, "the entry of an absent key cannot be given back")
		if ok && e.region.Commit(nil) {
			p.entry = nil
			return
		}
	}
}
