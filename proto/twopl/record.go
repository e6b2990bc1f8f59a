package twopl

import (
	"drtmd/proto/history"
	"drtmd/store/layout"
)

// startRecording begins the attempt's entry in the history, if one is kept.
func (t *tx) startRecording(kind uint8) {
	if !t.e.record {
		return
	}
	t.hist = t.e.cfg.Recorder.Begin(t.e.clockNs())
	t.hist.SetKind(history.Kind(kind))
}

// stopRecording ends it.
func (t *tx) stopRecording(o history.Outcome) {
	if t.hist == nil {
		return
	}
	t.e.cfg.Recorder.End(t.hist, t.e.clockNs(), o)
	t.hist = nil
}

// recordRead takes down what the transaction found of a record, when it first looks at it.
func (t *tx) recordRead(r *record) {
	if t.hist == nil || r.read {
		return
	}
	r.read = true
	table, key := history.Table(r.table.id), history.Key(r.key)
	if r.live {
		t.hist.Read(table, key, history.Version(r.found), history.DigestOf(r.value()))
		return
	}
	t.hist.ReadAbsent(table, key, history.Version(r.found.Trace()))
}

// recordWrites takes down what the commit is about to install.
func (t *tx) recordWrites() {
	if t.hist == nil {
		return
	}
	for i := range t.records {
		r := &t.records[i]
		if !r.changed() {
			continue
		}
		table, key, v := history.Table(r.table.id), history.Key(r.key), r.next()
		if v.Live() {
			t.hist.Write(table, key, history.Version(v), history.DigestOf(r.value()))
		} else {
			t.hist.Delete(table, key, history.Version(layout.Version(v)))
		}
	}
}
