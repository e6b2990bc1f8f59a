package nics

import (
	"drtmd/verbs/fiber"
)

// This file is the baseline of §5.7 (Options.Separate): requests as DrTM+H sends them, because one-sided verbs can do no
// more. Every record is read by one request, what is written is locked by one of each primary when the program has ended,
// and every other record is validated by one. What a transaction reads is not locked then, so LOCK compares versions.

// readEach is step 2 without locks, for the accesses from a place in the list on.
func (t *coordination) readEach(f *fiber.Fiber, first int) Status {
	n := t.x.nic
	t.first = first
	t.values = append(t.values, make([]Value, len(t.list)-first)...)
	t.expect(msgHas)
	t.pending = len(t.list) - first
	for i := first; i < len(t.list); i++ {
		if p := n.node(t.list[i].Ref); p != n.cfg.Node {
			t.x.send(p, msgRead, message(t.tx).u16(uint16(i)).accesses(t.list[i:i+1]))
		}
	}
	for i := first; i < len(t.list); i++ {
		if a := t.list[i]; n.node(a.Ref) == n.cfg.Node {
			v, s := t.x.readFree(f, t.tx, a)
			t.values[i] = v
			t.fail(s)
			t.pending--
		}
	}
	return t.wait(f)
}

// has takes the answer to msgRead.
func (t *coordination) has(d *decoder) {
	i, s, v := int(d.u16()), Status(d.u8()), d.values()
	if !t.x.takes(d, nil, nil) || i < t.first || i >= len(t.list) || s == Committed && len(v) != 1 {
		t.fail(Unstable)
		return
	}
	if t.fail(s); s == Committed {
		t.values[i] = v[0]
	}
}

// readFree reads a record of the own shard that is to be locked later, if at all.
func (x *core) readFree(f *fiber.Fiber, tx uint64, a Access) (Value, Status) {
	if !x.nic.serves([]Access{a}) {
		return Value{}, Moved
	}
	v, s := x.read(f, tx, a.Ref)
	if s == Committed && a.Insert && !x.nic.fits(a.Ref, v.Version) {
		s = NoRoom
	}
	return v, s
}

func (x *core) onRead(f *fiber.Fiber, from int, d *decoder) {
	tx, place, list := d.u64(), d.u16(), d.accesses()
	if !x.takes(d, list, nil) || len(list) != 1 {
		return
	}
	v, s := x.readFree(f, tx, list[0])
	x.send(from, msgHas, message(tx).u16(place).u8(uint8(s)).values([]Value{v}))
}

// lockWritten locks what the transaction may write, at all primaries.
func (t *coordination) lockWritten(f *fiber.Fiber) Status {
	n := t.x.nic
	t.expect(msgHeld)
	var own []Update
	for _, s := range t.shards() {
		list, at := t.of(s)
		var locks []Update
		for i, a := range list {
			if a.Write {
				locks = append(locks, Update{a.Ref, Value{Version: t.values[at[i]].Version}})
			}
		}
		switch {
		case len(locks) == 0:
		case s == n.cfg.Node:
			own = locks
		default:
			t.pending++
			t.x.send(s, msgLock, message(t.tx).updates(locks))
		}
	}
	t.fail(t.x.lockAs(f, t.tx, own))
	return t.wait(f)
}

// lockAs locks records of the own shard, all or none, if they have the versions that were read.
func (x *core) lockAs(f *fiber.Fiber, tx uint64, locks []Update) Status {
	n := x.nic
	var list []Access
	for _, u := range locks {
		list = append(list, Access{Ref: u.Ref, Write: true, Insert: !u.Version.Live()})
	}
	if !n.serves(list) {
		return Moved
	}
	status := n.lock(tx, list)
	if status == Committed && !n.lacks(LockIgnoresVersion) {
		if status = x.validate(f, tx, locks); status != Committed {
			n.unlock(tx, written(list))
		}
	}
	return status
}

func (x *core) onLock(f *fiber.Fiber, from int, d *decoder) {
	tx, locks := d.u64(), d.updates()
	if x.takes(d, nil, locks) {
		x.send(from, msgHeld, message(tx).u8(uint8(x.lockAs(f, tx, locks))))
	}
}

// askToValidate sends another primary what it is to validate: in one request, or in one for each record, and ranges with
// the last.
func (t *coordination) askToValidate(primary int, reads []Update, ranges []looked) {
	for t.x.nic.cfg.Separate && len(reads) > 1 {
		t.pending++
		t.x.send(primary, msgValidate, message(t.tx).updates(reads[:1]).ranges(nil))
		reads = reads[1:]
	}
	t.pending++
	t.x.send(primary, msgValidate, message(t.tx).updates(reads).ranges(ranges))
}
