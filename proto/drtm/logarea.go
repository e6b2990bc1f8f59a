package drtm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// The logs of §5.6. They lie in the memory of the tables, because a region writes to one memory only, and
// outlive the process with them. Each worker has an area, which only it writes:
//
//	 0  magic "dRtmLogs" 8 | version 4 | slots 4 | bytes of a slot 8 | node 2 | worker 2 | checksum 4
//	32  zero 32
//	64  the slots, behind those of transactions those of chains
//
// A transaction that may lock or write has a slot to itself from before its first lock until nothing of it
// is left to do. A full area makes transactions wait before they hold anything, so it cannot deadlock them.
//
//	 0  generation 8 | zero 56
//	64  records, one behind the other, each from a multiple of 8 on
//
// A record belongs to the generation of its slot; a higher generation makes a slot empty. All of a record
// is there, or its checksum is wrong:
//
//	 0  checksum 4 (CRC-32C of everything that follows) | bytes of the body 4
//	 8  kind 2 | entries 2 | piece 2 | zero 2 | generation 8 | state word of the transaction's locks 8
//	32  name of the chain of which the transaction is a piece 8, or 0
//	40  the body, a multiple of 8 bytes
//
// The body of a lock-ahead record has an entry for each record that is about to be locked:
//
//	0  node 2 | shard 2 | table 2 | zero 2 | key 8 | place 8
//
// and that of a write-ahead record has one for each update:
//
//	 0  node 2 | shard 2 | table 2 | flags 2 | key 8 | place 8 | version 8 | bytes that follow 4 | from 4
//	40  the value from there on, zero padded to 8
//
// Of a record that was there before, only what was written by proto.WriteAt is logged, from the first byte to the last
// one, in whole words: flag 4. The rest of the value is in memory, in the version before or in this one, for nobody else
// has changed the record.
//
// A chain of pieces has a slot of its own beside that of the piece which runs: see chainlog.go.
//
// All numbers are little endian.
const (
	logMagic   = "dRtmLogs"
	logVersion = 3

	areaHeadBytes   = layout.LineBytes
	slotHeadBytes   = layout.LineBytes
	recordHeadBytes = 40
	lockEntryBytes  = 24
	writeEntryBytes = 40

	minSlotBytes = slotHeadBytes + layout.LineBytes
)

// recordKind tells what a log record is of.
type recordKind uint16

const (
	lockAhead recordKind = iota + 1
	writeAhead
	chopping
)

// Flags of an entry of a write-ahead record.
const (
	flagValue = 1 << iota // there is a value: it is no deletion
	flagLocal             // a region has made the update: nothing is locked
	flagPart              // the value is a part of it
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrLog is wrapped by the refusal of logs that an engine finds in kept memory and cannot go on from.
var ErrLog = errors.New("logs of transactions in kept memory")

// noSlot is the slot of a transaction that has none.
const noSlot = -1

// logs are a worker's.
type logs struct {
	e      *Engine
	memory *htm.Memory
	at     int // of the area in memory
	bytes  int // of a slot
	slots  []slot
	// pieces is how many slots are of transactions, or pieces of them: the others are of chains.
	pieces int
	free   []int
	chains []int       // free slots of chains
	cut    []proto.Cut // of chains of an earlier life
	owing  []int       // slots of transactions that have left something to do
	record []byte      // in which records are made
	stats  proto.LogStats
	kept   bool // it was found in kept memory
	// recovering are the slots of transactions and chains of an earlier life of which something is left to do.
	recovering int
}

// slot is what the engine knows of one.
type slot struct {
	generation uint64
	used       int    // bytes, from the begin of the slot
	word       uint64 // of the locks, if the slot is owing
	former     bool   // of an earlier life
}

// piecesFor is how many slots of transactions a worker with so many fibers has: one for each, and as many for
// transactions that could not end because a machine was out of reach.
func piecesFor(fibers int) int { return 2 * max(fibers, 1) }

// slotsFor is how many slots there are with those of chains, which each fiber has one of.
func slotsFor(fibers int, chopped bool) int {
	n := piecesFor(fibers)
	if chopped {
		n += max(fibers, 1)
	}
	return n
}

// openLogs formats the area, or takes it as an earlier life has left it.
func (e *Engine) openLogs() (*logs, error) {
	a := e.Env.Log
	pieces, n := piecesFor(e.Env.Fibers), slotsFor(e.Env.Fibers, e.cfg.Chopped)
	l := &logs{e: e, memory: e.Env.Memory, at: a.At, kept: a.Kept, pieces: pieces,
		bytes: (a.Bytes - areaHeadBytes) / n &^ (layout.LineBytes - 1), slots: make([]slot, n)}
	if l.bytes < minSlotBytes {
		return nil, fmt.Errorf("%w: %s of %v for %d slots: give at least %v", ErrConfig, optLogBytes,
			option.Bytes(a.Bytes), n, inKiB(areaHeadBytes+n*minSlotBytes))
	}
	l.record = make([]byte, l.bytes)
	l.stats.Bytes, l.stats.Slots = uint64(a.Bytes), n
	var head [areaHeadBytes]byte
	l.head(head[:])
	mem := l.memory.Bytes[a.At : a.At+areaHeadBytes]
	if a.Kept {
		if err := l.checkHead(mem, head[:]); err != nil {
			return nil, err
		}
		if err := l.recover(); err != nil {
			return nil, err
		}
	} else {
		for i := range l.slots {
			clear(l.slotBytes(i))
		}
		copy(mem, head[:])
	}
	for i := range l.slots {
		if !l.slots[i].former {
			l.giveBack(i)
		}
	}
	l.reap() // of many, nothing is left to do
	return l, nil
}

// head is the head of the area.
func (l *logs) head(b []byte) {
	copy(b, logMagic)
	binary.LittleEndian.PutUint32(b[8:], logVersion)
	binary.LittleEndian.PutUint32(b[12:], uint32(len(l.slots)))
	binary.LittleEndian.PutUint64(b[16:], uint64(l.bytes))
	binary.LittleEndian.PutUint16(b[24:], uint16(l.e.Env.Node))
	binary.LittleEndian.PutUint16(b[26:], uint16(l.e.Env.Index))
	binary.LittleEndian.PutUint32(b[28:], crc32.Checksum(b[:28], castagnoli))
}

// checkHead refuses an area that this engine would not have made.
func (l *logs) checkHead(b, want []byte) error {
	who := fmt.Sprintf("node %d, worker %d", l.e.Env.Node, l.e.Env.Index)
	switch {
	case string(b[:8]) != logMagic:
		return fmt.Errorf("%w: %s: there are none: the memory was kept without the option %s", ErrLog, who, optDurable)
	case binary.LittleEndian.Uint32(b[8:]) != logVersion:
		return fmt.Errorf("%w: %s: version %d, and this program reads version %d: start the program that wrote "+
			"them", ErrLog, who, binary.LittleEndian.Uint32(b[8:]), logVersion)
	case binary.LittleEndian.Uint32(b[28:]) != crc32.Checksum(b[:28], castagnoli):
		return fmt.Errorf("%w: %s: their head has a wrong checksum", ErrLog, who)
	case string(b[:32]) != string(want[:32]):
		return fmt.Errorf("%w: %s: %d slots of %d bytes of node %d, worker %d; this configuration has %d of %d: "+
			"start with the nodes, workers, fibers, %s and %s of before", ErrLog, who,
			binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint64(b[16:]),
			binary.LittleEndian.Uint16(b[24:]), binary.LittleEndian.Uint16(b[26:]), len(l.slots), l.bytes, optLogBytes,
			protocol.OptChopped)
	}
	return nil
}

// offset is where a slot begins in memory.
func (l *logs) offset(i int) int { return l.at + areaHeadBytes + i*l.bytes }

func (l *logs) slotBytes(i int) []byte {
	at := l.offset(i)
	return l.memory.Bytes[at : at+l.bytes : at+l.bytes]
}

// setGeneration makes a slot empty.
func (l *logs) setGeneration(i int, g uint64) {
	s := &l.slots[i]
	*s = slot{generation: g, used: slotHeadBytes}
	binary.LittleEndian.PutUint64(l.slotBytes(i), g)
}

// slotWait bounds how long a transaction waits for a slot before the attempt counts as aborted.
const slotWait = 200 * time.Microsecond

// take gives an empty slot of a list. The caller holds no lock.
func (l *logs) take(f *fiber.Fiber, free *[]int) (int, error) {
	if len(*free) == 0 {
		if err := l.await(f, free); err != nil {
			return noSlot, err
		}
	}
	n := len(*free) - 1
	i := (*free)[n]
	*free = (*free)[:n]
	l.setGeneration(i, l.slots[i].generation+1)
	return i, nil
}

func (l *logs) await(f *fiber.Fiber, free *[]int) error {
	l.stats.Waits++
	pause := lockPauseFirst
	for deadline := f.Now() + slotWait; ; {
		if err := f.Sleep(pause); err != nil {
			return err
		}
		switch l.reap(); {
		case len(*free) > 0:
			return nil
		case f.Now() > deadline:
			return proto.Aborting(proto.ReasonLogFull)
		}
		pause = min(2*pause, lockPauseMost)
	}
}

// release takes a slot back of which nothing is left to do.
func (l *logs) release(i int) {
	l.setGeneration(i, l.slots[i].generation+1)
	l.giveBack(i)
}

// giveBack adds an empty slot to its list.
func (l *logs) giveBack(i int) {
	if i < l.pieces {
		l.free = append(l.free, i)
	} else {
		l.chains = append(l.chains, i)
	}
}

// keep leaves a slot as it is until what its transaction owes is done.
func (l *logs) keep(i int, word uint64) {
	s := &l.slots[i]
	s.word = word
	l.owing = append(l.owing, i)
}

// reap takes the slots back of transactions that owe nothing any more.
func (l *logs) reap() {
	kept := l.owing[:0]
	for _, i := range l.owing {
		s := &l.slots[i]
		if l.e.Owes(s.word) && !l.e.lacks(SlotOfDebtReused) {
			kept = append(kept, i)
			continue
		}
		if s.former {
			l.recovering--
		}
		l.release(i)
	}
	l.owing = kept
}

// room reports whether a record with a body of so many bytes fits into a slot.
func (l *logs) room(i, body int) bool { return l.slots[i].used+recordHeadBytes+body <= l.bytes }

// begin starts a record for a slot in l.record, whose entries come behind the head.
func (l *logs) begin() []byte { return l.record[:recordHeadBytes] }

// sealed is what the head of a record says beside its length and checksum.
type sealed struct {
	kind    recordKind
	entries int
	word    uint64
	chain   uint64 // of which the transaction is a piece; 0: none
	piece   int
}

// seal completes a record that begin has started, and gives its place in memory.
func (l *logs) seal(i int, b []byte, x sealed) (at int) {
	s := &l.slots[i]
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-recordHeadBytes))
	binary.LittleEndian.PutUint16(b[8:], uint16(x.kind))
	binary.LittleEndian.PutUint16(b[10:], uint16(x.entries))
	binary.LittleEndian.PutUint32(b[12:], uint32(x.piece))
	binary.LittleEndian.PutUint64(b[16:], s.generation)
	binary.LittleEndian.PutUint64(b[24:], x.word)
	binary.LittleEndian.PutUint64(b[32:], x.chain)
	binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	at = l.offset(i) + s.used
	s.used += len(b)
	l.stats.Records++
	return at
}

// store writes a record outside of any region. Only its worker ever reads these lines.
func (l *logs) store(f *fiber.Fiber, at int, b []byte) {
	f.Charge(costLogLine * int64((len(b)+layout.LineBytes-1)/layout.LineBytes))
	half := len(b) / 2 &^ 7
	copy(l.memory.Bytes[at:], b[:half])
	f.Step("drtm: log record half written")
	copy(l.memory.Bytes[at+half:], b[half:])
}
