package nics

import (
	"drtmd/internal/invariant"
	"drtmd/store/layout"
	"drtmd/store/nicindex"
	"drtmd/verbs/fiber"
	"drtmd/verbs/smartnic"
)

// This file is how updates take effect at a primary: COMMIT (step 6), and what the host says of what it has applied (step
// 7).

// commit makes updates of shards that are served here, whose records the transaction has locked, take effect (step 6):
// the host gets them in its log, and applies them later. Until then they are pinned in the index. It is false if the
// transaction has no such locks: it has committed already, or is none of ours.
func (x *core) commit(f *fiber.Fiber, tx uint64, list []Update) bool {
	n, owner := x.nic, nicindex.Owner(tx)
	for _, u := range list {
		if n.shards[n.cfg.Shard(u.Ref)] == nil {
			return false
		}
		if _, _, by := n.index(u.Ref).Version(n.segment(u.Ref), u.Key); by != owner {
			return false
		}
	}
	if n.lacks(UnlockBeforeLog) {
		x.commitUnlocked(f, tx, list)
		return true
	}
	var appends []*appending
	for _, s := range n.shardsOf(list) {
		mine := n.ofShard(list, s)
		appends = append(appends, x.begin(f, &entry{tx: tx, kind: logCommit, shard: s, updates: mine}))
		for i := range mine {
			n.take(owner, &mine[i])
		}
	}
	for _, a := range appends {
		x.finish(f, a)
	}
	n.unlock(tx, refsOf(list))
	return true
}

// take has the index take an update of a record that the owner has locked, and pin it.
func (n *NIC) take(owner nicindex.Owner, u *Update) {
	n.index(u.Ref).Commit(n.segment(u.Ref), u.Key, owner, u.Version, u.Bytes)
	if o := n.orderOf(u.Ref); o != nil {
		o.Set(u.Key, u.Version.Live())
	}
	r := n.recordsOf(u.Ref)
	if !u.Version.Live() {
		r.raise(u.Version.Incarnation())
	} else if inserts(u.Version) {
		r.inserted++
	}
}

// commitUnlocked is a deliberate bug: the locks go first, and the index has an update when the log has it, unless another
// transaction has locked the record by then. Nothing is pinned.
func (x *core) commitUnlocked(f *fiber.Fiber, tx uint64, list []Update) {
	n, owner := x.nic, nicindex.Owner(tx)
	n.unlock(tx, refsOf(list))
	for _, s := range n.shardsOf(list) {
		mine := n.ofShard(list, s)
		x.finish(f, x.begin(f, &entry{tx: tx, kind: logCommit, shard: s, updates: mine}))
		for i := range mine {
			index, segment, key := n.index(mine[i].Ref), n.segment(mine[i].Ref), mine[i].Key
			if index.Lock(segment, key, owner) == nicindex.Done {
				n.take(owner, &mine[i])
				index.Unpin(segment, key)
				index.Unlock(segment, key, owner)
			}
		}
	}
}

func refsOf(list []Update) (r []Ref) {
	for _, u := range list {
		r = append(r, u.Ref)
	}
	return r
}

// inserts reports whether a version may be that of an insertion.
func inserts(v layout.Version) bool { return v.Live() && v.Number() == 0 }

// onApplied takes what the host has applied: log room is free, and records may be evicted again (step 7).
func (x *core) onApplied(m *smartnic.Message) {
	n, d := x.nic, &decoder{b: m.Payload}
	err := x.log.Released(d.u64())
	invariant.Assert(err == nil, "xenic: the host has freed what is not in the log")
	for range d.u16() {
		s, t, entries, inserted := n.shards[d.u16()], d.u8(), int(int16(d.u16())), int(d.u16())
		if s != nil {
			s.records[t].entries += entries
			s.records[t].inserted -= inserted
		}
	}
	for range d.u16() {
		if r := d.ref(); n.shards[n.cfg.Shard(r)] != nil && !n.lacks(UnlockBeforeLog) {
			n.index(r).Unpin(n.segment(r), r.Key)
		}
	}
}

// onCommit: without updates they are those that this NIC has executed itself.
func (x *core) onCommit(f *fiber.Fiber, from int, d *decoder) {
	tx, list := d.u64(), d.updates()
	if !x.takes(d, nil, list) {
		return
	}
	k := x.nic.shipped[tx]
	if k != nil {
		delete(x.nic.shipped, tx)
		list = k.updates
	}
	if !x.commit(f, tx, list) {
		x.nic.Stats.Malformed++
	}
	if k != nil {
		x.nic.unlock(tx, k.locks)
	}
	x.send(from, msgCommitted, message(tx))
}
