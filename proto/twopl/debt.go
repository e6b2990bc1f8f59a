package twopl

import (
	"drtmd/proto"
	"drtmd/verbs/fiber"
)

// stepFinish is marked before a debt is paid.
const stepFinish = "twopl: before finish"

// owe keeps what could not be done at a record, if there is room.
func (t *tx) owe(r *record) {
	d := proto.Debt{Node: r.node, Table: r.table.id, Key: r.key, Since: t.e.now(), Off: r.off, Word: uint64(t.word),
		Unlock: uint64(unlocked), Value: r.live}
	if r.changed() && !r.stored && !t.e.lacks(NoDebtUpdate) {
		d.Entry = r.buf
	}
	if !t.e.lacks(NoDebt) {
		t.e.debts.Owe(d)
	}
}

// Debts is how much is left to do at nodes that were out of reach: what Finish is for.
func (e *Engine) Debts() int { return e.debts.Len() }

// DebtsAt is how much of that is at one machine.
func (e *Engine) DebtsAt(peer proto.NodeID) int { return e.debts.At(peer) }

// Finish does what is left to do at a node: see proto.Debts.
func (e *Engine) Finish(f *fiber.Fiber, peer proto.NodeID) {
	e.debts.Finish(f, e.cfg.Fibers, e.cfg.Peers, peer, stepFinish)
}
