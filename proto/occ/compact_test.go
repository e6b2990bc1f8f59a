package occ

import (
	"bytes"
	"reflect"
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
	x, _ := flowKit(t)
	rapid.Check(t, func(t *rapid.T) {
		var sent []item
		var req []byte
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
			req, sent = packItem(req, &i), append(sent, i)
		}
		if got, ok := allItems(x.Env.Specs, req); !ok || !reflect.DeepEqual(got, sent) {
			t.Fatalf("%+v\nbecame\n%+v, %t", sent, got, ok)
		}
		for cut := range req {
			if got, ok := allItems(x.Env.Specs, req[:cut]); ok && len(got) == len(sent) {
				t.Fatalf("nothing is missing when %d of %d bytes are there", cut, len(req))
			}
		}
		h := head{code: code(rapid.IntRange(1, int(codeEnd)-1).Draw(t, "code"))}
		if rapid.Bool().Draw(t, "has details") {
			h.index, h.state = rapid.IntRange(0, 1<<15).Draw(t, "index"), onesided.Word(rapid.Uint64().Draw(t, "state"))
			h.version, h.off = versions().Draw(t, "version"), rapid.Uint64().Draw(t, "offset")
		}
		v, off := versions().Draw(t, "version"), rapid.Uint64().Draw(t, "offset")
		read := rapid.SliceOfN(rapid.Byte(), 0, kitValue).Draw(t, "value")
		answer := append(putOffset(putVersion(packHead(nil, &h), v), off), read...)
		got, rest, ok := unpackHead(answer, h.index+1)
		if !ok || got != h {
			t.Fatalf("head %+v became %+v, %t", h, got, ok)
		}
		if _, _, ok := unpackHead(answer, h.index); ok {
			t.Fatalf("item %d of %d is refused", h.index, h.index)
		}
		c, dst := call{packed: true}, make([]byte, len(read))
		v2, off2, rest, ok := c.item(rest, dst)
		if !ok || v2 != v || off2 != off || !bytes.Equal(dst, read) || len(rest) > 0 {
			t.Fatalf("%v at %d with %x became %v at %d with %x, %t", v, off, read, v2, off2, dst, ok)
		}
	})
}

// allItems decodes a compact request, without its transaction.
func allItems(specs []proto.TableSpec, req []byte) (all []item, ok bool) {
	for in := (items{rest: req, specs: specs, packed: true}); len(in.rest) > 0; {
		var i item
		if !in.next(&i) {
			return all, false
		}
		all = append(all, i)
	}
	return all, true
}

// TestEndsAreCompact: the name of a transaction and how it ended.
func TestEndsAreCompact(t *testing.T) {
	for _, number := range []uint32{1, 1 << 20, 1<<32 - 1} {
		for _, commit := range []bool{false, true} {
			b := packEnd(nil, recovery.MakeName(0, 0, 3, number), commit)
			if n, c, ok := unpackEnd(b); n != number || c != commit || !ok {
				t.Errorf("transaction %d, committed %t, became %d, %t, %t", number, commit, n, c, ok)
			}
		}
	}
	if _, _, ok := unpackEnd(packEnd(nil, 0, true)); ok {
		t.Error("no transaction has number 0")
	}
}

// TestRecordsAreCompact: behind its compact form a record of a log is that of the caller, with what it had.
func TestRecordsAreCompact(t *testing.T) {
	x, caller := flowKit(t)
	const from = 1
	caller.Node = from
	rapid.Check(t, func(t *rapid.T) {
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
		h := recordHead{position: uint64(rapid.IntRange(0, 1<<30).Draw(t, "line")) * 64, epoch: kitEpoch,
			tx: uint32(rapid.Uint16().Draw(t, "transaction")), number: rapid.Uint32Min(1).Draw(t, "number")}
		h.decided = uint64(rapid.IntRange(0, int(h.position/64)).Draw(t, "decided")) * 64
		word := onesided.MakeWord(from, 0, h.tx, x.words.Life)
		body := recovery.BeginBody(le.AppendUint64(nil, h.decided), uint64(word), len(writes))
		wire := packRecord(nil, &h)
		for i := range writes {
			body, wire = recovery.AppendWrite(body, &writes[i]), packWrite(wire, &writes[i])
		}
		want := log.Record{Position: h.position, Epoch: h.epoch, Type: recordUpdate,
			ID: uint64(recovery.MakeName(from, 0, x.words.Life, h.number)), Body: body}
		got, ok := x.unpackRecord(caller, wire)
		if !ok || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v\nbecame\n%+v, %t", want, got, ok)
		}
		for cut := range wire {
			if got, ok := x.unpackRecord(caller, wire[:cut]); ok && bytes.Equal(got.Body, body) {
				t.Fatalf("nothing is missing when %d of %d bytes are there", cut, len(wire))
			}
		}
	})
}

// TestALockRequestTakesSixteenBytes: of a key that is one of 67 million of its node, of a version up to 2^27, header
// included.
func TestALockRequestTakesSixteenBytes(t *testing.T) {
	const header, transaction = 3, 2 // kind, type and length (package rpc); wire.go's lock word
	i := item{table: kitTable, flags: flagLock | flagCompare, key: proto.Key(200<<48 | (1<<26 - 1)), version: layout.MakeVersion(1, 1<<27-1)}
	if n := header + transaction + len(packItem(nil, &i)); n != 16 {
		t.Errorf("%d bytes, want 16", n)
	}
}

// TestCompactMessagesThatMakeNoSenseAreRefused: a value without a write, a write without the value of its version, a table
// that there is not, and of a record what is decided behind it, a number that no name has, and no writes.
func TestCompactMessagesThatMakeNoSenseAreRefused(t *testing.T) {
	x, caller := flowKit(t)
	caller.Node = 1
	value := make([]byte, kitValue)
	live := layout.MakeVersion(1, 1)
	for name, i := range map[string]item{
		"value without write": {table: kitTable, flags: flagValue, version: live, value: value},
		"write without value": {table: kitTable, flags: flagWrite, version: live},
		"deletion with value": {table: kitTable, flags: flagWrite | flagValue, version: live.Deleted(), value: value},
		"no table":            {table: 0}, "unknown table": {table: kitTable + 1},
	} {
		if _, ok := allItems(x.Env.Specs, packItem(nil, &i)); ok {
			t.Errorf("%s is taken for an item", name)
		}
	}
	w := recovery.Write{Table: kitTable, Version: live, Value: value}
	for name, b := range map[string][]byte{
		"decided behind it": packWrite(packRecord(nil, &recordHead{position: 64, decided: 128, epoch: 1, number: 1}), &w),
		"no number":         packWrite(packRecord(nil, &recordHead{position: 64, epoch: 1}), &w),
		"no writes":         packRecord(nil, &recordHead{position: 64, epoch: 1, number: 1}),
		"unknown table": packWrite(packRecord(nil, &recordHead{position: 64, epoch: 1, number: 1}),
			&recovery.Write{Table: kitTable + 1, Version: live}),
	} {
		if r, ok := x.unpackRecord(caller, b); ok {
			t.Errorf("%s: taken for record %+v", name, r)
		}
	}
}

// FuzzUnpack: no request or answer makes a host or a client panic.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte{1, 4, 1, 0, 1, 0, 0x21, 1, 1, 2})
	f.Add([]byte{5, 2, 2})
	f.Fuzz(func(t *testing.T, b []byte) {
		x, caller := flowKit(t)
		caller.Node = 1
		_, _ = x.unpackRecord(caller, b)
		for _, typ := range [...]rpc.Type{TypeAcquire, TypeValidate, TypeRelease} {
			_, _ = x.servePacked(caller, typ, b, make([]byte, 0, messageBytes))
		}
		_, _, _ = unpackEnd(b)
		if _, rest, ok := unpackHead(b, 1); ok {
			_, _, _, _ = (&call{packed: true}).item(rest, make([]byte, kitValue))
		}
		x.lookUpRequests(2, func(i int) (rpc.Type, []byte) {
			return [...]rpc.Type{TypeAcquire, TypeLog}[i] + compactType, b
		})
	})
}
