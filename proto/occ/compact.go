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
// left out if it is 1: that of a record which was never deleted. What has another form than the sender expects, such as a
// lock word of another worker, is sent as in wire.go.
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

// pack appends the compact form of a request of a transaction of this worker; false: it has none.
func (e *Engine) pack(b []byte, c *call) ([]byte, bool) {
	switch c.typ {
	case TypeAcquire, TypeValidate, TypeRelease:
		return e.packItems(b, c.req)
	case TypeLog:
		return e.packRecord(b, c.req, e.backups.at[c.node])
	case TypeEnd:
		name := recovery.Name(le.Uint64(c.req))
		if !e.mine(name) || le.Uint64(c.req[8:]) > 1 {
			return b, false
		}
		return binary.AppendUvarint(b, uint64(uint32(name))<<1|le.Uint64(c.req[8:])), true
	}
	return b, false
}

// mine reports whether a name is one of this worker's, in this life.
func (e *Engine) mine(n recovery.Name) bool {
	return uint32(n) != 0 && n == recovery.MakeName(e.Env.Node, e.Env.Index, e.words.Life, uint32(n))
}

func (e *Engine) packItems(b, req []byte) ([]byte, bool) {
	word := onesided.Word(le.Uint64(req))
	if e.words.Of(word.Tx()) != word {
		return b, false
	}
	b = le.AppendUint16(b, uint16(word.Tx()))
	var i item
	for rest := req[wordBytes:]; len(rest) > 0; {
		var ok bool
		if rest, ok = takeItem(rest, e.Env.Specs, &i); !ok {
			return b, false
		}
		b = putTable(b, byte(i.flags), i.table, itemTables, itemShift)
		b = append(putVersion(putKey(b, uint64(i.key)), i.version), i.value...)
	}
	return b, true
}

// unpack appends the request that a compact one of a caller stands for.
func (e *Engine) unpack(b []byte, c *rpc.Caller, typ rpc.Type, body []byte) ([]byte, error) {
	s := scan{b: body, ok: true}
	switch typ {
	case TypeLog:
		b = e.unpackRecord(b, c, &s)
	case TypeEnd:
		x := s.number()
		number := uint32(x >> 1)
		if x>>33 != 0 || number == 0 {
			return b, errRequest
		}
		b = appendEnd(b, nameOf(c, number), x&1 != 0)
	default:
		b = le.AppendUint64(b, uint64(onesided.WordOf(c, uint32(s.short()))))
		var i item
		for s.ok && len(s.b) > 0 {
			f, t := s.table(itemShift)
			i = item{flags: flags(f), table: t, key: s.key(), version: s.version()}
			if uint(t)-1 >= uint(len(e.Env.Specs)) {
				return b, errRequest
			}
			if i.flags&flagValue != 0 {
				i.value = s.bytes(e.Env.Specs[t-1].ValueBytes)
			}
			b = putItem(b, &i)
		}
	}
	if !s.ok || len(s.b) > 0 {
		return b, errRequest
	}
	return b, nil
}

// nameOf is the name of a transaction of a caller.
func nameOf(c *rpc.Caller, number uint32) recovery.Name {
	return recovery.MakeName(proto.NodeID(c.Node), int(c.Worker), onesided.LifeOf(c), number)
}

// packAnswer appends the compact form of the answer to a request.
func (e *Engine) packAnswer(b []byte, typ rpc.Type, req, answer []byte) []byte {
	h, rest, _ := takeHead(answer, 1<<16)
	details := h.index != 0 || h.state != 0 || h.version != 0 || h.off != 0
	if !details {
		b = append(b, byte(h.code))
	} else {
		b = append(b, byte(h.code)|hasDetails)
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(h.index)), uint64(h.state))
		b = putOffset(putVersion(b, h.version), h.off)
	}
	if typ != TypeAcquire || len(rest) == 0 {
		return b
	}
	var i item
	for req = req[wordBytes:]; len(req) > 0; {
		req, _ = takeItem(req, e.Env.Specs, &i)
		b = putOffset(putVersion(b, layout.Version(le.Uint64(rest))), le.Uint64(rest[8:]))
		rest = rest[answerBytes:]
		if i.flags&flagRead != 0 {
			n := e.Env.Specs[i.table-1].ValueBytes
			b = append(b, rest[:n]...)
			rest = rest[padded(n):]
		}
	}
	return b
}

// unpackAnswer appends the answer that a compact one to a request stands for; false: it is none.
func (e *Engine) unpackAnswer(b []byte, typ rpc.Type, req, answer []byte) ([]byte, bool) {
	s := scan{b: answer, ok: true}
	first := s.byte()
	h := head{code: code(first &^ hasDetails)}
	if first&hasDetails != 0 {
		h.index, h.state = int(s.number()), onesided.Word(s.number())
		h.version, h.off = s.version(), s.offset()
	}
	at := len(b)
	b = append(b, make([]byte, headBytes)...)
	h.put(b[at:])
	var i item
	for rest := req[min(wordBytes, len(req)):]; typ == TypeAcquire && h.code == done && len(rest) > 0; {
		rest, _ = takeItem(rest, e.Env.Specs, &i)
		b = le.AppendUint64(b, uint64(s.version()))
		b = le.AppendUint64(b, s.offset())
		if i.flags&flagRead != 0 {
			n := e.Env.Specs[i.table-1].ValueBytes
			b = append(b, s.bytes(n)...)
			for ; n%8 != 0; n++ {
				b = append(b, 0)
			}
		}
	}
	return b, s.ok && len(s.b) == 0
}

// packRecord appends the compact form of a record of a transaction for a log.
func (e *Engine) packRecord(b, encoded []byte, x *backup) ([]byte, bool) {
	rec, text := x.writer.Decode(encoded, e.text[:0])
	e.text = text
	if rec.Type != recordUpdate || !e.mine(recovery.Name(rec.ID)) {
		return b, false
	}
	decided := le.Uint64(rec.Body)
	body, err := recovery.ReadBody(rec.Body[decidedBytes:])
	if err != nil || e.words.Of(onesided.Word(body.Word).Tx()) != onesided.Word(body.Word) || decided > rec.Position ||
		(decided|rec.Position)&(1<<lineShift-1) != 0 {
		return b, false
	}
	b = binary.AppendUvarint(b, rec.Position>>lineShift)
	b = binary.AppendUvarint(b, uint64(rec.Epoch))
	b = binary.AppendUvarint(b, rec.ID&(1<<32-1))
	b = binary.AppendUvarint(b, (rec.Position-decided)>>lineShift)
	b = le.AppendUint16(b, uint16(onesided.Word(body.Word).Tx()))
	var w recovery.Write
	for {
		more, err := body.Next(e.Env.Specs, &w)
		if err != nil {
			return b, false
		}
		if !more {
			return b, true
		}
		b = putTable(b, writeFlags(&w), w.Table, writeTables, writeShift)
		b = putVersion(putKey(binary.AppendUvarint(b, uint64(w.Shard)), uint64(w.Key)), w.Version)
		if w.Was != 0 {
			b = putVersion(b, w.Was)
		}
		b = append(b, w.Value...)
	}
}

// Flags of a write in a compact record.
const (
	writeValue = 1 << iota
	writeRead
	writeWas
)

func writeFlags(w *recovery.Write) (f byte) {
	if w.Value != nil {
		f |= writeValue
	}
	if w.Read {
		f |= writeRead
	}
	if w.Was != 0 {
		f |= writeWas
	}
	return f
}

// unpackRecord appends the record that a compact one stands for, encoded for the caller's log.
func (e *Engine) unpackRecord(b []byte, c *rpc.Caller, s *scan) []byte {
	h := e.logOf(c)
	if h == nil {
		s.ok = false
		return b
	}
	position := s.number() << lineShift
	epoch, number := s.half(), s.half()
	behind := s.number() << lineShift
	word := onesided.WordOf(c, uint32(s.short()))
	if number == 0 || behind > position {
		s.ok = false
		return b
	}
	e.text = recovery.BeginBody(le.AppendUint64(e.text[:0], position-behind), uint64(word), 0)
	writes := 0
	for ; s.ok && len(s.b) > 0; writes++ {
		f, t := s.table(writeShift)
		w := recovery.Write{Table: t, Shard: proto.ShardID(s.half()), Key: s.key(), Version: s.version(), Read: f&writeRead != 0}
		if f&writeWas != 0 {
			w.Was = s.version()
		}
		if uint(t)-1 >= uint(len(e.Env.Specs)) {
			s.ok = false
			return b
		}
		if f&writeValue != 0 {
			w.Value = s.bytes(e.Env.Specs[t-1].ValueBytes)
		}
		e.text = recovery.AppendWrite(e.text, &w)
	}
	recovery.SetWrites(e.text[decidedBytes:], writes)
	return h.Encode(b, &log.Record{Position: position, Epoch: log.Epoch(epoch), Type: recordUpdate,
		ID: uint64(nameOf(c, number)), Body: e.text})
}
