package occ

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/proto/protocol"
	"drtmd/proto/recovery"
	"drtmd/store/layout"
	"drtmd/store/log"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
)

// The host's side of logs: it reads what others append, applies to its replicas what it knows to be decided,
// and frees the room.

// hosted is the log that a worker of another node appends to here.
type hosted struct {
	*protocol.Log
	e       *Engine
	decided uint64        // everything before is
	newest  recovery.Name // of the last record that was read
	dropped []uint64      // IDs of updates that were taken back, and are not truncated yet
	undos   []*undo       // what undecided updates have replaced, in the order of the log (undo.go)
	spares  []*undo
	refused recovery.Name // the last record that could not be locked (onetrip.go), and why
	why     code
	watch   *fiber.Watch
	from    proto.NodeID // that appends
	// broken is why nothing is applied any more: the log has what no correct node appends.
	broken error
}

// errLog is of a log that has what no correct node appends.
var errLog = errors.New("the log that a node keeps here is damaged; all nodes must run the same version")

// fail ends the log: nothing that it has is applied, its writer is told so, and this node decides about no
// transaction of the dead, as what it says of them may be wrong.
func (h *hosted) fail(err error) {
	if h.broken == nil {
		h.broken = fmt.Errorf("log of node %d: %w: %w", h.from, errLog, err)
		h.e.note(h.broken)
	}
}

// brokenLog is the error of a log that has failed; nil: none has.
func (e *Engine) brokenLog() error {
	for _, h := range e.hosts {
		if h != nil && h.broken != nil {
			return h.broken
		}
	}
	return nil
}

// host begins to read the logs that are kept here.
func (e *Engine) host() error {
	if e.Env.Logs == nil {
		return nil
	}
	e.hosts = make([]*hosted, len(e.Env.Logs))
	for n, l := range e.Env.Logs {
		if l == nil {
			continue
		}
		h := &hosted{Log: l, e: e, decided: l.Head(), from: proto.NodeID(n)}
		e.hosts[n] = h
		if e.strategy.by(proto.PhaseLog) == OneSided {
			h.watch = e.Env.Worker.NewWatch(h.look)
			if err := h.await(); err != nil {
				return err
			}
		}
	}
	e.applier = e.words.Applier()
	e.Env.Port.HandleFrom(TypeLog, func(c *rpc.Caller, req, resp []byte) (int, error) {
		return putAnswer(resp, e.serveLog(c, func(h *hosted) (code, error) { return h.place(uint32(c.Epoch), req) }))
	})
	e.handlePacked(TypeLog, func(c *rpc.Caller, req, resp []byte) ([]byte, error) {
		return packAnswer(resp, e.serveLog(c, func(h *hosted) (code, error) {
			r, ok := e.unpackRecord(c, req)
			if !ok {
				return 0, errRequest
			}
			return h.put(uint32(c.Epoch), &r)
		}))
	})
	e.serveEnds()
	e.Env.Port.HandleFrom(TypeTruncate, func(c *rpc.Caller, req, resp []byte) (int, error) {
		if len(req) != wordBytes {
			return 0, errRequest
		}
		return putAnswer(resp, e.serveLog(c, func(h *hosted) (code, error) {
			h.read()
			h.decided = max(h.decided, le.Uint64(req))
			h.apply()
			e.reclaimDeleted()
			return done, nil
		}))
	})
	return nil
}

// logAnswer is the answer to a request about a log, or the error of that.
type logAnswer struct {
	head head
	err  error
}

// putAnswer writes an answer as in wire.go.
func putAnswer(resp []byte, a logAnswer) (int, error) {
	switch {
	case a.err != nil:
		return 0, a.err
	case len(resp) < headBytes:
		return 0, errRequest
	}
	a.head.put(resp)
	return headBytes, nil
}

// packAnswer appends an answer in compact form.
func packAnswer(resp []byte, a logAnswer) ([]byte, error) {
	if a.err != nil {
		return nil, a.err
	}
	return packHead(resp, &a.head), nil
}

// serveLog serves a request of the worker whose log it is.
func (e *Engine) serveLog(c *rpc.Caller, serve func(*hosted) (code, error)) logAnswer {
	h := e.logOf(c)
	if h == nil {
		return logAnswer{err: errRequest}
	}
	answer, err := serve(h)
	if err != nil {
		return logAnswer{err: err}
	}
	if h.apply(); h.broken != nil {
		return logAnswer{err: h.broken}
	}
	return logAnswer{head: head{code: answer, off: h.Head()}}
}

// logOf is the log that a caller appends to here; nil: there is none.
func (e *Engine) logOf(c *rpc.Caller) *hosted {
	if int(c.Node) >= len(e.hosts) || int(c.Worker) != e.Env.Index {
		return nil
	}
	return e.hosts[c.Node]
}

// place takes a record that came as a message. It counts when all before it are there: who is told that it is
// there relies on its being found. One that was read before has come twice; what is no whole record of this log
// and epoch is an error.
func (h *hosted) place(epoch uint32, record []byte) (code, error) {
	err := h.Place(log.Epoch(epoch), record)
	if err != nil {
		if !errors.Is(err, log.ErrPlace) {
			return 0, err
		}
		if broken := h.Whole(record); broken != nil {
			return 0, broken
		}
	}
	return h.placed(le.Uint64(record[8:]), len(record), recovery.Name(le.Uint64(record[24:])), err)
}

// put is place of a record that came in compact form.
func (h *hosted) put(epoch uint32, r *log.Record) (code, error) {
	n, err := h.Put(log.Epoch(epoch), r)
	switch {
	case err == nil && h.Took(r):
		h.take(r, r.Position)
	case err != nil && !errors.Is(err, log.ErrPlace):
		return 0, err
	}
	return h.placed(r.Position, n, recovery.Name(r.ID), err)
}

// placed answers when a record of n bytes was put into its place, or could not: err is a log.ErrPlace.
func (h *hosted) placed(position uint64, n int, name recovery.Name, err error) (code, error) {
	h.read()
	switch end := h.Position(); {
	case err != nil && position >= end:
		return 0, err // beyond the ring
	case position+uint64(n) > end && !h.e.lacks(gapAcknowledged):
		return busy, nil
	case !h.replaceAll():
		return busy, nil
	}
	return h.answerTo(name), nil
}

// read reads what has come.
func (h *hosted) read() {
	var r log.Record
	for at := h.Position(); h.Next(&r) == nil; at = h.Position() {
		h.take(&r, at)
	}
}

// take takes a record that was read at a position.
func (h *hosted) take(r *log.Record, at uint64) {
	if len(r.Body) < decidedBytes {
		return // nobody here has written that; it is freed when it is decided
	}
	h.newest = recovery.Name(r.ID)
	h.decided = max(h.decided, le.Uint64(r.Body))
	if h.e.lacks(readableEarly) {
		for _, u := range h.undos {
			h.raiseFlags(u)
		}
	}
	h.replace(r, at)
}

// look is the watch's.
func (h *hosted) look() bool {
	was := h.Position()
	h.read()
	h.apply()
	err := h.await()
	invariant.Assert(err == nil, "a log's memory cannot be watched")
	return h.Position() != was
}

// await has the watch look at where something comes next.
func (h *hosted) await() error { return h.watch.Set(h.MR, h.Line+h.AwaitedLine()) }

// apply applies what is decided, in the order of the log, and frees its room. A record that another worker
// applies an update of at this moment is left for the next time.
func (h *hosted) apply() {
	if h.broken != nil {
		return
	}
	at := h.Head()
	var r log.Record
	for at < min(h.decided, h.Position()) {
		if behind, ok := h.raised(at); ok {
			at = behind
			continue
		}
		behind, err := h.ReadAt(at, &r)
		if err != nil || behind > h.Position() { // it is another one than that which was read
			h.fail(cmp.Or(err, log.ErrPlace))
			break
		}
		if !h.forget(r.ID) && r.Type == recordUpdate {
			applied, err := h.e.applyRecord(&r)
			if err != nil {
				h.fail(err)
			}
			if !applied {
				break
			}
			h.raise(recovery.Name(r.ID))
		}
		at = behind
	}
	if at > h.Head() {
		if err := h.Truncate(at); err != nil {
			h.fail(err)
		}
	}
	if len(h.e.tombs) >= manyTombs || h.e.lacks(tombsUnkept) {
		h.e.reclaimDeleted()
	}
}

// forget reports whether an update was taken back, and forgets that.
func (h *hosted) forget(id uint64) bool {
	i := slices.Index(h.dropped, id)
	if i < 0 {
		return false
	}
	h.dropped = slices.Delete(h.dropped, i, i+1)
	return true
}

// applyRecord applies a transaction's update to the replicas here, and reports whether that was possible now. A replica
// that is here since a later epoch is filled from the primary, which has the update, or has forgotten since that there
// was a record: what is here for another shard of the transaction is not for that replica.
func (e *Engine) applyRecord(r *log.Record) (bool, error) {
	if v := e.view; v.known[recovery.Name(r.ID)] != nil {
		return v.carriedOut(recovery.Name(r.ID)), nil
	}
	var w recovery.Write
	body, err := recovery.ReadBody(updateOf(r))
	for err == nil {
		var more bool
		if more, err = body.Next(e.Env.Specs, &w); err != nil || !more {
			break
		}
		if !e.view.backed(w.Shard, uint64(r.Epoch)) && !e.lacks(newReplicaOld) {
			continue
		}
		if s := e.replica(w.Shard); s != nil && !w.Read && !e.apply(s, &w) {
			return false, nil
		}
	}
	return err == nil, err
}

// updateOf is what package recovery decodes of an update's record; nil: it is too short.
func updateOf(r *log.Record) []byte {
	if len(r.Body) < decidedBytes {
		return nil
	}
	return r.Body[decidedBytes:]
}

// replica is the own machine's of a shard; nil: there is none. There may be memory for one that the placement
// does not give it: of what a machine that is back had before.
func (e *Engine) replica(s proto.ShardID) *share {
	if int(s) >= len(e.Env.Shares) || !e.view.holds[s] {
		return nil
	}
	return e.Env.Shares[s]
}

// apply applies one write to a replica unless that has a newer version: updates of one record may come in any
// order, by the logs of different coordinators. It reports false if another worker is at the record, or its
// table is full for now.
func (e *Engine) apply(s *share, w *recovery.Write) bool { return e.applyTo(s, w, false) }

// applyTo is apply. With waits it reports false, too, if the Readable flag of the record is lowered.
func (e *Engine) applyTo(s *share, w *recovery.Write, waits bool) bool {
	if w.Version.Live() && w.Value == nil {
		return true // another holder has the value
	}
	// By this worker's view: another worker of the machine may have taken the next placement into use.
	if e.view.home[w.Shard] == e.Env.Node {
		return true // a primary has the update since COMMIT, and may have forgotten since that there was a record
	}
	x, was, ok := e.lockToApply(s, w)
	if !ok {
		return false
	}
	off := x.off
	if waits && isLowered(was) {
		e.storeState(s, w.Table, off, was)
		return false
	}
	if newerThan(w.Version, x.head.Version) || e.lacks(anyOrder) {
		if w.Version.Live() {
			e.publish(nil, s, off, &item{table: w.Table, key: w.Key, version: w.Version, value: w.Value})
			return true
		}
		e.storeLine(s, int(off), layout.ValueOffset, nil,
			lastWord{at: layout.VersionOffset, v: uint64(w.Version), ok: true})
		e.tombs = append(e.tombs, tomb{s, w.Shard, w.Table, w.Key, w.Version})
		was = onesided.Unlocked
	}
	e.storeState(s, w.Table, off, was)
	return true
}

// lockToApply locks the record of a replica that an update is for, and makes it if there is none. Most updates are of
// records that are there: a look-up without a region finds them, and the lock tells whether that is the key's. was is
// the state that it had.
func (e *Engine) lockToApply(s *share, w *recovery.Write) (x found, was onesided.Word, ok bool) {
	if off, there := s.Tables[w.Table-1].Find(uint64(w.Key)); there {
		x.off = uint64(off)
		switch state, c := e.lockReplica(s, &x, w.Table, w.Key); c {
		case done:
			return x, state, true
		case locked:
			return x, state, false
		}
	}
	off, c := e.EnsureAt(s, w.Table, w.Key)
	if c == onesided.Full && e.reclaimDeleted() {
		off, c = e.EnsureAt(s, w.Table, w.Key)
	}
	if x.off = off; c != onesided.Done {
		return found{}, was, false
	}
	was, locks := e.lockReplica(s, &x, w.Table, w.Key)
	return x, was, locks == done
}

// newerThan reports whether an update is newer than what an entry says. One that was made for its key says
// nothing of it.
func newerThan(v, entry layout.Version) bool {
	return v > entry || !entry.Live() && entry.Trace() == 0
}

// tomb is the entry of a record that was deleted, in a backup. It has to stay as long as an older update of the
// record may be applied after the deletion, which is in the log of another coordinator then: nothing else would
// tell that it is older.
type tomb struct {
	share   *share
	shard   proto.ShardID
	table   proto.TableID
	key     proto.Key
	version layout.Version
}

// manyTombs are as many as are reclaimed at once.
const manyTombs = 64

// reclaimDeleted gives the entries of deleted records back that no log here names in an older update: all that was
// written before a deletion was logged at all backups before it. It reports whether it has given any.
func (e *Engine) reclaimDeleted() (any bool) {
	if len(e.tombs) == 0 || !e.lookForOlder() && !e.lacks(tombsUnkept) {
		return false
	}
	older := !e.Env.Serving.Settled() // what is not decided may be so, and is not in a log
	kept := e.tombs[:0]
	for i := range e.tombs {
		switch x := &e.tombs[i]; {
		case (e.older[i] || older || e.fills(x.shard)) && !e.lacks(tombsUnkept):
			kept = append(kept, *x)
		case e.unlinkTomb(x):
			any = true
		}
	}
	e.tombs = kept
	return any
}

// fills reports whether the own replica of a shard is being filled: an older state of a record may be on its way.
func (e *Engine) fills(s proto.ShardID) bool {
	return slices.Contains(e.Env.Placed.Map().Shards[s].Filling, e.Env.Node)
}

// lookForOlder marks the tombs of which a log of this machine, of whichever worker, has an older update. It
// reports false if it could not look at all logs.
func (e *Engine) lookForOlder() bool {
	e.older = append(e.older[:0], make([]bool, len(e.tombs))...)
	if e.strategy.Undo {
		return true // what is in a log was applied when it came
	}
	if e.views == nil && !e.openViews() {
		return false
	}
	for _, v := range e.views {
		if !v.Each(e.markOlder) {
			return false
		}
	}
	return true
}

// openViews opens the logs of all workers of the machine, which lie one behind the other.
func (e *Engine) openViews() bool {
	for _, h := range e.hosts {
		if h == nil {
			continue
		}
		bytes := log.Bytes(h.Capacity())
		for at := 0; at+bytes <= h.MR.Len(); at += bytes {
			v, err := log.NewView(h.Memory.Part(at, bytes))
			if err != nil {
				e.views = nil
				return false
			}
			e.views = append(e.views, v)
		}
		break
	}
	return true
}

func (e *Engine) markOlder(r *log.Record) {
	e.eachWrite(r, func(w *recovery.Write) {
		for i := range e.tombs {
			if x := &e.tombs[i]; x.key == w.Key && x.table == w.Table && w.Version < x.version {
				e.older[i] = true
			}
		}
	})
}

// eachWrite calls f with each write that a log's record names, if it is an update.
func (e *Engine) eachWrite(r *log.Record, f func(w *recovery.Write)) {
	if r.Type != recordUpdate || len(r.Body) < decidedBytes {
		return
	}
	body, err := recovery.ReadBody(r.Body[decidedBytes:])
	if err != nil {
		return
	}
	var w recovery.Write
	for {
		if ok, err := body.Next(e.Env.Specs, &w); err != nil || !ok {
			return
		}
		f(&w)
	}
}

// EachLogged calls f with each update in the logs of this machine, of all its workers, that it could make: with the value,
// or a deletion. Checks of simulations ask what survivors have.
func (e *Engine) EachLogged(f func(w *recovery.Write)) {
	if e.views == nil && !e.openViews() {
		return
	}
	for _, v := range e.views {
		v.Each(func(r *log.Record) {
			e.eachWrite(r, func(w *recovery.Write) {
				if !w.Read && (w.Value != nil || !w.Version.Live()) {
					f(w)
				}
			})
		})
	}
}

// unlinkTomb gives an entry back if it is still that of the deletion, and nobody's.
func (e *Engine) unlinkTomb(x *tomb) bool {
	off, there := x.share.Tables[x.table-1].Find(uint64(x.key))
	if !there {
		return false
	}
	if e.nicReaches(x.share) {
		return false // it is forgotten: who locks the key next finds the entry
	}
	f := found{off: uint64(off)}
	if e.lockRecord(x.share, &f, x.table, x.key, e.applier) != done {
		return false
	}
	if f.head.Version != x.version ||
		e.UnlinkAt(x.share, x.table, x.key, uint64(e.applier), onesided.HostTries) != onesided.Done || !e.Worded() {
		e.unlockEntry(x.share, x.table, f.off)
		return f.head.Version == x.version
	}
	return true
}
