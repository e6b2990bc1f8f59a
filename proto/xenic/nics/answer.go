package nics

import (
	"slices"
	"time"

	"drtmd/proto/recovery"
	"drtmd/store/nicindex"
	"drtmd/verbs/fiber"
)

// This file is what a NIC answers to those that recover, and what it knows of transactions of others.

// onAsk answers in a fiber of its own, in the view of which the question is.
func (n *NIC) onAsk(from int, payload []byte) {
	d := &decoder{b: payload}
	seq, epoch, what := d.u64(), d.u64(), ask(d.u8())
	switch {
	case d.bad:
		n.Stats.Malformed++
		return
	case epoch > n.epoch:
		n.park(n.cores[0], func() { n.onAsk(from, payload) })
		return
	case epoch < n.epoch || n.paused:
		return // who asks will be stopped
	}
	turn := n.turn
	n.run(n.cores[0], func(f *fiber.Fiber) {
		if answer, err := n.answer(f, turn, what, d); err == nil {
			n.cores[0].c.Send(from, 0, msgSay, append(message(seq).b, answer.b...))
		}
	})
}

func (n *NIC) onSay(from int, payload []byte) {
	d := &decoder{b: payload}
	q := n.asks[d.u64()]
	if d.bad || q == nil || from >= len(q.answers) || q.answers[from] != nil {
		return
	}
	q.answers[from] = append([]byte{}, d.b...)
	q.left--
	n.told.Broadcast()
}

// answer answers a question.
func (n *NIC) answer(f *fiber.Fiber, turn uint64, what ask, d *decoder) (*encoder, error) {
	e := &encoder{b: []byte{}}
	y := n.cfg.Yard
	switch what {
	case askHeld:
		n.sayHeld(e, int(d.u16()), d.u64())
	case askVote:
		n.vote(e, d.u64(), d.shards())
	case askLog:
		if h := d.held(); !d.bad {
			n.note(h)
		}
	case askLocked:
		tx, here := d.u64(), n.shards[d.u16()]
		if here == nil {
			break
		}
		for here.restoring {
			if turn != n.turn {
				return nil, errStopped
			}
			if err := n.told.Wait(f, 0); err != nil {
				return nil, err
			}
		}
		for t, x := range here.indexes {
			x.EachLocked(func(_ int, key uint64, by nicindex.Owner) {
				if uint64(by) == tx {
					e.ref(Ref{uint8(t), key})
				}
			})
		}
		for _, ref := range n.overtaken[tx] {
			if n.shards[n.cfg.Shard(ref)] == here {
				e.ref(ref)
			}
		}
	case askCommit:
		tx, list := d.u64(), d.updates()
		n.cores[0].commit(f, tx, slices.DeleteFunc(list, func(u Update) bool {
			return n.shards[n.cfg.Shard(u.Ref)] == nil || slices.Contains(n.overtaken[tx], u.Ref)
		}))
	case askDecide:
		names := d.names()
		y.due = append(y.due, names...)
		for _, h := range y.hosts {
			h.rouse()
			h.cfg.Worker.Kick()
		}
		for slices.ContainsFunc(names, func(tx uint64) bool { return y.held[tx] != nil || slices.Contains(y.due, tx) }) {
			if turn != n.turn && n.paused {
				return nil, errStopped
			}
			if err := f.Sleep(time.Microsecond); err != nil {
				return nil, err
			}
		}
	case askDrop:
		tx := d.u64()
		n.dropped[tx] = true
		delete(y.held, tx)
	case askDone:
		for n.done != n.epoch {
			if turn != n.turn {
				return nil, errStopped
			}
			if err := n.told.Wait(f, 0); err != nil {
				return nil, err
			}
		}
	}
	if turn != n.turn {
		return nil, errStopped
	}
	return e, nil
}

// note holds the records of a transaction that are of replicas here.
func (n *NIC) note(h *held) {
	for _, p := range h.parts {
		if n.holds[p.shard] {
			n.cfg.Yard.hold(h.tx, h.written, p)
		}
	}
}

// sayHeld gives undecided transactions behind a name, and the name to go on from, 0: that was all.
func (n *NIC) sayHeld(e *encoder, shard int, after uint64) {
	y := n.cfg.Yard
	next := uint64(0)
	var list []*held
	size := 0
	for _, tx := range y.names() {
		h := y.held[tx]
		if tx <= after || shard == ofDead && !n.dead(tx) || shard != ofDead && h.part(shard) == nil {
			continue
		}
		b := len((&encoder{}).held(h).b)
		if len(list) > 0 && size+b > heldMost {
			next = list[len(list)-1].tx
			break
		}
		size += b
		list = append(list, h)
	}
	e.u64(next).u16(uint16(len(list)))
	for _, h := range list {
		e.held(h)
	}
}

// vote says whether the transaction was decided here, and of which shards the primary, which it was when the transaction
// was begun, has no lock of it any more: such a shard has the update.
func (n *NIC) vote(e *encoder, tx uint64, written []int) {
	decided := uint8(0)
	if n.cfg.Yard.gone[tx] {
		decided = 1
	}
	e.u8(decided)
	var applied []int
	for _, s := range written {
		here := n.shards[s]
		if here == nil || n.moved[s] > n.begun(tx) {
			continue
		}
		locked := false
		for _, x := range here.indexes {
			x.EachLocked(func(_ int, _ uint64, by nicindex.Owner) { locked = locked || uint64(by) == tx })
		}
		if !locked {
			applied = append(applied, s)
		}
	}
	e.shards(applied)
}

// held: name 8, shards that are written, parts: count 1, each a shard 2 and updates.
func (e *encoder) held(h *held) *encoder {
	e.u64(h.tx).shards(h.written).count(len(h.parts))
	for _, p := range h.parts {
		e.u16(uint16(p.shard)).updates(p.updates)
	}
	return e
}

func (d *decoder) held() *held {
	h := &held{tx: d.u64(), written: d.shards()}
	for range d.count() {
		h.parts = append(h.parts, part{int(d.u16()), d.updates()})
	}
	return h
}

// decide is what the coordinator decides about its transaction that was stopped.
func (t *coordination) decide() recovery.Decision {
	n := t.x.nic
	if !t.logging || !t.known {
		return recovery.Abort
	}
	for _, k := range t.expected {
		if n.lives[k[1]] && n.joined[k[1]] <= n.begun(t.tx) && !t.logged[k] {
			return recovery.Abort
		}
	}
	return recovery.Commit
}

// tellEnd tells the host of a transaction that was stopped.
func (t *coordination) tellEnd() {
	s := Moved
	if t.verdict == recovery.Commit {
		s = Committed
	}
	if !t.ends {
		t.end(s)
		t.x.c.Worker().Kick()
	}
	t.x.ending--
}
