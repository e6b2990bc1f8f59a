package drtm

import (
	"encoding/binary"

	"drtmd/proto"
)

// What a transaction logs, and when (§5.6): if it is a piece of a chain, what is left to do behind it, before all else
// (chainlog.go); the records that it is about to lock, before the first CAS; all updates, in the region, so that they appear with XEND. Where there is no region, or memory has no line
// words, the updates are logged when the transaction can no longer abort, before the first of them is made.

// takeSlot gives the attempt a slot, if it needs one.
func (t *tx) takeSlot() (err error) {
	t.slot, t.owed = noSlot, false
	if t.e.logs == nil || t.decl.ReadOnly && !t.late {
		return nil
	}
	t.slot, err = t.e.logs.take(t.F, &t.e.logs.free)
	return err
}

// leaveSlot gives the slot back, or keeps it for what could not be done.
func (t *tx) leaveSlot() {
	if t.slot == noSlot {
		return
	}
	if t.owed {
		t.e.logs.keep(t.slot, uint64(t.lockWord()))
	} else {
		t.e.logs.release(t.slot)
	}
	t.slot = noSlot
}

// owe is onesided's, and keeps the slot.
func (t *tx) owe(r *record, update bool) {
	t.owed = true
	t.Owe(r, update)
}

// nameLocks logs the records that are about to be locked: those by verbs, or the local ones that a commit
// without line words locks.
func (t *tx) nameLocks(local bool) error {
	if t.slot == noSlot {
		return nil
	}
	l := t.e.logs
	b, n := l.begin(), 0
	for i := range t.Records {
		r := &t.Records[i]
		if r.Own.Local != local || !r.Own.Found || local && !r.Changes() || !local && !t.locks(r) {
			continue
		}
		if n++; !l.room(t.slot, len(b)+lockEntryBytes-recordHeadBytes) {
			return t.e.tooLong()
		}
		b = appendPlace(b, r, 0)
	}
	if n == 0 {
		return nil
	}
	l.store(t.F, l.seal(t.slot, b, t.sealed(lockAhead, n, uint64(t.lockWord()))), b)
	t.F.Step("drtm: locks logged")
	return nil
}

// appendPlace appends what entries of both kinds begin with.
func appendPlace(b []byte, r *record, flags uint16) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(r.Node))
	b = binary.LittleEndian.AppendUint16(b, uint16(r.At.Shard))
	b = binary.LittleEndian.AppendUint16(b, uint16(r.Table))
	b = binary.LittleEndian.AppendUint16(b, flags)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Key))
	return binary.LittleEndian.AppendUint64(b, r.Own.Off)
}

// encodeWrites makes the record of all updates in the scratch memory of the logs. nil: there are none.
func (t *tx) encodeWrites() (b []byte, entries int, err error) {
	l := t.e.logs
	b = l.begin()
	for i := range t.Records {
		r := &t.Records[i]
		if !r.Changes() {
			continue
		}
		var value []byte
		var flags uint16
		from := 0
		if r.Is {
			flags |= flagValue
			var to int
			if from, to = t.written(r); to-from < len(r.Value) {
				flags |= flagPart
			}
			if err := t.loadLogged(r, from, to); err != nil {
				return nil, 0, err
			}
			value = r.Value[from:to]
		}
		if r.Own.Local && t.e.glob {
			flags |= flagLocal
		}
		padded := (len(value) + 7) &^ 7
		if !l.room(t.slot, len(b)-recordHeadBytes+writeEntryBytes+padded) {
			return nil, 0, t.e.tooLong()
		}
		entries++
		b = appendPlace(b, r, flags)
		b = binary.LittleEndian.AppendUint64(b, uint64(r.Next()))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(value)))
		b = binary.LittleEndian.AppendUint32(b, uint32(from))
		b = append(b, value...)
		for range padded - len(value) {
			b = append(b, 0)
		}
	}
	if entries == 0 {
		return nil, 0, nil
	}
	return b, entries, nil
}

// loadLogged loads what a log has of a record that was loaded in part: the lines between those that the program has
// written. The commit of the region compares them.
func (t *tx) loadLogged(r *record, from, to int) error {
	if r.Lines == 0 || t.e.lacks(PartUnloaded) {
		return nil
	}
	return t.Complete(r, from, to-from)
}

// written is the part of a record's value that is logged: what the transaction has written of one that was there, in whole
// words. The rest is what memory has, as long as the record is locked, or protected by the region.
func (t *tx) written(r *record) (from, to int) {
	if !r.Was {
		return 0, len(r.Value)
	}
	from, to = r.Written()
	if t.e.lacks(PartCut) {
		to = min(to, from+1)
	}
	return from &^ 7, min((to+7)&^7, len(r.Value))
}

// logInRegion writes the write-ahead log in the region.
func (t *tx) logInRegion() error {
	if t.slot == noSlot || !t.e.glob {
		return nil
	}
	if t.e.lacks(LogOutsideRegion) {
		return t.logWrites()
	}
	b, n, err := t.encodeWrites()
	switch {
	case err != nil && t.inRegion:
		t.leave(proto.ReasonFull)
		return err
	case err != nil:
		return err // the region has aborted
	case n == 0:
		return nil
	}
	lines := (len(b) + 63) / 64
	t.F.Charge(costLogLine * int64(lines))
	at := t.e.logs.seal(t.slot, b, t.sealed(writeAhead, n, t.wordIfAny()))
	if !t.region.Store(t.e.Env.Memory, at, b) {
		return t.regionOver()
	}
	return nil
}

// sealed is the head of a record of the attempt.
func (t *tx) sealed(k recordKind, entries int, word uint64) sealed {
	x := sealed{kind: k, entries: entries, word: word}
	if t.chain.open {
		x.chain, x.piece = t.chain.Name, t.chain.Piece
	}
	return x
}

// wordIfAny is the state word of the attempt's locks; 0 if it takes none.
func (t *tx) wordIfAny() uint64 {
	if t.ticket == 0 {
		return 0
	}
	return uint64(t.lockWord())
}

// logWrites writes the write-ahead log outside of any region: the transaction takes place when it is whole.
func (t *tx) logWrites() error {
	if t.slot == noSlot {
		return nil
	}
	b, n, err := t.encodeWrites()
	if err != nil || n == 0 {
		return err
	}
	t.NoteWrites()
	t.e.logs.store(t.F, t.e.logs.seal(t.slot, b, t.sealed(writeAhead, n, t.wordIfAny())), b)
	t.F.Step("drtm: writes logged")
	return nil
}

// tooLong is the abort of a transaction whose records do not fit into a slot.
func (e *Engine) tooLong() error {
	e.logs.stats.TooLong++
	return e.logTooLong
}
