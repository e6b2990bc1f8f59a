package occ

import (
	"slices"

	"drtmd/proto"
	"drtmd/proto/recovery"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// Finish implements proto.Debtor. Where CPUs lock, the host is asked once more, by the request that was not
// answered. It does nothing where the lock is not there any more. What fails is owed on.
func (e *Engine) Finish(f *fiber.Fiber, peer proto.NodeID) {
	if v := e.view; v != nil {
		if v.pausing || v.recovering || !v.lives[peer] {
			return // Recover settles transactions whose updates are owed: nobody else may write them meanwhile
		}
		v.busy++
		defer v.end()
		defer e.backups.finish(f, peer)
	}
	e.Base.Finish(f, peer)
	was := f.Shield()
	defer f.Unshield(was)
	if e.Env.Peers[peer].Session == nil {
		return
	}
	for {
		i := slices.IndexFunc(e.owed.List, func(d proto.Debt) bool { return d.Node == peer })
		if i < 0 || !e.pay(f, e.owed.List[i]) {
			return
		}
	}
}

// pay settles a debt, and reports whether it was settled.
func (e *Engine) pay(f *fiber.Fiber, d proto.Debt) bool {
	x := item{table: d.Table, key: d.Key}
	if len(d.Entry) > 0 {
		h := layout.HeadOf(d.Entry)
		x.flags, x.version = flagWrite, h.Version
		if d.Value {
			r := e.Env.Tables[d.Table-1].Record()
			x.flags, x.value = flagWrite|flagValue, r.Value(d.Entry, make([]byte, r.Room))
		}
	}
	req := putItem(le.AppendUint64(nil, d.Word), &x)
	resp := make([]byte, headBytes)
	f.Step(stepFinish)
	n, err := e.messengers[e.strategy.by(proto.PhaseCommit)].ask(f, d.Node, TypeRelease, req, resp)
	if err != nil {
		return false
	}
	if _, _, ok := takeHead(resp[:n], 1); !ok {
		return false
	}
	e.owed.List = slices.DeleteFunc(e.owed.List, func(o proto.Debt) bool {
		return o.Node == d.Node && o.Table == d.Table && o.Key == d.Key && o.Word == d.Word
	})
	return true
}

// owes reports whether a lock with a word is owed anywhere.
func (e *Engine) owes(word uint64) (owes bool) {
	e.owed.Each(func(d *proto.Debt) { owes = owes || d.Word == word })
	return owes || e.Owes(word)
}

// forgetDebts forgets what is owed at a node that is gone.
func (e *Engine) forgetDebts(n proto.NodeID) {
	e.owed.List = slices.DeleteFunc(e.owed.List, func(d proto.Debt) bool { return d.Node == n })
	e.Base.ForgetDebts(func(d *proto.Debt) bool { return d.Node == n })
}

// forgetDebtsOf forgets the updates that are owed of a transaction which was settled in another way. Locks on what
// it has only read are owed on.
func (e *Engine) forgetDebtsOf(n *noted) {
	settled := func(d *proto.Debt) bool {
		return d.Word == uint64(n.word) && slices.ContainsFunc(n.writes, func(w recovery.Write) bool {
			return w.Table == d.Table && w.Key == d.Key
		})
	}
	e.owed.List = slices.DeleteFunc(e.owed.List, func(d proto.Debt) bool { return settled(&d) })
	e.Base.ForgetDebts(settled)
}
