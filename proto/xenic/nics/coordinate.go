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
	looks   []looked
	found   *encoder // keys of a range that the host has not been told
	first   int      // of those that EXECUTE is under way for
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
	refused bool  // the host rolls back: what it has read is compared, and nothing is written

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

// onLocal is the request of a host that has executed a transaction on its own tables (§4.2.4), or rolled it back.
func (x *core) onLocal(d *decoder, ends Ends) {
	t := &coordination{x: x, tx: d.u64(), list: d.accesses(), refused: ends == Aborts}
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
	if status == Committed && t.refused {
		status = Refused
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

// run executes and commits, and tells the host how it went before the locks are given back.
func (t *coordination) run(f *fiber.Fiber) Status {
	if t.hops() {
		return t.hop(f)
	}
	status := t.execute(f, 0)
	if status == Committed {
		status = t.compute(f)
		if status == Committed && t.x.nic.cfg.Separate {
			status = t.lockWritten(f)
		}
		// A refusal is an answer, too: it must rest on what was there at one moment.
		if (status == Committed || status == Refused) && !t.x.nic.lacks(ValidateSkipped) {
			if valid := t.validate(f, status); valid != Committed {
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
		if s := d.step(); t.x.takes(d, s.More, nil) && (s.Range == nil || t.x.takesRange(s.Range)) && len(t.list)+len(s.More) <= MaxAccesses {
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
	case msgHas:
		t.has(d)
	case msgFound:
		t.foundThere(d)
	case msgValidated, msgHeld:
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
	if n.cfg.Separate {
		return t.readEach(f, first)
	}
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
		if t.pending > 0 { // the requests go out with this pass, before own work
			if f.Yield() != nil {
				return Unstable
			}
			if t.halted = t.turn != n.turn; t.halted {
				return Moved
			}
		}
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
		case Outdated:
			return Changed
		case Drops:
			t.dropped = !t.halted
			return Changed // nobody hears of it
		}
		if s.Range != nil {
			if status := t.look(f, s.Range); status != Committed {
				return status
			}
			continue
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
		if t.found != nil {
			t.x.c.SendHost(threadOf(t.tx), msgRange, t.found.b)
			t.found = nil
		} else {
			t.x.c.SendHost(threadOf(t.tx), msgValues, message(t.tx).values(t.values[t.first:]).b)
		}
		t.wait(f)
	}
	s := t.finish
	if t.finish = nil; s == nil || t.halted {
		return Step{Ends: Drops}
	}
	return *s
}
