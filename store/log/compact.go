package log

import "fmt"

// Put is Place of a record that came in another form, which has no checksum. It says how many bytes it takes, also with
// an error that wraps ErrPlace.
func (l *Log) Put(e Epoch, r *Record) (int, error) {
	n, at := l.span(len(r.Body)), r.Position
	switch {
	case len(r.Body) > MaxBody || uint64(n) > l.capacity:
		return 0, fmt.Errorf("%w: a body of %d bytes", ErrLength, len(r.Body))
	case at%lineBytes != 0 || at < l.next || at-l.head > l.capacity-uint64(n):
		return n, l.misplaced(at)
	case r.Epoch < e:
		return 0, outdated(r.Epoch, e)
	}
	l.write(&l.header, r)
	return n, nil
}

// Took is Next of a record that Put has just put, without looking at its bytes again; false: it is not the next one, or
// does not count.
func (l *Log) Took(r *Record) bool {
	if r.Position != l.next || !l.inEpoch(r) {
		return false
	}
	l.next += uint64(l.span(len(r.Body)))
	l.epoch = r.Epoch
	return true
}

// write writes a record to its place in the ring.
func (l *Log) write(header *[recordBytes]byte, r *Record) {
	l.putHeader(header, r)
	for i := range l.span(len(r.Body)) / lineBytes {
		l.putLine(l.line[:], i, header, r)
		l.shared.CopyIn(l.at(r.Position+uint64(i)*lineBytes), l.line[:])
	}
}

func (l *Log) misplaced(at uint64) error {
	return fmt.Errorf("%w: position %d, the log is read up to %d and its ring ends at %d", ErrPlace, at, l.next,
		l.head+l.capacity)
}

func outdated(epoch, present Epoch) error {
	return fmt.Errorf("%w: %d, the present one is %d", ErrEpoch, epoch, present)
}

// Take gives the next record, with a body of n bytes, its place without making its bytes: it is sent in another form. It
// takes its room from r.
func (w *Writer) Take(r *Reservation, n int) (Place, error) { return w.take(r, n) }

// Epoch is that of the records to come.
func (w *Writer) Epoch() Epoch { return w.epoch }
