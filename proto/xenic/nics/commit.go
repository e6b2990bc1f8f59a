package nics

import (
	"slices"

	"drtmd/verbs/fiber"
)

// This file is the coordinator's side of steps 4 to 6: VALIDATE, LOG, COMMIT, and the end.

// decided has the holders told that the transaction is decided.
func (t *coordination) decided() {
	var nodes []int
	for _, k := range t.expected {
		if !slices.Contains(nodes, k[1]) {
			nodes = append(nodes, k[1])
		}
	}
	t.x.settle(t.tx, nodes)
}

// unlockKept gives the locks of records back that the transaction has kept as they were; nobody answers.
func (t *coordination) unlockKept() {
	for _, s := range t.shards() {
		list, _ := t.of(s)
		list = slices.DeleteFunc(list, func(a Access) bool {
			return !a.Write || slices.ContainsFunc(t.updates, func(u Update) bool { return u.Ref == a.Ref })
		})
		switch {
		case len(list) == 0:
		case s == t.x.nic.cfg.Node:
			t.x.nic.unlock(t.tx, refs(list))
		default:
			t.x.send(s, msgUnlock, message(t.tx).accesses(list))
		}
	}
}

// updatesOf are the new values with their versions; false: what the program says is not possible.
func (n *NIC) updatesOf(list []Access, values []Value, writes []Write) (updates []Update, ok bool) {
	if len(writes) == 0 {
		return nil, true
	}
	if len(writes) != len(list) {
		return nil, false
	}
	for i, a := range list {
		w, was := writes[i], values[i].Version
		if !a.Write || w.Does == Keep || w.Does == Remove && !was.Live() {
			continue
		}
		switch {
		case w.Does == Put && len(w.Bytes) != n.cfg.Tables[a.Table].ValueBytes, w.Does > Remove:
			return nil, false
		case w.Does == Put && was.Live():
			updates = append(updates, Update{a.Ref, Value{was.Written(), w.Bytes}})
		case w.Does == Put && (was.Spent() || !a.Insert):
			return nil, false
		case w.Does == Put:
			updates = append(updates, Update{a.Ref, Value{was.Inserted(), w.Bytes}})
		default:
			updates = append(updates, Update{a.Ref, Value{Version: was.Deleted()}})
		}
	}
	return updates, true
}

// validate is step 4: what was read and is not locked, at its primaries. One record needs no second look. With Separate,
// a transaction that refuses has locked nothing.
func (t *coordination) validate(f *fiber.Fiber, status Status) Status {
	n := t.x.nic
	unlocked := n.cfg.Separate && status == Refused
	if len(t.list) == 1 && len(t.looks) == 0 {
		return Committed
	}
	t.expect(msgValidated)
	var own []Update
	var ownLooks []looked
	for _, s := range t.primaries() {
		list, at := t.of(s)
		ranges := t.looksAt(s)
		var reads []Update
		for i, a := range list {
			if !a.Write || unlocked {
				reads = append(reads, Update{a.Ref, Value{Version: t.values[at[i]].Version}})
			}
		}
		switch {
		case len(reads)+len(ranges) == 0:
		case s == n.cfg.Node:
			own, ownLooks = reads, ranges
		default:
			t.askToValidate(s, reads, ranges)
		}
	}
	t.fail(t.x.validate(f, t.tx, own))
	t.fail(t.x.unchanged(t.tx, ownLooks))
	return t.wait(f)
}

// log is step 5: the update to all backups of what is written.
func (t *coordination) log(f *fiber.Fiber) Status {
	n := t.x.nic
	t.logging = true
	t.expect(msgLogged)
	shards := n.shardsOf(t.updates)
	var own []int
	for _, s := range shards {
		for _, b := range n.holders(s, n.cfg.Node) {
			t.pending++
			t.expected = append(t.expected, [2]int{s, b})
			if b == n.cfg.Node {
				own = append(own, s)
				continue
			}
			w := t.x.takeNews(b)
			t.carried = append(t.carried, carried{s, b, w.decided})
			t.x.send(b, msgLog, message(t.tx).u16(uint16(s)).u16(uint16(n.cfg.Node)).news(&w).shards(shards).
				updates(n.ofShard(t.updates, s)).bytes(nil))
		}
	}
	for _, s := range own {
		w := t.x.takeNews(n.cfg.Node)
		t.carried = append(t.carried, carried{s, n.cfg.Node, w.decided})
		t.x.append(f, &entry{tx: t.tx, kind: logBackup, shard: s, written: shards, updates: n.ofShard(t.updates, s), news: w})
		t.acknowledge(s, n.cfg.Node)
	}
	if !n.lacks(CommittedEarly) {
		return t.wait(f)
	}
	return Committed
}

// acknowledged takes the answer to a LOG.
func (t *coordination) acknowledged(from int, d *decoder) {
	shard, echo := int(d.u16()), d.bytes()
	if !t.x.takes(d, nil, nil) {
		return
	}
	if len(echo) > 0 && !t.take(&decoder{b: echo}) {
		return
	}
	t.acknowledge(shard, from)
}

// take takes what a call on another node has read and written.
func (t *coordination) take(d *decoder) bool {
	updates, result, values := d.updates(), d.bytes(), d.values()
	if !t.x.takes(d, nil, updates) || len(values) != len(t.list) {
		return false
	}
	t.known = true
	t.updates, t.result, t.values = updates, result, values
	return true
}

// acknowledge counts a backup once.
func (t *coordination) acknowledge(shard, backup int) {
	if t.logged[[2]int{shard, backup}] || t.awaited != msgLogged {
		return
	}
	t.logged[[2]int{shard, backup}] = true
	for _, c := range t.carried {
		if c.shard == shard && c.node == backup {
			t.x.confirmed(backup, c.decided)
		}
	}
	t.pending--
	t.told.Broadcast()
}

// end tells the host: step 6, or an abort.
func (t *coordination) end(s Status) {
	t.ends = true
	t.x.ending++
	if s == Committed && t.function != 0 {
		if ended := t.x.nic.cfg.Ended; ended != nil {
			ended(t.tx, t.updates)
		}
		t.x.nic.cfg.Yard.show(t.tx, &outcome{t.list, t.values, t.updates})
	}
	t.x.c.SendHost(threadOf(t.tx), msgEnd, message(t.tx).u8(uint8(s)).bytes(t.result).b)
}

// commit is the rest of step 6, at all primaries of what is written.
func (t *coordination) commit(f *fiber.Fiber) Status {
	n := t.x.nic
	t.expect(msgCommitted)
	own := false
	for _, s := range t.shards() {
		list := n.ofNode(t.updates, s)
		switch {
		case len(list) == 0:
		case s == n.cfg.Node:
			own = true
		default:
			t.pending++
			t.x.send(s, msgCommit, message(t.tx).updates(list))
		}
	}
	if own {
		t.x.commit(f, t.tx, n.ofNode(t.updates, n.cfg.Node))
	}
	return t.wait(f)
}

// unlock gives all locks back; nobody answers.
func (t *coordination) unlock(shards []int) {
	for _, s := range shards {
		list, _ := t.of(s)
		if w := written(list); len(w) == 0 {
			continue
		}
		if s == t.x.nic.cfg.Node {
			t.x.nic.unlock(t.tx, written(list))
			continue
		}
		t.x.send(s, msgUnlock, message(t.tx).accesses(list))
	}
}
