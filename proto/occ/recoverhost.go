package occ

import (
	"bytes"
	"math"
	"slices"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/onesided"
	"drtmd/proto/protocol"
	"drtmd/proto/recovery"
	"drtmd/store/layout"
)

// What a node does for others that recover. Nothing here waits: what is not possible now is asked for again.

// allDead in askKnown wants the transactions of nodes that are gone, instead of those that write to a shard.
const allDead = 1<<32 - 1

func (e *Engine) serveRecovery() {
	if e.Env.Port == nil {
		return
	}
	e.Env.Port.Handle(TypeRecover, func(req, resp []byte) (int, error) {
		if len(resp) < messageBytes {
			return 0, errRequest
		}
		return e.view.serve(req, resp[:messageBytes])
	})
}

// serve answers a request.
func (v *view) serve(req, resp []byte) (int, error) {
	a, rest, ok := takeAsk(req)
	if !ok {
		return 0, errRequest
	}
	switch {
	case v.epoch < a.epoch || v.pausing:
		say(resp, sayLater, 0, 0)
		return sayBytes, nil
	case v.epoch > a.epoch:
		say(resp, sayStale, 0, 0)
		return sayBytes, nil
	}
	switch a.request {
	case askKnown:
		return v.sayKnown(&a, resp), nil
	case askValues:
		return v.sayValues(&a, resp), nil
	case askApplied:
		return v.sayApplied(rest, resp)
	case askCopy:
		return v.sayCopies(&a, resp)
	}
	done := false
	switch a.request {
	case askLog:
		done, ok = true, v.takeLog(rest)
	case askCommit:
		done = v.commit(a.name)
	case askTruncate:
		done = v.truncate(a.name)
	case askDrop:
		v.drop(a.name)
		done = true
	case askUnlock:
		done, ok = v.unlock(rest)
	case askAdopted:
		done = true
	case askSettled:
		done = v.decided == v.epoch
	case askServes:
		done = int(a.of) < len(v.home) && v.home[a.of] == v.e.Env.Node && v.e.Env.Serving.Serves(proto.ShardID(a.of))
	}
	if !ok {
		return 0, errRequest
	}
	x := sayLater
	if done {
		x = sayDone
	}
	say(resp, x, 0, 0)
	return sayBytes, nil
}

// sayKnown answers askKnown from a name and an index of its writes on.
func (v *view) sayKnown(a *ask, resp []byte) int {
	b, full := resp[:sayBytes], false
	i, _ := slices.BinarySearch(v.names, a.name)
	from := int(a.index)
	var next recovery.Name
	for ; i < len(v.names); i++ {
		n := v.known[v.names[i]]
		if n.name != a.name || uint64(from) > uint64(len(n.writes)) {
			from = 0
		}
		// Of a transaction whose coordinator lives, that one knows whether it is decided; and who has to write it
		// has a record itself.
		if a.of == allDead && !n.dead || a.of != allDead && !(n.writesTo(proto.ShardID(a.of)) && (n.dead || n.own)) {
			continue
		}
		if room := len(resp) - len(b); room < partBytes+writeBytes(&recovery.Write{}, false) {
			next, full = n.name, true
			break
		}
		b, from = appendPart(b, n, from, len(resp)-len(b), false, nil)
		if from < len(n.writes) {
			next, full = n.name, true
			break
		}
	}
	if !full {
		next, from = 0, 0
	}
	say(resp, sayDone, uint64(from), next)
	return len(b)
}

// sayValues answers askValues from an index of the writes on.
func (v *view) sayValues(a *ask, resp []byte) int {
	b, next := resp[:sayBytes], 0
	if n := v.known[a.name]; n != nil && n.logged && a.index <= uint64(len(n.writes)) {
		b, next = appendPart(b, n, int(a.index), len(resp)-sayBytes, true, func(w *recovery.Write) bool {
			return w.Value != nil || !w.Version.Live() || w.Read
		})
		if next == len(n.writes) {
			next = 0
		}
	}
	say(resp, sayDone, uint64(next), 0)
	return len(b)
}

// sayApplied answers askApplied.
func (v *view) sayApplied(b, resp []byte) (int, error) {
	p, _, ok := takePart(b, v.e.Env.Specs, len(v.home))
	if !ok || len(p.writes) > len(resp)-sayBytes {
		return 0, errRequest
	}
	say(resp, sayDone, 0, 0)
	for i := range p.writes {
		resp[sayBytes+i] = 0
		if v.applied(&p.noted, &p.writes[i]) {
			resp[sayBytes+i] = 1
		}
	}
	return sayBytes + len(p.writes), nil
}

// takeLog notes a part of a transaction, and the transaction when all parts are there. A part comes again when its
// answer is lost, the last one as well.
func (v *view) takeLog(b []byte) bool {
	p, _, ok := takePart(b, v.e.Env.Specs, len(v.home))
	if !ok {
		return false
	}
	n := v.coming[p.name]
	if known := v.known[p.name]; n == nil && p.from > 0 && known != nil && known.logged {
		return true
	}
	if n == nil {
		n = &noted{name: p.name, word: p.word, dead: p.dead, logged: true, epoch: p.epoch}
		v.coming[p.name] = n
	}
	if p.from > len(n.writes) {
		return false
	}
	n.writes = n.writes[:p.from]
	for _, w := range p.writes {
		w.Value = bytes.Clone(w.Value)
		n.writes = append(n.writes, w)
	}
	if len(n.writes) == p.total {
		delete(v.coming, p.name)
		v.note(n)
	}
	return true
}

// commit writes a transaction at the primaries here, and reports whether that is done.
func (v *view) commit(name recovery.Name) bool {
	n := v.known[name]
	if n == nil {
		return true // it was done before
	}
	for i := range n.writes {
		w := &n.writes[i]
		if v.home[w.Shard] != v.e.Env.Node {
			continue
		}
		if v.restoring[w.Shard] || !v.commitHere(n, w) {
			return false
		}
	}
	if v.swapping() {
		return false
	}
	v.carry(name, false)
	v.record(n, history.Recovered, false)
	return true
}

// truncate writes a transaction at the backups here, and forgets it.
func (v *view) truncate(name recovery.Name) bool {
	n := v.known[name]
	if n == nil {
		return true
	}
	if x := v.carriedBefore(name); x == nil || !x.truncated {
		for i := range n.writes {
			if w := &n.writes[i]; v.home[w.Shard] != v.e.Env.Node && !v.backUp(n, w) {
				return false
			}
		}
	}
	if c := int(name.Node()); v.e.lacks(undoCommitted) && c < len(v.e.hosts) && v.e.hosts[c] != nil {
		v.e.hosts[c].putBack(name)
	}
	v.carry(name, true)
	v.forget(name)
	return true
}

// mostCarried bounds carried. No recovery has so many transactions to decide about: each has a fiber.
const mostCarried = 1 << 12

// carried is a transaction that recovery has committed at the primaries here, or truncated at the backups, too.
type carried struct {
	name      recovery.Name
	truncated bool
}

// carry notes that. If who decided dies before all nodes have done it, the next one asks again, and another transaction
// may have deleted here what this one wrote: no version tells of it then, a primary that was a backup when the
// transaction logged has had no lock of it, and a backup would make the record again.
func (v *view) carry(name recovery.Name, truncated bool) {
	if x := v.carriedBefore(name); x != nil {
		x.truncated = x.truncated || truncated
		return
	}
	if len(v.carried) == mostCarried {
		v.carried = slices.Delete(v.carried, 0, 1)
	}
	v.carried = append(v.carried, carried{name, truncated})
}

// carriedBefore is what recovery has done of a transaction here; nil: nothing.
func (v *view) carriedBefore(name recovery.Name) *carried {
	if i := slices.IndexFunc(v.carried, func(x carried) bool { return x.name == name }); i >= 0 {
		return &v.carried[i]
	}
	return nil
}

// drop forgets a transaction that is aborted.
func (v *view) drop(name recovery.Name) {
	delete(v.coming, name)
	v.over[name] = true
	v.putBackOwn(name)
	v.forget(name)
	// The record may still come, if its coordinator lives.
	if c := int(name.Node()); c < len(v.e.hosts) && v.e.hosts[c] != nil {
		h := v.e.hosts[c]
		h.putBack(name)
		if !slices.Contains(h.dropped, uint64(name)) {
			h.dropped = append(h.dropped, uint64(name))
		}
	}
}

// unlock gives locks of a transaction back that is aborted, and reports whether that is done.
func (v *view) unlock(b []byte) (done, ok bool) {
	p, _, ok := takePart(b, v.e.Env.Specs, len(v.home))
	if !ok || !v.unlockHere(&p.noted) {
		return false, ok
	}
	v.record(&p.noted, history.Revoked, false)
	return true, true
}

// record takes down what was decided about a transaction of a node that is gone.
func (v *view) record(n *noted, o history.Outcome, writes bool) {
	r := v.e.Env.Recorder
	if r == nil || !n.dead {
		return
	}
	x := r.Begin(history.Ever)
	x.SetName(uint64(n.name))
	for i := range n.writes {
		w := &n.writes[i]
		table, key, version := history.Table(w.Table), history.Key(w.Key), history.Version(w.Version)
		switch {
		case w.Read:
		case !writes || w.Version.Live() && w.Value == nil:
		case w.Version.Live():
			x.Write(table, key, version, history.DigestOf(w.Value))
		default:
			x.Delete(table, key, version)
		}
	}
	r.End(x, history.Never, o)
}

// sayCopies answers askCopy: records of a table from an index of its places on.
func (v *view) sayCopies(a *ask, resp []byte) (int, error) {
	e := v.e
	t := proto.TableID(a.name)
	if int(a.of) >= len(v.home) || uint(t)-1 >= uint(len(e.Env.Specs)) || a.index > math.MaxInt32 {
		return 0, errRequest
	}
	shard := proto.ShardID(a.of)
	s := e.replica(shard)
	if s == nil || v.home[shard] != e.Env.Node || v.restoring[shard] {
		say(resp, sayLater, 0, 0)
		return sayBytes, nil
	}
	b, next, waits := resp[:sayBytes], 0, false
	value := make([]byte, e.Env.Specs[t-1].ValueBytes)
	protocol.Copied(s.Tables[t-1]).EachFrom(int(a.index), func(i, off int) bool {
		x, held := found{off: uint64(off)}, false
		key := proto.Key(onesided.KeyOf(s.Memory, x.off))
		if !e.copyOut(nil, s, &item{table: t, key: key}, &x, value) {
			h, ok := e.headNow(s, x.off)
			held = !ok || h.Match(uint64(key)) != layout.Stale
			if !held {
				return true // it is another key's by now, which is logged
			}
		}
		if held || onesided.Word(x.head.State) != onesided.Unlocked || len(resp)-len(b) < copiedBytes(len(value)) {
			next, waits = i, true
			return false
		}
		if x.head.Version.Live() || x.head.Version.Trace() != 0 {
			b = appendCopied(b, key, x.head.Version, value)
		}
		return true
	})
	if waits && len(b) == sayBytes {
		say(resp, sayLater, 0, 0)
		return sayBytes, nil
	}
	say(resp, sayDone, uint64(next), recovery.Name(protocol.Copied(s.Tables[t-1]).Incarnations()))
	return len(b), nil
}
