package onesided

import (
	"slices"

	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/store/layout"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Back posts what writes a record back, if update, and gives its lock back, if unlock: version and
// value, never the state word, then the CAS, on one queue pair and so in this order. If it is made anew
// in between, the CAS must fail with the update.
func (t *Tx) Back(r *Record, update, unlock bool) {
	b, o, p := t.base, &r.Own, t.base.peer(r)
	o.Op, o.unlocks = -1, false
	to, first := target{conn: p.Conn}, b.Skips(WriteFirst)
	to.addr, to.rkey = b.Address(r)
	if unlock && first {
		t.unlock(r, &to)
		t.step(b.Steps.Unlocked)
	}
	if update {
		if !b.Skips(NewVersion) {
			r.Seal(r.Next())
		}
		version, value := r.Parts()
		posted := t.write(r, &to, version)
		if posted && r.Is {
			posted = t.write(r, &to, value)
		}
		b.charge(t, b.Costs.Update)
		switch {
		case posted:
		case b.Skips(PostInOrder):
			to.conn = p.Conn
		default:
			return
		}
	}
	if unlock && !first {
		t.unlock(r, &to)
	}
}

// target is where the entry of a record is, and the queue pair that leads there.
type target struct {
	conn *fiber.Conn
	addr uint64
	rkey uint32
}

// write posts the WRITE of a part of a record's image, and reports whether that was possible.
func (t *Tx) write(r *Record, to *target, part layout.Span) bool {
	if t.base.Near(r) {
		r.Own.Op = t.Batch.Len()
		t.writeNear(r, part)
		return true
	}
	at := verbs.SGE{Addr: r.SGE.Addr + uint64(part.From), Length: uint32(part.Len()), LKey: r.SGE.LKey}
	r.Own.Op = t.Batch.Len()
	t.Batch.Write(t.F, to.conn, at, to.addr+uint64(part.From), to.rkey)
	return t.Batch.Err(r.Own.Op) == nil
}

// unlock posts the CAS that gives a lock back.
func (t *Tx) unlock(r *Record, to *target) {
	if t.base.Skips(UnlockByCAS) {
		r.Seal(r.Version) // the header as it was read
		SetState(r, 0)
		t.write(r, to, layout.Span{From: layout.VersionOffset, To: layout.ValueOffset})
		return
	}
	r.Own.Op, r.Own.unlocks = t.Batch.Len(), true
	if t.base.Near(r) {
		t.Batch.Did(t.swapState(r, r.Own.Word, 0))
		return
	}
	t.Batch.CAS(t.F, to.conn, to.addr+layout.StateOffset, to.rkey, r.Own.Word, 0)
}

// Confirmed reports whether everything that Back has posted for a record was done. The CAS of a lock
// that was held has found it.
func (t *Tx) Confirmed(r *Record) bool {
	o := &r.Own
	switch {
	case t.base.Skips(Confirmation):
		return true
	case t.Batch.Err(o.Op) != nil:
		return false
	}
	if o.unlocks && o.Hold == Locked && !t.base.Skips(WriteFirst) {
		invariant.Assert(t.Batch.Old(o.Op) == o.Word, "a lock was not its holder's any more")
	}
	return true
}

// Owe keeps what could not be done at a record.
func (t *Tx) Owe(r *Record, update bool) {
	d := t.base.DebtAt(r.Node, r.Table, r.Key, r.Own.Off, r.Own.Word)
	d.Shard, d.Value = r.At.Shard, r.Is
	if update && !t.base.Skips(DebtUpdate) {
		d.Entry = r.Image
	}
	t.base.Owe(d)
}

// DebtAt is the debt of a lock in a machine's own shard.
func (b *Base) DebtAt(n proto.NodeID, t proto.TableID, k proto.Key, off, word uint64) proto.Debt {
	return proto.Debt{Node: n, Shard: proto.ShardID(n), Table: t, Key: k, Off: off, Word: word, Since: b.Now()}
}

// Owe keeps a debt.
func (b *Base) Owe(d proto.Debt) {
	if !b.Skips(Debt) {
		b.debts.Owe(d)
	}
}

// ForgetDebts forgets some of what is owed.
func (b *Base) ForgetDebts(which func(*proto.Debt) bool) {
	b.debts.List = slices.DeleteFunc(b.debts.List, func(d proto.Debt) bool { return which(&d) })
}

// EachDebt calls f with everything that is owed.
func (b *Base) EachDebt(f func(*proto.Debt)) { b.debts.Each(f) }

// Owes reports whether a lock with a word is owed anywhere.
func (b *Base) Owes(word uint64) (owes bool) {
	b.debts.Each(func(d *proto.Debt) { owes = owes || d.Word == word })
	return owes
}

// Debts implements proto.Debtor.
func (b *Base) Debts() int { return b.debts.Len() }

// DebtsAt implements proto.Debtor.
func (b *Base) DebtsAt(peer proto.NodeID) int { return b.debts.At(peer) }

// Finish implements proto.Debtor.
func (b *Base) Finish(f *fiber.Fiber, peer proto.NodeID) {
	b.learnPlaces(f, peer)
	b.debts.Finish(f, b.Env.Worker, b.Env.Peers, peer, b.Steps.Finish)
}

// learnPlaces looks records up at which something is owed in a region that is not known, because its
// table has grown before the machine was connected again: then it is.
func (b *Base) learnPlaces(f *fiber.Fiber, peer proto.NodeID) {
	p := &b.Env.Peers[peer]
	var unknown []proto.Debt
	b.debts.Each(func(d *proto.Debt) {
		if d.Node == peer && !layout.InFirst(d.Off) && !p.Shares[d.Shard].Tables[d.Table-1].Entry(d.Off) {
			unknown = append(unknown, *d)
		}
	})
	for i := range unknown {
		d := &unknown[i]
		_, _, _ = b.client.Lookup(f, p.Conn, p.Shares[d.Shard].Tables[d.Table-1], uint64(d.Key), nil)
	}
}

// Met notes that another's lock was in the way, with the record's image as it was read then, and gives
// the abort. Where a protocol uses a word again, the version tells a lock that was taken again after an
// update; between two that change nothing it cannot be told, and the sighting ends when this worker
// locks the record, or Env.HolderLives says that the holder lives.
func (t *Tx) Met(r *Record, word uint64) error {
	b := t.base
	_, v, _ := Header(r)
	return proto.Aborting(b.Sightings.Met(proto.Lock{Node: r.Node, Shard: r.At.Shard, Table: r.Table,
		Key: r.Key, Owner: b.Owner(word), Off: r.Own.Off, Word: word, Version: uint64(v)}, b.Now()))
}

// Orphans implements proto.OrphanLister.
func (b *Base) Orphans(to []proto.Orphan) []proto.Orphan {
	to = b.Sightings.Orphans(to, func(l *proto.Lock) bool {
		if l.Node != b.Env.Node {
			return true
		}
		m, off := b.Env.Shares[l.Shard].Tables[l.Table-1].At(int(l.Off))
		return StateOf(m, uint64(off)) == l.Word
	})
	return b.debts.Orphans(to, b.Env.Node)
}
