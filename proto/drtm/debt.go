package drtm

import (
	"drtmd/proto"
	"drtmd/store/layout"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// debt is what an attempt could not do at a record because its machine was out of reach: give the
// lock back, after the update was written if the transaction had committed. The record stays
// locked until then, so nobody misses the update.
type debt struct {
	item
	update bool
	bytes  []byte // of the entry after the update
}

// debtBound is the number of debts that are kept with their content. A transaction that meets a
// machine which is gone aborts in START, so that only those under way can leave one.
const debtBound = 1 << 12

// owe keeps what could not be done at a record.
func (e *Engine) owe(it *item, update bool) {
	if len(e.debts) == debtBound {
		e.counts.Forgotten++
		return
	}
	d := debt{item: *it, update: update}
	d.image = nil
	if update {
		d.bytes = append(d.bytes, it.image...)
	}
	e.debts = append(e.debts, d)
}

// Finish does what is left to do at a machine, on a fiber of the engine's worker, after it was
// connected again with its memory as it was. What fails is left over again.
func (e *Engine) Finish(f *fiber.Fiber, peer proto.NodeID) {
	was := f.Shield()
	defer f.Unshield(was)
	left := e.debts
	e.debts = nil
	for i := range left {
		d := &left[i]
		if d.node != peer {
			e.debts = append(e.debts, *d)
		} else if err := e.pay(f, d); err != nil {
			e.debts = append(e.debts, *d)
		}
	}
}

// pay settles one debt. The record is looked at first: if the lock is not there any more it was
// given back, with the update made before, and only the acknowledgement was lost. A ticket is in
// no state word twice, so what is there cannot be another's.
func (e *Engine) pay(f *fiber.Fiber, d *debt) error {
	mr, err := e.cfg.Worker.PD().AllocMR(max(len(d.bytes), layout.HeaderBytes),
		verbs.AccessLocalWrite, verbs.MROptions{NoHuge: true})
	if err != nil {
		return err
	}
	defer mr.Close()
	p := &e.cfg.Peers[d.node]
	at, conn := p.Memory.Addr+uint64(d.off), p.Conn
	if err := conn.Read(f, mr.SGE(0, layout.HeaderBytes), at, p.Memory.RKey); err != nil {
		return err
	}
	if _, _, s := (&item{image: mr.Bytes()}).decode(); s != d.word {
		return nil
	}
	var b fiber.Batch
	if d.update {
		copy(mr.Bytes(), d.bytes)
		b.Write(f, conn, mr.SGE(layout.VersionOffset, 8), at+layout.VersionOffset, p.Memory.RKey)
		if d.is {
			b.Write(f, conn, mr.SGE(layout.ValueOffset, d.size), at+layout.ValueOffset,
				p.Memory.RKey)
		}
	}
	b.CAS(f, conn, at+layout.StateOffset, p.Memory.RKey, uint64(d.word), uint64(Init))
	f.Step("drtm: finish")
	return b.Await(f)
}

// Debts is how much is left to do at machines that were out of reach: what Finish is for.
func (e *Engine) Debts() int { return len(e.debts) }
