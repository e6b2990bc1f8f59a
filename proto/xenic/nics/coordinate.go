package nics

import (
	"slices"
	"time"

	"drtmd/proto/recovery"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// coordination is a transaction at its coordinator's NIC (§4.2, steps 1 to 6).
type coordination struct {
	x        *core
	tx       uint64
	list     []Access
	function uint16
	argument []byte

	values  []Value // of list
	first   int     // of those that EXECUTE is under way for
	updates []Update
	result  []byte

	awaited uint8 // kind of the answers that count
	pending int
	status  Status
	logged  map[[2]int]bool // shard and backup whose LOG was answered; looked up only
	told    fiber.Cond
	ended   bool  // the multi-hop call came to an end at the other node
	finish  *Step // what the host says; it may come before it is asked
	dropped bool  // the host does not wait for the end
	ends    bool  // the host was told

	turn     uint64 // of the NIC's view
	halted   bool   // the view has changed: recovery goes on with it
	logging  bool   // LOG has begun
	known    bool   // updates are all that is written
	expected [][2]int
	carried  []carried // what LOGs have told
	verdict  recovery.Decision
}

// carried is what a LOG has told a node.
type carried struct {
	shard, node int
	decided     []uint64
}

// onBegin is step 1: the host's request.
func (x *core) onBegin(d *decoder) {
	t := &coordination{x: x, tx: d.u64(), list: d.accesses(), function: d.u16(), argument: d.bytes()}
	if x.takes(d, t.list, nil) {
		t.coordinate(t.run)
	}
}

// refuses ends a transaction that its host has begun in another view than the present one.
func (t *coordination) refuses() bool {
	n := t.x.nic
	if !n.paused && n.views(t.tx) == 0 && !slices.ContainsFunc(t.list, func(a Access) bool { return n.node(a.Ref) < 0 }) {
		return false
	}
	t.x.c.SendHost(threadOf(t.tx), msgEnd, message(t.tx).u8(uint8(Moved)).bytes(nil).b)
	return true
}

// onLocal is the request of a host that has executed a transaction on its own tables (§4.2.4).
func (x *core) onLocal(d *decoder) {
	t := &coordination{x: x, tx: d.u64(), list: d.accesses()}
	for range t.list {
		t.values = append(t.values, Value{Version: layout.Version(d.u64())})
	}
	t.updates = d.updates()
	if x.takes(d, t.list, t.updates) {
		x.nic.Stats.Local++
		t.coordinate(t.local)
	}
}

// threadOf is the thread of the host that waits for a transaction.
func threadOf(tx uint64) int { return recovery.Name(tx).Worker() }

// coordinate runs a transaction to its end, in a fiber of its own. What the host says next may come before that runs. If
// the view changes it is left to recovery.
func (t *coordination) coordinate(run func(f *fiber.Fiber) Status) {
	n := t.x.nic
	if t.refuses() {
		return
	}
	t.logged, t.turn = map[[2]int]bool{}, n.turn
	t.x.txs[t.tx] = t
	n.run(t.x, func(f *fiber.Fiber) {
		status := run(f)
		delete(t.x.txs, t.tx)
		if t.halted {
			n.left = append(n.left, t)
			return
		}
		if t.ends {
			t.x.ending--
		}
		if status == Committed {
			n.Stats.Committed++
		} else {
			n.Stats.Aborted++
		}
	})
}

// local is §4.2.4: the host has executed the transaction. What it writes is locked here, and versions are compared, those
// of what it writes as well: the host has read it before. What it reads is validated here, too, not at the host, whose
// tables miss what is in its logs, and what is told and on its way there.
func (t *coordination) local(f *fiber.Fiber) Status {
	n := t.x.nic
	if !n.serves(t.list) {
		t.end(Moved)
		return Moved
	}
	status := Committed
	if !n.lacks(LocalWriteUnlocked) {
		status = n.lock(t.tx, t.list)
	}
	if status == Committed {
		var seen []Update
		for i, a := range t.list {
			if a.Write && (n.lacks(LocalVersionsUnchecked) || n.lacks(LocalWriteUnlocked)) ||
				!a.Write && n.lacks(LocalReadsUnvalidated) {
				continue
			}
			seen = append(seen, Update{a.Ref, Value{Version: t.values[i].Version}})
		}
		if status = t.x.validate(f, t.tx, seen); status != Committed {
			n.unlock(t.tx, written(t.list))
		}
	}
	if status != Committed {
		t.end(status)
		return status
	}
	if t.known = true; t.log(f) == Moved {
		return Moved
	}
	t.end(Committed)
	for n.lacks(LocalWriteUnlocked) && n.lock(t.tx, t.list) == Locked {
		if f.Sleep(time.Microsecond) != nil {
			break
		}
	}
	if len(t.updates) > 0 {
		t.x.commit(f, t.tx, t.updates)
	}
	n.unlock(t.tx, written(t.list))
	t.decided()
	return Committed
}

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

// run executes and commits, and tells the host how it went before the locks are given back.
func (t *coordination) run(f *fiber.Fiber) Status {
	if t.hops() {
		return t.hop(f)
	}
	status := t.execute(f, 0)
	if status == Committed {
		status = t.compute(f)
		// A refusal is an answer, too: it must rest on what was there at one moment.
		if (status == Committed || status == Refused) && !t.x.nic.lacks(ValidateSkipped) {
			if valid := t.validate(f); valid != Committed {
				status = valid
			}
		}
		if status != Committed && !t.halted {
			t.unlock(t.shards())
		}
	}
	if t.halted {
		return Moved
	}
	if status != Committed {
		if !t.dropped {
			t.end(status)
		}
		return status
	}
	if t.known = true; t.log(f) == Moved {
		return Moved
	}
	t.end(Committed)
	if t.commit(f) == Moved {
		return Moved
	}
	t.unlockKept()
	t.decided()
	return Committed
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

// shards are the nodes that are the primaries of the accesses, in order.
func (t *coordination) shards() (list []int) {
	for _, a := range t.list {
		if s := t.x.nic.node(a.Ref); !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	slices.Sort(list)
	return list
}

// of are the accesses of records of a primary, and their places in the list.
func (t *coordination) of(shard int) (list []Access, at []int) { return t.from(0, shard) }

// from is of, for those from a place in the list on.
func (t *coordination) from(first, shard int) (list []Access, at []int) {
	for i, a := range t.list {
		if i >= first && t.x.nic.node(a.Ref) == shard {
			list, at = append(list, a), append(at, i)
		}
	}
	return list, at
}

// expect begins to wait for answers of a kind.
func (t *coordination) expect(kind uint8) {
	t.awaited, t.pending, t.status, t.ended = kind, 0, Committed, false
}

// wait waits for all of them.
func (t *coordination) wait(f *fiber.Fiber) Status {
	for t.pending > 0 && !t.ended {
		if t.turn != t.x.nic.turn {
			t.halted = true
			return Moved
		}
		if t.told.Wait(f, 0) != nil {
			return Unstable
		}
		if t.awaited == msgLogged && t.pending > 0 {
			f.Step(StepAnswered)
		}
	}
	return t.status
}

// answer takes an answer from a node.
func (t *coordination) answer(kind uint8, from int, d *decoder) {
	switch kind {
	case msgRefused, msgReturned:
		t.returned(kind, d)
		return
	case msgLogged:
		t.acknowledged(from, d)
		return
	case msgFinish:
		if s := d.step(); t.x.takes(d, s.More, nil) && len(t.list)+len(s.More) <= MaxAccesses {
			t.finish = &s
		} else {
			t.finish = &Step{Ends: Aborts}
		}
	}
	if kind != t.awaited || t.pending == 0 {
		return
	}
	switch kind {
	case msgExecuted:
		if s, values := Status(d.u8()), d.values(); t.x.takes(d, nil, nil) {
			t.executed(from, s, values)
		} else {
			t.fail(Unstable)
		}
	case msgValidated:
		if s := Status(d.u8()); t.x.takes(d, nil, nil) {
			t.fail(s)
		} else {
			t.fail(Unstable)
		}
	}
	t.pending--
	t.told.Broadcast()
}

// fail keeps the first status that is not Committed.
func (t *coordination) fail(s Status) {
	if t.status == Committed {
		t.status = s
	}
}

// execute is step 2, at all primaries at once, for the accesses from a place in the list on.
func (t *coordination) execute(f *fiber.Fiber, first int) Status {
	n := t.x.nic
	t.first = first
	t.values = append(t.values, make([]Value, len(t.list)-first)...)
	t.expect(msgExecuted)
	shards := t.shards()
	for _, s := range shards {
		if list, _ := t.from(first, s); s != n.cfg.Node && len(list) > 0 {
			t.pending++
			t.x.send(s, msgExecute, message(t.tx).accesses(list))
		}
	}
	if list, _ := t.from(first, n.cfg.Node); len(list) > 0 {
		t.pending++
		status, values := t.x.execute(f, t.tx, list)
		t.executed(n.cfg.Node, status, values)
		t.pending--
	}
	status := t.wait(f)
	if status != Committed && !t.halted {
		t.unlock(shards) // where nothing was locked, that changes nothing
	}
	return status
}

func (t *coordination) executed(shard int, s Status, values []Value) {
	if s != Committed {
		t.fail(s)
		return
	}
	_, at := t.from(t.first, shard)
	if len(values) != len(at) {
		t.x.nic.Stats.Malformed++
		t.fail(Unstable)
		return
	}
	for i, v := range values {
		t.values[at[i]] = v
	}
}

// compute is step 3: the host, or a shipped function, makes the new values, in as many rounds as it wants.
func (t *coordination) compute(f *fiber.Fiber) Status {
	for {
		s := t.step(f)
		switch s.Ends {
		case Aborts:
			return Refused
		case Drops:
			t.dropped = !t.halted
			return Changed // nobody hears of it
		}
		if len(s.More) == 0 {
			var ok bool
			t.result = s.Result
			if t.updates, ok = t.x.nic.updatesOf(t.list, t.values, s.Writes); !ok {
				return Broken
			}
			return Committed
		}
		first := len(t.list)
		if first+len(s.More) > MaxAccesses {
			return Broken
		}
		if slices.ContainsFunc(s.More, func(a Access) bool { return t.x.nic.node(a.Ref) < 0 }) {
			return Moved
		}
		t.list = append(t.list, s.More...)
		if status := t.execute(f, first); status != Committed {
			return status
		}
	}
}

// step executes the program once.
func (t *coordination) step(f *fiber.Fiber) Step {
	n := t.x.nic
	if fn, ok := n.cfg.Functions[t.function]; ok && n.cfg.Shipping {
		n.Stats.Shipped++
		t.x.c.Work(f, fn.ps(len(t.list)))
		return fn.Run(t.list, t.values, t.argument)
	}
	if t.finish == nil {
		t.expect(msgFinish)
		t.pending = 1
		t.x.c.SendHost(threadOf(t.tx), msgValues, message(t.tx).values(t.values[t.first:]).b)
		t.wait(f)
	}
	s := t.finish
	if t.finish = nil; s == nil || t.halted {
		return Step{Ends: Drops}
	}
	return *s
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

// validate is step 4: what was read and is not locked, at its primaries. One record needs no second look.
func (t *coordination) validate(f *fiber.Fiber) Status {
	n := t.x.nic
	if len(t.list) == 1 {
		return Committed
	}
	t.expect(msgValidated)
	var own []Update
	for _, s := range t.shards() {
		list, at := t.of(s)
		var reads []Update
		for i, a := range list {
			if !a.Write {
				reads = append(reads, Update{a.Ref, Value{Version: t.values[at[i]].Version}})
			}
		}
		switch {
		case len(reads) == 0:
		case s == n.cfg.Node:
			own = reads
		default:
			t.pending++
			t.x.send(s, msgValidate, message(t.tx).updates(reads))
		}
	}
	t.fail(t.x.validate(f, t.tx, own))
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
	e := message(t.tx).u8(uint8(s)).bytes(t.result)
	if s == Committed && t.function != 0 {
		if ended := t.x.nic.cfg.Ended; ended != nil {
			ended(t.tx, t.updates)
		}
		e.accesses(t.list).values(t.values).updates(t.updates)
	}
	t.x.c.SendHost(threadOf(t.tx), msgEnd, e.b)
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
