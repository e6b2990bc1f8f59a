package nics

import (
	"errors"
	"slices"

	"drtmd/proto"
	"drtmd/proto/recovery"
	"drtmd/store/nicindex"
	"drtmd/verbs/fiber"
)

// This file is the recovery (§4.2.1), as core 0 of each NIC carries it out after a change of the members:
//
//	restore   A new primary asks all others for undecided records of its shard, notes them, and locks what they
//	          write. Then it serves the shard; those of which the primary stays were served all the time.
//	own       A coordinator that lives decides about its transactions that were stopped: commit if every holder
//	          that lives has acknowledged its LOG, else abort. One that had not begun to LOG holds only locks.
//	dead      The lowest node that lives collects the records of coordinators that are gone, has all replicas vote,
//	          and decides by recovery.Rule.
//	settle    A decision is carried out as package recovery says, each step at all nodes before the next: after a
//	          commit LOG, COMMIT, DECIDE; after an abort DROP.
//	clean     When all nodes have come so far, locks of earlier views belong to nothing, and are released.
//
// Another change stops all that; it begins anew in the next view.

// Marked steps of NICs.
const (
	StepSubmitted = "xenic: DMA of a log submitted"
	StepAnswered  = "xenic: LOG answered by some"
	StepShipped   = "xenic: a call executed for another node"
	StepApply     = "xenic: before an update is applied"
	StepRecover   = "xenic: recovery begins"
	StepRestored  = "xenic: locks of a new primary rebuilt"
	StepDecide    = "xenic: a transaction decided"
	StepSettle    = "xenic: between two steps of a decision"
)

// ask is what a node asks another one in a recovery.
type ask uint8

const (
	askHeld   ask = iota + 1 // records of undecided transactions of a shard, or of the dead: 1 for each request
	askVote                  // what was seen of a transaction
	askLog                   // hold this record
	askCommit                // write it at the primaries here
	askDecide                // apply what is held of these
	askDrop                  // forget what is held of it
	askDone                  // wait until all is decided here
	askLocked                // which records of a shard has the primary here not got of it?
)

// ofDead in askHeld stands for no shard.
const ofDead = 1<<16 - 1

// asked is a question to some nodes that is not answered by all.
type asked struct {
	answers [][]byte // by node; nil: none yet
	left    int
}

// errStopped: the members have changed again.
var errStopped = errors.New("another view has come")

// recovering is one recovery.
type recovering struct {
	n    *NIC
	f    *fiber.Fiber
	turn uint64
}

func (n *NIC) recover(f *fiber.Fiber, turn uint64) {
	r := &recovering{n: n, f: f, turn: turn}
	err := r.all()
	switch {
	case errors.Is(err, errStopped) || f.Err() != nil:
	case err != nil:
		n.trouble = err
	default:
		n.settled = n.epoch
	}
}

func (r *recovering) all() error {
	n := r.n
	r.f.Step(StepRecover)
	n.overtaken = map[uint64][]Ref{}
	for s, here := range n.shards {
		if here == nil || !here.restoring {
			continue
		}
		if !n.lacks(ServeEarly) {
			if err := r.restore(s); err != nil {
				return err
			}
		}
		if err := r.order(s); err != nil {
			return err
		}
		here.restoring = false
		n.told.Broadcast()
		r.f.Step(StepRestored)
	}
	if err := r.own(); err != nil {
		return err
	}
	if slices.Index(n.lives, true) == n.cfg.Node {
		if err := r.dead(); err != nil {
			return err
		}
	}
	n.done = n.epoch
	n.told.Broadcast()
	if _, err := r.ask(r.alive(), askDone, nil); err != nil {
		return err
	}
	if err := r.clean(); err != nil {
		return err
	}
	return r.over()
}

// over is why the recovery must end; nil: it need not.
func (r *recovering) over() error {
	if err := r.f.Err(); err != nil {
		return err
	}
	if r.turn != r.n.turn {
		return errStopped
	}
	return nil
}

// alive are the nodes that live.
func (r *recovering) alive() (nodes []int) {
	for i, lives := range r.n.lives {
		if lives {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// ask asks nodes, and gives their answers, by node. The own node answers, too.
func (r *recovering) ask(nodes []int, what ask, body []byte) ([][]byte, error) {
	n := r.n
	n.asked++
	seq := n.asked
	q := &asked{answers: make([][]byte, n.cfg.Nodes), left: len(nodes)}
	n.asks[seq] = q
	defer delete(n.asks, seq)
	b := append(message(seq).u64(n.epoch).u8(uint8(what)).b, body...)
	for _, to := range nodes {
		if to != n.cfg.Node {
			n.cores[0].c.Send(to, 0, msgAsk, b)
		}
	}
	if slices.Contains(nodes, n.cfg.Node) {
		answer, err := n.answer(r.f, r.turn, what, &decoder{b: body})
		if err != nil {
			return nil, err
		}
		q.answers[n.cfg.Node] = answer.b
		q.left--
	}
	for q.left > 0 {
		if err := r.over(); err != nil {
			return nil, err
		}
		if err := n.told.Wait(r.f, 0); err != nil {
			return nil, err
		}
	}
	return q.answers, r.over()
}

// heldMost is how long an answer to askHeld gets before the next request takes the rest.
const heldMost = 8 << 10

// collect gives what all nodes that live hold of undecided transactions.
func (r *recovering) collect(shard int) (all []*held, by []int, err error) {
	for _, node := range r.alive() {
		for after := uint64(0); ; {
			answers, err := r.ask([]int{node}, askHeld, (&encoder{}).u16(uint16(shard)).u64(after).b)
			if err != nil {
				return nil, nil, err
			}
			d := &decoder{b: answers[node]}
			after = d.u64()
			for range d.u16() {
				if h := d.held(); !d.bad {
					all, by = append(all, h), append(by, node)
				}
			}
			if after == 0 {
				break
			}
		}
	}
	return all, by, nil
}

// restore locks what undecided transactions write to a shard whose primary this node has become.
func (r *recovering) restore(shard int) error {
	n := r.n
	all, _, err := r.collect(shard)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(h *held) bool { return n.dropped[h.tx] })
	// Of several transactions that write a record, only the newest can be undecided: it has locked what those before have
	// unlocked.
	type newest struct {
		Update
		tx uint64
	}
	best := map[Ref]newest{}
	var refs []Ref
	for _, h := range all {
		p := h.part(shard)
		n.note(&held{tx: h.tx, written: h.written, parts: []part{*p}})
		for _, u := range p.updates {
			if !u.Version.Live() { // the host may apply it, and forget the key, after it has told how far it was
				n.shards[shard].records[u.Table].raise(u.Version.Incarnation())
			}
			x, seen := best[u.Ref]
			if !seen {
				refs = append(refs, u.Ref)
			}
			if !seen || x.Version < u.Version {
				best[u.Ref] = newest{u, h.tx}
			}
		}
	}
	n.cfg.Yard.deleted(shard, n.shards[shard].records) // what was applied since then is held no more
	applied := map[Ref]bool{}
	for _, ref := range refs {
		over, err := r.applied(best[ref].Update)
		if err != nil {
			return err
		}
		if applied[ref] = over; over {
			continue
		}
		o := n.index(ref).Lock(n.segment(ref), ref.Key, nicindex.Owner(best[ref].tx))
		if o != nicindex.Done {
			return errors.New("xenic: the NIC of a new primary cannot lock what undecided transactions write: " + o.String())
		}
		n.claim(best[ref].tx, Access{Ref: ref, Write: true, Insert: true})
		n.counts.Locked++
	}
	// Those before it are committed, and new replicas have to get what they have written, too.
	for _, h := range all {
		for _, u := range h.part(shard).updates {
			if x := best[u.Ref]; x.tx != h.tx && !applied[u.Ref] && !slices.Contains(n.overtaken[h.tx], u.Ref) {
				over, err := r.applied(u)
				if err != nil {
					return err
				}
				if !over {
					n.overtaken[h.tx] = append(n.overtaken[h.tx], u.Ref)
				}
			}
		}
	}
	return nil
}

// applied reports whether the host's table has an update, or a newer one, which a transaction has made that is decided.
func (r *recovering) applied(u Update) (bool, error) {
	n := r.n
	for {
		v, status := n.cores[0].lookUp(r.f, u.Ref, n.index(u.Ref), n.segment(u.Ref))
		if err := r.over(); err != nil {
			return false, err
		}
		if status == Committed {
			return (v.Version.Live() || v.Version.Trace() != 0) && v.Version >= u.Version, nil
		}
	}
}

// own settles the transactions of this node that were stopped.
func (r *recovering) own() error {
	n := r.n
	if len(n.owed) > 0 {
		if err := r.tell(n.owed); err != nil {
			return err
		}
		n.owed = nil
	}
	for len(n.left) > 0 {
		t := n.left[0]
		if t.verdict == 0 {
			t.verdict = t.decide()
		}
		if t.logging {
			h := &held{tx: t.tx, written: n.shardsOf(t.updates)}
			for _, s := range h.written {
				h.parts = append(h.parts, part{s, n.ofShard(t.updates, s)})
			}
			if err := r.settle(h, t.verdict, false); err != nil {
				return err
			}
		}
		n.left = slices.Delete(n.left, 0, 1)
		t.tellEnd()
	}
	return nil
}

// tell has all nodes apply what they hold of decided transactions.
func (r *recovering) tell(names []uint64) error {
	for len(names) > 0 {
		some := names[:min(len(names), 1024)]
		names = names[len(some):]
		if _, err := r.ask(r.alive(), askDecide, (&encoder{}).names(some).b); err != nil {
			return err
		}
	}
	return nil
}

// dead decides about the transactions of nodes that are gone.
func (r *recovering) dead() error {
	n := r.n
	list, by, err := r.collect(ofDead)
	if err != nil {
		return err
	}
	all := map[uint64]*held{}
	votes := map[uint64][]recovery.Vote{}
	var names []uint64
	for i, h := range list {
		x := all[h.tx]
		if x == nil {
			x = &held{tx: h.tx, written: h.written}
			all[h.tx] = x
			names = append(names, h.tx)
		}
		for _, p := range h.parts {
			votes[h.tx] = append(votes[h.tx], recovery.Vote{Shard: proto.ShardID(p.shard), Node: proto.NodeID(by[i]),
				Seen: recovery.SeenRecord})
			if x.part(p.shard) == nil {
				x.parts = append(x.parts, p)
			}
		}
	}
	slices.Sort(names)
	rule := recovery.Rule{AbortComplete: n.lacks(AbortComplete)}
	for _, tx := range names {
		h := all[tx]
		answers, err := r.ask(r.alive(), askVote, (&encoder{}).u64(tx).shards(h.written).b)
		if err != nil {
			return err
		}
		var written []proto.ShardID
		for _, s := range h.written {
			written = append(written, proto.ShardID(s))
		}
		for node, b := range answers {
			d := &decoder{b: b}
			var applied []int
			if b == nil {
				continue
			}
			if gone := d.u8() != 0; gone {
				applied = h.written
			}
			for _, s := range append(applied, d.shards()...) {
				votes[tx] = append(votes[tx], recovery.Vote{Shard: proto.ShardID(s), Node: proto.NodeID(node),
					Seen: recovery.SeenApplied})
			}
		}
		r.f.Step(StepDecide)
		verdict := rule.Decide(written, n.lost, votes[tx])
		if err := r.settle(h, verdict, true); err != nil {
			return err
		}
		if verdict == recovery.Commit {
			n.counts.Committed++
		} else {
			n.counts.Aborted++
		}
	}
	return nil
}

// record takes down what was decided about a transaction of a node that is gone.
func (n *NIC) record(h *held, d recovery.Decision) {
	if n.cfg.Decided == nil {
		return
	}
	var updates []Update
	for _, p := range h.parts {
		updates = append(updates, p.updates...)
	}
	n.cfg.Decided(h.tx, d, updates)
}

// settle carries a decision out.
func (r *recovering) settle(h *held, d recovery.Decision, dead bool) error {
	n := r.n
	if d == recovery.Abort {
		_, err := r.ask(r.alive(), askDrop, message(h.tx).b)
		if dead && err == nil {
			n.record(h, d)
		}
		r.f.Step(StepSettle)
		return err
	}
	missing, err := r.missing(h)
	if err != nil {
		return err
	}
	if _, err := r.ask(r.alive(), askLog, (&encoder{}).held(missing).b); err != nil {
		return err
	}
	r.f.Step(StepSettle)
	for _, p := range missing.parts {
		primary := n.primary[p.shard]
		if _, err := r.ask([]int{primary}, askCommit, message(h.tx).updates(p.updates).b); err != nil {
			return err
		}
		r.f.Step(StepSettle)
	}
	if dead { // while some node holds it: if this one dies now, the next one decides the same
		n.record(h, d)
	}
	return r.tell([]uint64{h.tx})
}

// missing is what the primaries do not have of a transaction that is committed: what it has locked there, or would have if
// another one had not come after it. The rest has been applied, and may have been overwritten or deleted since.
func (r *recovering) missing(h *held) (*held, error) {
	x := &held{tx: h.tx, written: h.written}
	for _, p := range h.parts {
		primary := r.n.primary[p.shard]
		if primary < 0 {
			continue
		}
		answers, err := r.ask([]int{primary}, askLocked, message(h.tx).u16(uint16(p.shard)).b)
		if err != nil {
			return nil, err
		}
		var locked []Ref
		for d := (&decoder{b: answers[primary]}); len(d.b) > 0; {
			locked = append(locked, d.ref())
		}
		some := slices.DeleteFunc(slices.Clone(p.updates), func(u Update) bool { return !slices.Contains(locked, u.Ref) })
		if len(some) > 0 {
			x.parts = append(x.parts, part{p.shard, some})
		}
	}
	return x, nil
}
