package occ

import (
	"bytes"
	"slices"

	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/proto/recovery"
	"drtmd/store/layout"
	"drtmd/store/log"
)

// noted is a transaction that is not decided, as a node knows it.
type noted struct {
	name   recovery.Name
	word   onesided.Word
	writes []recovery.Write // all; with the values of shards that the node holds
	// logged: the node has a record of it, and so the values for its replicas. Otherwise it has only locked
	// records for it.
	logged bool
	epoch  uint64 // of its LOG
	dead   bool   // its coordinator is
	own    bool   // its coordinator is this engine
}

// writesTo reports whether the transaction writes to a shard.
func (n *noted) writesTo(s proto.ShardID) bool {
	return slices.ContainsFunc(n.writes, func(w recovery.Write) bool { return w.Shard == s })
}

// shards are those that the transaction writes to, in order.
func (n *noted) shards() (all []proto.ShardID) {
	for i := range n.writes {
		all = append(all, n.writes[i].Shard)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// merge takes values over that another node has.
func (n *noted) merge(o *noted) {
	for i := range n.writes {
		w := &n.writes[i]
		for j := range o.writes {
			if x := &o.writes[j]; w.Value == nil && x.Value != nil && x.Table == w.Table && x.Key == w.Key {
				w.Value = x.Value
			}
		}
	}
}

// noteOf decodes the record of a transaction, with copies of the values.
func (e *Engine) noteOf(name recovery.Name, body []byte) (*noted, error) {
	b, err := recovery.ReadBody(body)
	if err != nil {
		return nil, err
	}
	n := &noted{name: name, word: onesided.Word(b.Word)}
	var w recovery.Write
	for {
		ok, err := b.Next(e.Env.Specs, &w)
		if err != nil || !ok {
			return n, err
		}
		if int(w.Shard) >= len(e.Env.Peers) {
			return nil, recovery.ErrRecord
		}
		w.Value, w.Was = bytes.Clone(w.Value), 0
		n.writes = append(n.writes, w)
	}
}

// noteOwn is a transaction of this engine, with all values.
func (t *tx) noteOwn() *noted {
	n := &noted{name: t.name, word: t.word, own: true, logged: true, epoch: t.epoch}
	for i := range t.Records {
		r := &t.Records[i]
		if !t.logsRecord(r) {
			continue
		}
		w := t.write(r)
		w.Value = bytes.Clone(w.Value)
		n.writes = append(n.writes, w)
	}
	return n
}

// note takes a transaction among the known ones.
func (v *view) note(n *noted) *noted {
	if old := v.known[n.name]; old != nil {
		old.merge(n)
		old.logged = old.logged || n.logged
		old.dead, old.own = old.dead || n.dead, old.own || n.own
		return old
	}
	v.known[n.name] = n
	v.e.Env.Serving.Noted(1)
	i, _ := slices.BinarySearch(v.names, n.name)
	v.names = slices.Insert(v.names, i, n.name)
	return n
}

// forget takes a transaction from the known ones. Records stay locked for it until they are let go.
func (v *view) forget(name recovery.Name) {
	if v.known[name] == nil {
		return
	}
	delete(v.known, name)
	v.e.Env.Serving.Noted(-1)
	if i, ok := slices.BinarySearch(v.names, name); ok {
		v.names = slices.Delete(v.names, i, i+1)
	}
}

// scan notes what is in the hosted logs and not decided, and the own transactions that have logged.
func (v *view) scan() {
	e := v.e
	for c, h := range e.hosts {
		if h != nil {
			v.scanLog(proto.NodeID(c), h)
		}
	}
	for _, t := range e.made {
		if t.inLog {
			v.note(t.noteOwn())
		}
	}
	v.scanned = v.epoch
}

// scanLog notes the records of a log. That of a node that is gone is made fit for its next life.
func (v *view) scanLog(c proto.NodeID, h *hosted) {
	if !v.lives[c] {
		// What is there in part is of no transaction: nobody was told that it had arrived.
		_, err := h.Recover(func(*log.Record) error { return nil })
		if err != nil {
			return
		}
	}
	var r log.Record
	for at := h.Head(); at < h.Position(); {
		behind, err := h.ReadAt(at, &r)
		if err != nil {
			h.fail(err)
			return
		}
		at = behind
		if r.Type != recordUpdate || slices.Contains(h.dropped, r.ID) {
			continue
		}
		n, err := v.e.noteOf(recovery.Name(r.ID), updateOf(&r))
		if err != nil {
			h.fail(err)
			return
		}
		n.logged, n.dead, n.epoch = true, !v.lives[c], uint64(r.Epoch)
		v.note(n)
	}
}

// keep locks the records of a shard for a transaction that writes to it, while it is not decided, and reports
// false if that is not possible now.
func (v *view) keep(n *noted, shard proto.ShardID) bool {
	s := v.e.replica(shard)
	if v.ended(n.name) {
		return true
	}
	for i := range n.writes {
		if w := &n.writes[i]; w.Shard == shard && s != nil && !v.keepOne(s, w, n) {
			return false
		}
	}
	return true
}

// keepOne locks a record of a replica for a transaction, or lets the lock that it has for others last for it as well.
func (v *view) keepOne(s *share, w *recovery.Write, n *noted) bool {
	k, p := v.lockKept(), w.Place()
	defer k.Unlock()
	if k.Index(p, n.name) >= 0 {
		return true
	}
	if len(k.Of(p)) == 0 {
		if !v.lock(s, w, n.word) {
			return false
		}
		v.count.Locked++
	}
	k.Add(p, recovery.Keeper{Name: n.name, Word: uint64(n.word)})
	return true
}

// lockKept gives the records that are kept locked, for a moment.
func (v *view) lockKept() *recovery.Kept {
	k := &v.e.Env.Serving.Kept
	k.Lock()
	return k
}

// keeps reports whether a record that a transaction writes is kept locked for it.
func (v *view) keeps(n recovery.Name, w *recovery.Write) bool {
	k := v.lockKept()
	defer k.Unlock()
	return k.Index(w.Place(), n) >= 0
}

// lock locks a record of a replica here with a word, whether there is a record or not.
func (v *view) lock(s *share, w *recovery.Write, word onesided.Word) bool {
	e := v.e
	off, c := e.EnsureAt(s, w.Table, w.Key)
	if c != onesided.Done {
		return false
	}
	x := found{off: off}
	return e.lockRecord(s, &x, w.Table, w.Key, word) == done || onesided.Word(x.head.State) == word
}

// let gives a record back that was locked for a transaction, to the next one for which it stays locked. It reports
// false if that is not possible now.
func (v *view) let(p place, name recovery.Name) bool {
	k := v.lockKept()
	defer k.Unlock()
	if v.swapping() {
		return false
	}
	v.letLocked(k, p, name)
	return true
}

// letLocked is let.
func (v *view) letLocked(k *recovery.Kept, p place, name recovery.Name) {
	e := v.e
	i := k.Index(p, name)
	s := e.replica(p.Shard)
	if i < 0 || s == nil {
		return
	}
	word := onesided.Word(k.Of(p)[0].Word) // that the record is locked with
	x := item{table: p.Table, key: p.Key}
	if left := k.Remove(p, i); len(left) > 0 {
		if off, there := e.findHeld(s, &x, word); there && i == 0 {
			e.storeState(s, p.Table, uint64(off), onesided.Word(left[0].Word))
		}
		return
	}
	off, there := e.findHeld(s, &x, word)
	if gone := onesided.VersionOf(s.Memory, uint64(off)); there && !gone.Live() && gone.Trace() != 0 {
		// An older update may still be in a log here, of a transaction that another worker has not ended.
		e.unlockEntry(s, p.Table, uint64(off))
		e.tombs = append(e.tombs, tomb{s, p.Shard, p.Table, p.Key, gone})
		return
	}
	e.releaseHere(nil, s, &x, word)
}

// commitKept writes an update at a shard's primary here whose record is kept locked for its transaction, and gives
// the lock back, unless that is not possible now. kept says whether the record is kept for it.
func (v *view) commitKept(s *share, n *noted, w *recovery.Write) (kept, done bool) {
	e, k, p := v.e, v.lockKept(), w.Place()
	defer k.Unlock()
	if k.Index(p, n.name) < 0 {
		return false, false
	}
	if v.swapping() {
		return true, false
	}
	word := onesided.Word(k.Of(p)[0].Word)
	i := itemOf(w, flagKeep)
	off, there := e.findHeld(s, &i, word)
	if !w.Read && there && newerThan(w.Version, onesided.VersionOf(s.Memory, uint64(off))) && !v.replacedAll(n.name) {
		e.releaseHere(nil, s, &i, word)
	}
	v.letLocked(k, p, n.name)
	return true, true
}

// commitHere writes an update at a shard's primary here, and gives the lock back. It reports false if that is not
// possible now.
func (v *view) commitHere(n *noted, w *recovery.Write) bool {
	e := v.e
	s := e.replica(w.Shard)
	if s == nil {
		return true
	}
	if v.freed(n, w.Shard) {
		return v.let(w.Place(), n.name)
	}
	if kept, done := v.commitKept(s, n, w); kept {
		return done
	}
	if v.swapping() {
		return false // of this record, if it was asked before
	}
	x, ok := e.find(s, &item{table: w.Table, key: w.Key})
	if !ok {
		return false
	}
	if w.Read {
		return x.off == 0 || onesided.Word(x.head.State) != n.word ||
			e.releaseHere(nil, s, &item{table: w.Table, key: w.Key}, n.word) == done
	}
	half := x.head.Version == w.Version
	if x.off == 0 || onesided.Word(x.head.State) != n.word || !half && !v.newer(n, w, x.head.Version) {
		return true // it is there already
	}
	i := itemOf(w, 0)
	if half && n.dead {
		// A NIC writes the version before the value, and may have come no further. Or all was written, and this is
		// the lock of the next attempt, with the same word, of the coordinator that is dead: that one's update needs
		// it, or clean gives it back.
		i.flags |= flagKeep
	}
	return e.releaseHere(nil, s, &i, n.word) == done
}

// carriedOut writes a known transaction at all replicas here whose coordinator has told that it is decided. It
// reports false if that is not possible now.
func (v *view) carriedOut(name recovery.Name) bool {
	n := v.known[name]
	for i := range n.writes {
		w := &n.writes[i]
		switch {
		case v.e.replica(w.Shard) == nil:
		case v.home[w.Shard] != v.e.Env.Node:
			if !v.backUp(n, w) {
				return false
			}
		case v.restoring[w.Shard]:
			return false
		case v.keeps(name, w) && !v.commitHere(n, w):
			return false
		}
	}
	if v.swapping() {
		return false
	}
	v.forget(name)
	return true
}

// backUp writes an update that is decided at a backup here, and reports false if that is not possible now. A backup
// that was made after LOG is filled from the primary, which had the record locked until it had the update. That may
// be deleted and forgotten since: nothing of it may be left then.
func (v *view) backUp(n *noted, w *recovery.Write) bool {
	s := v.e.replica(w.Shard)
	return w.Read || s == nil || v.freed(n, w.Shard) || v.replacedAll(n.name) || !v.backed(w.Shard, n.epoch) ||
		v.e.apply(s, w)
}

// unlockHere gives the locks of a transaction back that is aborted. It reports false if that is not possible now.
func (v *view) unlockHere(n *noted) bool {
	e := v.e
	for i := range n.writes {
		w := &n.writes[i]
		switch s := e.replica(w.Shard); {
		case s == nil || v.home[w.Shard] != e.Env.Node:
		case v.keeps(n.name, w):
			if !v.let(w.Place(), n.name) {
				return false
			}
		default:
			i := item{table: w.Table, key: w.Key}
			if x, ok := e.find(s, &i); ok && x.off != 0 && onesided.Word(x.head.State) == n.word {
				e.releaseHere(nil, s, &i, n.word)
			}
		}
	}
	return !v.swapping()
}

// freed reports whether this node had a record of the transaction in a log, for a shard, and has freed it: the
// transaction was committed, and what it has written is in the replica here, or was deleted since, so that nothing
// of it may be left.
func (v *view) freed(n *noted, s proto.ShardID) bool {
	c := int(n.name.Node())
	if c >= len(v.e.hosts) || v.e.hosts[c] == nil {
		return false
	}
	h := v.e.hosts[c]
	return v.holds[s] && v.held(n, s) && h.passed(n.name) && !slices.Contains(h.dropped, uint64(n.name))
}

// passed reports whether the log's records go on behind that of a transaction, if there was one: the names of one
// life rise, and there is no gap.
func (h *hosted) passed(name recovery.Name) bool {
	if !name.SameLife(h.newest) || name > h.newest || h.Head() == h.Position() {
		return name.SameLife(h.newest) && name <= h.newest
	}
	var oldest log.Record
	_, err := h.ReadAt(h.Head(), &oldest)
	return err == nil && name.SameLife(recovery.Name(oldest.ID)) && name < recovery.Name(oldest.ID)
}

// applied reports whether a replica here has a write of a transaction, or a newer one.
func (v *view) applied(n *noted, w *recovery.Write) bool {
	s := v.e.replica(w.Shard)
	if s == nil {
		return false
	}
	if v.freed(n, w.Shard) || v.carriedBefore(n.name) != nil {
		return true
	}
	if v.e.locksInLog() { // others apply updates before they know whether they can commit: versions say nothing
		return v.ended(n.name)
	}
	x, ok := v.e.find(s, &item{table: w.Table, key: w.Key})
	if ok && v.unlockedSince(n, w, &x) {
		return true
	}
	return ok && x.off != 0 && !v.newer(n, w, x.head.Version) && !v.undecided(n.name, w, x.head.Version)
}

// unlockedSince reports whether a record's lock was given back since the transaction logged, by a primary that has been
// it since. So the update was here: an abort drops all records of the transaction before it gives the first lock back.
// What was here since, or that the record was deleted and forgotten, does not matter. With undo logs the update comes
// before it is decided, and the lock has other words meanwhile.
func (v *view) unlockedSince(n *noted, w *recovery.Write, x *found) bool {
	return v.primarySince(n, w.Shard) && !w.Read && !v.e.strategy.Undo && !v.e.lacks(unlockUnseen) &&
		(x.off == 0 || onesided.Word(x.head.State) != n.word)
}

// primarySince reports whether this node is the primary of a shard, and was it when the transaction logged.
func (v *view) primarySince(n *noted, s proto.ShardID) bool {
	return v.home[s] == v.e.Env.Node && v.moved[s] <= n.epoch
}

// newer reports whether an update is newer than what an entry here says. At a primary that has been it since the
// transaction logged, an entry that was made for its key since has a later incarnation than the update: the record was
// deleted and forgotten, and the coordinator, now dead, locked its key for another transaction with the same word.
func (v *view) newer(n *noted, w *recovery.Write, entry layout.Version) bool {
	if v.primarySince(n, w.Shard) && !v.e.lacks(forgottenRemade) {
		return w.Version > entry
	}
	return newerThan(w.Version, entry)
}

// itemOf is the release of a record with a write. A value that no node has is lost: more nodes have died than may.
// Then the record stays as it is.
func itemOf(w *recovery.Write, more flags) item {
	if w.Version.Live() && w.Value == nil {
		return item{table: w.Table, key: w.Key, flags: more}
	}
	i := item{table: w.Table, key: w.Key, flags: flagWrite | more, version: w.Version}
	if w.Value != nil {
		i.flags, i.value = i.flags|flagValue, w.Value
	}
	return i
}
