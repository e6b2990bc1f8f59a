package drtm

import (
	"drtmd/proto/history"
)

// What the history is told. A transaction's reads are the records that its program saw, which
// includes the record that an Insert, a Delete or a Write found or missed; its own writes are not
// among them. Each attempt is a transaction of its own there: one that the protocol aborted has
// only the writes that it would have made, which nobody may ever read.

// noteBegin opens the attempt's entry.
func (t *tx) noteBegin() {
	t.noted = false
	t.note = t.e.recording.Begin(t.e.cfg.RecorderClock.Now().Nanoseconds())
	t.note.SetKind(history.Kind(t.decl.Kind))
}

// noteSeen notes a record that the program sees, the first time and before it is written.
func (t *tx) noteSeen(it *item) {
	if it.shown || it.dirty {
		return
	}
	it.shown = true
	table, key := history.Table(it.table), history.Key(it.key)
	if !it.was {
		t.note.ReadAbsent(table, key, history.Version(it.version.Trace()))
		return
	}
	t.note.Read(table, key, history.Version(it.version), history.DigestOf(it.value()))
}

// noteWrites notes the writes, before any of them takes effect: if the machine crashes from here
// on, whoever reads one of them decides that the transaction was committed.
func (t *tx) noteWrites() {
	if t.note == nil || t.noted {
		return
	}
	t.noted = true
	for i := range t.items {
		it := &t.items[i]
		if !it.changes() || !it.found {
			continue
		}
		table, key, v := history.Table(it.table), history.Key(it.key), history.Version(it.next())
		if it.is {
			t.note.Write(table, key, v, history.DigestOf(it.value()))
		} else {
			t.note.Delete(table, key, v)
		}
	}
}

// noteEnd closes the entry, with the writes unless the program rolled back.
func (t *tx) noteEnd(o history.Outcome) {
	if o == history.Aborted {
		t.note.Reset()
		t.noted = false
	}
	if o != history.UserAborted {
		t.noteWrites()
	}
	t.e.recording.End(t.note, t.e.cfg.RecorderClock.Now().Nanoseconds(), o)
	t.note = nil
}
