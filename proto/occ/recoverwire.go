package occ

import (
	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/proto/recovery"
	"drtmd/store/layout"
	"drtmd/verbs/rpc"
)

// TypeRecover is what nodes ask of each other to recover, worker by worker of one index.
const TypeRecover rpc.Type = 0x65

// request is what is asked. The stages of a decision are those of a coordinator: see package recovery.
type request uint8

const (
	// askKnown: which transactions of a node that is gone, or which that write to a shard, are known and not
	// decided?
	askKnown request = iota + 1
	// askValues: the writes of one transaction with the values that are held.
	askValues
	// askApplied: which of these writes have the replicas here?
	askApplied
	askLog      // note this transaction, with the values for the replicas here
	askCommit   // write it at the primaries here, and unlock
	askTruncate // write it at the backups here, and forget it
	askDrop     // forget it
	askUnlock   // give its locks back
	askSettled  // is everything decided that this worker decides?
	askServes   // is the shard served?
	askAdopted  // are the replicas of this epoch in use?
	askCopy     // the records of a table from an index on
	requestEnd
)

// A request, little endian, and what follows its head:
//
//	 0  request 1 | flags 1, zero 2 | shard or node 4 | epoch 8 | name 8 | index 8
//	32  askApplied, askLog, askUnlock: a part of a transaction's writes
//
// An answer:
//
//	 0  answer 8 | index 8 and name 8 of the next request for the rest; 0: that was all
//	24  askKnown, askValues: parts of transactions' writes; askApplied: a byte for each write; askCopy: records
//
// A part of a transaction's writes:
//
//	 0  name 8 | lock word 8 | writes 4 | first of these 4 | of these 4 | flags 2 bits, epoch of its LOG 30 bits
//	32  the writes, as in logs
const (
	askBytes  = 32
	sayBytes  = 24
	partBytes = 32
	// partMost is the longest part, so that a request and an answer fit into a message.
	partMost = messageBytes - askBytes - partBytes
)

// Flags of a part.
const (
	partLogged = 1 << iota
	partDead
	partBits = 2
)

// answer to a request.
type answer uint64

const (
	sayDone  answer = iota + 1
	sayLater        // not yet: the node is behind, or has something else to do first
	sayStale        // the node is in a later epoch
)

// ask is a request.
type ask struct {
	request request
	of      uint32 // shard or node
	epoch   uint64
	name    recovery.Name
	index   uint64
}

func (a *ask) append(b []byte) []byte {
	b = append(b, byte(a.request), 0, 0, 0)
	b = le.AppendUint32(b, a.of)
	b = le.AppendUint64(b, a.epoch)
	b = le.AppendUint64(b, uint64(a.name))
	return le.AppendUint64(b, a.index)
}

// takeAsk decodes the head of a request.
func takeAsk(b []byte) (a ask, rest []byte, ok bool) {
	if len(b) < askBytes {
		return a, nil, false
	}
	a = ask{request: request(b[0]), of: le.Uint32(b[4:]), epoch: le.Uint64(b[8:]),
		name: recovery.Name(le.Uint64(b[16:])), index: le.Uint64(b[24:])}
	return a, b[askBytes:], a.request > 0 && a.request < requestEnd
}

// say writes the head of an answer.
func say(b []byte, x answer, index uint64, name recovery.Name) {
	le.PutUint64(b, uint64(x))
	le.PutUint64(b[8:], index)
	le.PutUint64(b[16:], uint64(name))
}

// said decodes it.
func said(b []byte) (x answer, index uint64, name recovery.Name) {
	return answer(le.Uint64(b)), le.Uint64(b[8:]), recovery.Name(le.Uint64(b[16:]))
}

// writeBytes is what a write takes in a part.
func writeBytes(w *recovery.Write, values bool) int {
	n := recovery.BodyBytes(1) - recovery.BodyBytes(0)
	if values && w.Value != nil {
		n += recovery.ValueRoom(len(w.Value))
	}
	return n
}

// appendPart appends those writes of a transaction from an index on that are wanted and fit into so many bytes,
// and gives the index behind the last one that was looked at.
func appendPart(b []byte, n *noted, from, most int, values bool, want func(*recovery.Write) bool) ([]byte, int) {
	at := len(b)
	flags := uint32(0)
	if n.logged {
		flags |= partLogged
	}
	if n.dead {
		flags |= partDead
	}
	b = le.AppendUint64(b, uint64(n.name))
	b = le.AppendUint64(b, uint64(n.word))
	b = le.AppendUint32(b, uint32(len(n.writes)))
	b = le.AppendUint32(b, uint32(from))
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, flags|uint32(n.epoch)<<partBits)
	count, i := uint32(0), from
	for ; i < len(n.writes); i++ {
		w := n.writes[i]
		if want != nil && !want(&w) {
			continue
		}
		if len(b)-at+writeBytes(&w, values) > most {
			break
		}
		if !values {
			w.Value = nil
		}
		b = recovery.AppendWrite(b, &w)
		count++
	}
	le.PutUint32(b[at+24:], count)
	return b, i
}

// piece is a decoded part.
type piece struct {
	noted
	total, from int
}

// takePart decodes a part of a transaction that writes to some of so many shards, with references into b.
func takePart(b []byte, specs []proto.TableSpec, shards int) (p piece, rest []byte, ok bool) {
	if len(b) < partBytes {
		return p, nil, false
	}
	p.name, p.word = recovery.Name(le.Uint64(b)), onesided.Word(le.Uint64(b[8:]))
	p.total, p.from = int(le.Uint32(b[16:])), int(le.Uint32(b[20:]))
	flags := le.Uint32(b[28:])
	p.logged, p.dead, p.epoch = flags&partLogged != 0, flags&partDead != 0, uint64(flags>>partBits)
	count := int(le.Uint32(b[24:]))
	b = b[partBytes:]
	for range count {
		var w recovery.Write
		if b, ok = recovery.TakeWrite(b, specs, &w); !ok || int(w.Shard) >= shards {
			return p, nil, false
		}
		p.writes = append(p.writes, w)
	}
	return p, b, true
}

// copiedHead is the part of a record that askCopy gives before its value:
//
//	0  key 8 | version 8 | value, if the version is live, padded to 8
const copiedHead = 16

// copiedBytes is what a record with a value of so many bytes takes.
func copiedBytes(value int) int { return copiedHead + padded(value) }

func appendCopied(b []byte, k proto.Key, v layout.Version, value []byte) []byte {
	b = le.AppendUint64(b, uint64(k))
	b = le.AppendUint64(b, uint64(v))
	if !v.Live() {
		return b
	}
	b = append(b, value...)
	return append(b, make([]byte, padded(len(value))-len(value))...)
}

// takeCopied takes a record of a table whose values have so many bytes; its value is in b.
func takeCopied(b []byte, value int) (w recovery.Write, rest []byte, ok bool) {
	if len(b) < copiedHead {
		return w, nil, false
	}
	w.Key, w.Version = proto.Key(le.Uint64(b)), layout.Version(le.Uint64(b[8:]))
	if b = b[copiedHead:]; !w.Version.Live() {
		return w, b, true
	}
	if len(b) < padded(value) {
		return w, nil, false
	}
	w.Value = b[:value]
	return w, b[padded(value):], true
}
