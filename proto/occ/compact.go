package occ

import (
	"encoding/binary"
	"math/bits"

	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/proto/recovery"
	"drtmd/store/layout"
	"drtmd/store/log"
	"drtmd/verbs/rpc"
)

// Compact messages (Strategy.Flows, Dandelion §5): requests and answers as in wire.go, log records and ends of
// transactions, without what both sides know or what is zero. A request of type T in this form has type T + compactType.
// Either side writes and reads this form and no other.
//
//	request   transaction 2 (of the caller's lock word) | items
//	item      flags 6 bits, table 2 bits (1 to 3; 0: in the next 2 bytes) | key | version | value, if flagValue
//	answer    code 1, and hasDetails | index, state, version, offset, if so | items
//	item      version | offset | value, if it was asked for
//	log       record's position/64 | epoch | number of its name | (position - decided)/64 | transaction 2 | writes |
//	          each: flags 3 bits, table 5 bits (1 to 31; 0: in the next 2 bytes) | shard | key | version |
//	          version before, if flagged | value, if flagged
//	end       number of the name, twice, and 1 if it is committed
//
// Numbers without a size are varints, seven bits a byte. Keys are turned by 16 bits before, since their high bits often
// are the shard; offsets by -6. A version is its low half, doubled, and one more if the high half follows, which is
// left out if it is 1: that of a record which was never deleted. What is asked outside of a transaction, and what stands
// in the place of a log record (recordVoid), is sent as in wire.go.
const (
	compactType = 0x08
	txBytes     = 2
	keyTurn     = 16
	lineTurn    = -6
	usual       = 1 // incarnation
	lineShift   = 6
	hasDetails  = 0x80

	itemTables  = 3 // that the flags' byte names
	writeTables = 31
	itemShift   = 2
	writeShift  = 5
)

func putKey(b []byte, k uint64) []byte {
	return binary.AppendUvarint(b, bits.RotateLeft64(k, keyTurn))
}

func putVersion(b []byte, v layout.Version) []byte {
	if v.Incarnation() == usual {
		return binary.AppendUvarint(b, uint64(v.Number())<<1)
	}
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(v.Number())<<1|1), uint64(v.Incarnation()))
}

func putOffset(b []byte, off uint64) []byte {
	return binary.AppendUvarint(b, bits.RotateLeft64(off, lineTurn))
}

// putTable appends the flags' byte of an item, and the table if the byte has no room for it.
func putTable(b []byte, flags byte, t proto.TableID, named uint, shift int) []byte {
	if uint(t) >= 1 && uint(t) <= named {
		return append(b, flags<<shift|byte(t))
	}
	return le.AppendUint16(append(b, flags<<shift), uint16(t))
}

// scan takes numbers from bytes; ok is false once they were too few or no number.
type scan struct {
	b  []byte
	ok bool
}

func (s *scan) number() uint64 {
	if b := s.b; len(b) > 0 && b[0] < 0x80 { // most are small
		s.b = b[1:]
		return uint64(b[0])
	}
	return s.large()
}

func (s *scan) large() uint64 {
	v, n := binary.Uvarint(s.b)
	if n <= 0 {
		s.b, s.ok = nil, false
		return 0
	}
	s.b = s.b[n:]
	return v
}

func (s *scan) bytes(n int) []byte {
	if len(s.b) < n {
		s.b, s.ok = nil, false
		return nil
	}
	b := s.b[:n]
	s.b = s.b[n:]
	return b
}

func (s *scan) byte() byte {
	if b := s.bytes(1); s.ok {
		return b[0]
	}
	return 0
}

func (s *scan) short() uint16 {
	if b := s.bytes(txBytes); s.ok {
		return le.Uint16(b)
	}
	return 0
}

// half of a version.
func (s *scan) half() uint32 {
	v := s.number()
	if v > 1<<32-1 {
		s.b, s.ok = nil, false
	}
	return uint32(v)
}

func (s *scan) key() proto.Key { return proto.Key(bits.RotateLeft64(s.number(), -keyTurn)) }

func (s *scan) offset() uint64 { return bits.RotateLeft64(s.number(), -lineTurn) }

func (s *scan) version() layout.Version {
	x := s.number()
	incarnation := uint32(usual)
	if x&1 != 0 {
		incarnation = s.half()
	}
	if x>>33 != 0 {
		s.b, s.ok = nil, false
	}
	return layout.MakeVersion(incarnation, uint32(x>>1))
}

// table takes what putTable has appended.
func (s *scan) table(shift int) (flags byte, t proto.TableID) {
	x := s.byte()
	if flags, t = x>>shift, proto.TableID(x&(1<<shift-1)); t == 0 {
		t = proto.TableID(s.short())
	}
	return flags, t
}

// packItem appends an item.
func packItem(b []byte, x *item) []byte {
	b = putTable(b, byte(x.flags), x.table, itemTables, itemShift)
	return append(putVersion(putKey(b, uint64(x.key)), x.version), x.value...)
}

// unpackItem decodes the first item of b, and gives what follows.
func unpackItem(b []byte, specs []proto.TableSpec, x *item) (rest []byte, ok bool) {
	s := scan{b: b, ok: true}
	f, t := s.table(itemShift)
	x.flags, x.table = flags(f), t
	x.key, x.version, x.value = s.key(), s.version(), nil
	if !s.ok || !x.sound(specs) {
		return nil, false
	}
	if x.flags&flagValue != 0 {
		x.value = s.bytes(specs[t-1].ValueBytes)
	}
	return s.b, s.ok
}

// packedAnswerBytes bounds what an item of an answer takes, without its value.
const packedAnswerBytes = 3 * binary.MaxVarintLen64

// packHead appends the head of an answer.
func packHead(b []byte, h *head) []byte {
	if h.plain() {
		return append(b, byte(h.code))
	}
	b = append(b, byte(h.code)|hasDetails)
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(h.index)), uint64(h.state))
	return putOffset(putVersion(b, h.version), h.off)
}

// plain reports whether an answer's head has no details.
func (h *head) plain() bool { return h.index == 0 && h.state == 0 && h.version == 0 && h.off == 0 }

// unpackHead decodes the head of the answer to a request of n items.
func unpackHead(b []byte, n int) (h head, rest []byte, ok bool) {
	s := scan{b: b, ok: true}
	first := s.byte()
	if h.code = code(first &^ hasDetails); first&hasDetails != 0 {
		index := s.number()
		if h.state = onesided.Word(s.number()); index >= uint64(n) {
			return head{}, nil, false
		}
		h.index, h.version, h.off = int(index), s.version(), s.offset()
	}
	return h, s.b, s.ok && h.code >= done && h.code < codeEnd && n > 0
}

// packEnd appends how a transaction of the sender's ended.
func packEnd(b []byte, name recovery.Name, commit bool) []byte {
	x := uint64(uint32(name)) << 1
	if commit {
		x |= 1
	}
	return binary.AppendUvarint(b, x)
}

// unpackEnd decodes what packEnd has appended to nothing.
func unpackEnd(b []byte) (number uint32, commit, ok bool) {
	s := scan{b: b, ok: true}
	x := s.number()
	number = uint32(x >> 1)
	return number, x&1 != 0, s.ok && len(s.b) == 0 && x>>33 == 0 && number != 0
}

// nameOf is the name of a transaction of a caller.
func nameOf(c *rpc.Caller, number uint32) recovery.Name {
	return recovery.MakeName(proto.NodeID(c.Node), int(c.Worker), onesided.LifeOf(c), number)
}

// recordHead is what a compact record of a log says before its writes. decided is at most position; both are multiples
// of a line.
type recordHead struct {
	position, decided uint64
	epoch             log.Epoch
	number            uint32 // of its transaction's name
	tx                uint32 // of its lock word
}

// packRecord appends the head of a record of a transaction of the sender's; its writes follow (packWrite).
func packRecord(b []byte, h *recordHead) []byte {
	b = binary.AppendUvarint(b, h.position>>lineShift)
	b = binary.AppendUvarint(b, uint64(h.epoch))
	b = binary.AppendUvarint(b, uint64(h.number))
	b = binary.AppendUvarint(b, (h.position-h.decided)>>lineShift)
	return le.AppendUint16(b, uint16(h.tx))
}

func (s *scan) recordHead() (h recordHead) {
	h.position = s.number() << lineShift
	h.epoch, h.number = log.Epoch(s.half()), s.half()
	behind := s.number() << lineShift
	h.tx = uint32(s.short())
	if h.number == 0 || behind > h.position {
		s.b, s.ok = nil, false
		return h
	}
	h.decided = h.position - behind
	return h
}

// Flags of a write in a compact record.
const (
	writeValue = 1 << iota
	writeRead
	writeWas
)

// packWrite appends a write.
func packWrite(b []byte, w *recovery.Write) []byte {
	f := byte(0)
	if w.Value != nil {
		f |= writeValue
	}
	if w.Read {
		f |= writeRead
	}
	if w.Was != 0 {
		f |= writeWas
	}
	b = putTable(b, f, w.Table, writeTables, writeShift)
	b = putVersion(putKey(binary.AppendUvarint(b, uint64(w.Shard)), uint64(w.Key)), w.Version)
	if w.Was != 0 {
		b = putVersion(b, w.Was)
	}
	return append(b, w.Value...)
}

// write takes what packWrite has appended.
func (s *scan) write(specs []proto.TableSpec, w *recovery.Write) {
	f, t := s.table(writeShift)
	*w = recovery.Write{Table: t, Shard: proto.ShardID(s.half()), Key: s.key(), Version: s.version(), Read: f&writeRead != 0}
	if f&writeWas != 0 {
		w.Was = s.version()
	}
	if uint(t)-1 >= uint(len(specs)) {
		s.b, s.ok = nil, false
	} else if f&writeValue != 0 {
		w.Value = s.bytes(specs[t-1].ValueBytes)
	}
}

// unpackRecord decodes a record for the log that a caller appends to here. Its body is valid until the next call.
func (e *Engine) unpackRecord(c *rpc.Caller, b []byte) (log.Record, bool) {
	s := scan{b: b, ok: true}
	h := s.recordHead()
	e.text = recovery.BeginBody(le.AppendUint64(e.text[:0], h.decided), uint64(onesided.WordOf(c, h.tx)), 0)
	writes := 0
	var w recovery.Write
	for ; s.ok && len(s.b) > 0; writes++ {
		if s.write(e.Env.Specs, &w); s.ok {
			if x := e.replica(w.Shard); x != nil {
				e.prefetch(x, w.Table, w.Key)
			}
		}
		e.text = recovery.AppendWrite(e.text, &w)
	}
	if !s.ok || writes == 0 {
		return log.Record{}, false
	}
	recovery.SetWrites(e.text[decidedBytes:], writes)
	return log.Record{Position: h.position, Epoch: h.epoch, Type: recordUpdate, ID: uint64(nameOf(c, h.number)), Body: e.text}, true
}
