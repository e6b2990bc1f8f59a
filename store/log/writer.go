package log

import (
	"fmt"
	"time"

	"drtmd/internal/invariant"
	"drtmd/verbs/fiber"
	"drtmd/verbs/lines"
)

// Writer appends to a log, wherever that is. It knows the log by its shape and by what its host tells.
type Writer struct {
	Stats WriterStats

	shape
	epoch    Epoch
	head     uint64 // as far as the host has told
	tail     uint64 // of the next record
	reserved uint64 // bytes
	first    *Reservation
	last     **Reservation // the end of the list of those that wait
	header   [recordBytes]byte
	lacks    bool // WriterConfig.Unreserved
}

// WriterStats of a writer, counted since its making.
type WriterStats struct {
	Appended  uint64 // records
	BytesUsed uint64 // of the ring, by them
	Waits     uint64 // reservations that found the log full
}

// WriterConfig of NewWriter.
type WriterConfig struct {
	Capacity   int    // of the ring: Log.Capacity
	Generation uint64 // Log.Generation
	Marks      bool   // Log.Marks
	Head, Tail uint64 // both 0 for a new log; after a crash, Log.Head and Scan.End of Log.Recover
	Unreserved bool   // a mutation: room is granted whether the log has it or not
}

// NewWriter makes the writer of a log.
func NewWriter(c WriterConfig) (*Writer, error) {
	if c.Capacity < minCapacity || c.Capacity%lineBytes != 0 || c.Generation == 0 || c.Head > c.Tail ||
		c.Tail-c.Head > uint64(c.Capacity) || (c.Head|c.Tail)%lineBytes != 0 {
		return nil, fmt.Errorf("writer of a log of %d bytes, generation %#x, from %d to %d: no log is so",
			c.Capacity, c.Generation, c.Head, c.Tail)
	}
	w := &Writer{shape: shape{capacity: uint64(c.Capacity), generation: c.Generation, marks: c.Marks},
		head: c.Head, tail: c.Tail, lacks: c.Unreserved}
	w.last = &w.first
	return w, nil
}

// Reservation is room in a log. The zero value has none. It must not be copied while it waits.
type Reservation struct {
	bytes   uint64
	want    uint64 // while it waits
	granted fiber.Cond
	next    *Reservation
}

// Span is the room that a record with a body of n bytes takes.
func (w *Writer) Span(n int) int { return w.span(n) }

// Room is what could be reserved now.
func (w *Writer) Room() int { return int(w.capacity - (w.tail - w.head) - w.reserved) }

// need is the room for records with bodies of these lengths.
func (w *Writer) need(bodies []int) (uint64, error) {
	n := uint64(0)
	for _, b := range bodies {
		if b < 0 || b > MaxBody {
			return 0, fmt.Errorf("%w: a body of %d bytes, of %d at most", ErrTooLong, b, MaxBody)
		}
		n += uint64(w.span(b))
	}
	if n > w.capacity {
		return 0, fmt.Errorf("%w: %d records of a commit take %d bytes, the ring has %d: make it larger",
			ErrTooLong, len(bodies), n, w.capacity)
	}
	return n, nil
}

// TryReserve reserves room for records with bodies of these lengths: false if there is none now, or if others
// wait for room.
func (w *Writer) TryReserve(r *Reservation, bodies ...int) (bool, error) {
	n, err := w.need(bodies)
	if err != nil || (w.first != nil || w.Room() < int(n)) && !w.lacks {
		return false, err
	}
	w.reserved += n
	r.bytes += n
	return true, nil
}

// Reserve reserves room for records with bodies of these lengths, and waits for it until the deadline (0:
// none). Reserve everything that a commit will append in one call, before its first record: who holds a
// reservation of a log must not wait for another of the same log.
func (w *Writer) Reserve(f *fiber.Fiber, r *Reservation, deadline time.Duration, bodies ...int) error {
	ok, err := w.TryReserve(r, bodies...)
	if ok || err != nil {
		return err
	}
	invariant.Assert(r.bytes == 0 && r.want == 0, "a holder of room in a log waits for more of it")
	w.Stats.Waits++
	r.want, _ = w.need(bodies)
	*w.last, w.last = r, &r.next
	for r.want > 0 {
		if err := r.granted.Wait(f, deadline); err != nil && r.want > 0 {
			w.forget(r)
			return err
		}
	}
	return nil
}

// forget takes a reservation out of those that wait.
func (w *Writer) forget(r *Reservation) {
	for p := &w.first; *p != nil; p = &(*p).next {
		if *p == r {
			if *p = r.next; *p == nil {
				w.last = p
			}
			break
		}
	}
	r.want, r.next = 0, nil
	w.grant() // those behind it may need less
}

// grant gives room to those that wait, in order.
func (w *Writer) grant() {
	for r := w.first; r != nil && uint64(w.Room()) >= r.want; r = w.first {
		if w.first = r.next; w.first == nil {
			w.last = &w.first
		}
		w.reserved += r.want
		r.bytes, r.want, r.next = r.want, 0, nil
		r.granted.Broadcast()
	}
}

// Release gives back what a reservation has left: at the end of a commit or abort.
func (w *Writer) Release(r *Reservation) {
	w.reserved -= r.bytes
	r.bytes = 0
	w.grant()
}

// Released learns the head of the log from its host. An older one than is known is nothing new.
func (w *Writer) Released(head uint64) error {
	switch {
	case head > w.tail || head%lineBytes != 0:
		return fmt.Errorf("%w: the host says %d, the log ends at %d", ErrTruncate, head, w.tail)
	case head > w.head:
		w.head = head
		w.grant()
	}
	return nil
}

// Awaited reports whether somebody waits for room.
func (w *Writer) Awaited() bool { return w.first != nil }

// Capacity of the log.
func (w *Writer) Capacity() int { return int(w.capacity) }

// Head is the position before which the host has freed everything, as far as it has told.
func (w *Writer) Head() uint64 { return w.head }

// Tail is the position of the next record.
func (w *Writer) Tail() uint64 { return w.tail }

// SetEpoch raises the epoch of the records to come.
func (w *Writer) SetEpoch(e Epoch) { w.epoch = max(w.epoch, e) }

// Piece says which bytes of an encoded record go where in the log's memory.
type Piece = lines.Piece

// Place is where a record goes.
type Place struct {
	Position uint64
	Bytes    int      // of the encoded record
	Pieces   [2]Piece // the second is empty but where the ring wraps: WRITE the first before it
}

// Encode turns the next record into bytes, in buf, which has Span of them, and says where they go. It takes
// its room from r. Type, ID and Body of rec count.
func (w *Writer) Encode(r *Reservation, rec *Record, buf []byte) (Place, error) {
	p, err := w.take(r, len(rec.Body))
	if err != nil {
		return p, err
	}
	rec.Position, rec.Epoch = p.Position, w.epoch
	w.encode(buf[:p.Bytes], &w.header, rec)
	return p, nil
}

// EncodeAgain turns another record with a body of the same length, of the present epoch, into bytes for a place
// that Encode gave. It is for places whose record did not arrive.
func (w *Writer) EncodeAgain(p Place, rec *Record, buf []byte) {
	invariant.Assert(w.span(len(rec.Body)) == p.Bytes, "a record does not fit into the place of another one")
	rec.Position, rec.Epoch = p.Position, w.epoch
	w.encode(buf[:p.Bytes], &w.header, rec)
}

// take gives the next record, with a body of so many bytes, its place.
func (w *Writer) take(r *Reservation, body int) (Place, error) {
	n := w.span(body)
	if body > MaxBody || uint64(n) > r.bytes {
		return Place{}, fmt.Errorf("%w: it takes %d bytes, %d are left: reserve for every record of the "+
			"commit before its first", ErrReserved, n, r.bytes)
	}
	p := w.placeOf(w.tail, n)
	r.bytes -= uint64(n)
	w.reserved -= uint64(n)
	w.tail += uint64(n)
	w.Stats.Appended++
	w.Stats.BytesUsed += uint64(n)
	return p, nil
}

// placeOf is that of n bytes at a position.
func (s *shape) placeOf(position uint64, n int) Place {
	return Place{Position: position, Bytes: n, Pieces: lines.Split(headBytes, s.capacity, position, n)}
}
