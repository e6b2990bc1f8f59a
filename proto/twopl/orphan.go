package twopl

import (
	"sync/atomic"
	"time"

	"drtmd/proto"
	"drtmd/store/layout"
)

// met notes that a record's lock was in the way, with the record's copy as it was read then, and
// gives the reason of the abort. A transaction object uses its word again, so the version goes with
// it: a lock that was given back after an update, and taken again, is another one. Between two locks
// of one object that change nothing it cannot be told; the sighting then ends when this worker locks
// the record, or Config.HolderLives says that the holder lives.
func (t *tx) met(r *record, holder lockWord) proto.Reason {
	return t.e.sightings.Met(proto.Lock{Node: r.node, Table: r.table.id, Key: r.key,
		Owner: holder.Node(), Off: r.off, Word: uint64(holder), Version: uint64(r.version())},
		t.e.now())
}

// Orphans implements proto.OrphanLister; times are of Config.Time.
func (e *Engine) Orphans(to []proto.Orphan) []proto.Orphan {
	to = e.sightings.Orphans(to, func(l *proto.Lock) bool {
		return l.Node != e.cfg.Node ||
			atomic.LoadUint64(wordAt(e.cfg.Memory, int(l.Off)+layout.StateOffset)) == l.Word
	})
	return e.debts.Orphans(to, e.cfg.Node)
}

// now is the time of orphans.
func (e *Engine) now() time.Duration {
	if e.cfg.Time != nil {
		return e.cfg.Time.Now()
	}
	return e.cfg.Fibers.Now()
}
