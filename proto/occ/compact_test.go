package occ

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/proto/recovery"
	"drtmd/store/layout"
	"drtmd/store/log"
	"drtmd/verbs/rpc"
)

// flowKit is a kit whose messages are compact, and the caller that it is for others.
func flowKit(t *testing.T) (*kit, *rpc.Caller) {
	s := ByRPC()
	s.Undo, s.Flows = true, true
	x := newKitOf(t, s)
	x.words.Life = 3
	return x, &rpc.Caller{Identity: rpc.Identity{Life: x.words.Life}}
}

func versions() *rapid.Generator[layout.Version] {
	return rapid.Custom(func(t *rapid.T) layout.Version {
		v := layout.MakeVersion(rapid.SampledFrom([]uint32{0, 1, 2, 3, 1<<32 - 1}).Draw(t, "incarnation"),
			rapid.Uint32().Draw(t, "number"))
		return v
	})
}

// TestCompactMessagesComeBackAsTheyWere: requests and answers of all types.
func TestCompactMessagesComeBackAsTheyWere(t *testing.T) {
	x, caller := flowKit(t)
	rapid.Check(t, func(t *rapid.T) {
		c := &call{typ: rapid.SampledFrom([]rpc.Type{TypeAcquire, TypeValidate, TypeRelease}).Draw(t, "type")}
		word := x.words.Of(uint32(rapid.Uint16().Draw(t, "transaction")))
		c.req = le.AppendUint64(nil, uint64(word))
		answer := make([]byte, headBytes)
		h := head{code: code(rapid.IntRange(1, int(codeEnd)-1).Draw(t, "code"))}
		if rapid.Bool().Draw(t, "has details") {
			h.index, h.state = rapid.IntRange(0, 1<<15).Draw(t, "index"), onesided.Word(rapid.Uint64().Draw(t, "state"))
			h.version, h.off = versions().Draw(t, "version"), rapid.Uint64().Draw(t, "offset")
		}
		h.put(answer)
		for range rapid.IntRange(1, 5).Draw(t, "items") {
			i := item{table: kitTable, flags: flags(rapid.IntRange(0, int(flagKeep)<<1-1).Draw(t, "flags")),
				key: proto.Key(rapid.Uint64().Draw(t, "key")), version: versions().Draw(t, "version")}
			i.flags &^= flagWrite | flagValue
			if rapid.Bool().Draw(t, "writes") {
				if i.flags |= flagWrite; i.version.Live() {
					i.flags |= flagValue
					i.value = rapid.SliceOfN(rapid.Byte(), kitValue, kitValue).Draw(t, "value")
				}
			}
			c.req = putItem(c.req, &i)
			if c.typ == TypeAcquire && h.code == done {
				answer = le.AppendUint64(answer, uint64(versions().Draw(t, "version")))
				answer = le.AppendUint64(answer, rapid.Uint64().Draw(t, "offset"))
				if i.flags&flagRead != 0 {
					answer = append(answer, rapid.SliceOfN(rapid.Byte(), kitValue, kitValue).Draw(t, "value")...)
					answer = append(answer, make([]byte, padded(kitValue)-kitValue)...)
				}
			}
		}
		wire, ok := x.pack(nil, c)
		if !ok {
			t.Fatalf("%x has no compact form", c.req)
		}
		got, err := x.unpack(nil, caller, c.typ, wire)
		if err != nil || !bytes.Equal(got, c.req) {
			t.Fatalf("%x\nbecame\n%x, %v", c.req, got, err)
		}
		for cut := range wire {
			if got, err := x.unpack(nil, caller, c.typ, wire[:cut]); err == nil && bytes.Equal(got, c.req) {
				t.Fatalf("nothing is missing when %d of %d bytes are there", cut, len(wire))
			}
		}
		back, ok := x.unpackAnswer(nil, c.typ, c.req, x.packAnswer(nil, c.typ, c.req, answer))
		if !ok || !bytes.Equal(back, answer) {
			t.Fatalf("answer %x\nbecame\n%x, %t", answer, back, ok)
		}
	})
}

// TestWhatIsNotTheWorkersIsNotCompact: the lock word of another worker, or of another life, goes as it is.
func TestWhatIsNotTheWorkersIsNotCompact(t *testing.T) {
	x, _ := flowKit(t)
	for _, word := range []onesided.Word{onesided.MakeWord(1, 0, 5, 3), onesided.MakeWord(0, 1, 5, 3), onesided.MakeWord(0, 0, 5, 2)} {
		c := &call{typ: TypeRelease, req: putItem(le.AppendUint64(nil, uint64(word)), &item{table: kitTable})}
		if _, ok := x.pack(nil, c); ok {
			t.Errorf("%v is sent as one of this worker's", word)
		}
	}
	for _, name := range []recovery.Name{recovery.MakeName(1, 0, 3, 7), recovery.MakeName(0, 1, 3, 7), recovery.MakeName(0, 0, 4, 7)} {
		if _, ok := x.pack(nil, &call{typ: TypeEnd, req: appendEnd(nil, name, true)}); ok {
			t.Errorf("%#x is sent as one of this worker's", uint64(name))
		}
	}
}

// TestEndsAreCompact: the name of a transaction and how it ended.
func TestEndsAreCompact(t *testing.T) {
	x, caller := flowKit(t)
	for _, number := range []uint32{1, 1 << 20, 1<<32 - 1} {
		for _, commit := range []bool{false, true} {
			req := appendEnd(nil, recovery.MakeName(0, 0, x.words.Life, number), commit)
			wire, ok := x.pack(nil, &call{typ: TypeEnd, req: req})
			got, err := x.unpack(nil, caller, TypeEnd, wire)
			if !ok || err != nil || !bytes.Equal(got, req) {
				t.Errorf("%x became %x, %t, %v", req, got, ok, err)
			}
		}
	}
}

// TestRecordsAreCompact: a record of a log is the same, bit by bit, behind its compact form.
func TestRecordsAreCompact(t *testing.T) {
	x, caller := flowKit(t)
	const from = 1
	caller.Node = from
	w := x.writers[from]
	rapid.Check(t, func(t *rapid.T) {
		record := func(word onesided.Word, name recovery.Name, writes []recovery.Write) *log.Record {
			b := recovery.BeginBody(le.AppendUint64(nil, 0), uint64(word), len(writes))
			for i := range writes {
				b = recovery.AppendWrite(b, &writes[i])
			}
			return &log.Record{Type: recordUpdate, ID: uint64(name), Body: b}
		}
		var writes []recovery.Write
		for range rapid.IntRange(1, 4).Draw(t, "writes") {
			r := recovery.Write{Table: kitTable, Shard: proto.ShardID(rapid.Uint16().Draw(t, "shard")),
				Key: proto.Key(rapid.Uint64().Draw(t, "key")), Version: versions().Draw(t, "version"),
				Was: versions().Draw(t, "version before"), Read: rapid.Bool().Draw(t, "is only read")}
			if rapid.Bool().Draw(t, "has a value") {
				r.Value = rapid.SliceOfN(rapid.Byte(), kitValue, kitValue).Draw(t, "value")
			}
			writes = append(writes, r)
		}
		tx, number := uint32(rapid.Uint16().Draw(t, "transaction")), rapid.Uint32Min(1).Draw(t, "number")
		mine := record(x.words.Of(tx), recovery.MakeName(0, 0, x.words.Life, number), writes)
		place := log.Place{Position: uint64(rapid.IntRange(0, 1<<30).Draw(t, "line")) * 64, Bytes: w.Span(len(mine.Body))}
		sent, want := make([]byte, place.Bytes), make([]byte, place.Bytes)
		w.EncodeAgain(place, mine, sent)
		w.EncodeAgain(place, record(onesided.MakeWord(from, 0, tx, x.words.Life), recovery.MakeName(from, 0, x.words.Life, number), writes), want)
		wire, ok := x.packRecord(nil, sent, &backup{writer: w})
		if !ok {
			t.Fatal("a record of the worker's has no compact form")
		}
		got, err := x.unpack(nil, caller, TypeLog, wire)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%x\nbecame\n%x, %v", want, got, err)
		}
	})
}

// TestALockRequestTakesSixteenBytes: of a key that is one of 67 million of its node, of a version up to 2^27, header
// included.
func TestALockRequestTakesSixteenBytes(t *testing.T) {
	x, _ := flowKit(t)
	const header = 3 // kind, type and length (package rpc)
	i := item{table: kitTable, flags: flagLock | flagCompare, key: proto.Key(200<<48 | (1<<26 - 1)), version: layout.MakeVersion(1, 1<<27-1)}
	c := &call{typ: TypeAcquire, req: putItem(le.AppendUint64(nil, uint64(x.words.Of(65535))), &i)}
	wire, ok := x.pack(nil, c)
	if !ok || header+len(wire) != 16 {
		t.Errorf("%d bytes, want 16", header+len(wire))
	}
}

// FuzzUnpack: no request or answer makes a host or a client panic.
func FuzzUnpack(f *testing.F) {
	f.Add(byte(TypeLog), []byte{1, 4, 1, 0, 1, 0, 0x21, 1, 1, 2})
	f.Add(byte(TypeAcquire), []byte{1, 0, 5, 2, 2})
	f.Fuzz(func(t *testing.T, typ byte, b []byte) {
		x, caller := flowKit(t)
		caller.Node = 1
		_, _ = x.unpack(nil, caller, rpc.Type(typ), b)
		req := putItem(le.AppendUint64(nil, 1), &item{table: kitTable, flags: flagRead})
		_, _ = x.unpackAnswer(nil, rpc.Type(typ), req, b)
	})
}
