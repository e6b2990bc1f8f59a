package txset

import (
	"drtmd/proto/history"
)

// beginNote opens the attempt's entry in the history.
func (s *Set[Own]) beginNote(kind uint8) {
	s.noted = false
	s.note = s.config.Recorder.Begin(s.config.Clock.Now().Nanoseconds())
	s.note.SetKind(history.Kind(kind))
}

// noteSeen takes down a record that the program sees, the first time and before it is written.
func (s *Set[Own]) noteSeen(r *Record[Own]) {
	if r.shown || r.Dirty {
		return
	}
	r.shown = true
	table, key := history.Table(r.Table), history.Key(r.Key)
	if !r.Was {
		s.note.ReadAbsent(table, key, history.Version(r.Version.Trace()))
		return
	}
	s.note.Read(table, key, history.Version(r.Version), history.DigestOf(r.Value))
}

// NoteWrites takes down the writes, before any of them takes effect: if the machine crashes from here
// on, whoever reads one of them decides that the transaction was committed. A version of 0 is that of a
// record without an entry, whose next version is not known yet.
func (s *Set[Own]) NoteWrites() {
	if s.note == nil || s.noted {
		return
	}
	s.noted = true
	for i := range s.Records {
		r := &s.Records[i]
		if !r.Changes() || r.Version == 0 {
			continue
		}
		table, key, v := history.Table(r.Table), history.Key(r.Key), history.Version(r.Next())
		if r.Is {
			s.note.Write(table, key, v, history.DigestOf(r.Value))
		} else {
			s.note.Delete(table, key, v)
		}
	}
}

// Name gives the attempt the name by which survivors would decide about it.
func (s *Set[Own]) Name(name uint64) {
	if s.note != nil {
		s.note.SetName(name)
	}
}

// Told takes down that the client may be told that the transaction is committed. NoteWrites comes before.
func (s *Set[Own]) Told() {
	if s.note != nil {
		s.note.Told(s.config.Clock.Now().Nanoseconds())
	}
}

// Close ends the attempt.
func (s *Set[Own]) Close(o history.Outcome) {
	s.End(o)
	s.F = nil
}

// End ends the attempt for the history, with the writes unless the program rolled back.
func (s *Set[Own]) End(o history.Outcome) {
	if s.note == nil {
		return
	}
	if o == history.Aborted {
		s.note.Reset()
		s.noted = false
	}
	if o != history.UserAborted {
		s.NoteWrites()
	}
	s.config.Recorder.End(s.note, s.config.Clock.Now().Nanoseconds(), o)
	s.note = nil
}
