package keyvalue

import (
	"fmt"

	"drtmd/proto"
)

// scan checks the records that a scan gives.
type scan struct {
	space *Space
	next  proto.Key // the least key that may come
	left  int       // records to be read
	err   error
	take  func(k proto.Key, value []byte) bool // add, made once
}

// run scans a number of records from a key on, or as many as there are on its node.
func (s *scan) run(tx proto.Txn, from proto.Key, length int) error {
	s.next, s.left, s.err = from, length, nil
	last := from>>nodeShift<<nodeShift | (1<<nodeShift - 2)
	if err := tx.Scan(Table, from, last, s.take); err != nil {
		return err
	}
	if s.err == nil && s.left > 0 && s.loaded(s.next) {
		s.err = s.missing()
	}
	return s.err
}

// add checks one record: its key and every byte. A record that was loaded is there, and is never left out.
func (s *scan) add(k proto.Key, value []byte) bool {
	switch {
	case k < s.next:
		s.err = fmt.Errorf("%w: key %#x comes in a scan where none is below %#x", ErrCorrupt, k, s.next)
	case k > s.next && s.loaded(s.next):
		s.err = s.missing()
	default:
		_, s.err = s.space.get(value, k)
	}
	s.next = k + 1
	s.left--
	return s.err == nil && s.left > 0
}

func (s *scan) loaded(k proto.Key) bool { return s.space.loaded(k) }

func (s *scan) missing() error {
	return fmt.Errorf("%w: a scan leaves out key %#x, which was loaded", ErrCorrupt, s.next)
}
