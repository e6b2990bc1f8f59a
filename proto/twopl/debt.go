package twopl

import (
	"drtmd/proto"
	"drtmd/store/layout"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// debt is what a transaction could not do at a record because its node was out of reach: give the
// lock back, after the update was written if the commit had begun. The record stays locked until
// then, so nobody misses the update.
type debt struct {
	node   proto.NodeID
	off    uint64 // of the entry
	word   lockWord
	update bool
	live   bool
	bytes  []byte // of the entry, with the update
}

// debtBound is the number of debts that are kept. A transaction that meets a node which is gone
// ends there, so that only those under way can leave some.
const debtBound = 1 << 12

// stepFinish is marked before a debt is paid.
const stepFinish = "twopl: before finish"

// owe keeps what could not be done at a record; past debtBound it is an orphan only.
func (t *tx) owe(r *record) {
	e := t.e
	e.orphans++
	if len(e.debts) == debtBound {
		return
	}
	d := debt{node: r.node, off: r.off, word: t.word, update: r.changed() && !r.stored, live: r.live}
	if d.update {
		d.bytes = append(d.bytes, r.buf...)
	}
	e.debts = append(e.debts, d)
}

// Debts is how much is left to do at nodes that were out of reach: what Finish is for.
func (e *Engine) Debts() int { return len(e.debts) }

// Finish does what is left to do at a node, on a fiber of the engine's worker, after it was
// connected again with its memory as it was. What fails is left over again.
func (e *Engine) Finish(f *fiber.Fiber, peer proto.NodeID) {
	was := f.Shield()
	defer f.Unshield(was)
	left := e.debts
	e.debts = nil
	for i := range left {
		d := &left[i]
		if d.node != peer || e.pay(f, d) != nil {
			e.debts = append(e.debts, *d)
		}
	}
}

// pay settles one debt. The record is looked at first: if the lock is not there any more it was
// given back, with the update made before, or never taken. The word is no other transaction's, so
// what is there is the lock that was left.
func (e *Engine) pay(f *fiber.Fiber, d *debt) error {
	mr, err := e.cfg.Fibers.PD().AllocMR(max(len(d.bytes), layout.HeaderBytes),
		verbs.AccessLocalWrite, verbs.MROptions{NoHuge: true})
	if err != nil {
		return err
	}
	defer mr.Close()
	p := &e.cfg.Peers[d.node]
	addr, rkey, conn := p.Memory.Addr+d.off, p.Memory.RKey, p.Conn
	if err := conn.Read(f, mr.SGE(0, layout.HeaderBytes), addr, rkey); err != nil {
		return err
	}
	found := record{buf: mr.Bytes()}
	if found.state() != d.word {
		return nil
	}
	f.Step(stepFinish)
	if d.update {
		copy(mr.Bytes(), d.bytes)
		err := conn.Write(f, mr.SGE(layout.VersionOffset, 8), addr+layout.VersionOffset, rkey)
		if err == nil && d.live {
			err = conn.Write(f, mr.SGE(layout.ValueOffset, len(d.bytes)-layout.ValueOffset),
				addr+layout.ValueOffset, rkey)
		}
		if err != nil {
			return err
		}
	}
	_, err = conn.CAS(f, addr+layout.StateOffset, rkey, uint64(d.word), uint64(unlocked))
	return err
}
