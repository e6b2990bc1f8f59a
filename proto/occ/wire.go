package occ

import (
	"errors"

	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/store/layout"
	"drtmd/verbs/rpc"
)

// Types of the requests that hosts serve. All numbers are little endian.
const (
	// TypeAcquire reads and locks records: those of EXECUTE, or of LOCK. All are taken, or none.
	TypeAcquire rpc.Type = 0x60
	// TypeValidate compares the versions of records.
	TypeValidate rpc.Type = 0x61
	// TypeRelease unlocks records, those that changed with their values: COMMIT, and what aborts.
	TypeRelease rpc.Type = 0x62
	// TypeLog appends a record to the caller's log, whose bytes it is (package log): LOG. The answer is a head,
	// which has the log's own head for an offset.
	TypeLog rpc.Type = 0x63
	// TypeTruncate says up to which position, 8 bytes, everything in the caller's log is decided. The answer is
	// that to TypeLog.
	TypeTruncate rpc.Type = 0x64
	// TypeEnd says how the transaction ended that a log record of the caller's is of: name 8 | 1 if it is committed 8.
	// What is locked for it is unlocked. The answer is that to TypeLog.
	TypeEnd rpc.Type = 0x66
)

// A request is the lock word of the attempt, and items:
//
//	0  lock word 8
//	8  items: table 2 | flags 1 | zero 5 | key 8 | version 8 | value, if flagValue, padded to 8
//
// An answer is a head, and of TypeAcquire that was done, for each item:
//
//	 0  code 8 | index of the item refused 8 | its state word 8 | version 8 | offset of the entry 8
//	40  items: version 8 | offset of the entry 8 | value, if it was asked for, padded to 8
const (
	wordBytes   = 8
	itemBytes   = 24
	headBytes   = 40
	answerBytes = 16
	// messageBytes is what a request and an answer hold; more records of a node take more requests.
	messageBytes = 8 << 10
)

// flags of an item.
type flags uint8

const (
	flagLock    flags = 1 << iota // lock the record; an absent one gets an entry
	flagCompare                   // its version is the one in the item
	flagRead                      // the answer has the value
	flagWrite                     // the version in the item is the record's from now on
	flagValue                     // the item has its value
	flagKeep                      // the record stays locked
)

// code is a host's answer.
type code uint64

const (
	done    code = iota + 1
	locked       // by another
	changed      // since it was read
	full         // no room for an entry
	busy         // it was being changed, again and again
	notHeld      // a lock to be given back is not there
	moved        // the shard is not served here, or not yet
	codeEnd
)

func (c code) String() string {
	return [...]string{"?", "done", "locked", "changed", "table full", "busy", "not held", "moved", "?"}[min(c, codeEnd)]
}

// err is what the code of a refusal means for the attempt; that of locked is Tx.Met's.
func (c code) err() error {
	switch c {
	case changed:
		return proto.Aborting(proto.ReasonValidation)
	case full:
		return proto.Aborting(proto.ReasonFull)
	case busy:
		return proto.Aborting(proto.ReasonConflict)
	case moved:
		return errMoved
	}
	return errAnswer
}

var (
	errRequest = errors.New("malformed request; peers must run the same version")
	errAnswer  = errors.New("malformed answer; peers must run the same version")
)

// item is one record of a request.
type item struct {
	table   proto.TableID
	flags   flags
	key     proto.Key
	version layout.Version
	value   []byte // of the request
	at      uint64 // where the entry was, of a record of the own machine; 0: it is looked for
}

func padded(n int) int { return (n + 7) &^ 7 }

// answerRoom bounds what an item of an answer takes with a value of n bytes.
func answerRoom(n int, packed bool) int {
	if packed {
		return packedAnswerBytes + n
	}
	return answerBytes + padded(n)
}

// putItem appends an item.
func putItem(b []byte, x *item) []byte {
	b = le.AppendUint16(b, uint16(x.table))
	b = append(b, byte(x.flags), 0, 0, 0, 0, 0)
	b = le.AppendUint64(b, uint64(x.key))
	b = le.AppendUint64(b, uint64(x.version))
	if x.flags&flagValue == 0 {
		return b
	}
	b = append(b, x.value...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

// takeItem decodes the first item of b, and gives what follows.
func takeItem(b []byte, specs []proto.TableSpec, x *item) (rest []byte, ok bool) {
	if len(b) < itemBytes {
		return nil, false
	}
	x.table, x.flags = proto.TableID(le.Uint16(b)), flags(b[2])
	x.key = proto.Key(le.Uint64(b[8:]))
	x.version = layout.Version(le.Uint64(b[16:]))
	x.value = nil
	if !x.sound(specs) {
		return nil, false
	}
	b = b[itemBytes:]
	if x.flags&flagValue == 0 {
		return b, true
	}
	n := specs[x.table-1].ValueBytes
	if len(b) < padded(n) {
		return nil, false
	}
	x.value = b[:n]
	return b[padded(n):], true
}

// sound reports whether what an item says goes together; its value comes behind.
func (x *item) sound(specs []proto.TableSpec) bool {
	writes := x.flags&(flagWrite|flagValue) != 0
	return uint(x.table)-1 < uint(len(specs)) &&
		(!writes || x.flags&flagWrite != 0 && x.version.Live() == (x.flags&flagValue != 0))
}

// items are those of a request that were not taken yet, in the form of this file or packed.
type items struct {
	rest   []byte
	specs  []proto.TableSpec
	packed bool
}

// next takes an item, of which there is one; false: it makes no sense.
func (s *items) next(x *item) (ok bool) {
	if s.packed {
		s.rest, ok = unpackItem(s.rest, s.specs, x)
	} else {
		s.rest, ok = takeItem(s.rest, s.specs, x)
	}
	return ok
}

// head of an answer.
type head struct {
	code    code
	index   int
	state   onesided.Word
	version layout.Version
	off     uint64
}

func (h *head) put(b []byte) {
	_ = b[headBytes-1]
	le.PutUint64(b, uint64(h.code))
	le.PutUint64(b[8:], uint64(h.index))
	le.PutUint64(b[16:], uint64(h.state))
	le.PutUint64(b[24:], uint64(h.version))
	le.PutUint64(b[32:], h.off)
}

// takeHead decodes the head of the answer to a request of n items.
func takeHead(b []byte, n int) (h head, rest []byte, ok bool) {
	if len(b) < headBytes {
		return head{}, nil, false
	}
	index := le.Uint64(b[8:])
	h = head{code: code(le.Uint64(b)), index: int(index),
		state:   onesided.Word(le.Uint64(b[16:])),
		version: layout.Version(le.Uint64(b[24:])),
		off:     le.Uint64(b[32:])}
	return h, b[headBytes:], h.code >= done && h.code < codeEnd && index < uint64(n)
}
