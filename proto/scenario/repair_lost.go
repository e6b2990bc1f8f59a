package scenario

import (
	"errors"

	"drtmd/proto/rtx"
	"drtmd/verbs/fiber"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// losing is the scenario of two memory nodes of which one is lost for ever: what needs it fails with an error that says
// so, the rest goes on, and nobody hangs.
func losing() *scenario.Scenario {
	const memories, lost = 2, 1
	s := repairsOn(memories, "repairs-lost", "repairable transactions on two memory nodes, of which one is lost for ever, under "+
		"the faults of repairs; history checked, and that what is left can be read, or says what it needs", false, registers{})
	s.Draw = func(d *scenario.Drawing) sim.Schedule {
		list := drawRepairs(d, memories, registers{}.crashes())
		return append(list, sim.Fault{Kind: sim.CrashNode, At: d.Until/8 + upTo(d.Rand, d.Until/2), Node: d.Nodes[lost]})
	}
	s.Build = func(e *scenario.Env) error { return buildRepairs(e, memories, false, registers{}, true) }
	return s
}

// auditSurvivors attaches before a node is lost, and waits until all others have ended. Then every object can be read, or
// the error names the node that is lost: no lock stays but those that need it.
func (k *repairClient) auditSurvivors(f *fiber.Fiber) error {
	ok, err := k.attach(f)
	for err == nil && (!k.e.Over() || k.others()) {
		err = f.Sleep(auditorWait)
	}
	if err != nil || !ok {
		return err
	}
	read := uint64(0)
	for _, p := range rtx.AllObjects(k.shape) {
		err := k.c.View(f, func(tx *rtx.Tx) error { _, err := tx.Read(p); return err })
		switch {
		case err == nil:
			read++
		case !errors.Is(err, rtx.ErrNodeLost):
			k.e.Fail(checkLocks, "the auditor cannot read object %d: %v", p, err)
			return nil
		}
	}
	k.e.Count("objects left", read)
	k.audited = true
	return nil
}

// memories are those of the memory nodes, nil for one that is lost.
func (r *repairRun) memories() (all [][]byte) {
	for i, s := range r.servers {
		if r.loses && i == 1 {
			all = append(all, nil)
			continue
		}
		all = append(all, s.Memory().Bytes())
	}
	return all
}
