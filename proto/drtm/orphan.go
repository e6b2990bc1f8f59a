package drtm

import (
	"drtmd/proto"
	"drtmd/store/layout"
)

// met notes that a record's lock was in the way, and gives the Abort. A ticket makes each lock
// different from every other, so a lock that is met again after a time has been held all the while.
func (e *Engine) met(it *item, s State) error {
	return proto.Aborting(e.sightings.Met(proto.Lock{Node: it.node, Table: it.table, Key: it.key,
		Owner: s.Owner(), Off: uint64(it.off), Word: uint64(s)}, e.soft))
}

// Orphans implements proto.OrphanLister; times are of Config.Clock.
func (e *Engine) Orphans(to []proto.Orphan) []proto.Orphan {
	to = e.sightings.Orphans(to, func(l *proto.Lock) bool {
		return l.Node != e.cfg.Node || word(e.cfg.Memory, int(l.Off)+layout.StateOffset) == l.Word
	})
	return e.debts.Orphans(to, e.cfg.Node)
}
