package log

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Next gives the next record and goes on behind it. Without one it stays and says why: ErrEnd if nothing has
// come, else one of the errors of a record that does not count. While the writer lives, such a record may be
// on its way: look again. r.Body is valid until the next call.
func (l *Log) Next(r *Record) error {
	n, err := l.look(l.next, r)
	if err != nil {
		return err
	}
	l.next += uint64(n)
	l.epoch = r.Epoch
	return nil
}

// ReadAt gives the record at a position between the head and what was read, and the position behind it: once
// more, before it is truncated. r.Body is valid until the next call.
func (l *Log) ReadAt(position uint64, r *Record) (behind uint64, err error) {
	if position < l.head || position >= l.next {
		return position, fmt.Errorf("%w: a record at %d is not between the head, %d, and what was read, %d",
			ErrPlace, position, l.head, l.next)
	}
	epoch := l.epoch
	l.epoch = 0 // it was judged when it came
	n, err := l.look(position, r)
	l.epoch = epoch
	return position + uint64(n), err
}

// AwaitedLine is the line of the memory whose change makes it worth to call Next again: the last one of the
// record that has begun to come, or the first one of the next record.
func (l *Log) AwaitedLine() int {
	first := l.lineAt(l.next)
	at := l.next
	if binary.LittleEndian.Uint64(first[8:]) == at {
		if n := uint64(binary.LittleEndian.Uint32(first[4:])); n <= MaxBody {
			if span := uint64(l.span(int(n))); span <= l.capacity-(at-l.head) {
				at += span - lineBytes
			}
		}
	}
	return l.Line(at)
}

// Begun reports whether the next record has begun to come: its first line is there, and Next may find that others are not.
func (l *Log) Begun() bool {
	first := l.lineAt(l.next)
	return binary.LittleEndian.Uint64(first[8:]) == l.next && binary.LittleEndian.Uint16(first[22:]) != 0
}

// look reads the record at a position, and says how much of the ring it takes.
func (l *Log) look(at uint64, r *Record) (int, error) {
	le := binary.LittleEndian
	first := l.lineAt(at)
	if le.Uint64(first[8:]) != at || le.Uint16(first[22:]) == 0 {
		return 0, ErrEnd
	}
	if f := le.Uint16(first[22:]); f != format {
		return 0, fmt.Errorf("%w: record at %d has format %d, this program knows %d", ErrVersion, at, f, format)
	}
	length := uint64(le.Uint32(first[4:]))
	if length > MaxBody || uint64(l.span(int(length))) > l.capacity-(at-l.head) {
		return 0, fmt.Errorf("%w: %d bytes at %d", ErrLength, length, at)
	}
	n := l.span(int(length))
	if uint64(cap(l.body)) < length {
		l.body = make([]byte, length)
	}
	l.body = l.body[:length]
	per := l.perLine()
	for i := range n / lineBytes {
		position := at + uint64(i)*lineBytes
		line := l.lineAt(position)
		if l.marks && le.Uint64(line[per:]) != l.mark(position) {
			return 0, fmt.Errorf("%w: line %d of %d at %d is missing", ErrCut, i+1, n/lineBytes, at)
		}
		if i == 0 {
			copy(l.header[:], line)
			copy(l.body, line[recordBytes:per])
		} else {
			copy(l.body[i*per-recordBytes:], line[:per])
		}
	}
	if le.Uint32(l.header[:]) != l.checksum(&l.header, l.body) {
		return 0, fmt.Errorf("%w: record of %d bytes at %d", ErrChecksum, length, at)
	}
	*r = Record{Position: at, Epoch: Epoch(le.Uint32(l.header[16:])), Type: Type(le.Uint16(l.header[20:])),
		ID: le.Uint64(l.header[24:]), Body: l.body}
	if !l.inEpoch(r) {
		return 0, fmt.Errorf("%w: %d at %d, after one of %d, and the present one is %d", ErrEpoch, r.Epoch, at,
			l.epoch, l.present)
	}
	return n, nil
}

// inEpoch reports whether a record counts behind the one before it.
func (l *Log) inEpoch(r *Record) bool {
	return r.Epoch >= l.epoch && (l.present == 0 || r.Epoch <= l.present)
}

// Scan is what a scan has found.
type Scan struct {
	Records int
	End     uint64 // behind the last complete record
	Why     error  // what is there; errors.Is ErrEnd: nothing
}

// Scan calls f with each complete record that was not read yet, in order. It ends early with f's error.
func (l *Log) Scan(f func(*Record) error) (Scan, error) {
	var s Scan
	var r Record
	for {
		err := l.Next(&r)
		if err != nil {
			s.End, s.Why = l.next, err
			return s, nil
		}
		s.Records++
		if err := f(&r); err != nil {
			s.End = l.next
			return s, err
		}
	}
}

// Recover scans the log after a crash, as Scan does, and makes it fit to be appended to at Scan.End. A scan
// that f has ended changes nothing.
func (l *Log) Recover(f func(*Record) error) (Scan, error) {
	s, err := l.Scan(f)
	if err == nil {
		l.wipe(s.End)
	}
	return s, err
}

// wipe clears what lies behind a position, up to the head of the next lap.
func (l *Log) wipe(from uint64) {
	clear(l.line[:])
	for p := from; p < l.head+l.capacity; p += lineBytes {
		l.shared.CopyIn(l.at(p), l.line[:])
	}
}

// Damaged reports whether a scan ended at something else than the end of the log or a cut record, which is
// what a crash leaves: at bytes that nobody has appended so.
func (s *Scan) Damaged() bool {
	return s.Why != nil && !errors.Is(s.Why, ErrEnd) && !errors.Is(s.Why, ErrCut)
}
