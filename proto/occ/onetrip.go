package occ

import (
	"errors"
	"fmt"
	"slices"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/onesided"
	"drtmd/proto/recovery"
	"drtmd/store/layout"
	"drtmd/store/log"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
)

// Strategies with LocksInLog (Dandelion's Dnl-1). A transaction that changes anything has one round: each replica of
// each record gets the log record, locks what that names, and applies the update. If all do, the transaction is
// committed; otherwise all are told to put back what they have replaced. A record is decided when all have confirmed
// how the transaction ended. Recovery commits a transaction whose record all replicas have that live.

// locksInLog reports whether LOG locks.
func (e *Engine) locksInLog() bool { return e.strategy.LocksInLog && e.backups != nil }

// logsRecord reports whether a record of the transaction is named in its log records.
func (t *tx) logsRecord(r *record) bool { return r.Changes() || r.Loaded && t.e.locksInLog() }

// write is a record of the transaction as logs name it, with its value.
func (t *tx) write(r *record) recovery.Write {
	w := recovery.Write{Shard: r.At.Shard, Table: r.Table, Key: r.Key, Version: r.Version, Read: !r.Changes()}
	if w.Read {
		return w
	}
	if w.Version = r.Next(); r.Is {
		w.Value = r.Value
	}
	return w
}

// commitInLog is Commit.
func (t *tx) commitInLog() error {
	err := t.reserve()
	if err == nil {
		err = t.lockWrites() // at the own node
	}
	if err == nil && !t.mayTell() {
		err = t.UnreachableAt(t.e.Env.Node, rpc.ErrPeerGone)
	}
	sent := false
	if err == nil {
		sent, err = t.log()
	}
	if err != nil {
		return t.notLogged(sent, "replicas", err)
	}
	if t.denied != nil {
		return t.abortLogged()
	}
	return t.carryOut()
}

// abortLogged ends a transaction without effect whose records are in logs.
func (t *tx) abortLogged() error {
	v, b := t.e.view, t.e.backups
	reason := t.denied
	if err := v.await(t.F); err != nil {
		return err // the node was killed
	}
	for t.epoch != v.epoch && t.inLog {
		r := v.run(t.F)
		err := r.settle(t.noteOwn(), false)
		r.end()
		switch {
		case err == nil:
			t.letGo()
			t.endLog()
		case !errors.Is(err, errStopped):
			return err
		default:
			if err := v.await(t.F); err != nil {
				return err
			}
		}
	}
	o := history.Aborted
	if t.inLog {
		v.busy++
		t.asked = 0
		t.askEnds(false)
		t.send(proto.PhaseCommit)
		t.await(proto.PhaseCommit)
		t.countTrips(proto.PhaseCommit)
		t.ended()
		t.e.putBackAll(&t.own)
		t.own.writes = t.own.writes[:0]
		if len(t.unended) > 0 && !t.e.lacks(endUnconfirmed) {
			b.owing = append(b.owing, owing{t.noteOwn(), slices.Clone(t.logs), slices.Clone(t.unended), false})
			t.e.Counters.Unknown++
			o, reason = history.Unknown, fmt.Errorf("%w: not all replicas know that it is aborted", proto.ErrUnknownOutcome)
		} else {
			b.decide(t.logs)
		}
		t.logs, t.inLog = t.logs[:0], false
		t.forgetWrites()
		t.releaseHere() // before the view may change: recovery would give the locks of what is owing back
		t.finishInPhase(o)
		v.end()
		return reason
	}
	t.finish(o)
	return reason
}

// sendsEnds reports whether COMMIT tells hosts by name that the transaction is committed. If the view has changed,
// recovery has told them.
func (t *tx) sendsEnds() bool { return t.inLog && t.e.locksInLog() && t.epoch == t.e.view.epoch }

// askEnds adds the messages that say how the transaction ended.
func (t *tx) askEnds(commit bool) {
	t.unended = t.unended[:0]
	for i := range t.logs {
		to := t.logs[i].to
		if to.gone {
			continue
		}
		t.unended = append(t.unended, to.node)
		c := t.newCall(t.e.messengers[t.e.strategy.by(proto.PhaseLog)], TypeEnd, to.node)
		if c.packed {
			c.req = packEnd(c.req, t.name, commit)
		} else {
			c.req = appendEnd(c.req, t.name, commit)
		}
	}
}

func appendEnd(b []byte, name recovery.Name, commit bool) []byte {
	b = le.AppendUint64(b, uint64(name))
	if commit {
		return le.AppendUint64(b, 1)
	}
	return le.AppendUint64(b, 0)
}

// ended takes the answers. When all have confirmed it, the update is everywhere.
func (t *tx) ended() {
	for _, c := range t.calls[:t.asked] {
		if c.typ != TypeEnd || c.err != nil || c.head.code != done {
			continue
		}
		t.unended = slices.DeleteFunc(t.unended, func(n proto.NodeID) bool { return n == c.node })
	}
	if len(t.unended) > 0 {
		return
	}
	for i := range t.Records {
		if r := &t.Records[i]; r.Node != t.e.Env.Node {
			r.Own.Stored = r.Changes()
		}
	}
}

// end tells a node that was not reached how a transaction ended, and reports whether all know it. While it waits,
// others append to the list.
func (b *backups) end(f *fiber.Fiber, at int, peer proto.NodeID) bool {
	o := b.owing[at]
	i := slices.Index(o.ends, peer)
	if i < 0 {
		return len(o.ends) == 0
	}
	s := b.e.Env.Peers[peer].Session
	if s == nil {
		return false
	}
	resp := make([]byte, headBytes)
	n, err := s.Call(f, TypeEnd, appendEnd(nil, o.name, o.commit), resp, 0)
	if h, _, ok := takeHead(resp[:n], 1); err != nil || !ok || h.code != done {
		return false
	}
	o.ends = slices.Delete(o.ends, i, i+1)
	b.owing[at].ends = o.ends
	return len(o.ends) == 0
}

// refusedInLog takes a host's refusal to lock, and reports whether the answer is one.
func (t *tx) refusedInLog(c *call) bool {
	if !t.e.locksInLog() {
		return false
	}
	switch c.head.code {
	case locked:
		t.denied = first(t.denied, proto.Aborting(proto.ReasonLocked))
	case changed, full, moved:
		t.denied = first(t.denied, c.head.code.err())
	default:
		return false
	}
	if t.e.lacks(refusalIgnored) {
		t.denied = nil
	}
	return true
}

// lockOwnBackups locks what the transaction needs in backups on the own machine, which get no message.
func (t *tx) lockOwnBackups() error {
	e := t.e
	t.own.name, t.own.word, t.own.writes = t.name, t.word, t.own.writes[:0]
	if !e.locksInLog() {
		return nil
	}
	for i := range t.Records {
		r := &t.Records[i]
		s := e.replica(r.At.Shard)
		if s == nil || !t.logsRecord(r) || r.Node == e.Env.Node {
			continue
		}
		w := t.write(r)
		w.Was = r.Version
		if c := e.takeBackup(s, &w, &t.own, i); c != done {
			e.putBackAll(&t.own)
			t.own.writes = t.own.writes[:0]
			if c == locked {
				return proto.Aborting(proto.ReasonLocked)
			}
			return c.err()
		}
	}
	return nil
}

// raiseOwn unlocks what a committed transaction has locked in backups on the own machine.
func (t *tx) raiseOwn() {
	for i := range t.own.writes {
		t.e.raise(&t.own, &t.own.writes[i])
	}
	t.own.writes = t.own.writes[:0]
}

// putBackOwn is putBack of a transaction of this engine.
func (v *view) putBackOwn(name recovery.Name) {
	for _, t := range v.e.made {
		if t.inLog && t.name == name {
			v.e.putBackAll(&t.own)
			t.own.writes = t.own.writes[:0]
		}
	}
}

// lockRecords locks what a log record names in the replicas here and applies its update: all of it, or nothing.
func (h *hosted) lockRecords(u *undo, r *log.Record) {
	body, err := recovery.ReadBody(updateOf(r))
	u.word, u.left = onesided.Word(body.Word), 0
	c := done
	var w recovery.Write
	for i := 0; err == nil && c == done; i++ {
		var more bool
		if more, err = body.Next(h.e.Env.Specs, &w); err != nil || !more {
			break
		}
		switch s := h.e.replica(w.Shard); {
		case s == nil:
		case h.e.view.home[w.Shard] != h.e.Env.Node:
			c = h.e.takeBackup(s, &w, u, i)
		case !h.e.Env.Serving.Serves(w.Shard) && !h.e.lacks(serveEarly):
			c = moved
		default:
			c = h.e.takePrimary(s, &w, u, i)
		}
	}
	if err != nil {
		h.fail(err)
	}
	switch {
	case c != done:
		h.putBack(u.name)
		h.refused, h.why = u.name, c
	case !h.e.lacks(lockUnrecorded):
		return
	}
	h.dropped = append(h.dropped, r.ID)
}

// answerTo is the answer to a log record that is there.
func (h *hosted) answerTo(name recovery.Name) code {
	switch {
	case !h.e.strategy.LocksInLog || h.e.lacks(lockUnrecorded) && h.refused != name:
		return done
	case h.refused == name:
		return h.why
	case slices.Contains(h.dropped, uint64(name)):
		return locked
	}
	return done
}

// takePrimary locks a record at its primary, at the version that was read.
func (e *Engine) takePrimary(s *share, w *recovery.Write, u *undo, index int) code {
	i := item{table: w.Table, key: w.Key, flags: flagLock | flagCompare, version: w.Was}
	x, c := e.acquireHere(nil, s, &i, u.word, nil)
	if c != done {
		if c == busy {
			c = changed
		}
		return c
	}
	e.taken(s, w, u, index, &x)
	u.writes[len(u.writes)-1].primary = true
	return done
}

// takeBackup locks a record of a backup, unless it is newer than what was read: it may be older while it is filled.
func (e *Engine) takeBackup(s *share, w *recovery.Write, u *undo, index int) code {
	var x found
	c := busy
	if off, there := s.Tables[w.Table-1].Find(uint64(w.Key)); there {
		x.off = uint64(off)
		c = e.lockRecord(s, &x, w.Table, w.Key, e.applier)
	}
	if c == busy {
		off, made := e.EnsureAt(s, w.Table, w.Key)
		if made == onesided.Full && e.reclaimDeleted() {
			off, made = e.EnsureAt(s, w.Table, w.Key)
		}
		if made == onesided.Full {
			return full
		}
		if made != onesided.Done {
			return changed
		}
		x.off = uint64(off)
		c = e.lockRecord(s, &x, w.Table, w.Key, e.applier)
	}
	if c != done {
		return locked
	}
	now := x.head.Version
	stale := !w.Read && !newerThan(w.Version, now) ||
		w.Read && (now.Live() && now > w.Version || w.Version.Live() && now.Trace() > w.Version)
	if stale && !e.lacks(backupAnyVersion) {
		e.giveBack(s, x.off, w.Place(), now)
		return changed
	}
	e.taken(s, w, u, index, &x)
	e.storeState(s, w.Table, x.off, lowered(u.name))
	return done
}

// taken notes a record that is locked, and applies the update.
func (e *Engine) taken(s *share, w *recovery.Write, u *undo, index int, x *found) {
	if !w.Read {
		e.keepOld(s, w, u, index, x)
		return
	}
	o := u.next()
	o.place, o.index, o.off, o.value = w.Place(), index, x.off, o.value[:0]
	o.old, o.now = x.head.Version, x.head.Version
	o.read, o.primary = true, false
}

// giveBack unlocks an entry of a backup that the applier has locked. One that says nothing but that its key is absent
// goes. A tombstone may have been passed over while it was locked, when deleted records were reclaimed: it is noted anew.
func (e *Engine) giveBack(s *share, off uint64, p place, now layout.Version) {
	if !now.Live() && now.Trace() == 0 &&
		e.UnlinkAt(s, p.Table, p.Key, uint64(e.applier), onesided.HostTries) == onesided.Done && e.Worded() {
		return
	}
	e.unlockEntry(s, p.Table, off)
	if !now.Live() && now.Trace() != 0 {
		e.tombs = append(e.tombs, tomb{s, p.Shard, p.Table, p.Key, now})
	}
}

// unlockTaken unlocks a record that was locked with the lock word, or only read, and reports whether it is one.
func (e *Engine) unlockTaken(s *share, u *undo, o *replaced) bool {
	switch {
	case o.primary:
		e.releaseHere(nil, s, o.item(), u.word)
		return true
	case !o.read:
		return false
	}
	if off, mine := e.swapLowered(s, o.item(), u.name, e.applier); mine {
		e.giveBack(s, off, o.place, onesided.VersionOf(s.Memory, off))
	}
	return true
}

// serveEnds has transactions end whose records are in logs here.
func (e *Engine) serveEnds() {
	if !e.strategy.LocksInLog {
		return
	}
	e.Env.Port.HandleFrom(TypeEnd, func(c *rpc.Caller, req, resp []byte) (int, error) {
		if len(req) != 2*wordBytes {
			return 0, errRequest
		}
		return putAnswer(resp, e.serveEnd(c, recovery.Name(le.Uint64(req)), le.Uint64(req[8:]) != 0))
	})
	e.handlePacked(TypeEnd, func(c *rpc.Caller, req, resp []byte) ([]byte, error) {
		number, commit, ok := unpackEnd(req)
		if !ok {
			return nil, errRequest
		}
		return packAnswer(resp, e.serveEnd(c, nameOf(c, number), commit))
	})
}

// serveEnd has a transaction of the caller end. It refuses to end one of another coordinator.
func (e *Engine) serveEnd(c *rpc.Caller, name recovery.Name, commit bool) logAnswer {
	if name.Node() != proto.NodeID(c.Node) || name.Worker() != int(c.Worker) {
		return logAnswer{err: errRequest}
	}
	return e.serveLog(c, func(h *hosted) (code, error) {
		h.read()
		h.end(name, commit)
		return done, nil
	})
}

// end unlocks what is locked for a transaction.
func (h *hosted) end(name recovery.Name, commit bool) {
	i := h.undoOf(name)
	switch {
	case !commit:
		v := h.e.view
		n := v.known[name] // this node has taken the view into use when the record was there
		if v.forget(name); n != nil {
			v.over[name] = true
		}
		h.putBack(name)
		if n != nil {
			v.unlockHere(n)
		}
		if !slices.Contains(h.dropped, uint64(name)) && !h.passed(name) {
			h.dropped = append(h.dropped, uint64(name))
		}
	case i >= 0 && h.e.lacks(endWithoutValue):
		for j := range h.undos[i].writes {
			if o := &h.undos[i].writes[j]; !o.primary {
				h.e.putBack(h.undos[i], o)
			}
		}
		fallthrough
	case i >= 0:
		h.raiseFlags(h.undos[i])
		h.undos[i].ended = true
	}
}

// ended reports whether this node knows that a transaction is committed whose record it has, and has unlocked what was
// locked for it: others may have locked it since.
func (v *view) ended(name recovery.Name) bool {
	c := int(name.Node())
	if c >= len(v.e.hosts) || v.e.hosts[c] == nil {
		return false
	}
	i := v.e.hosts[c].undoOf(name)
	return i >= 0 && v.e.hosts[c].undos[i].ended
}

// applied reports whether a replica votes that it has the update.
func (g *gone) applied() bool {
	return slices.ContainsFunc(g.votes, func(v recovery.Vote) bool { return v.Seen == recovery.SeenApplied })
}

// allVoted reports whether every replica that lives has the record of a transaction: each has locked what it names.
func (v *view) allVoted(g *gone) bool {
	for _, s := range g.shards() {
		for n, lives := range v.lives {
			node := proto.NodeID(n)
			held := v.backs[s][n].was(g.epoch) || v.home[s] == node && v.moved[s] <= g.epoch
			if lives && held && !slices.ContainsFunc(g.votes, func(o recovery.Vote) bool {
				return o.Shard == s && o.Node == node
			}) {
				return false
			}
		}
	}
	return true
}
