package txset

import (
	"encoding/binary"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/store/layout"
)

// beginNote opens the attempt's entry in the history.
func (s *Set[Own]) beginNote(kind uint8) {
	s.noted = false
	s.note = s.config.Recorder.Begin(s.config.Clock.Now().Nanoseconds())
	s.note.SetKind(history.Kind(kind))
}

// beginPieceNote goes on with the entry of the attempt's chain, or opens it.
func (s *Set[Own]) beginPieceNote(kind uint8) {
	if s.chainNote == nil {
		s.beginNote(kind)
		s.chainNote, s.chainLen = s.note, 0
	}
	s.note, s.noted = s.chainNote, false
	s.Name(s.chain.Name)
	s.note.Piece(s.chain.Piece, s.chain.Pieces)
}

// endPiece ends an attempt of a piece for the history. The entry ends with the last piece, with a rollback, and with
// an aborted attempt of the first piece that it has.
func (s *Set[Own]) endPiece(o history.Outcome) {
	l := s.chain
	switch {
	case o == history.Committed && !l.Last():
		s.NoteWrites()
		s.chainLen = s.note.Len()
	case o == history.Aborted && s.chainLen > 0:
		s.note.Truncate(s.chainLen)
	default:
		switch {
		case o == history.Aborted:
			s.Name(0) // the chain goes on with another entry
		case o == history.Committed && l.Resumed:
			o = history.Recovered // the client of an earlier life was not told
		}
		s.endNote(o)
		s.chainNote = nil
	}
	s.note = nil
}

// EndChain ends a chain of which no attempt is under way. That it is committed or rolled back the history knows.
func (s *Set[Own]) EndChain(o proto.Outcome) {
	s.chain = nil
	if s.chainNote == nil {
		return
	}
	outcome := history.Unknown
	if o == proto.Aborted {
		outcome = history.Aborted
	}
	s.config.Recorder.End(s.chainNote, s.config.Clock.Now().Nanoseconds(), outcome)
	s.chainNote = nil
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
		switch {
		case !r.Is:
			s.note.Delete(table, key, v)
		case r.added:
			s.note.Add(table, key, v, r.delta, binary.LittleEndian.Uint64(r.Value))
		default:
			s.note.Write(table, key, v, history.DigestOf(r.Value))
		}
	}
}

// NoteWrite takes down what somebody else has written for the attempt; nil: deleted. NoteWrites does nothing then.
func (s *Set[Own]) NoteWrite(t proto.TableID, k proto.Key, v layout.Version, value []byte) {
	s.noted = true
	if s.note == nil {
		return
	}
	if value == nil {
		s.note.Delete(history.Table(t), history.Key(k), history.Version(v))
	} else {
		s.note.Write(history.Table(t), history.Key(k), history.Version(v), history.DigestOf(value))
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
	switch {
	case s.note == nil:
	case s.chain != nil:
		s.endPiece(o)
	default:
		s.endNote(o)
		s.note = nil
	}
}

func (s *Set[Own]) endNote(o history.Outcome) {
	if o == history.Aborted {
		s.note.Reset()
		s.noted = false
	}
	if o != history.UserAborted {
		s.NoteWrites()
	}
	s.config.Recorder.End(s.note, s.config.Clock.Now().Nanoseconds(), o)
}
