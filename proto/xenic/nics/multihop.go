package nics

import (
	"slices"

	"drtmd/verbs/fiber"
)

// This file is §4.2.3: a call on one other shard, with the coordinator's own or without, is executed at that shard's
// primary, which sends LOG to all backups. They answer the coordinator: 11 messages in three delays, not 12 in four.

// hops reports whether the transaction goes that way.
func (t *coordination) hops() bool {
	n := t.x.nic
	fn, registered := n.cfg.Functions[t.function]
	return n.cfg.MultiHop && !n.cfg.Separate && n.cfg.Shipping && registered && !fn.Grows && t.other() >= 0
}

// other is the only other shard; -1: there is none, or several.
func (t *coordination) other() int {
	shards := slices.DeleteFunc(t.shards(), func(s int) bool { return s == t.x.nic.cfg.Node })
	if len(shards) != 1 {
		return -1
	}
	return shards[0]
}

// hop executes and commits.
func (t *coordination) hop(f *fiber.Fiber) Status {
	n := t.x.nic
	n.Stats.MultiHop++
	// Nobody validates the own records that are only read, so they are locked, too.
	own, at := t.of(n.cfg.Node)
	if !n.lacks(LocalUnlocked) {
		for i := range own {
			own[i].Write = own[i].Write || !n.cfg.Tables[own[i].Table].Everywhere
		}
	}
	t.values = make([]Value, len(t.list))
	status, values := t.x.execute(f, t.tx, own)
	if status != Committed {
		t.end(status)
		return status
	}
	for i, v := range values {
		t.values[at[i]] = v
	}
	other := t.other()
	t.expect(msgLogged)
	t.logging = true
	t.expected = n.acknowledgements(t.list, n.cfg.Node)
	t.pending = max(len(t.expected), 1) // or the result
	t.x.send(other, msgShip, message(t.tx).u16(t.function).bytes(t.argument).accesses(t.list).values(t.values))
	if status = t.wait(f); t.halted {
		return Moved
	} else if status != Committed {
		n.unlock(t.tx, refs(own))
		t.end(status)
		return status
	}
	t.end(Committed)
	t.expect(msgCommitted)
	if list, _ := t.of(other); len(written(list)) > 0 {
		t.pending++
		t.x.send(other, msgCommit, message(t.tx).updates(nil))
	}
	if u := n.ofNode(t.updates, n.cfg.Node); len(u) > 0 {
		t.x.commit(f, t.tx, u)
	}
	n.unlock(t.tx, refs(own))
	if t.wait(f); t.halted {
		return Moved
	}
	t.decided()
	return Committed
}

// acknowledgements are those that a coordinator awaits for a call with such accesses: shards and holders.
func (n *NIC) acknowledgements(list []Access, coordinator int) (all [][2]int) {
	for _, s := range n.writtenShards(list) {
		if n.primary[s] == coordinator && n.lacks(LogsOfOneShard) {
			continue
		}
		for _, b := range n.holders(s, coordinator) {
			all = append(all, [2]int{s, b})
		}
	}
	return all
}

// writtenShards are those that accesses may write, in order.
func (n *NIC) writtenShards(list []Access) (shards []int) {
	for _, a := range list {
		if s := n.cfg.Shard(a.Ref); a.Write && !slices.Contains(shards, s) {
			shards = append(shards, s)
		}
	}
	slices.Sort(shards)
	return shards
}

// returned ends a call that came to nothing, or wrote nothing that backups could answer for.
func (t *coordination) returned(kind uint8, d *decoder) {
	if t.awaited != msgLogged {
		return
	}
	t.ended = true
	if kind == msgReturned {
		if !t.take(d) {
			t.fail(Unstable)
		}
	} else if s := Status(d.u8()); d.bad || s == Committed {
		t.fail(Unstable)
	} else {
		t.fail(s)
	}
	t.told.Broadcast()
}

// onShip is the other node's part.
func (x *core) onShip(f *fiber.Fiber, from int, d *decoder) {
	n := x.nic
	tx, function, argument, list, values := d.u64(), d.u16(), d.bytes(), d.accesses(), d.values()
	fn, registered := n.cfg.Functions[function]
	switch {
	case !x.takes(d, list, nil) || len(values) != len(list):
		return
	case !registered:
		x.send(from, msgRefused, message(tx).u8(uint8(NoFunction)))
		return
	}
	var own []Access
	var at []int
	for i, a := range list {
		if n.node(a.Ref) == n.cfg.Node {
			own, at = append(own, a), append(at, i)
		}
	}
	status, mine := x.execute(f, tx, own)
	if status == Committed {
		var reads []Update
		for i, a := range own {
			values[at[i]] = mine[i]
			if !a.Write {
				reads = append(reads, Update{a.Ref, Value{Version: mine[i].Version}})
			}
		}
		if len(list) > 1 && !n.lacks(ValidateSkipped) {
			status = x.validate(f, tx, reads)
		}
		if status != Committed {
			n.unlock(tx, written(own))
		}
	}
	if status != Committed {
		x.send(from, msgRefused, message(tx).u8(uint8(status)))
		return
	}
	x.c.Work(f, fn.ps(len(list)))
	s := fn.Run(list, values, argument)
	updates, ok := n.updatesOf(list, values, s.Writes)
	if s.Ends != Commits || len(s.More) > 0 || !ok {
		n.unlock(tx, written(own))
		status := Broken
		switch s.Ends {
		case Commits:
		case Outdated:
			status = Changed
		default:
			status = Refused
		}
		x.send(from, msgRefused, message(tx).u8(uint8(status)))
		return
	}
	echo := (&encoder{}).updates(updates).bytes(s.Result).values(values)
	if len(written(own)) > 0 {
		n.shipped[tx] = &kept{updates: n.ofNode(updates, n.cfg.Node), locks: written(own)}
	}
	f.Step(StepShipped)
	if len(n.acknowledgements(list, from)) == 0 {
		x.send(from, msgReturned, &encoder{append(message(tx).b, echo.b...)})
		return
	}
	x.logFor(f, tx, from, list, updates, echo.b)
}

// logFor sends LOG to all backups of both shards, in the name of the coordinator, who waits for those of shards that may
// be written. The first of them passes on to it what was written.
func (x *core) logFor(f *fiber.Fiber, tx uint64, coordinator int, accesses []Access, updates []Update, echo []byte) {
	n := x.nic
	shards := n.writtenShards(accesses)
	var local []func()
	for _, k := range n.acknowledgements(accesses, coordinator) {
		s, b, list, passed := k[0], k[1], n.ofShard(updates, k[0]), echo
		echo = nil
		if b == n.cfg.Node {
			local = append(local, func() {
				x.append(f, &entry{tx: tx, kind: logBackup, shard: s, written: shards, updates: list})
				x.send(coordinator, msgLogged, message(tx).u16(uint16(s)).bytes(passed))
			})
			continue
		}
		x.send(b, msgLog, message(tx).u16(uint16(s)).u16(uint16(coordinator)).news(&news{}).shards(shards).updates(list).
			bytes(passed))
	}
	for _, l := range local {
		l()
	}
}
