package drtm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// Recovery of the own machine (§5.6, Figure 11), when its engines are made on kept memory:
//
//	(a) no write-ahead record: the transaction did not take place. The records named by its lock-ahead
//	    records are unlocked, where they still have this very lock.
//	(b) a write-ahead record: it did. Its updates are made and unlocked where its lock is still there, and
//	    what it locked and did not change is unlocked.
//
// All of that is owed like what a living transaction could not do at a machine out of reach (proto.Debts): it
// is done as soon as that machine is connected, which may be down, too, and have logs that name this one.
// A debt is paid only if the record still has the lock, whose word is in no state word twice. So a second
// recovery of the same logs, after a crash in the middle of one, does what the first has left. The slots stay
// taken until then. Cases (c), (d) and (e), of the machines that live on, are their own debts.
//
// A record of a log that is cut, torn or damaged ends its slot: it is counted and never applied. One that is whole and
// names what cannot be, or cannot be carried out, is refused (ErrLog): the logs stay as they are.

// former is what a slot has of a transaction of an earlier life.
type former struct {
	word   uint64
	locks  []proto.Debt // to be unlocked
	writes []update     // to be made
	took   bool         // it has a write-ahead record
	// chain is that of which it was a piece; 0: of none.
	chain uint64
	piece int
}

// update is an entry of a write-ahead record.
type update struct {
	proto.Debt
	version layout.Version
	local   bool
}

// recover reads the slots of an earlier life, and owes what is left to do.
func (l *logs) recover() error {
	committed := map[uint64]int{} // of chains, by name: how many pieces have committed
	for i := range l.pieces {
		s := &l.slots[i]
		s.generation, s.used = binary.LittleEndian.Uint64(l.slotBytes(i)), slotHeadBytes
		x, records, err := l.read(i)
		if err == nil && records > 0 {
			if err = l.settle(x); l.e.lacks(ChecksumIgnored) {
				err = nil
			}
		}
		if err != nil {
			return fmt.Errorf("%w: node %d, worker %d, slot %d: %w", ErrLog, l.e.Env.Node, l.e.Env.Index, i, err)
		}
		l.stats.Found += uint64(records)
		if x.took && x.chain != 0 {
			committed[x.chain] = max(committed[x.chain], x.piece+1)
		}
		if records == 0 || l.e.lacks(ReuseBeforeRecovery) {
			continue
		}
		s.former = true
		s.word = x.word
		l.owing = append(l.owing, i)
		l.recovering++
	}
	return l.recoverChains(committed)
}

// read collects the records of a slot. An error is that of a log that no life of this worker has written.
func (l *logs) read(i int) (x former, records int, err error) {
	b := l.slotBytes(i)
	generation := l.slots[i].generation
	for at := slotHeadBytes; ; records++ {
		r, body, next := l.readRecord(b, at, generation)
		if next == 0 {
			return x, records, nil
		}
		x.word = r.word
		switch r.kind {
		case lockAhead:
			err = l.readLocks(&x, body, r.entries)
		case writeAhead:
			x.took, x.chain, x.piece = true, r.chain, r.piece
			err = l.readWrites(&x, body, r.entries)
		default:
			err = fmt.Errorf("a record of kind %d", r.kind)
		}
		if err != nil && l.e.lacks(ChecksumIgnored) {
			return x, records + 1, nil
		}
		if err != nil {
			return x, records, err
		}
		at = next
	}
}

// readRecord reads a record of a generation, and gives where the next one is. 0: there is none.
func (l *logs) readRecord(b []byte, at int, generation uint64) (x sealed, body []byte, next int) {
	rest := b[min(at, len(b)):]
	if generation == 0 || len(rest) < recordHeadBytes || binary.LittleEndian.Uint64(rest[16:]) != generation {
		return x, nil, 0
	}
	n := int(binary.LittleEndian.Uint32(rest[4:]))
	if n > len(rest)-recordHeadBytes ||
		binary.LittleEndian.Uint32(rest) != crc32.Checksum(rest[4:recordHeadBytes+n], castagnoli) {
		l.stats.Torn++
		if n > len(rest)-recordHeadBytes || !l.e.lacks(ChecksumIgnored) {
			return x, nil, 0
		}
	}
	x = sealed{kind: recordKind(binary.LittleEndian.Uint16(rest[8:])), entries: int(binary.LittleEndian.Uint16(rest[10:])),
		piece: int(binary.LittleEndian.Uint16(rest[12:])), word: binary.LittleEndian.Uint64(rest[24:]),
		chain: binary.LittleEndian.Uint64(rest[32:])}
	return x, rest[recordHeadBytes : recordHeadBytes+n], at + recordHeadBytes + n
}

// debt reads what entries of both kinds begin with.
func (l *logs) debt(b []byte, word uint64) (d proto.Debt, flags uint16, err error) {
	e := l.e
	d = proto.Debt{Node: proto.NodeID(binary.LittleEndian.Uint16(b)),
		Shard: proto.ShardID(binary.LittleEndian.Uint16(b[2:])),
		Table: proto.TableID(binary.LittleEndian.Uint16(b[4:])), Key: proto.Key(binary.LittleEndian.Uint64(b[8:])),
		Off: binary.LittleEndian.Uint64(b[16:]), Word: word, Since: e.soft}
	if int(d.Node) >= len(e.Env.Peers) || int(d.Shard) >= len(e.Env.Peers) || d.Table == 0 ||
		int(d.Table) > len(e.Env.Specs) {
		err = fmt.Errorf("an entry of table %d, shard %d, on node %d: this cluster has %d tables and %d nodes", d.Table,
			d.Shard, d.Node, len(e.Env.Specs), len(e.Env.Peers))
	}
	return d, binary.LittleEndian.Uint16(b[6:]), err
}

func (l *logs) readLocks(x *former, b []byte, entries int) error {
	if len(b) != entries*lockEntryBytes {
		return fmt.Errorf("%d locks in %d bytes", entries, len(b))
	}
	for ; len(b) > 0; b = b[lockEntryBytes:] {
		d, _, err := l.debt(b, x.word)
		if err != nil {
			return err
		}
		x.locks = append(x.locks, d)
	}
	return nil
}

func (l *logs) readWrites(x *former, b []byte, entries int) error {
	for range entries {
		if len(b) < writeEntryBytes {
			return fmt.Errorf("%d updates do not fit into their record", entries)
		}
		d, flags, err := l.debt(b, x.word)
		if err != nil {
			return err
		}
		n, from := int(binary.LittleEndian.Uint32(b[32:])), int(binary.LittleEndian.Uint32(b[36:]))
		padded := (n + 7) &^ 7
		r := l.e.Env.Tables[d.Table-1].Record()
		part := flags&flagPart != 0
		whole := !part && from == 0 && (n == r.ValueBytes || flags&flagValue == 0)
		if padded > len(b)-writeEntryBytes || from+n > r.ValueBytes || !whole && !(part && n > 0 && flags&flagValue != 0) {
			return fmt.Errorf("a value of %d bytes from %d on for table %d, whose values have %d", n, from, d.Table, r.ValueBytes)
		}
		u := update{Debt: d, version: layout.Version(binary.LittleEndian.Uint64(b[24:])),
			local: flags&flagLocal != 0}
		u.Value, u.Entry = flags&flagValue != 0, make([]byte, r.Bytes)
		if part && l.e.lacks(PartMisplaced) {
			from = 0
		}
		value := make([]byte, from+n, r.ValueBytes)
		copy(value[from:], b[writeEntryBytes:])
		if part {
			value = value[:r.ValueBytes]
			u.Part = layout.Span{From: layout.ValueOffset + from, To: layout.ValueOffset + from + n}
		}
		binary.LittleEndian.PutUint64(u.Entry[layout.KeyOffset:], uint64(d.Key))
		r.Put(u.Entry, u.version, value)
		x.writes = append(x.writes, u)
		b = b[writeEntryBytes+padded:]
	}
	return nil
}

// settle owes what a former transaction has left, and makes the updates of its region if they are not there:
// they are, unless memory and log are of different moments. Those that are there must be what the log has.
func (l *logs) settle(x former) error {
	e := l.e
	if x.took {
		l.stats.Completed++
	} else {
		l.stats.Undone++
	}
	for i := range x.writes {
		var err error
		switch u := &x.writes[i]; {
		case u.local:
			err = e.redo(u)
		case x.word != 0:
			err = e.restore(&u.Debt)
		}
		if err != nil {
			return err
		}
	}
	for i := range x.locks {
		d := &x.locks[i]
		if x.writesTo(d) || x.took && e.lacks(LocksOfCommittedForgotten) {
			continue
		}
		if err := e.restore(d); err != nil {
			return err
		}
	}
	return nil
}

// restore owes a debt of an earlier life. It refuses one at a place that no debt can be paid at, which would be owed
// for ever; what a machine holds that was not met yet is unknown, and so is what tables have grown by since.
func (e *Engine) restore(d *proto.Debt) error {
	if p := &e.Env.Peers[d.Node]; len(p.Tables) > 0 {
		s := p.Shares[d.Shard]
		switch {
		case s == nil:
			return fmt.Errorf("%s: node %d has no replica of shard %d", e.nameOf(d), d.Node, d.Shard)
		case layout.InFirst(d.Off) && !s.Tables[d.Table-1].Entry(d.Off):
			return fmt.Errorf("%s: no record can be at %#x on node %d", e.nameOf(d), d.Off, d.Node)
		}
	}
	e.Owe(*d)
	return nil
}

// nameOf names a record.
func (e *Engine) nameOf(d *proto.Debt) string {
	return fmt.Sprintf("table %q, key %d", e.Env.Specs[d.Table-1].Name, d.Key)
}

// writesTo reports whether an update is of the record, at the place, that a lock was named for.
func (x *former) writesTo(d *proto.Debt) bool {
	for i := range x.writes {
		u := &x.writes[i]
		if u.Node == d.Node && u.Shard == d.Shard && u.Off == d.Off && !u.local {
			return true
		}
	}
	return false
}

// redo makes an update of the own machine's record if the record is older. Nobody runs transactions yet.
func (e *Engine) redo(u *update) error {
	table := &e.tables[u.Table-1]
	region := e.HostRegion()
	for range onesided.HostTries {
		region.Begin()
		off, found, ok := table.FindIn(region, u.Key)
		if ok && !found {
			region.Abort(0) // it was deleted since, and given back
			return nil
		}
		v, ok := region.Load64(e.Env.Memory, off+layout.VersionOffset)
		part := layout.Span{From: layout.ValueOffset, To: len(u.Entry)}
		if u.Part.Len() > 0 {
			part = u.Part
		}
		if ok && layout.Version(v) >= u.version && !e.lacks(RedoUnversioned) {
			same, ok := e.hasValue(region, off, u, part, layout.Version(v))
			if !ok {
				continue
			}
			region.Abort(0)
			if !same {
				return fmt.Errorf("%s: the value of version %v in the tables is not that in the log: one of them is damaged",
					e.nameOf(&u.Debt), u.version)
			}
			return nil
		}
		if ok && u.Part.Len() > 0 && layout.Version(v).Written() != u.version && !e.lacks(RedoUnversioned) {
			region.Abort(0)
			return fmt.Errorf("%s: it is at version %v, and the log has a part of version %v", e.nameOf(&u.Debt),
				layout.Version(v), u.version)
		}
		ok = ok && region.Store64(e.Env.Memory, off+layout.VersionOffset, uint64(u.version)) &&
			(!u.Value || region.Store(e.Env.Memory, off+part.From, u.Entry[part.From:part.To]))
		if ok && region.Commit(nil) {
			return nil
		}
	}
	code, _ := region.Aborted()
	return fmt.Errorf("%s: the update to version %v cannot be made: its region has aborted %d times, at last by %v",
		e.nameOf(&u.Debt), u.version, onesided.HostTries, code)
}

// hasValue reports whether a record has what an update has written, if it is at the update's version v: nobody has changed
// it since. ok is false if the region has aborted.
func (e *Engine) hasValue(region *htm.Region, off int, u *update, part layout.Span, v layout.Version) (same, ok bool) {
	if v != u.version || !u.Value {
		return true, true
	}
	is := make([]byte, part.Len())
	ok = region.Load(e.Env.Memory, off+part.From, is)
	return bytes.Equal(is, u.Entry[part.From:part.To]), ok
}

// LogStats implements proto.Logger.
func (e *Engine) LogStats() (s proto.LogStats) {
	l := e.logs
	if l == nil {
		return s
	}
	s = l.stats
	s.Taken, s.Recovering = len(l.slots)-len(l.free)-len(l.chains), l.recovering
	for i := range l.slots {
		if x := &l.slots[i]; x.used > slotHeadBytes {
			s.Used += uint64(x.used)
		}
	}
	return s
}

// Finish implements proto.Debtor.
func (e *Engine) Finish(f *fiber.Fiber, peer proto.NodeID) {
	e.Base.Finish(f, peer)
	if e.logs != nil {
		e.logs.reap()
	}
}
