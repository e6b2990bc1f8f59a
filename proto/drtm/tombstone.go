package drtm

import (
	"drtmd/proto"
	"drtmd/proto/history"
)

// forgetAbsent has entries of the own machine given back that the attempt leaves absent: those that were made for it, and those
// that its scans have met. Each attempt pays for what it has met, so that the next ones do not meet it.
func (t *tx) forgetAbsent(o history.Outcome) {
	e := t.e
	for i := range t.Records {
		r := &t.Records[i]
		switch {
		case r.Node != e.Env.Node || r.Is && o == history.Committed:
		case r.Own.Made:
			e.spare.made(r.Table, r.Key)
		case r.Own.Found && r.Loaded && !r.Was && !r.Dirty && e.Env.Specs[r.Table-1].Ordered:
			e.tombstone(r.Table, r.Key, r.Own.Off)
		}
	}
}

// tombstone has the entry of an absent record given back that a scan has met, at a place of a table of the own machine. One
// that is locked or leased is left to whoever meets it later.
func (e *Engine) tombstone(table proto.TableID, k proto.Key, place uint64) {
	if s := State(e.StateNow(place)); !s.Locked() && e.expired(s.End()) {
		e.spare.made(table, k) // just now, perhaps, for somebody else
	}
}
