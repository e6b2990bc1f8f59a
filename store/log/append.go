package log

import (
	"encoding/binary"
	"fmt"
)

// Append writes the next record of the host's own writer by the CPU. It takes its room from r.
func (l *Log) Append(w *Writer, r *Reservation, rec *Record) error {
	if w.shape != l.shape {
		return fmt.Errorf("%w: the writer is another log's", ErrPlace)
	}
	p, err := w.take(r, len(rec.Body))
	if err != nil {
		return err
	}
	rec.Position, rec.Epoch = p.Position, w.epoch
	l.write(&w.header, rec)
	return nil
}

// Place writes the bytes of Writer.Encode, which came as a message, where they belong. Bytes that are no
// whole record of this log, or of an epoch below e, or for a place that is read already or beyond the ring's
// end, are refused. A record that comes twice is written twice, with the same bytes, until it was read.
func (l *Log) Place(e Epoch, encoded []byte) error {
	le := binary.LittleEndian
	if len(encoded) < lineBytes || len(encoded)%lineBytes != 0 {
		return fmt.Errorf("%w: %d bytes are no record", ErrPlace, len(encoded))
	}
	at, length := le.Uint64(encoded[8:]), le.Uint32(encoded[4:])
	switch {
	case le.Uint16(encoded[22:]) != format:
		return fmt.Errorf("%w: format %d", ErrVersion, le.Uint16(encoded[22:]))
	case length > MaxBody || l.span(int(length)) != len(encoded):
		return fmt.Errorf("%w: %d bytes for a body of %d", ErrLength, len(encoded), length)
	case at%lineBytes != 0 || at < l.next || at-l.head > l.capacity-uint64(len(encoded)):
		return l.misplaced(at)
	case Epoch(le.Uint32(encoded[16:])) < e:
		return outdated(Epoch(le.Uint32(encoded[16:])), e)
	}
	if err := l.verify(at, encoded, int(length)); err != nil {
		return err
	}
	for _, p := range l.placeOf(at, len(encoded)).Pieces {
		for at := p.From; at < p.To; at += lineBytes {
			l.shared.CopyIn(p.Offset+at-p.From, encoded[at:at+lineBytes])
		}
	}
	return nil
}

// Whole says why bytes are no whole record of this log, whatever its place and epoch.
func (l *Log) Whole(encoded []byte) error {
	if len(encoded) < lineBytes || len(encoded)%lineBytes != 0 {
		return fmt.Errorf("%w: %d bytes are no record", ErrLength, len(encoded))
	}
	at, length := binary.LittleEndian.Uint64(encoded[8:]), binary.LittleEndian.Uint32(encoded[4:])
	if length > MaxBody || l.span(int(length)) != len(encoded) {
		return fmt.Errorf("%w: %d bytes for a body of %d", ErrLength, len(encoded), length)
	}
	return l.verify(at, encoded, int(length))
}

// verify checks marks and checksum of an encoded record with a body of n bytes.
func (l *Log) verify(at uint64, encoded []byte, n int) error {
	per := l.perLine()
	if cap(l.body) < n {
		l.body = make([]byte, n)
	}
	body := l.body[:n]
	for i := range len(encoded) / lineBytes {
		line := encoded[i*lineBytes : (i+1)*lineBytes]
		if l.marks && binary.LittleEndian.Uint64(line[per:]) != l.mark(at+uint64(i)*lineBytes) {
			return fmt.Errorf("%w: line %d", ErrCut, i+1)
		}
		if i == 0 {
			copy(l.header[:], line)
			copy(body, line[recordBytes:per])
		} else {
			copy(body[i*per-recordBytes:], line[:per])
		}
	}
	if binary.LittleEndian.Uint32(l.header[:]) != l.checksum(&l.header, body) {
		return fmt.Errorf("%w: record of %d bytes", ErrChecksum, n)
	}
	return nil
}
