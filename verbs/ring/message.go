package ring

import (
	"encoding/binary"
	"errors"

	"drtmd/verbs/lines"
)

// The layout is drawn in the package comment.
const (
	headerBytes = 24

	lengthBits  = 16
	reserveBits = 10
	kindBits    = 2
	flagBits    = 4
	tagBits     = 32

	maxBody  = 1<<lengthBits - 1
	maxLines = 1<<reserveBits - 1
	idBits   = 32
	headBits = 48
)

// kind of a message.
type kind uint8

const (
	request kind = iota + 1
	answer
)

// Flags of answers.
const (
	flagError     uint8 = 1 << iota // the body is the handler's error in words
	flagNoHandler                   // with flagError
	flagEpoch                       // the request was of an older epoch and was not executed
)

// header of a message.
type header struct {
	length  int // of the body
	reserve int // lines for the answer
	kind    kind
	flags   uint8
	id      uint32
	epoch   uint32
	head    uint64 // position
	typ     uint8
}

// shape is what the bytes of a ring depend on.
type shape struct {
	capacity   uint64
	generation uint64
	marks      bool // in every line
}

// span is the room that a message with a body of n bytes takes.
func (s *shape) span(n int) int {
	if s.marks {
		per := lines.Payload(true)
		return (headerBytes + n + per - 1) / per * lines.Bytes
	}
	return (headerBytes + n + lines.MarkBytes + lines.Bytes - 1) &^ (lines.Bytes - 1)
}

// body is the longest body of a message that takes some lines.
func (s *shape) body(n int) int {
	if s.marks {
		return n*lines.Payload(true) - headerBytes
	}
	return n*lines.Bytes - lines.MarkBytes - headerBytes
}

// tag of the message at a position.
func (s *shape) tag(position uint64) uint32 { return uint32(lines.Mark(position, ^s.generation)) | 1 }

func (s *shape) mark(position uint64) uint64 { return lines.Mark(position, s.generation) }

// at is the offset of the line of a position in the ring.
func (s *shape) at(position uint64) int { return int(position % s.capacity) }

// put writes a message to the ring that begins at mem, and gives the room that it takes.
func (s *shape) put(mem []byte, position uint64, h *header, body []byte) int {
	var head [headerBytes]byte
	le := binary.LittleEndian
	le.PutUint64(head[0:], uint64(s.tag(position))|uint64(len(body))<<tagBits|
		uint64(h.reserve)<<(tagBits+lengthBits)|uint64(h.kind)<<(tagBits+lengthBits+reserveBits)|
		uint64(h.flags)<<(tagBits+lengthBits+reserveBits+kindBits))
	le.PutUint64(head[8:], uint64(h.id)|uint64(h.epoch)<<idBits)
	le.PutUint64(head[16:], h.head/lines.Bytes|uint64(h.typ)<<headBits)
	n, per := s.span(len(body)), lines.Payload(s.marks)
	for i := 0; i < n; i += lines.Bytes {
		at := s.at(position + uint64(i))
		line := mem[at : at+lines.Bytes : at+lines.Bytes]
		filled := 0
		if i == 0 {
			filled = copy(line, head[:])
		}
		k := copy(line[filled:per], body)
		body = body[k:]
		clear(line[filled+k:])
		if s.marks || i+lines.Bytes == n {
			le.PutUint64(line[lines.Bytes-lines.MarkBytes:], s.mark(position+uint64(i)))
		}
	}
	return n
}

// errGarbage: what lies where a message begins is none.
var errGarbage = errors.New("the ring holds no message where one begins")

// look says what is at a position of a ring: a message, of which h is the header, or nothing yet. Then watch is
// the offset of the word that will change. early is a deliberate bug.
func (s *shape) look(mem lines.Memory, position uint64, h *header, early bool) (ok bool, watch int, err error) {
	at := s.at(position)
	first := mem.Load(at)
	if first == 0 {
		return false, at, nil
	}
	*h = header{length: int(first >> tagBits & maxBody), reserve: int(first >> (tagBits + lengthBits) & maxLines),
		kind:  kind(first >> (tagBits + lengthBits + reserveBits) & (1<<kindBits - 1)),
		flags: uint8(first >> (tagBits + lengthBits + reserveBits + kindBits))}
	n := s.span(h.length)
	if uint32(first) != s.tag(position) || uint64(n) > s.capacity || h.kind != request && h.kind != answer {
		return false, 0, errGarbage
	}
	for i := 0; i < n && !early; i += lines.Bytes {
		if !s.marks && i+lines.Bytes < n {
			continue
		}
		word := s.at(position+uint64(i)) + lines.Bytes - lines.MarkBytes
		if mem.Load(word) != s.mark(position+uint64(i)) {
			return false, word, nil
		}
	}
	second, third := mem.Load(at+8), mem.Load(at+16)
	h.id, h.epoch = uint32(second), uint32(second>>idBits)
	h.head, h.typ = third&(1<<headBits-1)*lines.Bytes, uint8(third>>headBits)
	return true, 0, nil
}

// take copies the body of the message at a position, which look has found, clears the lines' first words, and
// gives the room that it took.
func (s *shape) take(mem lines.Memory, position uint64, h *header, body []byte) int {
	n, per, got := s.span(h.length), lines.Payload(s.marks), 0
	for i := 0; i < n; i += lines.Bytes {
		at, from := s.at(position+uint64(i)), 0
		if i == 0 {
			from = headerBytes
		}
		k := min(h.length-got, per-from)
		mem.CopyOut(body[got:got+k], at+from)
		got += k
		mem.Store(at, 0)
	}
	return n
}

// wipe clears the first words of all lines.
func (s *shape) wipe(mem lines.Memory) {
	for at := 0; at < int(s.capacity); at += lines.Bytes {
		mem.Store(at, 0)
	}
}
