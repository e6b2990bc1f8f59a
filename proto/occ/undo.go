package occ

import (
	"slices"
	"sync/atomic"

	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/proto/recovery"
	"drtmd/store/layout"
	"drtmd/store/log"
	"drtmd/store/words"
	"drtmd/verbs/lineword"
)

// Strategies with Undo (Dandelion, §4.2.2). A backup applies an update in LOG and keeps what it has replaced, in an
// undo log, until the record is decided. Meanwhile the replica's record is not Readable: its state word says so. A
// commit raises the flag, an abort, which only recovery decides at that time, puts the old value back. The log record
// has the new values, too: recovery gives them to replicas that lack them.

// notReadable marks the state word of a backup's record whose Readable flag is lowered. It is a bit of the holder's
// node that no node with backups has. The rest of the word names the transaction whose update it is; the lock word
// would not do, as an attempt passes it on to the next one, and that may update the record, too, before the flag is
// raised.
//
//	63    61 60     49 48              17  16 15       9 8     1  0
//	+-------+---------+------------------+---+----------+-------+--+
//	| wkr 3 | life 12 |  transaction 32  | 1 | worker 7 | node 8| 1|
//	+-------+---------+------------------+---+----------+-------+--+
const (
	notReadable onesided.Word = 1 << 16
	// undoWorkers is how many workers of a node such a word tells apart.
	undoWorkers = 1 << 10
)

// lowered is the state word of a record that a transaction has lowered the Readable flag of.
func lowered(name recovery.Name) onesided.Word {
	n := onesided.Word(name)
	node, worker, life, number := n>>56, n>>44&(undoWorkers-1), n>>32&(recovery.MaxLives-1), n&(1<<32-1)
	return 1 | node<<1 | worker&127<<9 | notReadable | number<<17 | life<<49 | worker>>7<<61
}

func isLowered(state onesided.Word) bool { return state&notReadable != 0 }

// undo is what a log record has replaced in the replicas here.
type undo struct {
	name   recovery.Name
	at     uint64 // of the record
	end    uint64 // behind it
	writes []replaced
	// left are the writes that could not be applied yet: the table is full as long as deletions are not decided.
	left int
	// ended: the coordinator has said that it is committed, and nothing is locked for it any more.
	ended bool
	word  onesided.Word // its lock word
}

// replaced is a record that an update has replaced. It is of a replica that is a backup, or was one then.
type replaced struct {
	place
	index    int    // of the write
	off      uint64 // of its entry, which has its place as long as it is locked, or not Readable
	old, now layout.Version
	value    []byte // the old one; of a live version
	read     bool   // it was only locked
	primary  bool   // with the lock word of the transaction, not its Readable flag lowered
}

// replace applies a record of the log at once, and notes what that replaces.
func (h *hosted) replace(r *log.Record, at uint64) {
	if !h.e.strategy.Undo || r.Type != recordUpdate || slices.Contains(h.dropped, r.ID) {
		return
	}
	u := h.spare()
	u.name, u.at, u.end, u.ended = recovery.Name(r.ID), at, h.Position(), false
	h.undos = append(h.undos, u)
	if h.e.strategy.LocksInLog {
		h.lockRecords(u, r)
		return
	}
	h.replaceWrites(u, r)
}

// replaceWrites applies the writes of a record that were not applied yet.
func (h *hosted) replaceWrites(u *undo, r *log.Record) {
	body, err := recovery.ReadBody(updateOf(r))
	u.left = 0
	var w recovery.Write
	for i := 0; err == nil; i++ {
		var more bool
		if more, err = body.Next(h.e.Env.Specs, &w); err != nil || !more {
			break
		}
		s := h.e.replica(w.Shard)
		if s == nil || w.Version.Live() && w.Value == nil || u.has(i) {
			continue
		}
		h.e.servedLookUp(s, w.Table, w.Key)
		switch primary := h.e.view.home[w.Shard] == h.e.Env.Node; {
		case primary && h.e.strategy.LogsPrimary:
			h.e.replaceLocked(s, &w, u, i, onesided.Word(body.Word))
		case !primary && !h.e.replace(s, &w, u, i):
			u.left++
		}
	}
	if err != nil {
		h.fail(err)
	}
}

// replaceAll applies what could not be applied, and reports whether nothing is left.
func (h *hosted) replaceAll() (all bool) {
	all = true
	for _, u := range h.undos {
		if u.left == 0 {
			continue
		}
		var r log.Record
		if _, err := h.ReadAt(u.at, &r); err != nil {
			h.fail(err)
			return false
		}
		h.replaceWrites(u, &r)
		all = all && u.left == 0
	}
	return all
}

func (u *undo) has(index int) bool {
	return slices.ContainsFunc(u.writes, func(o replaced) bool { return o.index == index })
}

// spare is an undo without writes.
func (h *hosted) spare() *undo {
	if n := len(h.spares); n > 0 {
		u := h.spares[n-1]
		h.spares = h.spares[:n-1]
		return u
	}
	return new(undo)
}

// next is room for another write.
func (u *undo) next() *replaced {
	if n := len(u.writes); n < cap(u.writes) {
		u.writes = u.writes[:n+1]
	} else {
		u.writes = append(u.writes, replaced{})
	}
	return &u.writes[len(u.writes)-1]
}

// replace applies a write to a backup, lowers the record's Readable flag, and reports false if that is not possible
// now.
func (e *Engine) replace(s *share, w *recovery.Write, u *undo, index int) bool {
	x, was, ok := e.lockToApply(s, w)
	for looks := 0; !ok && looks < lineLooks && x.off != 0 && e.applies(onesided.Word(x.head.State)); looks++ {
		lineword.Pause()
		x, was, ok = e.lockToApply(s, w)
	}
	if !ok {
		return false
	}
	if !newerThan(w.Version, x.head.Version) {
		e.storeState(s, w.Table, x.off, was)
		return true
	}
	e.keepOld(s, w, u, index, &x)
	state := lowered(u.name)
	if e.lacks(readableNotLowered) {
		state = onesided.Unlocked
	}
	e.storeState(s, w.Table, x.off, state)
	return true
}

// replaceLocked applies a write to a primary, whose record the transaction has locked.
func (e *Engine) replaceLocked(s *share, w *recovery.Write, u *undo, index int, word onesided.Word) {
	off, there := e.findHeld(s, &item{table: w.Table, key: w.Key}, word)
	if !there || onesided.Word(onesided.StateOf(s.Memory, uint64(off))) != word {
		return
	}
	x := found{off: uint64(off)}
	x.head.Version = onesided.VersionOf(s.Memory, x.off)
	if newerThan(w.Version, x.head.Version) {
		e.keepOld(s, w, u, index, &x)
	}
}

// keepOld applies a write to a record that is locked, and keeps what it replaces.
func (e *Engine) keepOld(s *share, w *recovery.Write, u *undo, index int, x *found) {
	o := u.next()
	o.place, o.index, o.off, o.old, o.now = w.Place(), index, x.off, x.head.Version, w.Version
	o.read, o.primary = false, false
	if o.value = o.value[:0]; o.old.Live() {
		o.value = slices.Grow(o.value, e.Env.Specs[w.Table-1].ValueBytes)[:e.Env.Specs[w.Table-1].ValueBytes]
		e.copyHeld(s, w.Table, x, o.value)
	}
	e.store(s, x.off, w)
}

// applies reports whether a state word is that of a worker here which applies an update: it holds no lock for long.
func (e *Engine) applies(state onesided.Word) bool {
	return state.Locked() && !isLowered(state) && state.Node() == e.Env.Node && state.Tx() == 0
}

// store writes a record of a replica that is locked, and keeps it so.
func (e *Engine) store(s *share, off uint64, w *recovery.Write) {
	if w.Version.Live() {
		e.publish(nil, s, off, &item{table: w.Table, key: w.Key, version: w.Version, value: w.Value, flags: flagKeep})
		return
	}
	e.storeLine(s, int(off), layout.ValueOffset, nil,
		lastWord{at: layout.VersionOffset, v: uint64(w.Version), ok: true})
}

// swapState changes the state word of an entry if it is the one that is expected.
func (e *Engine) swapState(s *share, off uint64, from, to onesided.Word) bool {
	state := onesided.WordIn(s.Memory, int(off)+layout.StateOffset)
	if !e.Worded() {
		return atomic.CompareAndSwapUint64(state, uint64(from), uint64(to))
	}
	p, w := words.LockLine(s.Memory, int(off))
	if onesided.Word(*state) != from {
		lineword.Restore(p, w)
		return false
	}
	lineword.StoreUnlock(state, uint64(to), p, w)
	return true
}

// swapLowered changes the state word of a record whose Readable flag a transaction has lowered. A worker here that
// applies another update, an older one or one of recovery, may have the record for a moment; then it puts the word back.
func (e *Engine) swapLowered(s *share, x *item, name recovery.Name, to onesided.Word) (off uint64, ok bool) {
	for range lineLooks {
		at, there := e.findHeld(s, x, lowered(name))
		if off = uint64(at); !there || e.swapState(s, off, lowered(name), to) {
			return off, there
		}
		if state := onesided.Word(onesided.StateOf(s.Memory, off)); state != lowered(name) && !e.applies(state) {
			return off, false
		}
		lineword.Pause() // it was put back since, or will be
	}
	return off, false
}

// lockReplica is lockRecord by the applier. It takes a record over whose Readable flag is lowered; was is the state
// that it had.
func (e *Engine) lockReplica(s *share, x *found, t proto.TableID, k proto.Key) (was onesided.Word, c code) {
	if c = e.lockRecord(s, x, t, k, e.applier); c != locked || !isLowered(onesided.Word(x.head.State)) {
		return onesided.Unlocked, c
	}
	was = onesided.Word(x.head.State)
	if !e.swapState(s, x.off, was, e.applier) {
		return was, locked
	}
	x.head, _ = e.headNow(s, x.off)
	if x.present = x.head.Match(uint64(k)); x.present == layout.Stale {
		e.storeState(s, t, x.off, was)
		return was, busy
	}
	return was, done
}

// undoOf is the index of what a transaction has replaced; -1: nothing.
func (h *hosted) undoOf(name recovery.Name) int {
	return slices.IndexFunc(h.undos, func(u *undo) bool { return u.name == name })
}

// forgetUndo ends the undo log of a transaction.
func (h *hosted) forgetUndo(i int) {
	u := h.undos[i]
	u.writes = u.writes[:0]
	h.undos = slices.Delete(h.undos, i, i+1)
	h.spares = append(h.spares, u)
}

// raise raises the Readable flags of a transaction that is committed, and forgets what it has replaced.
func (h *hosted) raise(name recovery.Name) {
	i := h.undoOf(name)
	if i < 0 {
		return
	}
	h.raiseFlags(h.undos[i])
	h.forgetUndo(i)
}

// raise raises a Readable flag, unless a later transaction has lowered it anew.
func (e *Engine) raise(u *undo, o *replaced) {
	s := e.replica(o.Shard)
	if s == nil || e.unlockTaken(s, u, o) {
		return
	}
	_, mine := e.swapLowered(s, o.item(), u.name, onesided.Unlocked)
	if mine && !o.now.Live() {
		e.tombs = append(e.tombs, tomb{s, o.Shard, o.Table, o.Key, o.now})
	}
}

// item names the entry of a record that was replaced.
func (o *replaced) item() *item { return &item{table: o.Table, key: o.Key, at: o.off} }

// raised is raise of the transaction whose record is at a position, which is decided, if its updates were all applied at
// once, and gives the position behind. Of what recovery has to decide it is false.
func (h *hosted) raised(at uint64) (behind uint64, ok bool) {
	if len(h.undos) == 0 {
		return at, false
	}
	u := h.undos[0] // they are in the order of the log
	if u.at != at || u.left > 0 || h.e.view.known[u.name] != nil || slices.Contains(h.dropped, uint64(u.name)) {
		return at, false
	}
	h.raiseFlags(u)
	h.forgetUndo(0)
	return u.end, true
}

// raiseFlags raises the Readable flags of a transaction, unless that was done before: its coordinator may have passed
// its lock word on.
func (h *hosted) raiseFlags(u *undo) {
	if u.ended {
		return
	}
	for i := range u.writes {
		h.e.raise(u, &u.writes[i])
	}
}

// raisePromoted raises the Readable flags of records whose primary this node has become: locks take their place.
func (h *hosted) raisePromoted() {
	e := h.e
	for _, u := range h.undos {
		e.raisePromoted(u)
	}
}

func (e *Engine) raisePromoted(u *undo) {
	for i := range u.writes {
		o := &u.writes[i]
		s := e.replica(o.Shard)
		if s == nil || e.view.home[o.Shard] != e.Env.Node {
			continue
		}
		e.swapLowered(s, o.item(), u.name, onesided.Unlocked)
	}
}

// putBack puts back what a transaction has replaced that is aborted.
func (h *hosted) putBack(name recovery.Name) {
	i := h.undoOf(name)
	if i < 0 {
		return
	}
	h.e.putBackAll(h.undos[i])
	h.forgetUndo(i)
}

// putBackAll puts back what was replaced, and gives back what was locked.
func (e *Engine) putBackAll(u *undo) {
	for j := len(u.writes) - 1; j >= 0 && !e.lacks(noUndo); j-- {
		e.putBack(u, &u.writes[j])
		if o := &u.writes[j]; o.primary && !o.read && e.replica(o.Shard) != nil {
			e.unlockTaken(e.replica(o.Shard), u, o)
		}
	}
}

// putBack puts one record back. At a primary, which was promoted, it stays locked for the transaction.
func (e *Engine) putBack(u *undo, o *replaced) {
	s := e.replica(o.Shard)
	if s == nil || o.read && e.unlockTaken(s, u, o) {
		return
	}
	x := item{table: o.Table, key: o.Key}
	off, mine := e.swapLowered(s, &x, u.name, e.applier)
	if !mine {
		at, there := e.findHeld(s, &x, lowered(u.name))
		if off = uint64(at); !there {
			return
		}
		f := found{off: off}
		mine = e.lockRecord(s, &f, o.Table, o.Key, e.applier) == done
		for looks := 0; !mine && looks < lineLooks && e.applies(onesided.Word(f.head.State)); looks++ {
			lineword.Pause()
			mine = e.lockRecord(s, &f, o.Table, o.Key, e.applier) == done
		}
	}
	if onesided.VersionOf(s.Memory, off) != o.now { // it is not of this transaction any more
		if mine {
			e.unlockEntry(s, o.Table, off)
		}
		return
	}
	old := recovery.Write{Shard: o.Shard, Table: o.Table, Key: o.Key, Version: o.old, Value: o.value}
	e.store(s, off, &old)
	switch {
	case !mine:
	case o.old.Live() || o.old.Trace() != 0:
		e.unlockEntry(s, o.Table, off)
		if !o.old.Live() {
			e.tombs = append(e.tombs, tomb{s, o.Shard, o.Table, o.Key, o.old})
		}
	case e.UnlinkAt(s, o.Table, o.Key, uint64(e.applier), onesided.HostTries) != onesided.Done || !e.Worded():
		e.unlockEntry(s, o.Table, off)
	}
}

// undecided reports whether a replica here has a write only because its log record was applied at once: that says
// no more than the record does.
func (v *view) undecided(name recovery.Name, w *recovery.Write, now layout.Version) bool {
	c := int(name.Node())
	if c >= len(v.e.hosts) || v.e.hosts[c] == nil || now != w.Version {
		return false
	}
	h := v.e.hosts[c]
	i := h.undoOf(name)
	return i >= 0 && !h.undos[i].ended && slices.ContainsFunc(h.undos[i].writes, func(o replaced) bool {
		return !o.read && o.place == w.Place()
	})
}

// replacedAll reports whether the update of a transaction was applied here when its log record came. It may have been
// deleted and forgotten since, so nothing of it is written again.
func (v *view) replacedAll(name recovery.Name) bool {
	c := int(name.Node())
	if c >= len(v.e.hosts) || v.e.hosts[c] == nil {
		return false
	}
	h := v.e.hosts[c]
	i := h.undoOf(name)
	return i >= 0 && h.undos[i].left == 0
}

// askedAlone reports whether the transaction is declared as one read, which would have to be validated at the primary if
// it took place at a backup: then one request reads it there.
func (t *tx) askedAlone() bool {
	return t.lone && len(t.Records) == 1 && !t.peeks && !t.e.strategy.LocksAll && t.Records[0].Mode == proto.ModeRead &&
		!t.e.lacks(backupUnvalidated)
}

// readBackup reads a record at a backup on the own machine, and reports whether there was a value to be read (§4.3).
// VALIDATE compares it at the primary; of a transaction of this one read only if reads are not locked (readsAlone). While
// its Readable flag is lowered the record is read at the primary, and so it is while this node knows of transactions that
// are undecided.
func (t *tx) readBackup(r *record) bool {
	e, v := t.e, t.e.view
	shard := int(r.At.Shard)
	if !e.strategy.Undo || e.strategy.RemoteBackups || v == nil || shard >= len(v.whole) || !v.whole[shard] ||
		r.Node == e.Env.Node || !e.Env.Serving.Settled() || t.askedAlone() {
		return false
	}
	s := e.replica(r.At.Shard)
	if s == nil {
		return false
	}
	t.F.Charge(recordCostPs)
	e.lookedUp(s, r.Table, r.Key)
	off, there := s.Tables[r.Table-1].Find(uint64(r.Key))
	if !there || !onesided.VersionOf(s.Memory, uint64(off)).Live() {
		return false // the primary is asked whether it is absent: nothing has to be proved here
	}
	x, c := e.readHere(t.F, s, &item{table: r.Table, flags: flagRead, key: r.Key, at: uint64(off)}, r.Value)
	if x.off == 0 || x.present != layout.Live || c != done && (c != locked || !e.lacks(readableIgnored)) {
		return false
	}
	r.Own.Off, r.Own.Found, r.Own.Elsewhere = 0, true, true
	r.Take(x.version(), true)
	return true
}
