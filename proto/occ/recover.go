package occ

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/onesided"
	"drtmd/proto/protocol"
	"drtmd/proto/recovery"
	"drtmd/verbs/fiber"
)

// askPause is how long is waited before something is asked for again, and askPatience for an answer: twice as
// long each time, up to a bound. A node that is behind does answer, but with an epoch that does not count here.
const (
	askPause    = 10 * time.Microsecond
	askPatience = 200 * time.Microsecond
	askMost     = 50 * time.Millisecond
)

// Recover implements proto.Recoverer.
func (e recoverer) Recover(f *fiber.Fiber, epoch uint64, lives func(proto.NodeID) bool) error {
	v := e.view
	if v == nil {
		return nil
	}
	r := v.run(f)
	v.recovering = true
	defer func() {
		v.recovering = false
		r.end()
	}()
	promoted, err := v.adopt(epoch, e.Env.Placed.Map(), lives)
	if err != nil {
		return err
	}
	v.resume()
	f.Step(stepRecover)
	if err = e.brokenLog(); err == nil {
		err = r.restore(promoted)
	}
	if err == nil {
		err = r.finishOwn()
	}
	if err == nil && v.decider() == e.Env.Node {
		if err = r.decideAll(); err == nil {
			v.decided = epoch
		}
	}
	if err == nil {
		err = r.awaitServed()
	}
	if err == nil {
		err = r.clean()
	}
	if err == nil {
		v.settled = epoch
	}
	if errors.Is(err, errStopped) {
		return f.Err()
	}
	return err
}

// decider is the node that decides about the transactions of nodes that are gone.
func (v *view) decider() proto.NodeID {
	return proto.NodeID(slices.Index(v.lives, true))
}

// run is something that is done for the present view, on a fiber, until it is done or Pause is called.
type run struct {
	v    *view
	f    *fiber.Fiber
	turn uint64
	was  bool
	req  []byte
	resp []byte
}

func (v *view) run(f *fiber.Fiber) *run {
	v.running++
	return &run{v: v, f: f, turn: v.turn, was: f.Shield(), resp: make([]byte, messageBytes)}
}

func (r *run) end() {
	r.f.Unshield(r.was)
	if r.v.running--; r.v.running == 0 {
		r.v.idle.Broadcast()
	}
}

// over is why the run must end; nil: it need not. One that has begun after Pause would otherwise ask nodes that wait
// for the next view, while Pause waits for it.
func (r *run) over() error {
	if err := r.f.Err(); err != nil {
		return err
	}
	if r.turn != r.v.turn || r.v.pausing {
		return errStopped
	}
	return nil
}

// pause waits a moment.
func (r *run) pause() error {
	if err := r.f.Sleep(askPause); err != nil {
		return err
	}
	return r.over()
}

// ask asks a node, again and again until it has answered that it is done, and gives what the answer holds.
func (r *run) ask(n proto.NodeID, a ask, more []byte) (rest []byte, index uint64, name recovery.Name, err error) {
	v := r.v
	a.epoch = v.epoch
	patience := askPatience
	for {
		if err := r.over(); err != nil {
			return nil, 0, 0, err
		}
		r.req = append(a.append(r.req[:0]), more...)
		var size int
		switch s := v.e.Env.Peers[n].Session; {
		case n == v.e.Env.Node:
			size, err = v.serve(r.req, r.resp)
		case s == nil:
			size, err = 0, errAnswer
		default:
			size, err = s.Call(r.f, TypeRecover, r.req, r.resp, r.f.Now()+patience)
			patience = min(2*patience, askMost)
		}
		if err == nil && size >= sayBytes {
			x, index, name := said(r.resp)
			switch x {
			case sayDone:
				return r.resp[sayBytes:size], index, name, nil
			case sayStale:
				return nil, 0, 0, errStopped
			}
		}
		if err := r.pause(); err != nil {
			return nil, 0, 0, err
		}
	}
}

// eachAlive calls f with every node that lives, until it fails.
func (r *run) eachAlive(f func(n proto.NodeID) error) error {
	for n, lives := range r.v.lives {
		if !lives {
			continue
		}
		if err := f(proto.NodeID(n)); err != nil {
			return err
		}
	}
	return nil
}

// collect gives the transactions that a node knows: see askKnown.
func (r *run) collect(n proto.NodeID, of uint32) (list []*noted, err error) {
	for a := (ask{request: askKnown, of: of}); ; {
		b, index, name, err := r.ask(n, a, nil)
		if err != nil {
			return nil, err
		}
		for len(b) > 0 {
			p, rest, ok := takePart(b, r.v.e.Env.Specs, len(r.v.home))
			if !ok {
				return nil, errAnswer
			}
			b = rest
			if last := len(list) - 1; last >= 0 && list[last].name == p.name {
				list[last].writes = append(list[last].writes, p.writes...)
				continue
			}
			x := p.noted
			list = append(list, &x)
		}
		if name == 0 {
			return list, nil
		}
		a.name, a.index = name, index
	}
}

// restore locks what is undecided in the shards whose primary this node has become.
func (r *run) restore(promoted []proto.ShardID) error {
	v := r.v
	for _, shard := range promoted {
		if !v.e.lacks(serveEarly) {
			err := r.eachAlive(func(n proto.NodeID) error {
				if n == v.e.Env.Node {
					return nil
				}
				list, err := r.collect(n, uint32(shard))
				for _, x := range list {
					if x.logged = false; !v.over[x.name] { // the values are there, not here
						v.note(x)
					}
				}
				return err
			})
			if err != nil {
				return err
			}
			for _, name := range slices.Clone(v.names) {
				for n := v.known[name]; n != nil && n.writesTo(shard) && !v.keep(n, shard); n = v.known[name] {
					if err := r.pause(); err != nil {
						return err
					}
				}
			}
		}
		r.f.Step(stepRestored)
		v.restoring[shard] = false
		v.e.Env.Serving.Recovered(shard, v.epoch)
	}
	return nil
}

// awaitServed waits until every shard is served.
func (r *run) awaitServed() error {
	v := r.v
	for s, home := range v.home {
		if v.ready[s] || home == proto.NoNode {
			continue
		}
		if _, _, _, err := r.ask(home, ask{request: askServes, of: uint32(s)}, nil); err != nil {
			return err
		}
		v.ready[s] = true
	}
	return nil
}

// finishOwn decides about the own transactions that nobody works on: those whose records did not reach all
// holders, and those whose update a primary has not confirmed.
func (r *run) finishOwn() error {
	v := r.v
	b := v.e.backups
	// Those of this view are sent again: see backups.finish.
	var old []*tx
	for _, t := range b.unfinished {
		if t.epoch < v.epoch {
			old = append(old, t)
		}
	}
	for _, t := range old {
		if t.verdict == 0 { // the first one counts, in whichever view
			t.verdict = recovery.Commit
			if !t.arrivedAlive() || t.denied != nil {
				t.verdict = recovery.Abort
			}
		}
		if err := r.settle(t.noteOwn(), t.verdict == recovery.Commit); err != nil {
			return err
		}
	}
	// What did not get into a log leaves a gap there.
	for _, x := range b.at {
		for x != nil && !x.gone && x.stuck && !b.placeAgain(r.f, x) {
			if err := r.pause(); err != nil {
				return err
			}
		}
	}
	for _, t := range old {
		n, o := t.noteOwn(), history.Recovered
		if t.verdict == recovery.Abort {
			o = history.Revoked
		}
		n.dead = true // its client does not know
		v.record(n, o, o == history.Recovered)
		t.F = r.f
		t.letGo()
		t.endLog()
		b.unfinished = slices.DeleteFunc(b.unfinished, func(o *tx) bool { return o == t })
		t.leave()
	}
	for len(b.owing) > 0 {
		o := &b.owing[0]
		if err := r.awaitWays(uint64(o.word)); err != nil {
			return err
		}
		if err := r.settle(o.noted, o.commit); err != nil {
			return err
		}
		v.e.forgetDebtsOf(o.noted)
		b.decide(o.logs)
		b.owing = slices.Delete(b.owing, 0, 1)
	}
	b.arm()
	return nil
}

// awaitWays waits until the nodes are reached at which a lock with a word is owed. WRITEs of its transaction may
// still be under way on a queue pair that has failed at this end; a new one ends the old one at both.
func (r *run) awaitWays(word uint64) error {
	e := r.v.e
	for {
		cut := false
		e.EachDebt(func(d *proto.Debt) {
			c := e.Env.Peers[d.Node].Conn
			cut = cut || d.Word == word && (c == nil || c.Err() != nil)
		})
		if !cut {
			return nil
		}
		if err := r.pause(); err != nil {
			return err
		}
	}
}

// gone is a transaction of a node that is gone, as its replicas tell of it.
type gone struct {
	*noted
	votes []recovery.Vote
}

// decideAll decides about the transactions of nodes that are gone.
func (r *run) decideAll() error {
	v := r.v
	all := map[recovery.Name]*gone{}
	var names []recovery.Name
	err := r.eachAlive(func(n proto.NodeID) error {
		list, err := r.collect(n, allDead)
		for _, x := range list {
			g := all[x.name]
			if g == nil {
				g = &gone{noted: &noted{name: x.name, word: x.word, writes: x.writes, dead: true, epoch: x.epoch}}
				all[x.name] = g
				names = append(names, x.name)
			}
			if err == nil && x.logged {
				err = r.hear(n, g)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.Sort(names)
	m := v.e.Env.Placed.Map()
	rule := recovery.Rule{AbortComplete: v.e.lacks(abortComplete), CommitPartial: v.e.lacks(commitPartial)}
	for _, name := range names {
		g := all[name]
		if err := r.eachAlive(func(n proto.NodeID) error { return r.seen(n, g) }); err != nil {
			return err
		}
		r.f.Step(stepDecide)
		commit := rule.Decide(g.shards(), m.Lost(), g.votes) == recovery.Commit
		if v.e.locksInLog() && !v.e.lacks(commitPartial) {
			commit = commit && (g.applied() || v.allVoted(g))
		}
		if err := r.settle(g.noted, commit); err != nil {
			return err
		}
		if commit {
			v.count.Committed++
			v.record(g.noted, history.Recovered, true)
		} else {
			v.count.Aborted++
			v.record(g.noted, history.Revoked, false)
		}
	}
	return nil
}

// hear has a node that holds a record of a transaction give its values, which are a vote.
func (r *run) hear(n proto.NodeID, g *gone) error {
	x := &noted{name: g.name}
	for a := (ask{request: askValues, name: g.name}); ; {
		b, index, _, err := r.ask(n, a, nil)
		if err != nil {
			return err
		}
		if len(b) > 0 {
			p, _, ok := takePart(b, r.v.e.Env.Specs, len(r.v.home))
			if !ok {
				return errAnswer
			}
			for _, w := range p.writes {
				w.Value = bytes.Clone(w.Value)
				x.writes = append(x.writes, w)
			}
		}
		if a.index = index; index == 0 {
			break
		}
	}
	for _, s := range g.shards() {
		whole := true
		for i := range g.writes {
			if w := &g.writes[i]; w.Shard == s && !slices.ContainsFunc(x.writes, func(y recovery.Write) bool {
				return y.Table == w.Table && y.Key == w.Key
			}) {
				whole = false
			}
		}
		if whole {
			g.votes = append(g.votes, recovery.Vote{Shard: s, Node: n, Seen: recovery.SeenRecord})
		}
	}
	g.merge(x)
	return nil
}

// seen has a node tell which of a transaction's writes its replicas have.
func (r *run) seen(n proto.NodeID, g *gone) error {
	m := r.v.e.Env.Placed.Map()
	here := func(w *recovery.Write) bool { return m.Holds(n, w.Shard) }
	for from := 0; from < len(g.writes); {
		piece, next := appendPart(nil, g.noted, from, partMost, false, here)
		b, _, _, err := r.ask(n, ask{request: askApplied}, piece)
		if err != nil {
			return err
		}
		i := 0
		for ; from < next; from++ {
			w := &g.writes[from]
			if !here(w) {
				continue
			}
			if i < len(b) && b[i] != 0 {
				g.votes = append(g.votes, recovery.Vote{Shard: w.Shard, Node: n, Seen: recovery.SeenApplied})
			}
			i++
		}
	}
	return nil
}

// settle carries out what is decided about a transaction: each stage on all nodes before the next.
func (r *run) settle(n *noted, commit bool) error {
	m := r.v.e.Env.Placed.Map()
	all := func(q request) error {
		return r.eachAlive(func(to proto.NodeID) error {
			r.f.Step(stepStage)
			_, _, _, err := r.ask(to, ask{request: q, name: n.name}, nil)
			return err
		})
	}
	if !commit {
		if err := all(askDrop); err != nil {
			return err
		}
		return r.eachAlive(func(to proto.NodeID) error {
			return r.tell(to, askUnlock, n, false, func(w *recovery.Write) bool { return m.Shards[w.Shard].Primary == to })
		})
	}
	err := r.eachAlive(func(to proto.NodeID) error {
		for _, s := range n.shards() {
			if m.Holds(to, s) {
				return r.tell(to, askLog, n, true, nil)
			}
		}
		return nil
	})
	if err == nil {
		err = all(askCommit)
	}
	if err == nil {
		err = all(askTruncate)
	}
	return err
}

// tell tells a node the writes of a transaction that it wants, in parts, with the values for its replicas.
func (r *run) tell(to proto.NodeID, q request, n *noted, values bool, want func(*recovery.Write) bool) error {
	m := r.v.e.Env.Placed.Map()
	x := n
	if values {
		y := *n
		y.writes = slices.Clone(n.writes)
		for i := range y.writes {
			if !m.Holds(to, y.writes[i].Shard) {
				y.writes[i].Value = nil
			}
		}
		x = &y
	}
	for from := 0; from < len(x.writes); {
		piece, next := appendPart(nil, x, from, partMost, values, want)
		r.f.Step(stepStage)
		if le.Uint32(piece[24:]) > 0 {
			if _, _, _, err := r.ask(to, ask{request: q, name: n.name}, piece); err != nil {
				return err
			}
		}
		from = next
	}
	return nil
}

// clean takes away what is left of nodes that are gone, when all their transactions are decided: their logs,
// and locks that belong to nothing.
func (r *run) clean() error {
	v := r.v
	e := v.e
	if _, _, _, err := r.ask(v.decider(), ask{request: askSettled}, nil); err != nil {
		return err
	}
	for c, h := range e.hosts {
		if h == nil || v.lives[c] {
			continue
		}
		for h.decided = max(h.decided, h.Position()); ; {
			if h.apply(); h.broken != nil {
				return h.broken
			}
			if h.Head() == h.Position() {
				break
			}
			if err := r.pause(); err != nil {
				return err
			}
		}
		h.dropped = h.dropped[:0]
	}
	for shard, home := range v.home {
		if home != e.Env.Node {
			continue
		}
		if err := r.release(proto.ShardID(shard)); err != nil {
			return err
		}
	}
	return nil
}

// releaseAtOnce is how many entries are looked at before others may run.
const releaseAtOnce = 256

// release gives back the locks of nodes that are gone in a shard, of workers of this one's index.
func (r *run) release(shard proto.ShardID) error {
	v := r.v
	e := v.e
	s := e.replica(shard)
	for !v.letOfDead(shard) {
		if err := r.pause(); err != nil {
			return err
		}
	}
	for t := range s.Tables {
		for from, more := 0, true; more; {
			more = false
			count := 0
			protocol.Copied(s.Tables[t]).EachFrom(from, func(i, off int) bool {
				if count++; count > releaseAtOnce {
					from, more = i, true
					return false
				}
				word := onesided.Word(onesided.StateOf(s.Memory, uint64(off)))
				if !word.Locked() || word == onesided.Moving || int(word.Node()) >= len(v.lives) ||
					v.lives[word.Node()] || int(word.Worker()) != e.Env.Index {
					return true
				}
				k, p := v.lockKept(), place{Shard: shard, Table: proto.TableID(t + 1),
					Key: proto.Key(onesided.KeyOf(s.Memory, uint64(off)))}
				if len(k.Of(p)) == 0 {
					e.releaseHere(nil, s, &item{table: p.Table, key: p.Key}, word)
					v.count.Released++
				}
				k.Unlock()
				return true
			})
			if err := r.f.Yield(); err != nil {
				return err
			}
			if err := r.over(); err != nil {
				return err
			}
			if err := r.awaitSwaps(); err != nil {
				return err
			}
		}
	}
	return nil
}

// letOfDead gives the records of a shard back that are still kept locked for transactions of nodes that are gone, of
// workers of this one's index, and reports whether that is done.
func (v *view) letOfDead(shard proto.ShardID) bool {
	k := v.lockKept()
	places, names := k.Where(shard, func(n recovery.Name) bool {
		return n.Worker() == v.e.Env.Index && int(n.Node()) < len(v.lives) && !v.lives[n.Node()] &&
			v.known[n] == nil
	})
	k.Unlock()
	for i, p := range places {
		if !v.let(p, names[i]) {
			return false
		}
		v.count.Released++
	}
	return !v.swapping()
}
