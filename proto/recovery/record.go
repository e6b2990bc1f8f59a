package recovery

import (
	"encoding/binary"
	"errors"

	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/store/layout"
)

// Name names a transaction among the nodes: it is the ID of its records in logs, and the name in
// histories. No two transactions of a cluster have the same.
//
//	63     56 55         44 43      32 31                0
//	+--------+-------------+----------+------------------+
//	| node 8 |  worker 12  | life 12  |  number 32, not 0 |
//	+--------+-------------+----------+------------------+
//
// life tells the engines apart that a worker has had; number counts the transactions of one.
type Name uint64

// Limits of what a name can tell apart.
const (
	MaxNodes   = 1 << 8
	MaxWorkers = 1 << 12 // of a node
	MaxLives   = 1 << 12 // after which they repeat
)

// MakeName is the name of a transaction.
func MakeName(n proto.NodeID, worker int, life, number uint32) Name {
	invariant.Assert(n < MaxNodes && worker < MaxWorkers && number != 0, "name of a transaction out of range")
	return Name(n)<<56 | Name(worker)<<44 | Name(life%MaxLives)<<32 | Name(number)
}

// Node is that of the coordinator.
func (n Name) Node() proto.NodeID { return proto.NodeID(n >> 56) }

// Worker is that of the coordinator within its node.
func (n Name) Worker() int { return int(n>>44) % MaxWorkers }

// Life is that of the engine, modulo MaxLives.
func (n Name) Life() uint32 { return uint32(n>>32) % MaxLives }

// SameLife reports whether two names are of one engine.
func (n Name) SameLife(o Name) bool { return n>>32 == o>>32 }

// Write is one record that a transaction writes.
type Write struct {
	Shard   proto.ShardID
	Table   proto.TableID
	Key     proto.Key
	Version layout.Version // that the record has from then on; one that is not live: it is deleted
	// Read: the record is only read, at this version. It is named where locks are in the log (Dandelion's Dnl-1).
	Read bool
	// Was is the version before, where locks are in the log; 0 otherwise.
	Was layout.Version
	// Value is the new one; nil if it is deleted, or if this log record is not to have it.
	Value []byte
}

// The body of a transaction's record in a log, little endian:
//
//	0  lock word 8 | writes 2 | zero 6
//	16 the writes, each
//	   0  table 2 | shard 2 | flags 1, zero 3 | key 8 | version 8 | version before 8, if flagged |
//	      value, if flagged, padded to 8
const (
	bodyHeadBytes = 16
	writeBytes    = 24
	// Flags of a write.
	withValue = 1
	onlyRead  = 2
	withWas   = 4 // eight bytes more, before the value
)

// ErrRecord: a log record's body is none of a transaction.
var ErrRecord = errors.New("log record of a transaction makes no sense; all nodes must run the same version")

// BodyBytes is what a body takes with so many writes, and values of these sizes.
func BodyBytes(writes int, values ...int) int {
	n := bodyHeadBytes + writes*writeBytes
	for _, v := range values {
		n += ValueRoom(v)
	}
	return n
}

// WasBytes is what Write.Was takes in a body.
const WasBytes = 8

// ValueRoom is what a value of n bytes takes in a body.
func ValueRoom(n int) int { return (n + 7) &^ 7 }

// BeginBody appends the head of a body: of a transaction whose locks have this word.
func BeginBody(b []byte, word uint64, writes int) []byte {
	b = binary.LittleEndian.AppendUint64(b, word)
	return binary.LittleEndian.AppendUint64(b, uint64(uint16(writes)))
}

// SetWrites says how many writes a body has that BeginBody began.
func SetWrites(body []byte, writes int) {
	binary.LittleEndian.PutUint64(body[8:], uint64(uint16(writes)))
}

// AppendWrite appends the next write.
func AppendWrite(b []byte, w *Write) []byte {
	le := binary.LittleEndian
	flags := uint32(0)
	if w.Value != nil {
		flags = withValue
	}
	if w.Read {
		flags |= onlyRead
	}
	if w.Was != 0 {
		flags |= withWas
	}
	b = le.AppendUint16(b, uint16(w.Table))
	b = le.AppendUint16(b, uint16(w.Shard))
	b = le.AppendUint32(b, flags)
	b = le.AppendUint64(b, uint64(w.Key))
	b = le.AppendUint64(b, uint64(w.Version))
	if w.Was != 0 {
		b = le.AppendUint64(b, uint64(w.Was))
	}
	b = append(b, w.Value...)
	for n := len(w.Value); n%8 != 0; n++ {
		b = append(b, 0)
	}
	return b
}

// Body is a decoded one; it refers to the bytes.
type Body struct {
	Word   uint64
	Writes int // all of the transaction's
	rest   []byte
	left   int
}

// ReadBody begins to decode a body.
func ReadBody(b []byte) (Body, error) {
	if len(b) < bodyHeadBytes {
		return Body{}, ErrRecord
	}
	n := binary.LittleEndian.Uint64(b[8:])
	if n == 0 || n > 1<<16-1 || int(n) > (len(b)-bodyHeadBytes)/writeBytes {
		return Body{}, ErrRecord
	}
	return Body{Word: binary.LittleEndian.Uint64(b), Writes: int(n), rest: b[bodyHeadBytes:], left: int(n)}, nil
}

// Next decodes the next write; false after the last one. specs say how long values are.
func (x *Body) Next(specs []proto.TableSpec, w *Write) (bool, error) {
	if x.left == 0 {
		if len(x.rest) > 0 {
			return false, ErrRecord
		}
		return false, nil
	}
	rest, ok := TakeWrite(x.rest, specs, w)
	if !ok {
		return false, ErrRecord
	}
	x.rest = rest
	x.left--
	return true, nil
}

// TakeWrite decodes what AppendWrite has appended, and gives what follows. specs say how long values are.
func TakeWrite(b []byte, specs []proto.TableSpec, w *Write) (rest []byte, ok bool) {
	le := binary.LittleEndian
	if len(b) < writeBytes {
		return nil, false
	}
	*w = Write{Table: proto.TableID(le.Uint16(b)), Shard: proto.ShardID(le.Uint16(b[2:])),
		Key: proto.Key(le.Uint64(b[8:])), Version: layout.Version(le.Uint64(b[16:]))}
	flags := le.Uint32(b[4:])
	if uint(w.Table)-1 >= uint(len(specs)) || flags > withValue|onlyRead|withWas {
		return nil, false
	}
	b = b[writeBytes:]
	if w.Read = flags&onlyRead != 0; flags&withWas != 0 {
		if len(b) < WasBytes {
			return nil, false
		}
		if w.Was, b = layout.Version(le.Uint64(b)), b[WasBytes:]; w.Was == 0 {
			return nil, false
		}
	}
	if flags&withValue != 0 {
		n := specs[w.Table-1].ValueBytes
		if len(b) < ValueRoom(n) {
			return nil, false
		}
		w.Value, b = b[:n:n], b[ValueRoom(n):]
	}
	return b, true
}
