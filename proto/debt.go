package proto

import (
	"encoding/binary"
	"errors"
	"time"

	"drtmd/store/layout"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Debt is what a transaction could not do at a record because its machine was out of reach: give
// the lock back, after the update was written if the transaction had committed. The record stays
// locked until then, so nobody misses the update.
type Debt struct {
	Node  NodeID
	Table TableID
	Key   Key
	Off   uint64 // of the entry in its machine's memory
	// Word is the state word of the lock, which is in no state word twice: what is found there is
	// the lock that was left.
	Word   uint64
	Unlock uint64 // the state word without it
	// Entry is the entry with the update, as layout has it; nil: there is none to write.
	Entry []byte
	Value bool          // the value belongs to the update; not so for a deletion
	Since time.Duration // it is owed; on the engine's clock
}

// Debts are those of an engine; all of it belongs to the engine's worker.
type Debts struct{ List []Debt }

// debtBound is the number of debts that are kept. A transaction that meets a machine which is gone
// ends there, so that only those under way can leave one.
const debtBound = 1 << 12

// Owe keeps a debt, with a copy of its Entry, and reports whether there was room.
func (ds *Debts) Owe(d Debt) bool {
	if len(ds.List) == debtBound {
		return false
	}
	d.Entry = append([]byte(nil), d.Entry...)
	ds.List = append(ds.List, d)
	return true
}

// Finish pays the debts at a machine, on a fiber of the worker w, after it was connected again
// with its memory as it was. What fails is owed again. The step is marked before each is paid.
func (ds *Debts) Finish(f *fiber.Fiber, w *fiber.Worker, peers []Peer, node NodeID, step string) {
	was := f.Shield()
	defer f.Unshield(was)
	left := ds.List
	ds.List = nil
	for i := range left {
		d := &left[i]
		if d.Node != node || d.pay(f, w.PD(), &peers[node], step) != nil {
			ds.List = append(ds.List, *d)
		}
	}
}

// pay settles a debt. The record is looked at first: if the lock is not there any more it was given
// back, with the update made before, or never taken. Everything goes on one queue pair, which keeps
// it in order.
func (d *Debt) pay(f *fiber.Fiber, pd *verbs.PD, p *Peer, step string) (err error) {
	mr, err := pd.AllocMR(max(len(d.Entry), layout.HeaderBytes), verbs.AccessLocalWrite,
		verbs.MROptions{NoHuge: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mr.Close()) }()
	at, rkey, conn := p.Memory.Addr+d.Off, p.Memory.RKey, p.Conn
	if err := conn.Read(f, mr.SGE(0, layout.HeaderBytes), at, rkey); err != nil {
		return err
	}
	if binary.LittleEndian.Uint64(mr.Bytes()[layout.StateOffset:]) != d.Word {
		return nil
	}
	f.Step(step)
	var b fiber.Batch
	if len(d.Entry) > 0 {
		copy(mr.Bytes(), d.Entry)
		b.Write(f, conn, mr.SGE(layout.VersionOffset, 8), at+layout.VersionOffset, rkey)
		if d.Value {
			b.Write(f, conn, mr.SGE(layout.ValueOffset, len(d.Entry)-layout.ValueOffset),
				at+layout.ValueOffset, rkey)
		}
	}
	b.CAS(f, conn, at+layout.StateOffset, rkey, d.Word, d.Unlock)
	return b.Await(f)
}
