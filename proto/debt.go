package proto

import (
	"slices"
	"time"

	"drtmd/store/layout"
	"drtmd/store/remote"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Debt is what a transaction could not do at a record because its machine was out of reach: give
// the lock back, after the update was written if the transaction had committed. The record stays
// locked until then, so nobody misses the update.
type Debt struct {
	Node  NodeID
	Shard ShardID // whose replica there
	Table TableID
	Key   Key
	Off   uint64 // the place of the entry there, see remote.Table.Resolve
	// Word is the state word of the lock, which is in no state word twice: what is found there is
	// the lock that was left.
	Word   uint64
	Unlock uint64 // the state word without it
	// Entry is the entry with the update, as layout has it; nil: there is none to write.
	Entry []byte
	Value bool          // the value belongs to the update; not so for a deletion
	Part  layout.Span   // of Entry, if the update is of a part of the value only; the rest of Entry is unknown then
	Since time.Duration // it is owed; on the engine's clock
}

// Debts are those of an engine; all of it belongs to the engine's worker.
type Debts struct {
	List     []Debt     // that nobody pays now
	payments []*payment // under way; what they pay is owed until they have ended
	// Unlooked is a mutation: debts are paid without a look whether the lock is there still. So is Unowned:
	// whatever lock is there is given back.
	Unlooked, Unowned bool
}

// Owe keeps a debt, with a copy of its Entry. None is ever refused, for it may be the update of a committed
// transaction. Few come together: only transactions that had sent something when a machine was lost leave any;
// those that come later send nothing on a queue pair that is broken.
func (ds *Debts) Owe(d Debt) {
	d.Entry = append([]byte(nil), d.Entry...)
	ds.List = append(ds.List, d)
}

// Each calls f with every debt.
func (ds *Debts) Each(f func(*Debt)) {
	for i := range ds.List {
		f(&ds.List[i])
	}
	for _, p := range ds.payments {
		for i := range p.due {
			f(&p.due[i])
		}
	}
}

// Len is how many there are.
func (ds *Debts) Len() (n int) {
	ds.Each(func(*Debt) { n++ })
	return n
}

// At is how many there are at a machine.
func (ds *Debts) At(node NodeID) (n int) {
	ds.Each(func(d *Debt) {
		if d.Node == node {
			n++
		}
	})
	return n
}

// payAtOnce is how many debts are paid together.
const payAtOnce = 64

// Finish pays the debts at a machine, on a fiber of the worker w, after it was connected again
// with its memory as it was. What fails is owed again. The step is marked before each is paid.
func (ds *Debts) Finish(f *fiber.Fiber, w *fiber.Worker, peers []Peer, node NodeID, step string) {
	was := f.Shield()
	defer f.Unshield(was)
	left := ds.List
	ds.List = nil
	var due []Debt
	bytes := layout.HeaderBytes
	for i := range left {
		if left[i].Node != node {
			ds.List = append(ds.List, left[i])
			continue
		}
		due = append(due, left[i])
		bytes = max(bytes, len(left[i].Entry))
	}
	if len(due) == 0 {
		return
	}
	mr, err := w.PD().AllocMR(min(len(due), payAtOnce)*bytes, verbs.AccessLocalWrite,
		verbs.MROptions{NoHuge: true})
	if err != nil {
		ds.List = append(ds.List, due...)
		return
	}
	p := &payment{f: f, mr: mr, stride: bytes, peer: &peers[node], step: step,
		unlooked: ds.Unlooked, unowned: ds.Unowned, due: due}
	ds.payments = append(ds.payments, p)
	for len(p.due) > 0 {
		n := min(len(p.due), payAtOnce)
		kept := p.pay(p.due[:n])
		ds.List = append(ds.List, kept...)
		if p.due = p.due[n:]; len(kept) > 0 { // it cannot be reached: nor for the others
			ds.List = append(ds.List, p.due...)
			break
		}
	}
	ds.payments = slices.DeleteFunc(ds.payments, func(x *payment) bool { return x == p })
	_ = mr.Close() // in the worst case it stays until the domain goes
}

// payment is the paying of some debts at one machine.
type payment struct {
	f      *fiber.Fiber
	mr     *verbs.MR
	stride int // bytes of each debt's part of mr
	peer   *Peer
	step   string
	due    []Debt // not paid yet
	batch  fiber.Batch
	// unlooked and unowned are those of Debts.
	unlooked, unowned bool
}

// table is the one in which a debt's record is.
func (p *payment) table(d *Debt) *remote.Table { return p.peer.Shares[d.Shard].Tables[d.Table-1] }

// pay settles debts, all at once, and gives those that could not be settled. The records are looked
// at first: if a lock is not there any more it was given back, with the update made before, or never
// taken. Everything goes on one queue pair, which keeps it in order.
func (p *payment) pay(due []Debt) (kept []Debt) {
	f, conn := p.f, p.peer.Conn
	p.batch.Reset()
	for i := range due {
		addr, rkey := p.table(&due[i]).Resolve(due[i].Off)
		if rkey == 0 {
			return due // in a region that is not known
		}
		p.batch.Read(f, conn, p.mr.SGE(i*p.stride, layout.HeaderBytes), addr, rkey)
	}
	_ = p.batch.Await(f)            // each has its own error
	ops := make([][2]int, len(due)) // of each: from and to; none where the lock is not there
	looked := make([]error, len(due))
	for i := range due {
		looked[i] = p.batch.Err(i)
	}
	p.batch.Reset()
	for i := range due {
		d := &due[i]
		image := p.mr.Bytes()[i*p.stride : (i+1)*p.stride]
		state := layout.HeadOf(image).State
		there := state == d.Word
		if p.unowned && !there && layout.Locked(state) {
			at, rkey := p.table(d).Resolve(d.Off)
			p.batch.CAS(f, conn, at+layout.StateOffset, rkey, state, d.Unlock)
		}
		if looked[i] != nil || !there && !p.unlooked {
			continue
		}
		f.Step(p.step)
		t := p.table(d)
		at, rkey := t.Resolve(d.Off)
		ops[i][0] = p.batch.Len()
		if len(d.Entry) > 0 {
			copy(image, d.Entry)
			write := func(part layout.Span) {
				p.batch.Write(f, conn, p.mr.SGE(i*p.stride+part.From, part.Len()), at+uint64(part.From), rkey)
			}
			write(t.Record().VersionPart)
			switch {
			case d.Part.Len() > 0:
				write(d.Part)
			case d.Value:
				write(t.Record().ValuePart)
			}
		}
		p.batch.CAS(f, conn, at+layout.StateOffset, rkey, d.Word, d.Unlock)
		ops[i][1] = p.batch.Len()
	}
	_ = p.batch.Await(f)
	for i := range due {
		failed := looked[i] != nil
		for op := ops[i][0]; op < ops[i][1]; op++ {
			failed = failed || p.batch.Err(op) != nil
		}
		if failed {
			kept = append(kept, due[i])
		}
	}
	return kept
}
