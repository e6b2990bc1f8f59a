package log

import (
	"encoding/binary"
	"hash/crc32"

	"drtmd/verbs/lines"
)

// The layout is drawn in the package comment.
const (
	lineBytes   = lines.Bytes
	headBytes   = 2 * lineBytes // before the ring
	recordBytes = 32            // header of a record

	magic   = "dRlog\x00"
	version = 1
	format  = 1 // of records

	// minCapacity has room for one record of a line and another.
	minCapacity = 2 * lineBytes
	// MaxBody bounds a record's body.
	MaxBody = 1 << 20
)

// Epoch numbers the configurations of a cluster.
type Epoch uint32

// Type of a record: what its body is; the writer's.
type Type uint16

// Record of a log.
type Record struct {
	Position uint64
	Epoch    Epoch
	Type     Type
	ID       uint64 // of a transaction
	Body     []byte
}

// shape is what the bytes of a log depend on.
type shape struct {
	capacity   uint64
	generation uint64
	marks      bool
}

// perLine is the bytes of a record in each line.
func (s *shape) perLine() int { return lines.Payload(s.marks) }

// span is the room that a record with a body of n bytes takes in the ring.
func (s *shape) span(n int) int {
	per := s.perLine()
	return (recordBytes + n + per - 1) / per * lineBytes
}

// mark of the line at a position.
func (s *shape) mark(position uint64) uint64 { return lines.Mark(position, s.generation) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum of a record's header, in lines, and body.
func (s *shape) checksum(header *[recordBytes]byte, body []byte) uint32 {
	seed := uint32(s.generation ^ s.generation>>32)
	sum := crc32.Update(seed, castagnoli, header[4:])
	return crc32.Update(sum, castagnoli, body)
}

// putHeader writes a record's header.
func (s *shape) putHeader(h *[recordBytes]byte, r *Record) {
	le := binary.LittleEndian
	le.PutUint32(h[4:], uint32(len(r.Body)))
	le.PutUint64(h[8:], r.Position)
	le.PutUint32(h[16:], uint32(r.Epoch))
	le.PutUint16(h[20:], uint16(r.Type))
	le.PutUint16(h[22:], format)
	le.PutUint64(h[24:], r.ID)
	le.PutUint32(h[0:], s.checksum(h, r.Body))
}

// putLine writes line i of a record, whose header is h, to b, which has lineBytes.
func (s *shape) putLine(b []byte, i int, h *[recordBytes]byte, r *Record) {
	per := s.perLine()
	n := 0
	from := i*per - recordBytes
	if i == 0 {
		n = copy(b[:per], h[:])
		from = 0
	}
	if from < len(r.Body) {
		n += copy(b[n:per], r.Body[from:])
	}
	clear(b[n:per])
	if s.marks {
		binary.LittleEndian.PutUint64(b[per:], s.mark(r.Position+uint64(i)*lineBytes))
	}
}

// encode writes a record to b, which has its span.
func (s *shape) encode(b []byte, h *[recordBytes]byte, r *Record) {
	s.putHeader(h, r)
	for i := range len(b) / lineBytes {
		s.putLine(b[i*lineBytes:(i+1)*lineBytes], i, h, r)
	}
}
