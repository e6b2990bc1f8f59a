package drtm

import (
	"drtmd/proto"
	"drtmd/verbs/fiber"
)

// owe keeps what could not be done at a record.
func (e *Engine) owe(it *item, update bool) {
	d := proto.Debt{Node: it.node, Table: it.table, Key: it.key, Off: uint64(it.off),
		Word: uint64(it.word), Unlock: uint64(Init), Value: it.is, Since: e.soft}
	if e.lacks(NoDebt) {
		return
	}
	if update && !e.lacks(NoDebtUpdate) {
		d.Entry = it.image
	}
	e.oweDebt(d)
}

func (e *Engine) oweDebt(d proto.Debt) {
	if !e.debts.Owe(d) {
		e.counts.Forgotten++
	}
}

// Finish does what is left to do at a machine: see proto.Debts.
func (e *Engine) Finish(f *fiber.Fiber, peer proto.NodeID) {
	e.debts.Finish(f, e.cfg.Worker, e.cfg.Peers, peer, "drtm: finish")
}

// Debts is how much is left to do at machines that were out of reach: what Finish is for.
func (e *Engine) Debts() int { return e.debts.Len() }

// DebtsAt is how much of that is at one machine.
func (e *Engine) DebtsAt(peer proto.NodeID) int { return e.debts.At(peer) }
