package txset

import (
	"encoding/binary"

	"drtmd/proto"
	"drtmd/proto/history"
)

// Read implements proto.Txn.
func (s *Set[Own]) Read(t proto.TableID, k proto.Key, dst []byte) error {
	return s.read(t, k, dst, proto.ModeRead)
}

// GetForUpdate implements proto.Txn: the record was protected for writing when it was loaded.
func (s *Set[Own]) GetForUpdate(t proto.TableID, k proto.Key, dst []byte) error {
	return s.read(t, k, dst, proto.ModeWrite)
}

func (s *Set[Own]) read(t proto.TableID, k proto.Key, dst []byte, least proto.Mode) error {
	r, err := s.access(t, k, len(dst), least)
	if err != nil {
		return err
	}
	if !r.Is {
		return proto.ErrNotFound
	}
	if r.added {
		s.readAdded(r)
	}
	CopyValue(dst, r.Value)
	return nil
}

// ReadMany implements proto.Txn: records that are discovered are loaded together.
func (s *Set[Own]) ReadMany(gets []proto.Get) error {
	if err := s.discover(gets); err != nil {
		return err
	}
	for i := range gets {
		g := &gets[i]
		g.Err = s.Read(g.Table, g.Key, g.Value)
		if g.Err != nil && g.Err != proto.ErrNotFound {
			return g.Err
		}
	}
	return nil
}

// discover adds and loads the records that the set does not have.
func (s *Set[Own]) discover(gets []proto.Get) error {
	if s.config.Declared || s.Err != nil {
		return s.Err
	}
	n := len(s.Records)
	for i := range gets {
		g := &gets[i]
		if s.Find(g.Table, g.Key) != nil {
			continue
		}
		if err := s.Add(g.Table, g.Key, proto.ModeRead); err != nil {
			s.Records = s.Records[:n] // nothing was loaded of these
			return err
		}
	}
	if n < len(s.Records) {
		s.Err = s.loader.Load(n, len(s.Records))
	}
	return s.Err
}

// Write implements proto.Txn.
func (s *Set[Own]) Write(t proto.TableID, k proto.Key, value []byte) error {
	r, err := s.access(t, k, len(value), proto.ModeWrite)
	if err != nil {
		return err
	}
	if !r.Is {
		return proto.ErrNotFound
	}
	if r.added {
		s.readAdded(r)
	}
	CopyValue(r.Value, value)
	r.Dirty, r.partly = true, false
	return nil
}

// ReadAt implements proto.Fielder: the record is protected as a whole.
func (s *Set[Own]) ReadAt(t proto.TableID, k proto.Key, offset int, dst []byte) error {
	r, err := s.part(t, k, offset, len(dst), proto.ModeRead)
	if err == nil {
		copy(dst, r.Value[offset:])
	}
	return err
}

// WriteAt implements proto.Fielder.
func (s *Set[Own]) WriteAt(t proto.TableID, k proto.Key, offset int, value []byte) error {
	r, err := s.part(t, k, offset, len(value), proto.ModeWrite)
	if err == nil {
		copy(r.Value[offset:], value)
		r.wrote(offset, offset+len(value))
	}
	return err
}

// part is access of so many bytes from an offset on of a record that there is.
func (s *Set[Own]) part(t proto.TableID, k proto.Key, offset, size int, least proto.Mode) (*Record[Own], error) {
	r, err := s.access(t, k, noSize, least)
	if err == nil && r.Lines != 0 {
		err = s.complete(r, offset, size)
	}
	switch {
	case err != nil:
		return nil, err
	case offset < 0 || offset+size > len(r.Value):
		return nil, proto.WrongSize(t, k, offset+size, len(r.Value))
	case !r.Is:
		return nil, proto.ErrNotFound
	}
	if r.added {
		s.readAdded(r)
	}
	return r, nil
}

// Charge implements proto.Charger.
func (s *Set[Own]) Charge(ps int64) { s.F.Charge(ps) }

// AddTo implements proto.Adder. Only between pieces of a chain is an addition more than a read and a write.
func (s *Set[Own]) AddTo(t proto.TableID, k proto.Key, delta int64) error {
	note := s.note
	if s.chain != nil {
		s.note = nil // the program does not see what is there
	}
	r, err := s.access(t, k, numberBytes, proto.ModeWrite)
	s.note = note
	if err != nil {
		return err
	}
	if !r.Is {
		if s.note != nil {
			s.noteSeen(r)
		}
		return proto.ErrNotFound
	}
	if s.chain != nil && !r.shown && !r.Dirty {
		r.added = true
	}
	binary.LittleEndian.PutUint64(r.Value, binary.LittleEndian.Uint64(r.Value)+uint64(delta))
	r.delta += delta
	r.Dirty, r.partly = true, false
	return nil
}

// numberBytes is the size of a number that AddTo adds to.
const numberBytes = 8

// readAdded makes a read and a write of the additions to a record that the program looks at after all.
func (s *Set[Own]) readAdded(r *Record[Own]) {
	r.added = false
	if s.note != nil && !r.shown {
		r.shown = true
		s.note.Read(history.Table(r.Table), history.Key(r.Key), history.Version(r.Version),
			history.DigestOfNumber(binary.LittleEndian.Uint64(r.Value)-uint64(r.delta)))
	}
}

// Insert implements proto.Txn.
func (s *Set[Own]) Insert(t proto.TableID, k proto.Key, value []byte) error {
	r, err := s.access(t, k, len(value), proto.ModeInsert)
	if err != nil {
		return err
	}
	if r.Is {
		return proto.ErrExists
	}
	if !r.Was && r.Version.Spent() && !s.config.SpentAllowed {
		s.Err = proto.Aborting(proto.ReasonFull)
		return s.Err
	}
	CopyValue(r.Value, value)
	r.Is, r.Dirty, r.partly = true, true, false
	return nil
}

// Delete implements proto.Txn.
func (s *Set[Own]) Delete(t proto.TableID, k proto.Key) error {
	r, err := s.access(t, k, noSize, proto.ModeInsert)
	if err != nil {
		return err
	}
	if !r.Is {
		return proto.ErrNotFound
	}
	if r.added {
		s.readAdded(r)
	}
	r.Is, r.Dirty, r.partly = false, true, false
	return nil
}

// noSize is the size of an operation without a value.
const noSize = -1

// access finds or discovers the record of an operation, loads it, and shows it to the program. least
// is what it must have been declared for, size that of the operation's value or buffer.
func (s *Set[Own]) access(t proto.TableID, k proto.Key, size int, least proto.Mode) (*Record[Own],
	error) {
	if s.Err != nil {
		return nil, s.Err
	}
	if s.config.AccessPs > 0 {
		s.F.Charge(s.config.AccessPs)
	}
	i := s.index(t, k)
	if i < 0 {
		if s.config.Declared {
			return nil, s.undeclared(t, k, least)
		}
		i = len(s.Records)
		if err := s.Add(t, k, least); err != nil {
			return nil, err
		}
	}
	r := &s.Records[i]
	if r.Mode < least && s.config.Declared {
		return nil, proto.Undeclared(t, k, least, r.Mode)
	}
	if size != noSize && size != len(r.Value) {
		return nil, proto.WrongSize(t, k, size, len(r.Value))
	}
	if !r.Loaded {
		if s.Err = s.loader.Load(i, i+1); s.Err != nil {
			return nil, s.Err
		}
	}
	if r.Lines != 0 && (size != noSize || s.note != nil) {
		if err := s.complete(r, 0, len(r.Value)); err != nil {
			return nil, err
		}
	}
	if s.note != nil {
		s.noteSeen(r)
	}
	return r, nil
}

// complete loads what is missing of some bytes of a record that was loaded in part.
func (s *Set[Own]) complete(r *Record[Own], offset, size int) error {
	if offset >= 0 && offset+size <= len(r.Value) {
		s.Err = s.parts.Complete(r, offset, size)
	}
	return s.Err
}

func (s *Set[Own]) undeclared(t proto.TableID, k proto.Key, m proto.Mode) error {
	if n := len(s.config.Specs); uint(t)-1 >= uint(n) {
		return proto.UnknownTable(t, k, n)
	}
	return proto.Undeclared(t, k, m, 0)
}

// CopyValue copies a value of the size of dst, which the caller has checked. Many are one word.
func CopyValue(dst, src []byte) {
	if len(dst) == 8 {
		binary.NativeEndian.PutUint64(dst, binary.NativeEndian.Uint64(src))
		return
	}
	copy(dst, src)
}
