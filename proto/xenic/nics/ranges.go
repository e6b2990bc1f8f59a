package nics

import (
	"slices"
	"time"

	"drtmd/store/layout"
	"drtmd/store/nicindex"
	"drtmd/verbs/fiber"
)

// This file is about ranges of ordered tables. The primary's NIC knows the order of a table's keys as of its commits
// (nicindex.Order), which the host's tables lag behind. A host's program asks for keys of a range, and reads their records
// as it reads others. VALIDATE has the primary compare: no key of the range has come or gone since, and nobody has locked
// one to insert it.

// Range is which keys a program wants: the first ones from From to To, at most Most, in descending order if From is
// above To. Both ends are of one shard.
type Range struct {
	Table    uint8
	From, To uint64
	Most     int // up to MaxKeys
}

// MaxKeys of a Range.
const MaxKeys = 256

// looked is what a transaction has seen of a table's order, from low to high, both included, when that had a stamp.
type looked struct {
	table            uint8
	low, high, stamp uint64
}

// claim is a record of an ordered table that a transaction has locked, and that is to come.
type claim struct {
	ref Ref
	tx  uint64
}

// keysPs is the time on a host core of a look at an order, and keyPs what each key adds. Assumed.
const (
	keysPs = 100_000
	keyPs  = 5_000
)

// unlockedWait is how long a NIC waits before it looks at a table again that its host is changing.
const unlockedWait = time.Microsecond

func (e *encoder) keyRange(r *Range) *encoder {
	return e.u8(r.Table).u64(r.From).u64(r.To).u16(uint16(r.Most))
}

func (d *decoder) keyRange() Range {
	return Range{Table: d.u8(), From: d.u64(), To: d.u64(), Most: int(d.u16())}
}

func (e *encoder) ranges(list []looked) *encoder {
	e.count(len(list))
	for _, l := range list {
		e.u8(l.table).u64(l.low).u64(l.high).u64(l.stamp)
	}
	return e
}

func (d *decoder) ranges() (list []looked) {
	for range d.count() {
		list = append(list, looked{d.u8(), d.u64(), d.u64(), d.u64()})
	}
	return list
}

// takesRange reports whether a range can be.
func (x *core) takesRange(r *Range) bool {
	ok := int(r.Table) < len(x.nic.cfg.Tables) && x.nic.cfg.Tables[r.Table].Ordered && r.Most <= MaxKeys
	if !ok {
		x.nic.Stats.Malformed++
	}
	return ok
}

func (x *core) takesRanges(list []looked) bool {
	return !slices.ContainsFunc(list, func(l looked) bool { return !x.takesRange(&Range{Table: l.table}) })
}

// order makes the orders of a shard from what its host has; false: the host is changing a table.
func (n *NIC) order(shard int) bool {
	s := n.shards[shard]
	for t := range s.orders {
		if !n.cfg.Tables[t].Ordered {
			continue
		}
		keys, ok := n.cfg.Keys(shard, t)
		if !ok {
			return false
		}
		s.orders[t] = nicindex.NewOrder(keys, n.cfg.Tables[t].Index)
	}
	return true
}

// orderOf is the order of a record's table, in a shard that is served here; nil: it has none.
func (n *NIC) orderOf(r Ref) *nicindex.Order { return n.shards[n.cfg.Shard(r)].orders[r.Table] }

// claim notes a record that is locked to be inserted.
func (n *NIC) claim(tx uint64, a Access) {
	s := n.shards[n.cfg.Shard(a.Ref)]
	if c := (claim{a.Ref, tx}); a.Insert && n.cfg.Tables[a.Table].Ordered && !slices.Contains(s.claims, c) {
		s.claims = append(s.claims, c)
	}
}

// release forgets that.
func (n *NIC) release(tx uint64, r Ref) {
	s := n.shards[n.cfg.Shard(r)]
	if i := slices.Index(s.claims, claim{r, tx}); i >= 0 {
		s.claims = slices.Delete(s.claims, i, i+1)
	}
}

// keys are those of a range of a shard that is served here.
func (x *core) keys(f *fiber.Fiber, r *Range) (keys []uint64, stamp uint64, s Status) {
	n := x.nic
	ref := Ref{r.Table, r.From}
	x.c.Work(f, keysPs+keyPs*int64(r.Most))
	if n.node(ref) != n.cfg.Node || n.at(ref) == nil {
		return nil, 0, Moved
	}
	o := n.orderOf(ref)
	return o.Keys(nil, r.From, r.To, r.Most), o.Stamp(), Committed
}

// unchanged is the part of step 4 for ranges of shards that are served here.
func (x *core) unchanged(tx uint64, list []looked) Status {
	n := x.nic
	for _, l := range list {
		ref := Ref{l.table, l.low}
		switch {
		case n.lacks(RangesUnvalidated):
			continue
		case n.node(ref) != n.cfg.Node || n.at(ref) == nil:
			return Moved
		case !n.orderOf(ref).Unchanged(l.stamp, l.low, l.high):
			return Changed
		}
		for _, c := range n.shards[n.cfg.Shard(ref)].claims {
			if c.tx != tx && c.ref.Table == l.table && l.low <= c.ref.Key && c.ref.Key <= l.high && !n.lacks(ClaimsIgnored) {
				return Locked
			}
		}
	}
	return Committed
}

// absent gives the version of a record that an ordered table does not have: the NIC knows which keys it has, so an insertion
// needs no look-up by DMA. What it knows is as of its commits, and nobody has locked the key, or the caller has. The paper's
// ordered tables are B+ trees of the coordinator's host (§5.2), whose insertions take no DMA either.
func (n *NIC) absent(r Ref) (Value, bool) {
	o := n.orderOf(r)
	if o == nil || o.Has(r.Key) {
		return Value{}, false
	}
	return Value{Version: layout.Fresh(n.recordsOf(r).deleted)}, true
}

// absences are looks at orders of one EXECUTE: a cursor goes on from key to key of a table.
type absences struct {
	tables [256]bool
	ps     int64 // time on a host core
}

func (a *absences) note(table uint8) {
	if a.ps += keyPs; !a.tables[table] {
		a.tables[table] = true
		a.ps += keysPs
	}
}

// overlooks is a deliberate bug: the order of a table is asked before the locks.
func (n *NIC) overlooks(r Ref) bool {
	if !n.lacks(AbsenceUnlocked) {
		return false
	}
	_, absent := n.absent(r)
	return absent
}

func (x *core) onKeys(f *fiber.Fiber, from int, d *decoder) {
	tx, r := d.u64(), d.keyRange()
	if !x.takes(d, nil, nil) || !x.takesRange(&r) {
		return
	}
	keys, stamp, s := x.keys(f, &r)
	x.send(from, msgFound, message(tx).u8(uint8(s)).u64(stamp).names(keys))
}

// look finds keys for the host's program, which is told them in its next step.
func (t *coordination) look(f *fiber.Fiber, r *Range) Status {
	n := t.x.nic
	p := n.node(Ref{r.Table, r.From})
	if p < 0 {
		return Moved
	}
	if len(t.looks) == MaxAccesses {
		return Broken
	}
	t.looks = append(t.looks, looked{table: r.Table, low: r.From, high: r.To})
	t.expect(msgFound)
	if p != n.cfg.Node {
		t.pending++
		t.x.send(p, msgKeys, message(t.tx).keyRange(r))
		if s := t.wait(f); s != Committed {
			return s
		}
	} else {
		keys, stamp, s := t.x.keys(f, r)
		if s != Committed {
			return s
		}
		t.looks[len(t.looks)-1].stamp = stamp
		t.found = message(t.tx).names(keys)
	}
	l, d := &t.looks[len(t.looks)-1], &decoder{b: t.found.b}
	d.u64()
	if keys := d.names(); len(keys) == r.Most && r.Most > 0 { // it has not looked behind them
		l.high = keys[len(keys)-1]
	}
	l.low, l.high = min(l.low, l.high), max(l.low, l.high)
	return Committed
}

// foundThere takes the answer of another primary.
func (t *coordination) foundThere(d *decoder) {
	s, stamp, keys := Status(d.u8()), d.u64(), d.names()
	if !t.x.takes(d, nil, nil) || len(keys) > MaxKeys {
		s = Unstable
	}
	t.fail(s)
	t.looks[len(t.looks)-1].stamp = stamp
	t.found = message(t.tx).names(keys)
}

// looksAt are the ranges of shards that a node is the primary of.
func (t *coordination) looksAt(node int) (list []looked) {
	for _, l := range t.looks {
		if t.x.nic.node(Ref{l.table, l.low}) == node {
			list = append(list, l)
		}
	}
	return list
}

// primaries are those of the accesses and of the ranges, in order.
func (t *coordination) primaries() []int {
	list := t.shards()
	for _, l := range t.looks {
		if p := t.x.nic.node(Ref{l.table, l.low}); !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	slices.Sort(list)
	return list
}

// Keys are the first keys of a range of an ordered table, for the transaction's program. Without Committed the transaction
// is over.
func (o *Open) Keys(f *fiber.Fiber, r *Range) (keys []uint64, s Status, err error) {
	if !o.begun {
		if _, s, err := o.Execute(f, nil); err != nil || s != Committed {
			return nil, s, err
		}
	}
	o.send(msgFinish, message(o.tx).step(&Step{Range: r}))
	if err := o.wait(f); err != nil {
		o.Drop()
		return nil, 0, err
	}
	if o.kind == msgEnd {
		delete(o.h.calls, o.tx)
		return nil, Status(o.d.u8()), nil
	}
	return o.d.names(), Committed, nil
}

// order makes the orders of a shard that is taken over, as soon as its host is not changing tables.
func (r *recovering) order(shard int) error {
	for !r.n.order(shard) {
		if err := r.f.Sleep(unlockedWait); err != nil {
			return err
		}
		if err := r.over(); err != nil {
			return err
		}
	}
	return nil
}

// reorder releases a claim whose transaction was decided: the host may have applied it already.
func (r *recovering) reorder(c claim) error {
	n := r.n
	for {
		v, status := n.cores[0].fetch(r.f, c.tx, c.ref)
		if err := r.over(); err != nil {
			return err
		}
		if status == Committed {
			n.orderOf(c.ref).Set(c.ref.Key, v.Version.Live())
			n.release(c.tx, c.ref)
			return nil
		}
		if err := r.f.Sleep(unlockedWait); err != nil { // the host changes the table
			return err
		}
	}
}
